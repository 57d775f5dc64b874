"""Lists: selectors, pages, versions, and the other forms (Table, metadata only)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.builders import config_map, pod
from tests.contract.client import Client

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


@pytest.fixture
def four(api: Client) -> Client:
    """Four ConfigMaps a-d: a and b are red, c is green, d has no color."""
    for name, labels in (
        ("a", {"color": "red", "n": "1"}),
        ("b", {"color": "red", "n": "2"}),
        ("c", {"color": "green"}),
        ("d", {}),
    ):
        api.post(api.path("configmaps"), config_map(name, labels=labels)).ok()
    return api


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("color=red", "ab"),
        ("color==red,n=2", "b"),
        ("color!=red", "cd"),
        ("color in (red, green)", "abc"),
        ("color notin (red)", "cd"),
        ("color", "abc"),
        ("!color", "d"),
        ("n in (1),color", "a"),
        ("color=", ""),
    ],
)
def test_label_selectors(four: Client, selector: str, expected: str) -> None:
    assert names(four.get(four.path("configmaps"), labelSelector=selector).ok()) == list(expected)


def test_a_malformed_label_selector_is_400(four: Client) -> None:
    four.get(four.path("configmaps"), labelSelector="color in red").refused(400, "BadRequest")


def test_field_selector_on_the_name(four: Client) -> None:
    assert names(four.get(four.path("configmaps"), fieldSelector="metadata.name=c").ok()) == ["c"]
    assert names(four.get(four.path("configmaps"), fieldSelector="metadata.name!=c").ok()) == ["a", "b", "d"]


def test_an_unsupported_field_selector_is_400(four: Client) -> None:
    status = four.get(four.path("configmaps"), fieldSelector="data.x=1").refused(400, "BadRequest")
    assert status["message"] == '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    four.get(four.path("pods"), fieldSelector="spec.x=1").refused(400, "BadRequest")


def test_field_selectors_of_pods(api: Client) -> None:
    api.post(api.path("pods"), pod("bound", nodeName="n1")).ok()
    api.post(api.path("pods"), pod("free")).ok()
    assert names(api.get(api.path("pods"), fieldSelector="spec.nodeName=n1").ok()) == ["bound"]
    assert names(api.get(api.path("pods"), fieldSelector="spec.nodeName=,status.phase=Pending").ok()) == ["free"]
    assert names(api.get(api.path("pods"), fieldSelector="status.phase!=Pending").ok()) == []


def test_a_list_has_kind_version_and_no_kind_per_item_problem(four: Client) -> None:
    body = four.get(four.path("configmaps")).ok()
    assert (body["kind"], body["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(body["metadata"]["resourceVersion"]) > 0


def test_lists_of_all_namespaces(four: Client) -> None:
    body = four.get("/api/v1/configmaps", labelSelector="color=green").ok()
    assert four.namespace in {item["metadata"]["namespace"] for item in body["items"]}


def test_the_list_of_an_absent_namespace_is_empty(client: Client) -> None:
    assert client.get("/api/v1/namespaces/none/pods").ok()["items"] == []


def test_pages_go_on_where_the_last_one_ended(four: Client) -> None:
    path = four.path("configmaps")
    first = four.get(path, limit=2, labelSelector="color").ok()
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1 if "remainingItemCount" in first["metadata"] else True
    second = four.get(path, limit=2, labelSelector="color", **{"continue": first["metadata"]["continue"]}).ok()
    assert names(second) == ["c"]
    assert not second["metadata"].get("continue")


def test_pages_show_the_state_of_the_first_page(four: Client) -> None:
    path = four.path("configmaps")
    first = four.get(path, limit=2, labelSelector="color").ok()
    four.delete(four.path("configmaps", "c")).ok()
    four.post(path, config_map("bb", labels={"color": "blue"})).ok()
    second = four.get(path, limit=9, labelSelector="color", **{"continue": first["metadata"]["continue"]}).ok()
    assert names(second) == ["c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_an_exact_version_is_listed_as_it_was(four: Client) -> None:
    path = four.path("configmaps")
    version = four.get(path).ok()["metadata"]["resourceVersion"]
    four.patch(four.path("configmaps", "a"), {"data": {"x": "new"}}).ok()
    body = four.get(path, resourceVersion=version, resourceVersionMatch="Exact", labelSelector="color").ok()
    assert names(body) == ["a", "b", "c"]
    assert "data" not in body["items"][0]
    assert body["metadata"]["resourceVersion"] == version


def test_a_list_not_older_than_a_version(four: Client) -> None:
    version = four.get(four.path("configmaps")).ok()["metadata"]["resourceVersion"]
    body = four.get(four.path("configmaps"), resourceVersion=version, resourceVersionMatch="NotOlderThan").ok()
    assert int(body["metadata"]["resourceVersion"]) >= int(version)


def test_a_version_that_is_no_number_is_400(four: Client) -> None:
    four.get(four.path("configmaps"), resourceVersion="abc").refused(400, "BadRequest")


def test_a_continue_token_that_is_nonsense_is_400(four: Client) -> None:
    four.get(four.path("configmaps"), limit=1, **{"continue": "nonsense!"}).refused(400, "BadRequest")


def test_metadata_only_lists(four: Client) -> None:
    body = four.get(four.path("configmaps"), accept=PARTIAL_LIST, labelSelector="color=green").ok()
    assert (body["kind"], body["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    (item,) = body["items"]
    assert item["kind"] == "PartialObjectMetadata"
    assert set(item) == {"kind", "apiVersion", "metadata"}


def test_metadata_only_objects(four: Client) -> None:
    body = four.get(four.path("configmaps", "a"), accept=PARTIAL).ok()
    assert body["kind"] == "PartialObjectMetadata"
    assert body["metadata"]["labels"] == {"color": "red", "n": "1"}
    assert "data" not in body


def test_a_table_has_columns_and_rows(api: Client) -> None:
    api.post(api.path("pods"), pod("a")).ok()
    table = api.get(api.path("pods"), accept=TABLE, includeObject="Object").ok()
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Ready", "Status", "Restarts", "Age", "IP", "Node", "Nominated Node", "Readiness Gates"]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", 0] or row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["object"]["spec"]["containers"][0]["name"] == "main"


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        (
            "/api/v1/nodes",
            "Name Status Roles Age Version Internal-IP External-IP OS-Image Kernel-Version Container-Runtime",
        ),
        ("/api/v1/namespaces", "Name Status Age"),
        ("/api/v1/events", "Last Seen|Type|Reason|Object|Subobject|Source|Message|First Seen|Count|Name"),
        ("/apis/apps/v1/deployments", "Name|Ready|Up-to-date|Available|Age|Containers|Images|Selector"),
        ("/apis/apps/v1/replicasets", "Name|Desired|Current|Ready|Age|Containers|Images|Selector"),
        (
            "/apis/apps/v1/daemonsets",
            "Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age|Containers|Images|Selector",
        ),
        ("/apis/apps/v1/statefulsets", "Name|Ready|Age|Containers|Images"),
        ("/apis/batch/v1/jobs", "Name|Status|Completions|Duration|Age|Containers|Images|Selector"),
        ("/apis/policy/v1/poddisruptionbudgets", "Name|Min Available|Max Unavailable|Allowed Disruptions|Age"),
        ("/apis/coordination.k8s.io/v1/leases", "Name Holder Age"),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", "Name|Value|Global-Default|Age|PreemptionPolicy"),
        ("/api/v1/configmaps", "Name Data Age"),
        ("/api/v1/secrets", "Name Type Data Age"),
        ("/api/v1/serviceaccounts", "Name Secrets Age"),
        (
            "/api/v1/persistentvolumeclaims",
            "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode",
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
        ),
    ],
)
def test_the_columns_of_built_in_kinds(client: Client, path: str, columns: str) -> None:
    table = client.get(path, accept=TABLE).ok()
    expected = columns.split("|") if "|" in columns else columns.split()
    assert [column["name"] for column in table["columnDefinitions"]] == expected
