"""The admission webhooks: what the controller is asked about, and the Secret of the certificate that it answers with.

Names are Karpenter v0.27's. The caBundle and the Secret's content are the controller's: it makes the certificate,
renews it, and has the API server trust it. They fail closed, for our two kinds alone: without a controller no
Provisioner is written, and every other object is. Where we differ: nobody asks about `/status`.
"""

from __future__ import annotations

from typing import Any

from components.documents.labels import NAME, labels
from controller.core.api.front_end import ApiKind
from controller.core.api.v1alpha5 import V1ALPHA5

SERVICE_PORT = 443
"""Where the API server looks for a webhook's Service if nothing else is said."""
SECRET = f"{NAME}-cert"

DEFAULTING = "defaulting.webhook.karpenter.k8s.aws"
VALIDATION_AWS = "validation.webhook.karpenter.k8s.aws"
VALIDATION = "validation.webhook.karpenter.sh"
MUTATING = (DEFAULTING,)
VALIDATING = (VALIDATION_AWS, VALIDATION)
GUARD = "karpenter-webhook-configurations"
GUARD_SINCE = (1, 30)
"""The Kubernetes version in which ValidatingAdmissionPolicies became stable."""

_HOOK_FIELDS = (
    "admissionReviewVersions", "failurePolicy", "matchConditions", "matchPolicy", "namespaceSelector", "objectSelector",
    "reinvocationPolicy", "rules", "sideEffects", "timeoutSeconds",
)  # fmt: skip
_META_FIELDS = ("annotations", "finalizers", "labels", "ownerReferences")


def webhook_secret(namespace: str) -> dict[str, Any]:
    """Empty: whoever deploys the stack never sees the key."""
    metadata = {"name": SECRET, "namespace": namespace, "labels": labels()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}


def webhook_configurations(namespace: str) -> dict[str, dict[str, Any]]:
    """By a key that is unique among them."""
    return {
        "defaulting-webhook": _configuration(
            "MutatingWebhookConfiguration",
            namespace,
            DEFAULTING,
            "/default/karpenter.k8s.aws",
            (V1ALPHA5.pool, V1ALPHA5.node_template),
            # Another webhook's change may take away what a default stands for.
            reinvocationPolicy="IfNeeded",
        ),
        "validation-webhook-aws": _configuration(
            "ValidatingWebhookConfiguration",
            namespace,
            VALIDATION_AWS,
            "/validate/karpenter.k8s.aws",
            (V1ALPHA5.node_template,),
        ),
        "validation-webhook": _configuration(
            "ValidatingWebhookConfiguration", namespace, VALIDATION, "/validate/karpenter.sh", (V1ALPHA5.pool,)
        ),
    }


def _configuration(
    kind: str, namespace: str, name: str, path: str, kinds: tuple[ApiKind[Any], ...], **more: str
) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": [each.group],
            "apiVersions": [each.version],
            "operations": ["CREATE", "UPDATE"],
            "resources": [each.plural],
            "scope": "Cluster",
        }
        for each in kinds
    ]
    hook = {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": namespace, "name": NAME, "port": SERVICE_PORT, "path": path}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "rules": rules,
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": labels()},
        "webhooks": [hook],
    }


def webhook_guard(namespace: str) -> dict[str, dict[str, Any]]:
    """A policy by which the controller may change the caBundles of its webhooks, and nothing else of them.

    RBAC knows no fields: who may patch a webhook could have every object of any kind sent elsewhere.
    """
    metadata = {"name": GUARD, "labels": labels()}
    controller = f"system:serviceaccount:{namespace}:{NAME}"
    rule = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "scope": "*",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": [
            {"name": "by-the-controller", "expression": f"request.userInfo.username == '{controller}'"}
        ],
        "validations": [
            {"expression": _only_ca_bundles(), "message": f"{controller} may change the caBundle of a webhook alone"},
        ],
    }
    binding = {"policyName": GUARD, "validationActions": ["Deny", "Audit"]}
    version = "admissionregistration.k8s.io/v1"
    return {
        "webhook-guard": {
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec,
        },
        "webhook-guard-binding": {
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding,
        },
    }  # fmt: skip


def _only_ca_bundles() -> str:
    """A CEL expression: the same webhooks by name; but for caBundle their fields and the metadata are as before."""
    equal = [f"n.?{name} == o.?{name}" for name in _HOOK_FIELDS]
    equal += [f"n.clientConfig.?{name} == o.clientConfig.?{name}" for name in ("service", "url")]
    hooks = f"oldObject.webhooks.all(o, object.webhooks.exists_one(n, n.name == o.name && {' && '.join(equal)}))"
    meta = [f"object.metadata.?{name} == oldObject.metadata.?{name}" for name in _META_FIELDS]
    return " && ".join(["size(object.webhooks) == size(oldObject.webhooks)", hooks, *meta])
