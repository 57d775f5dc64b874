"""Discovery, version, health, OpenAPI: what clients ask before anything else."""

from __future__ import annotations

from tests.contract.client import Client

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_health(client: Client) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        assert client.get(path).body == "ok"


def test_version(client: Client) -> None:
    for path in ("/version", "/version/"):
        body = client.get(path).ok()
        assert (body["major"], body["minor"]) == ("1", "34")
        assert body["gitVersion"].startswith("v1.34.")


def test_the_core_group(client: Client) -> None:
    assert client.get("/api").ok()["versions"] == ["v1"]
    body = client.get("/api/v1").ok()
    assert (body["kind"], body["groupVersion"]) == ("APIResourceList", "v1")
    resources = {resource["name"]: resource for resource in body["resources"]}
    pods = resources["pods"]
    assert pods["kind"] == "Pod"
    assert pods["namespaced"] is True
    assert pods["shortNames"] == ["po"]
    assert pods["categories"] == ["all"]
    assert set(pods["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["pods/binding"]["kind"] == "Binding"
    assert resources["nodes"]["namespaced"] is False


def test_groups(client: Client) -> None:
    groups = {group["name"]: group for group in client.get("/apis").ok()["groups"]}
    assert {"apps", "batch", "policy", "coordination.k8s.io", "events.k8s.io", "storage.k8s.io"} <= set(groups)
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert client.get("/apis/apps").ok()["kind"] == "APIGroup"


def test_scale_is_announced(client: Client) -> None:
    resources = {r["name"]: r for r in client.get("/apis/apps/v1").ok()["resources"]}
    scale = resources["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_aggregated_discovery(client: Client) -> None:
    body = client.get("/apis", accept=AGGREGATED).ok()
    assert body["kind"] == "APIGroupDiscoveryList"
    (apps,) = [item for item in body["items"] if item["metadata"].get("name") == "apps"]
    (deployments,) = [r for r in apps["versions"][0]["resources"] if r["resource"] == "deployments"]
    assert deployments["responseKind"]["kind"] == "Deployment"
    assert deployments["scope"] == "Namespaced"
    assert "scale" in {s["subresource"] for s in deployments["subresources"]}


def test_openapi_v3_has_a_document_per_group_version(client: Client) -> None:
    index = client.get("/openapi/v3").ok()["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(index)
    document = client.get(index["apis/apps/v1"]["serverRelativeURL"]).ok()
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}


def test_openapi_v2_has_every_kind_in_one_document(client: Client) -> None:
    document = client.get("/openapi/v2").ok()
    assert document["swagger"] == "2.0"
    deployment = document["definitions"]["io.k8s.api.apps.v1.Deployment"]
    assert deployment["x-kubernetes-group-version-kind"] == [{"group": "apps", "version": "v1", "kind": "Deployment"}]
    assert deployment["properties"]["spec"]["$ref"] == "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"


def test_a_wrong_token_is_401(client: Client) -> None:
    server = client.server
    other = Client(
        type(server)(server.url, "wrong", server.kubeconfig, server.certificate), client.kind, client.compact
    )
    other.get("/api/v1/namespaces").refused(401, "Unauthorized")


def test_the_initial_namespaces(client: Client) -> None:
    names = {item["metadata"]["name"] for item in client.get("/api/v1/namespaces").ok()["items"]}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names


def test_the_system_priority_classes(client: Client) -> None:
    items = client.get("/apis/scheduling.k8s.io/v1/priorityclasses").ok()["items"]
    values = {item["metadata"]["name"]: item["value"] for item in items}
    assert values["system-node-critical"] == 2_000_001_000


def test_access_reviews_of_an_administrator(client: Client) -> None:
    body = {"spec": {"resourceAttributes": {"verb": "list", "resource": "nodes"}}}
    answer = client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body).ok()
    assert answer["status"]["allowed"] is True


def test_wrong_methods_are_405(client: Client) -> None:
    client.delete("/api/v1/namespaces").refused(405, "MethodNotAllowed")
    client.post("/api/v1/namespaces/default/configmaps/x", {}).refused(405, "MethodNotAllowed")
