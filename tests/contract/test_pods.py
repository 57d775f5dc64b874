"""Pods: defaults, admission, binding, eviction with budgets, graceful deletion."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tests.contract.builders import pod
from tests.contract.client import STRATEGIC, Client, eventually


def bind(api: Client, name: str, node: str = "n1") -> Any:
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    return api.post(f"{api.path('pods', name)}/binding", body)


def run(api: Client, name: str) -> None:
    """Makes a bound pod Running and Ready, as a kubelet would."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(f"{api.path('pods', name)}/status", {"status": status}, STRATEGIC).ok()


def evict(api: Client, name: str, **options: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": api.namespace}}
    if options:
        body["deleteOptions"] = options
    return api.post(f"{api.path('pods', name)}/eviction", body)


def budget(api: Client, name: str, labels: dict[str, str], status: dict[str, Any] | None, **spec: Any) -> None:
    """A PodDisruptionBudget with the status that its controller would compute."""
    body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "maxUnavailable": 1, **spec}}
    api.post(api.path("poddisruptionbudgets", group="policy"), body).ok()
    if status is not None:
        full = {"expectedPods": 2, "observedGeneration": 1, **status}
        path = f"{api.path('poddisruptionbudgets', name, 'policy')}/status"
        api.patch(path, {"status": full}).ok()


def test_defaults_that_a_scheduler_sees(api: Client) -> None:
    obj = api.post(api.path("pods"), pod("a")).ok()
    spec = obj["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["serviceAccountName"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert obj["status"]["phase"] == "Pending"
    assert obj["status"]["qosClass"] == "BestEffort"


def test_default_tolerations_last_five_minutes(api: Client) -> None:
    tolerations = api.post(api.path("pods"), pod("a")).ok()["spec"]["tolerations"]
    assert tolerations == [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]


def test_a_pod_that_tolerates_everything_gets_no_more_tolerations(api: Client) -> None:
    everything = [{"operator": "Exists"}]
    assert api.post(api.path("pods"), pod("a", tolerations=everything)).ok()["spec"]["tolerations"] == everything


def test_limits_become_requests(api: Client) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    obj = api.post(api.path("pods"), body).ok()
    assert obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert obj["status"]["qosClass"] == "Burstable"


def test_the_priority_class_gives_the_priority(api: Client) -> None:
    obj = api.post(api.path("pods"), pod("a", priorityClassName="system-cluster-critical")).ok()
    assert obj["spec"]["priority"] == 2_000_000_000


def test_an_unknown_priority_class_is_403(api: Client) -> None:
    status = api.post(api.path("pods"), pod("a", priorityClassName="none")).refused(403, "Forbidden")
    assert "no PriorityClass with name none was found" in status["message"]


def test_the_runtime_class_gives_overhead_and_node_selector(api: Client) -> None:
    name = f"rc-{api.namespace}"
    body = {
        "metadata": {"name": name}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"kata": "yes"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    }  # fmt: skip
    api.post("/apis/node.k8s.io/v1/runtimeclasses", body).ok()
    spec = api.post(api.path("pods"), pod("a", runtimeClassName=name)).ok()["spec"]
    assert spec["overhead"] == {"cpu": "250m"}
    assert spec["nodeSelector"] == {"kata": "yes"}
    assert {"key": "kata", "operator": "Exists"} in spec["tolerations"]


def test_pods_need_containers_with_names_and_images(api: Client) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": []}}
    assert (
        api.post(api.path("pods"), body).refused(422, "Invalid")["details"]["causes"][0]["field"] == "spec.containers"
    )
    body["spec"] = {"containers": [{}]}
    fields = {c["field"] for c in api.post(api.path("pods"), body).refused(422, "Invalid")["details"]["causes"]}
    assert {"spec.containers[0].name", "spec.containers[0].image"} <= fields


def test_binding_sets_the_node_and_the_condition(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    reply = bind(api, "a")
    assert (reply.code, reply.body["status"]) == (201, "Success")
    obj = api.get(api.path("pods", "a")).ok()
    assert obj["spec"]["nodeName"] == "n1"
    (condition,) = [c for c in obj["status"]["conditions"] if c["type"] == "PodScheduled"]
    assert condition["status"] == "True"


def test_a_bound_pod_is_not_bound_again(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    bind(api, "a").ok()
    status = bind(api, "a", "n2").refused(409, "Conflict")
    assert 'pod a is already assigned to node "n1"' in status["message"]


def test_binding_an_absent_pod_is_404(api: Client) -> None:
    bind(api, "a").refused(404, "NotFound")


def test_binding_another_uid_is_409(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    metadata = {"name": "a", "uid": "00000000-0000-4000-8000-000000000000"}
    body = {"metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
    api.post(f"{api.path('pods', 'a')}/binding", body).refused(409, "Conflict")


def test_a_pod_that_waits_for_its_node_goes_at_once(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    assert api.delete(api.path("pods", "a")).ok()["kind"] == "Pod"
    api.get(api.path("pods", "a")).refused(404, "NotFound")


def test_a_bound_pod_waits_for_its_kubelet(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1", terminationGracePeriodSeconds=40)).ok()
    before = dt.datetime.now(dt.UTC)
    metadata = api.delete(api.path("pods", "a")).ok()["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 40
    until = dt.datetime.fromisoformat(metadata["deletionTimestamp"].replace("Z", "+00:00"))
    assert dt.timedelta(seconds=35) < until - before < dt.timedelta(seconds=45)
    assert api.get(api.path("pods", "a")).code == 200
    api.delete(api.path("pods", "a"), {"gracePeriodSeconds": 0}).ok()
    api.get(api.path("pods", "a")).refused(404, "NotFound")


def test_a_shorter_grace_shortens_and_a_longer_one_does_not_lengthen(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    path = api.path("pods", "a")
    assert api.delete(path).ok()["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.delete(path, {"gracePeriodSeconds": 5}).ok()["metadata"]["deletionGracePeriodSeconds"] == 5
    assert api.delete(path, {"gracePeriodSeconds": 60}).ok()["metadata"]["deletionGracePeriodSeconds"] == 5


def test_a_finished_pod_goes_at_once(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1", restartPolicy="Never")).ok()
    api.patch(f"{api.path('pods', 'a')}/status", {"status": {"phase": "Succeeded"}}).ok()
    api.delete(api.path("pods", "a")).ok()
    api.get(api.path("pods", "a")).refused(404, "NotFound")


def test_eviction_deletes_gracefully(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    run(api, "a")
    reply = evict(api, "a")
    assert (reply.code, reply.body["status"]) == (201, "Success")
    assert api.get(api.path("pods", "a")).ok()["metadata"]["deletionGracePeriodSeconds"] == 30


def test_eviction_of_an_absent_pod_is_404(api: Client) -> None:
    evict(api, "a").refused(404, "NotFound")


def test_a_budget_that_is_spent_refuses_with_429(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    run(api, "a")
    budget(api, "pdb", {"app": "a"}, {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1})
    status = evict(api, "a").refused(429, "TooManyRequests")
    assert status["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert status["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget pdb needs 1 healthy pods and has 1 currently"}
    ]
    assert "deletionTimestamp" not in api.get(api.path("pods", "a")).ok()["metadata"]


def test_a_budget_is_spent_by_evictions(api: Client) -> None:
    for name in ("a", "b"):
        api.post(api.path("pods"), pod(name, {"app": "x"}, nodeName="n1")).ok()
        run(api, name)
    budget(api, "pdb", {"app": "x"}, {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1})
    evict(api, "a").ok()
    status = api.get(api.path("poddisruptionbudgets", "pdb", "policy")).ok()["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]
    evict(api, "b").refused(429, "TooManyRequests")


def test_a_budget_that_was_not_seen_yet_refuses(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    run(api, "a")
    budget(api, "pdb", {"app": "a"}, None)
    status = evict(api, "a").refused(429, "TooManyRequests")
    assert "is still being processed by the server" in status["details"]["causes"][0]["message"]


def test_two_budgets_on_a_pod_are_an_error(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    run(api, "a")
    for name in ("one", "two"):
        budget(api, name, {"app": "a"}, {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1})
    reply = evict(api, "a")
    assert reply.code == 500
    assert "more than one PodDisruptionBudget" in reply.body["message"]


def test_pending_pods_are_evicted_whatever_the_budget(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    budget(api, "pdb", {"app": "a"}, {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1})
    evict(api, "a").ok()
    api.get(api.path("pods", "a")).refused(404, "NotFound")


@pytest.mark.parametrize(
    ("policy", "healthy", "goes"),
    [("AlwaysAllow", 0, True), ("IfHealthyBudget", 0, False), ("IfHealthyBudget", 1, True)],
)
def test_unready_pods_and_the_unhealthy_policy(api: Client, policy: str, healthy: int, goes: bool) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    api.patch(f"{api.path('pods', 'a')}/status", {"status": {"phase": "Running"}}).ok()
    status = {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 1}
    budget(api, "pdb", {"app": "a"}, status, unhealthyPodEvictionPolicy=policy)
    assert (evict(api, "a").code == 201) is goes


def test_eviction_preconditions(api: Client) -> None:
    """A real server refuses too, after ten seconds of trying again; so it is not asked each time."""
    obj = api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    if api.kind == "embedded":
        evict(api, "a", preconditions={"uid": "00000000-0000-4000-8000-000000000000"}).refused(409, "Conflict")
    evict(api, "a", preconditions={"uid": obj["metadata"]["uid"]}).ok()


def test_a_dry_run_eviction_spends_nothing(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    run(api, "a")
    budget(api, "pdb", {"app": "a"}, {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1})
    evict(api, "a", dryRun=["All"]).ok()
    assert "deletionTimestamp" not in api.get(api.path("pods", "a")).ok()["metadata"]
    assert api.get(api.path("poddisruptionbudgets", "pdb", "policy")).ok()["status"]["disruptionsAllowed"] == 1


def test_eviction_with_a_grace_period_of_its_own(api: Client) -> None:
    api.post(api.path("pods"), pod("a", nodeName="n1")).ok()
    evict(api, "a", gracePeriodSeconds=3).ok()
    assert api.get(api.path("pods", "a")).ok()["metadata"]["deletionGracePeriodSeconds"] == 3


def test_the_status_of_a_pod_takes_conditions_of_many_writers(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    path = f"{api.path('pods', 'a')}/status"
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    api.patch(path, {"status": {"conditions": [unschedulable]}}, STRATEGIC).ok()
    obj = api.patch(path, {"status": {"conditions": [{"type": "Other", "status": "True"}]}}, STRATEGIC).ok()
    assert {c["type"] for c in obj["status"]["conditions"]} == {"PodScheduled", "Other"}
    assert eventually(lambda: api.get(api.path("pods", "a")).ok()["status"]["conditions"])
