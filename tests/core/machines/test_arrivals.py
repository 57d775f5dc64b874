"""Pods that come in the places of pods to come are expected on the nodes of these places."""

from __future__ import annotations

from collections.abc import Sequence

from controller.core.api.parse import parse_pod
from controller.core.api.pod import Pod
from controller.core.machines.arrivals import with_arrivals
from controller.core.machines.on_their_way import ExpectedPod
from tests import factories


def pod(name: str, owner: str = "web") -> Pod:
    document = factories.pod_object(name=name)
    document["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    ]
    return parse_pod(document)


def to_come(nodes: Sequence[str], owner: str = "web") -> dict[str, ExpectedPod]:
    """Places of an owner's pods, by uid, each on its node."""
    keys = {number: ("default", f"{owner}/to-come-{number}") for number in range(len(nodes))}
    return {f"{owner}-{number}": ExpectedPod(keys[number], node) for number, node in enumerate(nodes)}


def test_those_that_come_take_the_lowest_places() -> None:
    first, second = pod("first"), pod("second")
    expected = with_arrivals(to_come(["a", "b", "c"]), [first, second], {"web": range(2, 3)})
    assert {uid: each.node for uid, each in expected.items()} == {first.uid: "a", second.uid: "b", "web-2": "c"}
    assert expected[first.uid].key == first.key


def test_a_pod_that_is_expected_already_takes_no_place_and_pods_of_others_none_of_this_owner() -> None:
    known, other = pod("known"), pod("other", owner="api")
    before = {known.uid: ExpectedPod(known.key, "own"), **to_come(["a"])}
    expected = with_arrivals(before, [known, other], {})
    assert {uid: each.node for uid, each in expected.items()} == {known.uid: "own"}


def test_places_that_the_owner_does_not_want_any_more_are_given_up() -> None:
    """Scaled down before they came."""
    assert with_arrivals(to_come(["a", "b"]), [], {"web": range(1)}).keys() == {"web-0"}
    assert with_arrivals(to_come(["a", "b"]), [], {}) == {}
