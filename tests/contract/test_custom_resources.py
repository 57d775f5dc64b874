"""Custom resources: registration, pruning, defaults, validation, status, scale, printer columns, generation."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.builders import widget_crd
from tests.contract.client import MERGE, STRATEGIC, Client, eventually

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def widget(group: str, spec: dict[str, Any], name: str = "w", **metadata: Any) -> dict[str, Any]:
    """A custom resource; unlike built-in kinds it must name its kind."""
    return {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": name, **metadata}, "spec": spec}


class Widgets:
    """The resource of one CRD of the test's own group."""

    def __init__(self, client: Client, group: str) -> None:
        self.client, self.group = client, group
        self.path = f"/apis/{group}/v1/widgets"

    def create(self, name: str = "w", *, spec: dict[str, Any] | None = None, **rest: Any) -> Any:
        body = {
            "apiVersion": f"{self.group}/v1",
            "kind": "Widget",
            "metadata": {"name": name},
            "spec": spec or {"size": 1},
            **rest,
        }
        return self.client.post(self.path, body)

    def causes(self, spec: dict[str, Any]) -> dict[str, tuple[str, str]]:
        """field → (reason, message) of a spec that is refused."""
        status = self.create(spec=spec).refused(422, "Invalid")
        return {c["field"]: (c["reason"], c["message"]) for c in status["details"]["causes"]}


@pytest.fixture(scope="module")
def groups() -> dict[str, str]:
    """One CRD per server and module: registering takes a real server a second."""
    return {}


@pytest.fixture
def widgets(client: Client, groups: dict[str, str]) -> Iterator[Widgets]:
    group = groups.get(client.kind)
    if group is None:
        group = groups[client.kind] = f"t{secrets.token_hex(3)}.example.com"
        client.post(CRDS, widget_crd(group)).ok()
        eventually(lambda: client.get(f"/apis/{group}/v1/widgets").code == 200)
    made = Widgets(client, group)
    yield made
    client.delete(made.path)
    eventually(lambda: client.get(made.path).ok()["items"] == [])


def test_a_crd_becomes_established(client: Client, widgets: Widgets) -> None:
    crd = client.get(f"{CRDS}/widgets.{widgets.group}").ok()
    conditions = {c["type"]: (c["status"], c["reason"]) for c in crd["status"]["conditions"]}
    assert conditions["Established"] == ("True", "InitialNamesAccepted")
    assert conditions["NamesAccepted"] == ("True", "NoConflicts")
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["status"]["acceptedNames"]["kind"] == "Widget"
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert crd["spec"]["conversion"] == {"strategy": "None"}


def test_a_crd_of_the_wrong_name_is_422(client: Client) -> None:
    crd = widget_crd("wrong.example.com")
    crd["metadata"]["name"] = "gadgets.wrong.example.com"
    status = client.post(CRDS, crd).refused(422, "Invalid")
    assert "metadata.name" in status["message"]


def test_objects_have_system_fields_and_generation_one(widgets: Widgets) -> None:
    obj = widgets.create().ok()
    assert obj["metadata"]["uid"]
    assert obj["metadata"]["generation"] == 1
    assert "namespace" not in obj["metadata"]


def test_unknown_fields_are_pruned(widgets: Widgets) -> None:
    obj = widgets.create(spec={"size": 1, "nonsense": 2, "nested": {"more": 3}}, extra="x").ok()
    assert "nonsense" not in obj["spec"]
    assert obj["spec"]["nested"] == {"depth": 3}
    assert "extra" not in obj


def test_unknown_fields_are_refused_when_validation_is_strict(widgets: Widgets) -> None:
    body = widget(widgets.group, {"size": 1, "nonsense": 2})
    status = widgets.client.post(widgets.path, body, fieldValidation="Strict").refused(400, "BadRequest")
    assert 'unknown field "spec.nonsense"' in status["message"]


def test_preserved_fields_are_kept_as_sent(widgets: Widgets) -> None:
    free = {"a": {"b": [1, {"c": None}]}, "d": 1.5}
    assert widgets.create(spec={"size": 1, "free": free}).ok()["spec"]["free"] == free


def test_maps_of_strings_are_kept(widgets: Widgets) -> None:
    selector = {"karpenter.sh/discovery": "x", "b": ""}
    assert widgets.create(spec={"size": 1, "selector": selector}).ok()["spec"]["selector"] == selector


def test_defaults_are_filled_in(widgets: Widgets) -> None:
    assert widgets.create(spec={"size": 1, "nested": {}}).ok()["spec"] == {
        "size": 1,
        "color": "green",
        "nested": {"depth": 3},
    }


def test_a_null_counts_as_left_out(widgets: Widgets) -> None:
    assert widgets.create(spec={"size": 1, "color": None}).ok()["spec"] == {"size": 1, "color": "green"}


def test_a_nullable_field_keeps_its_null(widgets: Widgets) -> None:
    assert widgets.create(spec={"size": 1, "maybe": None}).ok()["spec"]["maybe"] is None


@pytest.mark.parametrize("port", [80, "http"])
def test_int_or_string_takes_both(widgets: Widgets, port: object) -> None:
    assert widgets.create(spec={"size": 1, "port": port}).ok()["spec"]["port"] == port


def test_a_missing_required_field(widgets: Widgets) -> None:
    assert widgets.causes({"color": "red"}) == {"spec.size": ("FieldValueRequired", "Required value")}


def test_a_wrong_type(widgets: Widgets) -> None:
    causes = widgets.causes({"size": "big"})
    assert causes["spec.size"][0] == "FieldValueTypeInvalid"
    assert causes["spec.size"][1] == 'Invalid value: "string": spec.size in body must be of type integer: "string"'


@pytest.mark.parametrize(
    ("spec", "field", "cause"),
    [
        (
            {"size": 0},
            "spec.size",
            ("FieldValueInvalid", "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ),
        (
            {"size": 101},
            "spec.size",
            ("FieldValueInvalid", "Invalid value: 101: spec.size in body should be less than or equal to 100"),
        ),
        (
            {"size": 1, "color": "blue"},
            "spec.color",
            ("FieldValueNotSupported", 'Unsupported value: "blue": supported values: "red", "green"'),
        ),
        (
            {"size": 1, "name": "A1"},
            "spec.name",
            ("FieldValueInvalid", "Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'"),
        ),
        ({"size": 1, "name": "abcdef"}, "spec.name", ("FieldValueTooLong", "Too long: may not be more than 5 bytes")),
        (
            {"size": 1, "list": ["a", "b", "c"]},
            "spec.list",
            ("FieldValueTooMany", "Too many: 3: must have at most 2 items"),
        ),
        (
            {"size": 1, "selector": {"a": 1}},
            "spec.selector.a",
            (
                "FieldValueTypeInvalid",
                'Invalid value: "integer": spec.selector.a in body must be of type string: "integer"',
            ),
        ),
        (
            {"size": 1, "keyed": [{"key": "a"}, {"key": "a"}]},
            "spec.keyed[1]",
            ("FieldValueDuplicate", 'Duplicate value: {"key":"a"}'),
        ),
        ({"size": 1, "keyed": [{}]}, "spec.keyed[0].key", ("FieldValueRequired", "Required value")),
    ],
)
def test_broken_rules_and_their_words(
    widgets: Widgets, spec: dict[str, Any], field: str, cause: tuple[str, str]
) -> None:
    assert widgets.causes(spec)[field] == cause


def test_the_words_of_a_refusal_name_kind_and_group(widgets: Widgets) -> None:
    status = widgets.create(spec={"size": 0}).refused(422, "Invalid")
    assert status["message"].startswith(f'Widget.{widgets.group} "w" is invalid: spec.size: Invalid value: 0')
    assert status["details"]["group"] == widgets.group
    assert status["details"]["kind"] == "Widget"


def test_cel_rules(widgets: Widgets) -> None:
    """x-kubernetes-validations with has(), oldSelf and messages."""
    client, group = widgets.client, f"cel-{widgets.group}"
    crd = widget_crd(group)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [
        {"rule": "has(self.name) != has(self.port)", "message": "one of name and port"},
        {"rule": "self.size >= oldSelf.size", "message": "size never shrinks"},
    ]
    client.post(CRDS, crd).ok()
    path = f"/apis/{group}/v1/widgets"
    eventually(lambda: client.get(path).code == 200)
    status = client.post(path, widget(group, {"size": 2})).refused(422, "Invalid")
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec", "FieldValueInvalid")
    assert cause["message"].endswith("one of name and port")
    client.post(path, widget(group, {"size": 2, "name": "a"})).ok()
    status = client.patch(f"{path}/w", {"spec": {"size": 1}}).refused(422, "Invalid")
    assert "size never shrinks" in status["message"]
    client.patch(f"{path}/w", {"spec": {"size": 3}}).ok()
    client.delete(f"{CRDS}/widgets.{group}").ok()


def test_status_has_its_own_path(widgets: Widgets) -> None:
    assert "status" not in widgets.create(status={"ready": True}).ok()
    path = f"{widgets.path}/w"
    assert "status" not in widgets.client.patch(path, {"status": {"ready": True}}).ok()
    patch = {"spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}, "status": {"ready": True}}
    obj = widgets.client.patch(f"{path}/status", patch).ok()
    assert obj["status"] == {"ready": True}
    assert obj["spec"]["size"] == 1
    assert "labels" not in obj["metadata"]
    assert obj["metadata"]["generation"] == 1


def test_generation_counts_spec_changes(widgets: Widgets) -> None:
    widgets.create().ok()
    path = f"{widgets.path}/w"
    assert widgets.client.patch(path, {"metadata": {"annotations": {"a": "b"}}}).ok()["metadata"]["generation"] == 1
    assert widgets.client.patch(path, {"spec": {"size": 2}}).ok()["metadata"]["generation"] == 2


def test_an_update_needs_a_version(widgets: Widgets) -> None:
    obj = widgets.create().ok()
    version = obj["metadata"].pop("resourceVersion")
    status = widgets.client.put(f"{widgets.path}/w", obj).refused(422, "Invalid")
    assert "metadata.resourceVersion" in status["message"]
    obj["metadata"]["resourceVersion"] = version
    obj["spec"]["size"] = 5
    assert widgets.client.put(f"{widgets.path}/w", obj).ok()["spec"]["size"] == 5


def test_strategic_merge_is_not_for_custom_resources(widgets: Widgets) -> None:
    widgets.create().ok()
    widgets.client.patch(f"{widgets.path}/w", {"spec": {"size": 2}}, STRATEGIC).refused(415, "UnsupportedMediaType")
    widgets.client.patch(f"{widgets.path}/w", {"spec": {"size": 2}}, MERGE).ok()


def test_the_scale_of_a_custom_resource(widgets: Widgets) -> None:
    widgets.create(spec={"size": 1, "replicas": 2}).ok()
    path = f"{widgets.path}/w"
    widgets.client.patch(f"{path}/status", {"status": {"replicas": 1, "selector": "a=b"}}).ok()
    scale = widgets.client.get(f"{path}/scale").ok()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 1, "selector": "a=b"}
    assert widgets.client.patch(f"{path}/scale", {"spec": {"replicas": 4}}).ok()["spec"] == {"replicas": 4}
    assert widgets.client.get(path).ok()["spec"]["replicas"] == 4


def test_printer_columns(widgets: Widgets) -> None:
    widgets.create(spec={"size": 7}).ok()
    table = widgets.client.get(widgets.path, accept=TABLE).ok()
    columns = [(c["name"], c["type"], c["priority"]) for c in table["columnDefinitions"]]
    assert columns == [("Name", "string", 0), ("Size", "integer", 0), ("Age", "date", 0), ("Color", "string", 1)]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["w", 7]
    assert row["cells"][3] == "green"
    assert row["object"]["kind"] == "PartialObjectMetadata"


def test_watches_and_lists_have_the_kind(widgets: Widgets) -> None:
    start = widgets.client.get(widgets.path).ok()["metadata"]["resourceVersion"]
    obj = widgets.create().ok()
    body = widgets.client.get(widgets.path).ok()
    assert (body["kind"], body["apiVersion"]) == ("WidgetList", f"{widgets.group}/v1")
    assert body["items"] == [obj]
    (event,) = widgets.client.watch_until(widgets.path, 1, resourceVersion=start)
    assert event == {"type": "ADDED", "object": obj}


def test_the_kind_must_agree(widgets: Widgets) -> None:
    body = {"apiVersion": f"{widgets.group}/v1", "kind": "Gadget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    assert widgets.client.post(widgets.path, body).code in (400, 422)
    del body["kind"]
    status = widgets.client.post(widgets.path, body).refused(400, "BadRequest")
    assert "Object 'Kind' is missing" in status["message"]


def test_a_deleted_crd_takes_its_objects_along(client: Client) -> None:
    group = f"gone{secrets.token_hex(3)}.example.com"
    path = f"/apis/{group}/v1/widgets"
    client.post(CRDS, widget_crd(group)).ok()
    eventually(lambda: client.get(path).code == 200)
    client.post(path, widget(group, {"size": 1}, finalizers=["example.com/hold"])).ok()
    deleted = client.delete(f"{CRDS}/widgets.{group}").ok()
    assert "customresourcecleanup.apiextensions.k8s.io" in deleted["metadata"]["finalizers"]
    eventually(lambda: "deletionTimestamp" in client.get(f"{path}/w").ok()["metadata"])
    client.patch(f"{path}/w", {"metadata": {"finalizers": None}}).ok()
    eventually(lambda: client.get(f"{CRDS}/widgets.{group}").code == 404)
    eventually(lambda: client.get(path).code == 404)


def test_a_changed_crd_takes_effect(client: Client) -> None:
    group = f"new{secrets.token_hex(3)}.example.com"
    path = f"/apis/{group}/v1/widgets"
    client.post(CRDS, widget_crd(group)).ok()
    eventually(lambda: client.get(path).code == 200)
    client.post(path, widget(group, {"size": 101})).refused(422, "Invalid")
    crd = client.get(f"{CRDS}/widgets.{group}").ok()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 200
    assert client.put(f"{CRDS}/widgets.{group}", crd).ok()["metadata"]["generation"] == 2
    eventually(lambda: client.post(path, widget(group, {"size": 101}), dryRun="All").code == 201)
    client.delete(f"{CRDS}/widgets.{group}").ok()
