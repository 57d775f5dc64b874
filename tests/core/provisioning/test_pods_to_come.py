"""Pods that owners of marked pods still have to make: how many a plan counts on, and when it does not any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.parse import parse_job, parse_quota, parse_replica_set, parse_stateful_set
from controller.core.api.pod import OwnerReference, Pod, PodClaim, PodVolume
from controller.core.api.workloads import PodOwner, ResourceQuota
from controller.core.provisioning.pods_to_come import MOST, is_to_come, pods_to_come, still_to_come
from controller.core.state.snapshot import Snapshot
from tests import factories

WEB = factories.replica_set_owner(name="web")
MARKED = factories.pending_pod(name="web-0", owner=WEB, requests={"cpu": "1", "memory": "1Gi"})


def replica_set(wanted: int, owner: OwnerReference = WEB, **fields: Any) -> PodOwner:
    return PodOwner("default", owner.name, owner.uid, wanted, **fields)


def snapshot(pods: Iterable[Pod], *owners: PodOwner, quotas: Iterable[ResourceQuota] = (), **more: Any) -> Snapshot:
    known = FrozenMap({(owner.namespace, owner.name): owner for owner in owners})
    named = FrozenMap({(quota.namespace, quota.name): quota for quota in quotas})
    return factories.snapshot(pending=list(pods), **{"replica_sets": known, "quotas": named, **more})


def there(count: int, first: int = 1, **fields: Any) -> list[Pod]:
    return [factories.pod(name=f"web-{first + n}", owner=WEB, **fields) for n in range(count)]


@pytest.mark.parametrize(
    ("pods", "owner", "more"),
    [
        ([MARKED], replica_set(5), 4),
        ([MARKED, *there(2)], replica_set(5), 2),
        ([MARKED, *there(7)], replica_set(5), 0),
        (there(2), replica_set(5), 0),
        ([MARKED, *there(2, pod_fields={"phase": "Failed"})], replica_set(5), 4),
        ([MARKED, *there(2, pod_fields={"deleted_at": 1.0})], replica_set(5), 4),
        ([MARKED], replica_set(5, refused=True), 0),
        ([MARKED], PodOwner("default", "web", "another uid", 5), 0),
        ([MARKED], PodOwner("other", "web", WEB.uid, 5), 0),
        ([factories.pending_pod(owner=WEB, pod_fields={"volumes": (PodVolume("a", "b"),)})], replica_set(5), 0),
        ([factories.pending_pod(owner=WEB, resource_claims=(PodClaim("a", "b"),))], replica_set(5), 0),
        ([factories.pending_pod()], replica_set(5), 0),
        ([MARKED], replica_set(1_000_000), MOST),
    ],
    ids=[
        "all but one",
        "others are there",
        "scaled down: too many are there",
        "none is marked",
        "ended ones are replaced",
        "terminating ones are replaced",
        "the last could not be made",
        "another owner of the name",
        "another namespace",
        "with volumes of their own",
        "with devices of their own",
        "without an owner",
        "a slip",
    ],
)
def test_as_many_are_counted_on_as_the_owner_wants_and_has_not_made(
    pods: list[Pod], owner: PodOwner, more: int
) -> None:
    made = pods_to_come(snapshot(pods, owner))
    assert len(made) == more
    assert len({pod.key for pod in made}) == len({pod.uid for pod in made}) == more
    assert all(is_to_come(pod.key) and pod.spec == pods[0].spec for pod in made)
    assert not any(is_to_come(pod.key) for pod in pods)


@pytest.mark.parametrize(
    ("left", "more"),
    [
        ({"pods": 3}, 3),
        ({"count/pods": 0, "pods": 3}, 0),
        ({"requests.cpu": 2_500}, 2),
        ({"memory": 4 * 2**30 - 1}, 3),
        ({"limits.cpu": 5_000}, 2),
        ({"persistentvolumeclaims": 0, "requests.nvidia.com/gpu": 0}, 9),
        ({"pods": -2}, 0),
    ],
)
def test_what_a_quota_does_not_admit_is_not_counted_on(left: dict[str, int], more: int) -> None:
    limited = factories.pending_pod(
        owner=WEB, requests={"cpu": "1", "memory": "1Gi"}, pod_fields={"limits": FrozenMap({"cpu": 2_000})}
    )
    other = ResourceQuota("other", "all", FrozenMap({"pods": 0}))
    quotas = (ResourceQuota("default", "all", FrozenMap(left)), other)
    assert len(pods_to_come(snapshot([limited], replica_set(10), quotas=quotas))) == more


def test_two_owners_share_what_a_quota_admits() -> None:
    api = factories.replica_set_owner(name="api")
    pods = [MARKED, factories.pending_pod(owner=api)]
    quota = ResourceQuota("default", "all", FrozenMap({"pods": 5}))
    both = pods_to_come(snapshot(pods, replica_set(4), replica_set(4, api), quotas=[quota]))
    assert len(both) == 5


def test_of_a_rollout_the_new_pods_that_it_has_come_to_are_counted_on() -> None:
    """Ten old pods run, of which two are to go; of the new ReplicaSet's four one is there. Never ten new ones."""
    new = factories.replica_set_owner(name="web-new")
    old = [factories.pod(name=f"old-{n}", owner=WEB, pod_fields={"node_name": "a"}) for n in range(10)]
    marked = factories.pending_pod(owner=new)
    made = pods_to_come(snapshot([marked, *old], replica_set(8), replica_set(4, new)))
    assert [pod.owners[0].name for pod in made] == ["web-new"] * 3


@pytest.mark.parametrize(
    ("pods", "owner", "still"),
    [
        ([MARKED, *there(1)], replica_set(6), 4),
        ([MARKED, *there(3)], replica_set(6), 4),
        ([MARKED, *there(1)], replica_set(3), 1),
        ([MARKED, *there(4)], replica_set(3), 1),
        ([MARKED, *there(2)], replica_set(6, refused=True), 1),
        (there(2), replica_set(6), 0),
        ([MARKED, *there(1)], replica_set(0), 0),
    ],
    ids=[
        "nothing happened",
        "two came",
        "scaled down",
        "scaled down while more came",
        "one came, then a quota was full",
        "the marked one is gone",
        "scaled to nothing",
    ],
)
def test_what_does_not_come_after_all_is_not_wanted(pods: list[Pod], owner: PodOwner, still: int) -> None:
    """Planned with two pods there and four to come; how many of the four are wanted once the plan is made."""
    planned = pods_to_come(snapshot([MARKED, *there(1)], replica_set(6)))
    assert len(planned) == 4
    assert len(still_to_come(snapshot(pods, owner), planned)) == still
    assert still_to_come(snapshot(pods, owner), [MARKED]) == frozenset()


META = {"metadata": {"name": "a", "namespace": "b", "uid": "c"}}
DELETED = {"metadata": {**META["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}}
REFUSED = {"conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}]}
ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("parse", "document", "wanted", "refused"),
    [
        (parse_replica_set, {**META, "spec": {"replicas": 7}}, 7, False),
        (parse_replica_set, META, 1, False),
        (parse_replica_set, {**META, "spec": {"replicas": -7}, "status": REFUSED}, 0, True),
        (parse_replica_set, {**META, "spec": {"replicas": "many"}, "status": {"conditions": [None, 3]}}, 1, False),
        (parse_replica_set, {**DELETED, "spec": {"replicas": 7}}, 0, False),
        (parse_stateful_set, {**META, "spec": {"replicas": 7, "podManagementPolicy": "Parallel"}}, 7, False),
        (parse_stateful_set, {**META, "spec": {"replicas": 7}}, 0, False),
        (parse_job, META, 1, False),
        (parse_job, {**META, "spec": {"parallelism": 7, "completions": 9}, "status": {"succeeded": 4}}, 5, False),
        (parse_job, {**META, "spec": {"parallelism": 7, "suspend": True}}, 0, False),
        (parse_job, {**META, "spec": {"parallelism": 7}, "status": ENDED}, 0, False),
    ],
)
def test_what_an_owner_wants_is_read(parse: Any, document: dict[str, Any], wanted: int, refused: bool) -> None:
    assert parse(document) == PodOwner("b", "a", "c", wanted, refused)


def test_what_a_quota_leaves_is_read() -> None:
    hard = {"pods": "10", "requests.cpu": "4", "limits.memory": "8Gi", "count/secrets": "3", "cpu": "much"}
    used = {"pods": "4", "requests.cpu": "1500m"}
    left = FrozenMap({"cpu": 0, "limits.memory": 8 * 2**30, "pods": 6, "requests.cpu": 2_500})
    assert parse_quota({**META, "status": {"hard": hard, "used": used}}) == ResourceQuota("b", "a", left)
    assert parse_quota({**META, "spec": {"hard": {"pods": 2}}}).left == {"pods": 2}
    assert parse_quota(META).left == EMPTY
