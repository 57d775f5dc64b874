"""Room for pods to come: units, a share of use, and set times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.pod import Pod
from controller.core.guards.headroom import HEADROOM_ANNOTATION, MOST_UNITS, headroom_pods, is_unit, parse_headroom
from tests import factories

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC).timestamp()
"""A Friday."""


def units(text: str, now: float = NOON) -> tuple[Pod, ...]:
    owner = factories.provisioner(object_annotations=FrozenMap({HEADROOM_ANNOTATION: text}))
    node = factories.node(name="n")
    pods = [
        factories.running_pod(node="n", requests={"cpu": "8", "memory": "16Gi"}),
        factories.running_pod(node="n", requests={"cpu": "4"}, owner=factories.daemon_owner()),
    ]
    nodes = [factories.state_node(node=node, pods=pods)]
    return headroom_pods(owner, factories.snapshot(nodes=nodes, provisioners=[owner]), now)


def test_units_are_pods_of_their_provisioner_that_nobody_made() -> None:
    headroom = units('[{"cpu": "2", "memory": "4Gi", "count": 3}, {"cpu": "500m"}]')
    assert [dict(pod.spec.requests) for pod in headroom] == [
        *[{"cpu": 2000, "memory": 4 * 2**30, "pods": 1}] * 3,
        {"cpu": 500, "pods": 1},
    ]
    assert len({pod.key for pod in headroom}) == 4
    assert all(is_unit(pod.key) for pod in headroom)
    assert {pod.spec.node_selector[PROVISIONER_NAME] for pod in headroom} == {"default"}
    assert not is_unit(("default", "headroom-default-0-0"))


def test_a_share_of_what_pods_request_comes_in_units_of_a_core_at_most() -> None:
    """20 % of 8 cpu and 16 GiB (the DaemonSet's share needs no room of its own): 1.6 cpu in two units."""
    headroom = units('[{"percent": 20}]')
    assert [pod.spec.requests["cpu"] for pod in headroom] == [800, 800]
    assert sum(pod.spec.requests["memory"] for pod in headroom) == pytest.approx(0.2 * 16 * 2**30, abs=2)


def test_a_schedule_says_when() -> None:
    text = '[{"cpu": "1", "schedule": "0 8 * * mon-fri", "duration": "10h"}]'
    assert len(units(text)) == 1
    assert units(text, NOON + 7 * 3600) == ()
    assert units(text, NOON + 86_400) == (), "on Saturday"


def test_there_is_a_bound_to_it() -> None:
    assert len(units('[{"cpu": "1", "count": 500}, {"cpu": "1", "count": 500}]')) == MOST_UNITS


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "x",
        "[1]",
        "[{}]",
        '[{"cpu": "many"}]',
        '[{"cpu": "1", "count": 0}]',
        '[{"percent": 10, "cpu": "1"}]',
        '[{"percent": "10"}]',
        '[{"cpu": "1", "schedule": "0 8 * * *"}]',
        '[{"cpu": "1", "schedule": "often", "duration": "1h"}]',
        '[{"cpu": "1", "size": 3}]',
    ],
)
def test_what_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_headroom(text)
