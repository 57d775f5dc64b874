"""Likely mistakes in a valid Provisioner: each is told with its path and remedy, and what is right is left in peace."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import SelectorRequirement
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.provisioner_warnings import overlap, provisioner_warnings
from tests import factories
from tests.factories import provisioner

TYPES = frozenset({"m5.large", "m5.xlarge", "c5.large"})
LIMITS = {"cpu": 100}


def requires(*requirements: tuple[str, str, tuple[str, ...]]) -> dict[str, Any]:
    return {"limits": LIMITS, "requirements": [SelectorRequirement(*each) for each in requirements]}


def exists(key: str) -> dict[str, Any]:
    return requires((key, "Exists", ()))


def annotated(**values: str) -> dict[str, Any]:
    keys = {f"karpenter.sh/{name.replace('_', '-')}": value for name, value in values.items()}
    return {"limits": LIMITS, "object_annotations": FrozenMap(keys)}


def parsed(**values: str) -> dict[str, Any]:
    """Annotations whose reader is that of the policy."""
    fields = annotated(**values)
    made = factories.provisioner_object(annotations=dict(fields["object_annotations"]))
    return fields | {"disruption": V1ALPHA5.pool.parse(made).disruption}


def at(name: str) -> str:
    return f'metadata.annotations["karpenter.sh/{name}"]'


FAMILY = "karpenter.k8s.aws/instance-family"
NONE_LAUNCHED = "and so no node is launched; relax one"
TYPE = "node.kubernetes.io/instance-type"
NO_LIMITS = "spec.limits: is missing; set spec.limits.resources.cpu, to bound what a mistake in a Deployment can buy"
SHARE = 'metadata.annotations["karpenter.sh/zone-max-share"]'
SCOPE = 'metadata.annotations["karpenter.sh/zone-share-of"]'
INTERVAL = 'metadata.annotations["karpenter.sh/zone-move-interval"]'
PREMIUM = 'metadata.annotations["karpenter.sh/zone-premium"]'
WRITE_SHARE = "cannot be read and counts as missing; write a share above 0 and up to 1, such as 0.4"
WRITE_PREMIUM = "cannot be read and counts as missing; write a share of 0 or more, such as 0.05"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, [NO_LIMITS]),
        ({"limits": {}}, [NO_LIMITS]),
        ({"limits": LIMITS}, []),
        (
            {"limits": {"cpu": 100, "nvidia.com/gpu": -1}},
            [
                'spec.limits.resources["nvidia.com/gpu"]: is negative, and so no node is launched; write 0 or more',
            ],
        ),
        *(
            (exists(key), [f"spec.requirements[0].key: {key} is no well-known label; did you mean '{TYPE}'?"])
            for key in ("node.kubernetes.io/instancetype", "node.kubernetes.io/Instance-Type", "instance-type")
        ),
        (
            requires((TYPE, "Exists", ()), ("karpenter.k8s.aw/instance-family", "In", ("m5",))),
            [
                "spec.requirements[1].key: karpenter.k8s.aw/instance-family is no well-known label; "
                "did you mean 'karpenter.k8s.aws/instance-family'?"
            ],
        ),
        (
            exists("node.kubernetes.io/rack"),
            [
                "spec.requirements[0].key: node.kubernetes.io/rack is no well-known label; "
                "use a domain of your own for a label of yours"
            ],
        ),
        (exists("example.com/zone"), []),
        (exists("team"), []),
        (exists("beta.kubernetes.io/instance-type"), []),
        ({**exists("instance-type"), "labels": {"instance-type": "big"}}, []),
        (requires((TYPE, "In", ("m5.large", "c5.large"))), []),
        (
            requires((TYPE, "In", ("m5.large", "m5.larg", "mainframe"))),
            [
                "spec.requirements[0].values[1]: no region is known to sell m5.larg; did you mean 'm5.large'?",
                "spec.requirements[0].values[2]: no region is known to sell mainframe; "
                "check its name, unless it is newer than this release",
            ],
        ),
        (
            requires((TYPE, "NotIn", ("M5.large",))),
            ["spec.requirements[0].values[0]: no region is known to sell M5.large; did you mean 'm5.large'?"],
        ),
        (annotated(zone_max_share="0.4", zone_premium="0"), []),
        (
            annotated(zone_max_share="40%", zone_premium="-1"),
            [f"{SHARE}: '40%' {WRITE_SHARE}", f"{PREMIUM}: '-1' {WRITE_PREMIUM}"],
        ),
        (annotated(zone_max_share="0"), [f"{SHARE}: '0' {WRITE_SHARE}"]),
        (annotated(zone_share_of="cluster", zone_move_interval="0"), []),
        (
            annotated(zone_share_of="region", zone_move_interval="-5m"),
            [
                f"{SCOPE}: 'region' cannot be read and counts as missing; write provisioner or cluster",
                f"{INTERVAL}: '-5m' cannot be read and counts as missing; write a duration, such as 30m, or 0",
            ],
        ),
        (annotated(zone_premium=""), [f"{PREMIUM}: '' {WRITE_PREMIUM}"]),
        (annotated(zone_move_interval="30m") | {"disruption": DisruptionPolicy(consolidation=True)}, []),
        (
            annotated(zone_move_interval="30m"),
            [f"{INTERVAL}: moves no node while consolidation is off; set spec.consolidation.enabled: true"],
        ),
        (
            annotated(price_limit="12.5", on_demand_base="2", on_demand_percentage="20", headroom='[{"percent": 10}]'),
            [],
        ),
        (
            annotated(price_limit="cheap", on_demand_base="-1", on_demand_percentage="101", headroom="{}"),
            [
                f"{at('price-limit')}: 'cheap' cannot be read, and nothing is launched; write $ an hour, such as 12.5",
                f"{at('on-demand-base')}: '-1' cannot be read, and new nodes are on demand; write 0 to 1000000",
                f"{at('on-demand-percentage')}: '101' cannot be read, and new nodes are on demand; write 0 to 100",
                f"{at('headroom')}: '{{}}' cannot be read, and no room is kept free; "
                'write [{"cpu": "2", "memory": "4Gi", "count": 3}] or [{"percent": 10}]',
            ],
        ),
        (
            parsed(disruption_budgets="[", consolidation_threshold="-3", termination_grace_period="soon"),
            [
                f"{at('disruption-budgets')}: '[' cannot be read, and no node is removed; "
                'write [{"nodes": "10%"}], say',
                f"{at('consolidation-threshold')}: '-3' cannot be read, and the default holds; "
                "write a number of 0 or more, such as 0.2",
                f"{at('termination-grace-period')}: 'soon' cannot be read, and nodes drain as long as it takes; "
                "write a duration above 0, such as 2h",
            ],
        ),
        (parsed(disruption_budgets="[]", consolidation_threshold="0", termination_grace_period="2h"), []),
        (
            annotated(price_limt="3", provisioner_hash="1"),
            [f"{at('price-limt')}: nothing reads this annotation; did you mean 'karpenter.sh/price-limit'?"],
        ),
        (
            {**requires((FAMILY, "In", ("m5",)), (FAMILY, "In", ("c5",))), "labels": {}},
            [f"spec.requirements: no value of {FAMILY} meets all of them and spec.labels, {NONE_LAUNCHED}"],
        ),
        (
            {**requires(("team", "In", ("a",))), "labels": {"team": "b"}},
            [f"spec.requirements: no value of team meets all of them and spec.labels, {NONE_LAUNCHED}"],
        ),
    ],
)
def test_a_likely_mistake_is_told_with_where_and_what_to_do(fields: dict[str, Any], said: list[str]) -> None:
    assert [str(each) for each in provisioner_warnings(provisioner(**fields), TYPES)] == said


def test_nothing_is_said_about_types_that_are_not_known() -> None:
    assert provisioner_warnings(provisioner(**requires((TYPE, "In", ("mainframe",)))), frozenset()) == ()


def test_many_or_long_mistakes_stay_within_what_the_api_server_passes_on() -> None:
    long = "x" * 63
    keys = [(f"node.kubernetes.io/{number}{long[:60]}", "Exists", ()) for number in range(99)]
    types = tuple(f"{number}{long[:60]}" for number in range(99))
    fields = {
        **requires(*keys, (TYPE, "In", types)),
        "object_annotations": FrozenMap({"karpenter.sh/zone-premium": "9" * 5000 + "%"}),
    }
    said = [str(each) for each in provisioner_warnings(provisioner(**fields), TYPES)]
    assert len(said) == 5 + 5 + 1 + 1
    assert said[10] == "spec.requirements: 94 more instance types that no region is known to sell"
    assert max(map(len, said)) <= 256, "the API server may cut longer warnings"


ARM, AMD = (SelectorRequirement("kubernetes.io/arch", "In", (arch,)) for arch in ("arm64", "amd64"))
GPU = Taint("gpu", "", "NoSchedule")


@pytest.mark.parametrize(
    ("fields", "overlaps"),
    [
        ({}, True),
        ({"requirements": [ARM]}, True),
        ({"requirements": [AMD]}, False),
        ({"labels": {"kubernetes.io/arch": "amd64"}}, False),
        ({"labels": {"team": "web"}}, True),
        ({"weight": 10}, False),
        ({"taints": [GPU]}, False),
        ({"taints": [Taint("gpu", "", "PreferNoSchedule")]}, True),
        ({"name": "a"}, False),
    ],
)
def test_provisioners_that_take_the_same_pods_need_weights(fields: dict[str, Any], overlaps: bool) -> None:
    one, other = provisioner(name="a", requirements=[ARM]), provisioner(**{"name": "b", **fields})
    said = (
        "spec.weight: the same as of b, and pods without a selector fit both; "
        "give one a higher weight to have it first; else costs decide"
    )
    assert [str(each) for each in overlap(one, [other])] == ([said] if overlaps else [])


def test_many_that_overlap_are_named_at_once() -> None:
    (said,) = overlap(provisioner(name="a"), [provisioner(name=f"p{number}") for number in range(7)])
    assert said.message == "the same as of p0, p1, p2, p3, p4 and 2 more, and pods without a selector fit both"
