"""Defaults are added once, only where nothing says otherwise, and the same on read as at admission."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api import labels
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.v1alpha5.provisioner_defaults import default_provisioner
from tests.core.api.test_parse_pod import JSON
from tests.factories import provisioner_object

ALL = {labels.OS, labels.ARCH, labels.CAPACITY_TYPE, labels.INSTANCE_CATEGORY, labels.INSTANCE_GENERATION}
TYPES = {labels.INSTANCE_CATEGORY, labels.INSTANCE_GENERATION}


def added(spec: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    before = spec.get("requirements") or []
    after = default_provisioner(provisioner_object(spec=spec))["spec"].get("requirements", [])
    assert after[: len(before)] == before
    return {each["key"]: (each["operator"], each["values"]) for each in after[len(before) :]}


def test_an_empty_provisioner_gets_all_five() -> None:
    assert added({}) == {
        labels.OS: ("In", ["linux"]),
        labels.ARCH: ("In", ["amd64"]),
        labels.CAPACITY_TYPE: ("In", ["on-demand"]),
        labels.INSTANCE_CATEGORY: ("In", ["c", "m", "r"]),
        labels.INSTANCE_GENERATION: ("Gt", ["2"]),
    }


@pytest.mark.parametrize(
    ("present", "suppressed"),
    [
        (labels.OS, {labels.OS}),
        (labels.ARCH, {labels.ARCH}),
        ("beta.kubernetes.io/arch", {labels.ARCH}),
        (labels.CAPACITY_TYPE, {labels.CAPACITY_TYPE}),
        (labels.INSTANCE_TYPE, TYPES),
        ("beta.kubernetes.io/instance-type", TYPES),
        (labels.INSTANCE_FAMILY, TYPES),
        (labels.INSTANCE_CATEGORY, TYPES),
        (labels.INSTANCE_GENERATION, TYPES),
        (labels.INSTANCE_SIZE, set()),
        (labels.INSTANCE_CPU, set()),
    ],
)
def test_presence_with_any_operator_suppresses(present: str, suppressed: set[str]) -> None:
    for operator in ("In", "NotIn", "Exists", "DoesNotExist", "Gt"):
        requirement = {"key": present, "operator": operator, "values": ["7"]}
        assert added({"requirements": [requirement]}).keys() == ALL - suppressed


@pytest.mark.parametrize(
    ("key", "suppressed"), [(labels.ARCH, {labels.ARCH}), (labels.INSTANCE_FAMILY, TYPES), ("team", set())]
)
def test_a_label_counts_as_presence(key: str, suppressed: set[str]) -> None:
    assert added({"labels": {key: "arm64"}}).keys() == ALL - suppressed


def test_reading_applies_the_same_defaults_as_admission() -> None:
    document = provisioner_object()
    assert V1ALPHA5.pool.parse(document) == V1ALPHA5.pool.parse(default_provisioner(document))
    assert {each.key for each in V1ALPHA5.pool.parse(document).requirements} == ALL


def test_the_document_given_is_not_changed() -> None:
    document = provisioner_object(spec={"requirements": []})
    before = copy.deepcopy(document)
    default_provisioner(document)
    assert document == before


@settings(max_examples=100, deadline=None)
@given(JSON | st.dictionaries(st.sampled_from(["requirements", "labels"]), JSON | st.lists(JSON)))
def test_defaulting_is_idempotent_and_never_raises(spec: object) -> None:
    once = default_provisioner({"spec": spec})
    assert default_provisioner(once) == once
