"""A plan says how many pods of a class a node gets; which ones follows on first use, always the same."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.pod import OwnerReference, Pod
from controller.core.api.replicas import Pods
from controller.core.provisioning.placed_pods import PlacedPods, PodSlice, workloads
from controller.core.provisioning.pods.pod_classes import PodClass, classify
from tests.core.provisioning.plans import SMALL
from tests.factories import pod, replica_set_owner

OWNERS = (replica_set_owner(name="web"), replica_set_owner(name="api"))


def made(name: int, created: int, owner: OwnerReference | None) -> Pod:
    """A replica."""
    return pod(name=f"pod-{name:03}", requests=SMALL, owner=owner, pod_fields={"created": float(created)})


REPLICAS = st.lists(
    st.builds(made, st.integers(0, 999), st.integers(0, 3), st.sampled_from([None, *OWNERS])),
    min_size=1,
    max_size=12,
    unique_by=lambda each: each.name,
)


def only_class(pods: list[Pod]) -> PodClass:
    """The class of pods that differ only in name, age and owner."""
    (pod_class,) = classify(Pods.of(pods).groups, frozenset(), {})
    return pod_class


@settings(max_examples=60, deadline=None, derandomize=True)
@given(REPLICAS, st.data())
def test_slices_equal_assigning_pods_one_by_one(pods: list[Pod], data: st.DataObject) -> None:
    """Oldest first, then by name, whatever order they came in; workloads are counted with them."""
    eager = sorted(pods, key=lambda each: (each.created, each.name))
    pod_class = only_class(data.draw(st.permutations(pods)))
    first = data.draw(st.integers(0, len(pods) - 1))
    count = data.draw(st.integers(0, len(pods) - first))
    lazy, chosen = PlacedPods([PodSlice(pod_class, first, count)]), eager[first : first + count]
    assert len(lazy) == count
    assert workloads(lazy) == Counter(each.owners[0].uid for each in chosen if each.owners)
    assert lazy == tuple(sorted(each.key for each in chosen))
    assert hash(lazy) == hash(tuple(lazy))


def test_nodes_with_the_same_pods_are_equal_however_they_were_put_together() -> None:
    pod_class = only_class([made(number, 0, None) for number in range(4)])
    whole, parts = (
        PlacedPods([PodSlice(pod_class, 0, 3)]),
        PlacedPods([PodSlice(pod_class, 2, 1), PodSlice(pod_class, 0, 2)]),
    )
    assert whole == parts
    assert whole != PlacedPods([PodSlice(pod_class, 1, 3)])
    assert ("default", "pod-001") in whole
    assert whole[0] == ("default", "pod-000")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.permutations([("b", "x"), ("a", "z"), ("a", "y"), ("b", "w"), ("b", "v")]))
def test_classes_are_numbered_by_their_first_names_in_whatever_order_pods_came(keys: list[tuple[str, str]]) -> None:
    """Pods of one namespace are a class here; a class with larger requests is numbered by its own first name."""
    pods = [pod(namespace=space, name=name, requests={"cpu": "2"} if name == "v" else SMALL) for space, name in keys]
    classes = classify(Pods.of(pods).groups, frozenset(), {})
    assert [(each.index, each.name, len(each)) for each in classes] == [(0, "a/y", 2), (1, "b/v", 1), (2, "b/w", 2)]


def test_a_class_has_waited_as_long_as_its_oldest_pod() -> None:
    """Relative to the youngest pod of the batch, in whole minutes."""
    old = [made(1, 0, None), made(2, 300, None)]
    young = pod(name="young", requests={"cpu": "2"}, pod_fields={"created": 300.0})
    assert [each.waited for each in classify(Pods.of([*old, young]).groups, frozenset(), {})] == [5, 0]
