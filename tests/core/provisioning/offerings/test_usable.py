"""A Provisioner that no instance type can serve says which requirement is to blame."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import SelectorRequirement
from controller.core.provisioning.offerings.usable import unusable
from tests import factories as make


@pytest.mark.parametrize(
    "requirements",
    [
        (),
        (make.requirement(keys.INSTANCE_TYPE, "In", "m5.large", "m5.gigantic"),),
        (make.requirement(keys.ARCH, "In", "nvidia", "amd64"),),
        (make.requirement("team", "In", "a"),),
        (make.requirement(keys.INSTANCE_GPU_COUNT, "DoesNotExist"),),
    ],
)
def test_one_type_that_meets_all_is_enough(requirements: tuple[SelectorRequirement, ...]) -> None:
    assert unusable(make.provisioner(requirements=requirements), make.small_catalog()) == ""


@pytest.mark.parametrize(
    "blamed",
    [
        make.requirement(keys.INSTANCE_TYPE, "In", "m5.gigantic"),
        make.requirement(keys.ZONE, "In", "mars-1a"),
        make.requirement(keys.CAPACITY_TYPE, "In", "reserved"),
        make.requirement(keys.INSTANCE_CPU, "Gt", "900"),
        make.requirement(keys.INSTANCE_GPU_COUNT, "Exists"),
    ],
)
def test_the_requirement_that_no_type_meets_is_named(blamed: SelectorRequirement) -> None:
    fine = make.requirement(keys.ARCH, "In", "amd64")
    text = unusable(make.provisioner(requirements=[fine, blamed]), make.small_catalog())
    assert blamed.key in text
    assert keys.ARCH not in text


def test_requirements_that_exclude_each_other_are_told_apart() -> None:
    pair = [
        make.requirement(keys.INSTANCE_FAMILY, "In", "m5"),
        make.requirement(keys.INSTANCE_TYPE, "In", "c5.large"),
    ]
    assert "exclude each other" in unusable(make.provisioner(requirements=pair), make.small_catalog())


def test_requirements_on_one_label_that_no_value_meets_are_named() -> None:
    pair = [make.requirement(keys.INSTANCE_FAMILY, "In", "m5"), make.requirement(keys.INSTANCE_FAMILY, "In", "c5")]
    said = f"spec.requirements on {keys.INSTANCE_FAMILY} exclude each other: no value meets all of them; relax one"
    assert unusable(make.provisioner(requirements=pair), make.small_catalog()) == said
