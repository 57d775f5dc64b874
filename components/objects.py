"""Kubernetes documents as Pulumi resources, each under its own type token, whatever its kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

KINDS: dict[str, type[pulumi.CustomResource]] = {
    "ClusterRole": kubernetes.rbac.v1.ClusterRole,
    "ClusterRoleBinding": kubernetes.rbac.v1.ClusterRoleBinding,
    "ConfigMap": kubernetes.core.v1.ConfigMap,
    "CustomResourceDefinition": kubernetes.apiextensions.v1.CustomResourceDefinition,
    "Deployment": kubernetes.apps.v1.Deployment,
    "MutatingWebhookConfiguration": kubernetes.admissionregistration.v1.MutatingWebhookConfiguration,
    "Namespace": kubernetes.core.v1.Namespace,
    "NetworkPolicy": kubernetes.networking.v1.NetworkPolicy,
    "PodDisruptionBudget": kubernetes.policy.v1.PodDisruptionBudget,
    "PriorityClass": kubernetes.scheduling.v1.PriorityClass,
    "Role": kubernetes.rbac.v1.Role,
    "RoleBinding": kubernetes.rbac.v1.RoleBinding,
    "Secret": kubernetes.core.v1.Secret,
    "Service": kubernetes.core.v1.Service,
    "ServiceAccount": kubernetes.core.v1.ServiceAccount,
    "StorageClass": kubernetes.storage.v1.StorageClass,
    "ValidatingAdmissionPolicy": kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy,
    "ValidatingAdmissionPolicyBinding": kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding,
    "ValidatingWebhookConfiguration": kubernetes.admissionregistration.v1.ValidatingWebhookConfiguration,
}
"""Kinds with a class of their own; objects of other kinds are custom resources."""


def declare(name: str, document: Mapping[str, Any], opts: pulumi.ResourceOptions) -> pulumi.CustomResource:
    """The resource of a document. Values inside may be outputs of other resources."""
    api_version, kind = document["apiVersion"], document["kind"]
    if kind not in KINDS:
        custom = kubernetes.apiextensions.CustomResource
        return custom(
            name, api_version=api_version, kind=kind, metadata=document["metadata"], spec=document["spec"], opts=opts
        )
    fields = {_snake(key): value for key, value in document.items() if key not in ("apiVersion", "kind", "status")}
    return KINDS[kind](name, opts=opts, **fields)


def sealed(value: Any, *, secret: bool) -> Any:
    """The value with every leaf as a secret output, if it is under a secret key; else as it is."""
    if not secret:
        return value
    if isinstance(value, Mapping):
        return {name: sealed(member, secret=True) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [sealed(member, secret=True) for member in value]
    return pulumi.Output.secret(value)


def _snake(key: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
