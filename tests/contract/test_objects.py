"""Create, read, update, delete of single objects, and the bodies of refusals."""

from __future__ import annotations

import re

from tests.contract.builders import config_map, deployment, pod
from tests.contract.client import Client


def test_create_sets_uid_version_time_and_namespace(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    metadata = obj["metadata"]
    assert metadata["namespace"] == api.namespace
    assert re.fullmatch(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0
    assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")


def test_create_answers_201_and_get_returns_the_same(api: Client) -> None:
    created = api.post(api.path("configmaps"), config_map("a", x="1"))
    assert created.code == 201
    assert api.get(api.path("configmaps", "a")).ok() == created.body


def test_create_fills_in_kind_and_version_from_the_path(api: Client) -> None:
    obj = api.post(api.path("configmaps"), {"metadata": {"name": "bare"}}).ok()
    assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")


def test_generate_name_adds_five_characters(api: Client) -> None:
    body = {**config_map("x"), "metadata": {"generateName": "job-"}}
    names = {api.post(api.path("configmaps"), body).ok()["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_a_name_is_taken_only_once(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a")).ok()
    status = api.post(api.path("configmaps"), config_map("a")).refused(409, "AlreadyExists")
    assert status["message"] == 'configmaps "a" already exists'
    assert status["details"] == {"name": "a", "kind": "configmaps"}


def test_an_absent_object_is_404_with_details(api: Client) -> None:
    status = api.get(api.path("deployments", "no", "apps")).refused(404, "NotFound")
    assert status["message"] == 'deployments.apps "no" not found'
    assert status["details"] == {"name": "no", "group": "apps", "kind": "deployments"}


def test_an_unknown_resource_is_404(api: Client) -> None:
    reply = api.get(api.path("nonsenses"))
    assert reply.code == 404


def test_create_in_an_absent_namespace_is_404(api: Client) -> None:
    path = api.path("configmaps", namespace="no-such-namespace")
    status = api.post(path, config_map("a")).refused(404, "NotFound")
    assert status["message"] == 'namespaces "no-such-namespace" not found'


def test_the_namespace_of_body_and_path_must_agree(api: Client) -> None:
    body = config_map("a")
    body["metadata"]["namespace"] = "default"
    api.post(api.path("configmaps"), body).refused(400, "BadRequest")


def test_the_kind_of_body_and_path_must_agree(api: Client) -> None:
    api.post(api.path("configmaps"), {**config_map("a"), "kind": "Secret"}).refused(400, "BadRequest")


def test_a_bad_name_is_422_with_its_cause(api: Client) -> None:
    status = api.post(api.path("configmaps"), config_map("Bad_Name")).refused(422, "Invalid")
    (cause,) = status["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldValueInvalid", "metadata.name")
    assert status["message"].startswith(
        'ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name": a lowercase RFC 1123'
    )


def test_no_name_at_all_is_422(api: Client) -> None:
    status = api.post(api.path("configmaps"), {"metadata": {}}).refused(422, "Invalid")
    assert status["details"]["causes"][0]["reason"] == "FieldValueRequired"


def test_a_bad_label_value_is_422(api: Client) -> None:
    body = config_map("a", labels={"ok": "not ok!"})
    status = api.post(api.path("configmaps"), body).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "metadata.labels"


def test_a_body_that_is_no_json_is_400(api: Client) -> None:
    api.post(api.path("configmaps"), "{nonsense").refused(400, "BadRequest")


def test_a_wrong_type_in_a_built_in_kind_is_400(api: Client) -> None:
    body = deployment("a")
    body["spec"]["replicas"] = "three"
    status = api.post(api.path("deployments", group="apps"), body).refused(400, "BadRequest")
    assert "Deployment" in status["message"]
    assert "replicas" in status["message"]


def test_update_with_a_stale_version_is_409(api: Client) -> None:
    first = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    second = api.put(api.path("configmaps", "a"), {**first, "data": {"x": "2"}}).ok()
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    status = api.put(api.path("configmaps", "a"), {**first, "data": {"x": "3"}}).refused(409, "Conflict")
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


def test_update_without_a_version_overwrites(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    assert api.put(api.path("configmaps", "a"), config_map("a", y="2")).ok()["data"] == {"y": "2"}


def test_update_of_another_uid_is_409(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a")).ok()
    obj["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    api.put(api.path("configmaps", "a"), obj).refused(409, "Conflict")


def test_update_cannot_rename(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a")).ok()
    obj["metadata"]["name"] = "b"
    api.put(api.path("configmaps", "a"), obj).refused(400, "BadRequest")


def test_update_of_an_absent_object_is_404(api: Client) -> None:
    api.put(api.path("configmaps", "a"), config_map("a")).refused(404, "NotFound")


def test_a_write_that_changes_nothing_keeps_the_version(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    again = api.put(api.path("configmaps", "a"), obj).ok()
    assert again["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]


def test_system_fields_cannot_be_changed(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a")).ok()
    changed = api.patch(api.path("configmaps", "a"), {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}).ok()
    assert changed["metadata"]["creationTimestamp"] == obj["metadata"]["creationTimestamp"]


def test_delete_answers_success_with_the_uid(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a")).ok()
    status = api.delete(api.path("configmaps", "a")).ok()
    assert (status["kind"], status["status"]) == ("Status", "Success")
    assert status["details"] == {"name": "a", "kind": "configmaps", "uid": obj["metadata"]["uid"]}
    api.get(api.path("configmaps", "a")).refused(404, "NotFound")
    api.delete(api.path("configmaps", "a")).refused(404, "NotFound")


def test_dry_run_create_stores_nothing(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a"), dryRun="All").ok()
    assert obj["metadata"]["uid"]
    assert "resourceVersion" not in obj["metadata"]
    api.get(api.path("configmaps", "a")).refused(404, "NotFound")


def test_dry_run_update_patch_and_delete_store_nothing(api: Client) -> None:
    obj = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
    path = api.path("configmaps", "a")
    assert api.put(path, {**obj, "data": {"x": "2"}}, dryRun="All").ok()["data"] == {"x": "2"}
    assert api.patch(path, {"data": {"x": "3"}}, dryRun="All").ok()["data"] == {"x": "3"}
    api.delete(path, dryRun="All").ok()
    assert api.get(path).ok() == obj


def test_a_dry_run_directive_must_be_all(api: Client) -> None:
    api.post(api.path("configmaps"), config_map("a"), dryRun="Some").refused(422, "Invalid")


def test_unknown_fields_are_dropped_with_a_warning(api: Client) -> None:
    reply = api.post(api.path("pods"), {**pod("a"), "nonsense": 1})
    assert "nonsense" not in reply.ok()
    assert 'unknown field \\"nonsense\\"' in reply.headers["Warning"]


def test_unknown_fields_are_refused_when_validation_is_strict(api: Client) -> None:
    body = pod("a")
    body["spec"]["nonsense"] = 1
    status = api.post(api.path("pods"), body, fieldValidation="Strict").refused(400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.nonsense"' in status["message"]


def test_generation_counts_changes_of_the_spec_only(api: Client) -> None:
    path = api.path("deployments", "a", "apps")
    assert api.post(api.path("deployments", group="apps"), deployment("a")).ok()["metadata"]["generation"] == 1
    assert api.patch(path, {"metadata": {"labels": {"x": "y"}}}).ok()["metadata"]["generation"] == 1
    assert api.patch(path, {"spec": {"replicas": 4}}).ok()["metadata"]["generation"] == 2
    assert api.patch(f"{path}/status", {"status": {"replicas": 4}}).ok()["metadata"]["generation"] == 2


def test_status_is_written_on_its_own_path_only(api: Client) -> None:
    path = api.path("deployments", "a", "apps")
    body = {**deployment("a"), "status": {"replicas": 9}}
    assert "replicas" not in api.post(api.path("deployments", group="apps"), body).ok()["status"]
    assert "replicas" not in api.patch(path, {"status": {"replicas": 9}}).ok()["status"]
    changed = api.patch(f"{path}/status", {"spec": {"replicas": 7}, "status": {"replicas": 9}}).ok()
    assert (changed["status"]["replicas"], changed["spec"]["replicas"]) == (9, 1)


def test_quantities_are_written_in_canonical_form(api: Client) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": 1, "memory": "1024Mi", "ephemeral-storage": "1500000"},
        "limits": {"cpu": "2000m"},
    }
    resources = api.post(api.path("pods"), body).ok()["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1500k"}
    assert resources["limits"] == {"cpu": "2"}


def test_a_malformed_quantity_is_400(api: Client) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "one"}}
    status = api.post(api.path("pods"), body).refused(400, "BadRequest")
    assert "quantities must match the regular expression" in status["message"]


def test_yaml_bodies_are_read(api: Client) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: from-yaml\ndata:\n  a: b\n"
    assert api.post(api.path("configmaps"), text, content_type="application/yaml").ok()["data"] == {"a": "b"}


def test_a_lease_is_renewed_by_update_with_its_version(api: Client) -> None:
    path = api.path("leases", "lock", "coordination.k8s.io")
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    lease = api.post(api.path("leases", group="coordination.k8s.io"), {"metadata": {"name": "lock"}, "spec": spec}).ok()
    assert lease["spec"] == spec
    renewed = {**lease, "spec": {**spec, "renewTime": "2026-01-01T00:00:05.000000Z"}}
    assert api.put(path, renewed).ok()["spec"]["renewTime"] == "2026-01-01T00:00:05.000000Z"
    api.put(path, {**lease, "spec": {**spec, "holderIdentity": "b"}}).refused(409, "Conflict")


def test_a_put_on_a_free_lease_name_creates_it(api: Client) -> None:
    path = api.path("leases", "fresh", "coordination.k8s.io")
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "fresh"},
        "spec": {"holderIdentity": "a"},
    }
    assert api.put(path, body).code == 201


def test_a_node_keeps_what_its_kubelet_registers(client: Client) -> None:
    name = "node-whole"
    client.delete(f"/api/v1/nodes/{name}")
    status = {
        "capacity": {"cpu": "4", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"architecture": "amd64"},
    }
    body = {
        "metadata": {"name": name, "labels": {"a": "b"}, "finalizers": ["example.com/hold"]},
        "spec": {"providerID": "aws:///z/i-1"},
        "status": status,
    }
    node = client.post("/api/v1/nodes", body).ok()
    assert node["spec"]["providerID"] == "aws:///z/i-1"
    assert node["status"]["capacity"] == {"cpu": "4", "pods": "110"}
    assert node["status"]["allocatable"] == {"cpu": "4", "pods": "110"}
    assert node["status"]["conditions"][0]["type"] == "Ready"
    client.patch(f"/api/v1/nodes/{name}", {"metadata": {"finalizers": None}}).ok()
    client.delete(f"/api/v1/nodes/{name}").ok()


def test_a_new_node_is_tainted_not_ready(client: Client) -> None:
    client.delete("/api/v1/nodes/node-taint")
    node = client.post("/api/v1/nodes", {"metadata": {"name": "node-taint"}}).ok()
    assert {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"} in node["spec"]["taints"]
    client.delete("/api/v1/nodes/node-taint").ok()


def test_the_provider_id_of_a_node_is_written_once(client: Client) -> None:
    client.delete("/api/v1/nodes/node-id")
    client.post("/api/v1/nodes", {"metadata": {"name": "node-id"}}).ok()
    client.patch("/api/v1/nodes/node-id", {"spec": {"providerID": "aws:///z/i-1"}}).ok()
    status = client.patch("/api/v1/nodes/node-id", {"spec": {"providerID": "aws:///z/i-2"}}).refused(422, "Invalid")
    assert "spec.providerID" in status["message"]
    client.delete("/api/v1/nodes/node-id").ok()


def test_events_are_one_thing_in_both_groups(api: Client) -> None:
    body = {
        "metadata": {"name": "e1"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.namespace},
        "reason": "Nominated", "message": "hello", "type": "Normal", "count": 2, "source": {"component": "x"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:10Z",
    }  # fmt: skip
    api.post(api.path("events"), body).ok()
    seen = api.get(api.path("events", "e1", "events.k8s.io")).ok()
    assert seen["note"] == "hello"
    assert seen["regarding"]["name"] == "p"
    assert seen["deprecatedCount"] == 2
    assert seen["deprecatedSource"] == {"component": "x"}
    assert seen["apiVersion"] == "events.k8s.io/v1"


def test_new_events_show_in_the_core_group(api: Client) -> None:
    body = {
        "metadata": {"name": "e2"}, "regarding": {"kind": "Pod", "name": "p", "namespace": api.namespace},
        "reason": "Nominated", "note": "hi", "type": "Normal", "action": "Nominate",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "karpenter.sh/x", "reportingInstance": "x-1",
    }  # fmt: skip
    api.post(api.path("events", group="events.k8s.io"), body).ok()
    seen = api.get(api.path("events", "e2")).ok()
    assert (seen["message"], seen["involvedObject"]["name"], seen["reportingComponent"]) == (
        "hi",
        "p",
        "karpenter.sh/x",
    )
