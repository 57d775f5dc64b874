"""What a client asks for: URL and headers of the Kubernetes API taken apart (apiserver's RequestInfo)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import yaml

from sandbox.apiserver.errors import APIError, bad_request, method_not_allowed, no_such_path, unsupported_media_type
from sandbox.apiserver.kinds.resources import Registry, Resource
from sandbox.apiserver.schemas import protobuf

_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_BODY_TYPES = ("application/json", "application/yaml")
PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request on a resource. `name` is empty for collections, `namespace` for cluster scope and all namespaces."""

    verb: str
    resource: Resource
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""
    body: bytes = b""

    def flag(self, key: str) -> bool:
        """A boolean query parameter, as apimachinery converts it: present and neither false nor 0."""
        return key in self.query and self.query[key].lower() not in ("false", "0")

    @property
    def field_manager(self) -> str:
        """Who writes: the fieldManager parameter, else the user agent up to its first slash."""
        return self.query.get("fieldManager") or self.user_agent.split("/", 1)[0] or "unknown"

    def dry_run(self, options: Mapping[str, Any] | None = None) -> bool:
        """Whether nothing may be stored; `options` are DeleteOptions of the body. 422 on a bad value."""
        asked = [self.query["dryRun"]] if self.query.get("dryRun") else list((options or {}).get("dryRun") or ())
        if any(value != "All" for value in asked):
            causes = [
                {
                    "reason": "FieldValueNotSupported",
                    "message": f'Unsupported value: "{asked[0]}": supported values: "All"',
                    "field": "dryRun",
                }
            ]
            message = f' "" is invalid: dryRun: Unsupported value: "{asked[0]}": supported values: "All"'
            raise APIError(422, "Invalid", message, details={"causes": causes})
        return bool(asked)

    def decode(self) -> dict[str, Any]:
        """The body as an object (JSON, or YAML when the Content-Type says so). Raises 400 or 415."""
        kind = self.content_type.split(";", 1)[0].strip() or "application/json"
        if kind == protobuf.CONTENT_TYPE:
            return protobuf.decode(self.body)
        if kind not in _BODY_TYPES:
            raise unsupported_media_type(kind, _BODY_TYPES)
        return decode_object(self.body, is_yaml=kind == "application/yaml")

    def options(self) -> dict[str, Any]:
        """The optional body of a DELETE (DeleteOptions), overridden by query parameters of the same names."""
        options = self.decode() if self.body.strip() else {}
        if "gracePeriodSeconds" in self.query:
            options["gracePeriodSeconds"] = int(self.query["gracePeriodSeconds"])
        if "propagationPolicy" in self.query:
            options["propagationPolicy"] = self.query["propagationPolicy"]
        if "orphanDependents" in self.query:
            options["orphanDependents"] = self.query["orphanDependents"].lower() == "true"
        return options


def decode_object(body: bytes, *, is_yaml: bool = False) -> dict[str, Any]:
    """A JSON (or YAML) document that is an object. Raises 400 otherwise."""
    try:
        value = yaml.safe_load(body) if is_yaml else orjson.loads(body)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type Object): {error}") from error
    if not isinstance(value, dict):
        raise bad_request(f"the object provided is unrecognized: expected an object, got {type(value).__name__}")
    return value


def parse_path(registry: Registry, path: str) -> tuple[Resource, str, str, str]:
    """(resource, namespace, name, subresource) of a URL path. Raises 404 when no such resource is served."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    if (
        rest[0] == "namespaces"
        and len(rest) >= 3
        and not (group == "" and len(rest) == 3 and rest[2] in _NAMESPACE_SUBRESOURCES)
    ):
        namespace, rest = rest[1], rest[2:]
    resource = registry.get(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if resource.namespaced and name and not namespace:
        raise no_such_path()
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    return resource, namespace, name, subresource


def verb_of(method: str, name: str, query: Mapping[str, str]) -> str:
    """The API verb: a GET of a collection is a list, or a watch. Raises 405 for verbs that a path does not take."""
    watching = query.get("watch", "").lower() in ("true", "1")
    match method:
        case "GET" | "HEAD":
            if watching:
                return "watch"
            return "get" if name else "list"
        case "POST":
            return "create"
        case "PUT" if name:
            return "update"
        case "PATCH" if name:
            return "patch"
        case "DELETE":
            return "delete" if name else "deletecollection"
    raise method_not_allowed()
