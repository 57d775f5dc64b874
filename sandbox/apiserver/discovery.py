"""Discovery: which groups, versions and resources there are, in the old form (APIResourceList) and aggregated (v2)."""

from __future__ import annotations

import platform
from typing import Any

from sandbox.apiserver.kinds.resources import Registry, Resource
from sandbox.apiserver.schemas.schema import KUBERNETES_VERSION

_AGGREGATED = "as=APIGroupDiscoveryList"
AGGREGATED_CONTENT_TYPE = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

# Verbs of subresources; `log` is announced by the real server too, but there is no kubelet to ask.
_SUBRESOURCE_VERBS = {"binding": ["create"], "eviction": ["create"], "finalize": ["update"], "log": ["get"]}
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
}

# Virtual resources: created, never stored.
_REVIEWS = (
    ("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False),
    ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False),
)


def wants_aggregated(accept: str) -> bool:
    """Whether the client understands aggregated discovery."""
    return _AGGREGATED in accept and "v=v2" in accept.replace("v=v2beta1", "")


def version() -> dict[str, str]:
    """/version."""
    major, minor = KUBERNETES_VERSION.split(".")
    return {
        "major": major, "minor": minor, "gitVersion": f"v{KUBERNETES_VERSION}.0+sandbox",
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "cpython", "platform": f"linux/{platform.machine()}",
    }  # fmt: skip


def _group_versions(registry: Registry) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for group, version_ in [*registry.group_versions(), *((review[0], review[1]) for review in _REVIEWS)]:
        versions = found.setdefault(group, [])
        if version_ not in versions:
            versions.append(version_)
    for versions in found.values():
        versions.sort(key=_age_of_version)
    return found


def _age_of_version(name: str) -> tuple[int, str]:
    """Stable versions before beta before alpha (kube-aware version priority)."""
    return (2 if "alpha" in name else 1 if "beta" in name else 0), name


def groups(registry: Registry) -> dict[str, Any]:
    """/apis in the old form."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(g, v) for g, v in _group_versions(registry).items() if g],
    }


def group(registry: Registry, name: str) -> dict[str, Any] | None:
    """/apis/GROUP."""
    versions = _group_versions(registry).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions and name else None


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resources(registry: Registry, group_: str, version_: str) -> dict[str, Any] | None:
    """/api/v1 and /apis/GROUP/VERSION."""
    found = [entry for resource in registry.of(group_, version_) for entry in _listed(resource)]
    found += [
        {"name": plural, "singularName": kind.lower(), "namespaced": namespaced, "kind": kind, "verbs": ["create"]}
        for g, v, plural, kind, namespaced in _REVIEWS
        if (g, v) == (group_, version_)
    ]
    if not found:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group_}/{version_}" if group_ else version_,
        "resources": found,
    }


def _listed(resource: Resource) -> list[dict[str, Any]]:
    entry: dict[str, Any] = {
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": list(resource.verbs),
    }  # fmt: skip
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    listed = [entry]
    for subresource in sorted(resource.subresources):
        g, v, kind = _SUBRESOURCE_KINDS.get(subresource, ("", "", resource.kind))
        shown: dict[str, Any] = {
            "name": f"{resource.plural}/{subresource}", "singularName": "", "namespaced": resource.namespaced,
            "kind": kind, "verbs": _SUBRESOURCE_VERBS.get(subresource, ["get", "patch", "update"]),
        }  # fmt: skip
        listed.append({**shown, **({"group": g, "version": v} if g or v else {})})
    return listed


def aggregated(registry: Registry, *, core: bool) -> dict[str, Any]:
    """/api or /apis as one APIGroupDiscoveryList with every resource: one request where the old form takes thirty."""
    items = []
    for name, versions in _group_versions(registry).items():
        if (name == "") != core:
            continue
        shown = [
            {"version": v, "freshness": "Current", "resources": _aggregated_resources(registry, name, v)}
            for v in versions
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": shown})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resources(registry: Registry, group_: str, version_: str) -> list[dict[str, Any]]:
    shown: dict[str, dict[str, Any]] = {}
    for entry in (resources(registry, group_, version_) or {"resources": []})["resources"]:
        plural, _, subresource = entry["name"].partition("/")
        kind = {"group": entry.get("group", group_), "version": entry.get("version", version_), "kind": entry["kind"]}
        if subresource:
            child = {"subresource": subresource, "responseKind": kind, "verbs": entry["verbs"]}
            shown[plural].setdefault("subresources", []).append(child)
            continue
        shown[plural] = {
            "resource": plural, "responseKind": kind, "scope": "Namespaced" if entry["namespaced"] else "Cluster",
            "singularResource": entry["singularName"], "verbs": entry["verbs"],
        }  # fmt: skip
        for field in ("shortNames", "categories"):
            if field in entry:
                shown[plural][field] = entry[field]
    return list(shown.values())
