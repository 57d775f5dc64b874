"""OpenAPI v3 documents per group version: what `kubectl explain`, `apply` and server-side field validation look at.

And OpenAPI v2, one document of all: kubectl asks for it when v3 does not know a kind, before it says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import orjson

from sandbox.apiserver.api import API
from sandbox.apiserver.kinds.resources import Resource
from sandbox.apiserver.schemas import schema

_PREFIX = "#/$defs/"
_COMPONENTS = "#/components/schemas/"
_SCALARS: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
    },
}
_WRITE_PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def index(api: API) -> dict[str, Any]:
    """/openapi/v3: one path per group version; the hash changes when a CRD does."""
    paths = {}
    for group, version in api.registry.group_versions():
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        mark = hashlib.sha256(f"{path}{api.registry.generation}".encode()).hexdigest()[:32].upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
    return {"paths": paths}


def document(api: API, path: str) -> dict[str, Any] | None:
    """/openapi/v3/PATH, or None when there is no such group version."""
    parts = path.split("/")
    group, version = (parts[1], parts[2]) if parts[0] == "apis" and len(parts) == 3 else ("", parts[-1])
    found = api.registry.of(group, version)
    if not found:
        return None
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for resource in found:
        name = _collect(api, resource, schemas)
        paths.update(_paths(resource, name))
    return {
        "openapi": "3.0.0", "info": _info(),
        "paths": paths, "components": {"schemas": schemas},
    }  # fmt: skip


def swagger(api: API) -> dict[str, Any]:
    """/openapi/v2 as JSON: the same schemas."""
    schemas: dict[str, Any] = {}
    for group, version in api.registry.group_versions():
        for resource in api.registry.of(group, version):
            _collect(api, resource, schemas)
    return {"swagger": "2.0", "info": _info(), "paths": {}, "definitions": _version_2(schemas)}


def _version_2(value: Any) -> Any:
    """OpenAPI 3.0 to 2.0: references stand beside their siblings, and what may be one of two types is a string."""
    if isinstance(value, list):
        return [_version_2(each) for each in value]
    if not isinstance(value, dict):
        return value.replace(_COMPONENTS, "#/definitions/") if isinstance(value, str) else value
    composed = {key for key in ("allOf", "oneOf") if isinstance(value.get(key), list)}  # else properties of that name
    shown = {key: _version_2(each) for key, each in value.items() if key not in composed}
    for part in _version_2(value["allOf"]) if "allOf" in composed else ():
        shown.update(part)
    return {**shown, "type": "string"} if "oneOf" in composed else shown


def swagger_protobuf() -> bytes:
    """/openapi/v2 as gnostic's Document: its version and title. To its readers, every kind is one without a schema.

    Fields (gnostic, openapiv2/OpenAPIv2.proto): Document.swagger 1, Document.info 2; Info.title 1, Info.version 2.
    """
    info = b"".join(_text(number, value) for number, value in enumerate(_info().values(), start=1))
    return _text(1, "2.0") + bytes([2 << 3 | 2, len(info)]) + info


def _info() -> dict[str, str]:
    return {"title": "Kubernetes", "version": f"v{schema.KUBERNETES_VERSION}.0"}


def _text(number: int, value: str) -> bytes:
    """A string field of a protobuf message; shorter than 128 bytes, so that its length is one."""
    return bytes([number << 3 | 2, len(value)]) + value.encode()


def _paths(resource: Resource, name: str) -> dict[str, Any]:
    base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    collection = (
        f"{base}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{base}/{resource.plural}"
    )
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}

    def operation(action: str, *, writes: bool) -> dict[str, Any]:
        body = {"application/json": {"schema": {"$ref": _COMPONENTS + name}}}
        shown: dict[str, Any] = {
            "responses": {"200": {"description": "OK", "content": body}},
            "x-kubernetes-action": action, "x-kubernetes-group-version-kind": kind,
        }  # fmt: skip
        return {**shown, "parameters": _WRITE_PARAMETERS} if writes else shown

    return {
        collection: {"get": operation("list", writes=False), "post": operation("post", writes=True)},
        f"{collection}/{{name}}": {
            "get": operation("get", writes=False), "put": operation("put", writes=True),
            "patch": operation("patch", writes=True), "delete": operation("delete", writes=False),
        },
    }  # fmt: skip


def _collect(api: API, resource: Resource, schemas: dict[str, Any]) -> str:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    if resource.custom:
        name = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
        raw = orjson.loads(orjson.dumps(api.schema_of(resource).raw))
        properties = raw.setdefault("properties", {})
        properties["metadata"] = {
            "allOf": [{"$ref": _COMPONENTS + schema.OBJECT_META}],
            "description": "Standard object's metadata.",
        }
        properties.setdefault("apiVersion", {"type": "string"})
        properties.setdefault("kind", {"type": "string"})
        schemas[name] = {**raw, "x-kubernetes-group-version-kind": [kind]}
        _add(schema.OBJECT_META, schemas)
        return name
    name = api.schema_of(resource).name
    _add(name, schemas)
    return name


def _add(name: str, schemas: dict[str, Any]) -> None:
    if name in schemas:
        return
    raw = schema.definitions()[name]
    schemas[name] = {}
    schemas[name] = _SCALARS.get(name) or _open_api(raw)
    for reference in _references(raw):
        _add(reference, schemas)


def _references(raw: Any) -> Iterator[str]:
    if isinstance(raw, dict):
        if isinstance(raw.get("$ref"), str):
            yield raw["$ref"].removeprefix(_PREFIX)
        for value in raw.values():
            yield from _references(value)
    elif isinstance(raw, list):
        for value in raw:
            yield from _references(value)


def _open_api(raw: Any) -> Any:
    """JSON schema 2020 to OpenAPI 3.0: no type lists; a reference with siblings goes into allOf."""
    if isinstance(raw, list):
        return [_open_api(value) for value in raw]
    if not isinstance(raw, dict):
        return raw
    shown = {key: _open_api(value) for key, value in raw.items() if key != "$ref"}
    if isinstance(shown.get("type"), list):
        shown["type"] = next((kind for kind in shown["type"] if kind != "null"), "object")
    if isinstance(raw.get("$ref"), str):
        target = {"$ref": raw["$ref"].replace(_PREFIX, _COMPONENTS)}
        return {**shown, "allOf": [target]} if shown else target
    return shown
