"""Small objects for the contract tests."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Obj:
    """A ConfigMap."""
    metadata: Obj = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def pod(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    """A pod with one container."""
    container = {"name": "main", "image": "pause:3.9"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {"app": name}},
        "spec": {"containers": [container], **spec},
    }  # fmt: skip


def pod_template(name: str) -> Obj:
    """A PodTemplate: stored and watched, and no controller looks at it."""
    return {"metadata": {"name": name}, "template": {"spec": pod(name)["spec"]}}


def deployment(name: str, replicas: int = 1) -> Obj:
    """A Deployment of one container."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "pause:3.9", "env": [{"name": "A", "value": "1"}]}]},
            },
        },
    }  # fmt: skip


def widget_crd(group: str) -> Obj:
    """A CRD with what ours use: structural schema, defaults, enums, int-or-string, status, scale, printer columns."""
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 100},
            "color": {"type": "string", "enum": ["red", "green"], "default": "green"},
            "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            "replicas": {"type": "integer", "format": "int32"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "selector": {"type": "object", "additionalProperties": {"type": "string"}},
            "nested": {"type": "object", "properties": {"depth": {"type": "integer", "default": 3}}},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
            "keyed": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
                "items": {
                    "type": "object", "required": ["key"],
                    "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
                },
            },
            "maybe": {"type": "string", "nullable": True},
        },
    }  # fmt: skip
    status = {
        "type": "object",
        "properties": {"ready": {"type": "boolean"}, "replicas": {"type": "integer"}, "selector": {"type": "string"}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "plural": "widgets", "singular": "widget", "kind": "Widget",
                "shortNames": ["wd"], "categories": ["toys"],
            },
            "versions": [
                {
                    "name": "v1", "served": True, "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                    ],
                }
            ],
        },
    }  # fmt: skip
