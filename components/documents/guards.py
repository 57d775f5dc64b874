"""What of others' objects the controller may change, where RBAC would let it change them as a whole.

RBAC knows no fields: who may patch a pod could give it another image, and who may patch a webhook could have every
object of any kind sent elsewhere. ValidatingAdmissionPolicies (Kubernetes 1.30 and later) refuse every other change by
the controller. Evictions and deletions are not updates.
"""

from __future__ import annotations

from typing import Any

from components.documents.labels import NAME, labels
from controller.core.api.labels import COST_ANNOTATION, WRITTEN_ANNOTATION

GUARD_SINCE = (1, 30)
"""The Kubernetes version in which ValidatingAdmissionPolicies became stable."""
POD_GUARD = "karpenter-pods"
WEBHOOK_GUARD = "karpenter-webhook-configurations"

_VERSION = "admissionregistration.k8s.io/v1"
_POD_META_FIELDS = ("finalizers", "generateName", "labels", "ownerReferences")
_WEBHOOK_META_FIELDS = ("annotations", "finalizers", "labels", "ownerReferences")
_HOOK_FIELDS = (
    "admissionReviewVersions", "failurePolicy", "matchConditions", "matchPolicy", "namespaceSelector", "objectSelector",
    "reinvocationPolicy", "rules", "sideEffects", "timeoutSeconds",
)  # fmt: skip


def pod_guard(namespace: str) -> dict[str, dict[str, Any]]:
    """A policy by which the controller may change two annotations of pods, and its binding, each by a unique key."""
    may = f"may change the annotations {COST_ANNOTATION} and {WRITTEN_ANNOTATION} of pods alone"
    return _guard("pod-guard", POD_GUARD, namespace, "", ("pods",), _only_our_annotations(), may)


def webhook_guard(namespace: str) -> dict[str, dict[str, Any]]:
    """A policy by which the controller may change the caBundles of webhooks, and its binding, each by a unique key."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    group, may = "admissionregistration.k8s.io", "may change the caBundle of a webhook alone"
    return _guard("webhook-guard", WEBHOOK_GUARD, namespace, group, kinds, [_only_ca_bundles()], may)


def _guard(
    key: str, name: str, namespace: str, group: str, plurals: tuple[str, ...], unchanged: list[str], may: str
) -> dict[str, dict[str, Any]]:
    """The policy and its binding. `unchanged`: CEL expressions; `may`: what the controller is told that it may do."""
    metadata = {"name": name, "labels": labels()}
    controller = f"system:serviceaccount:{namespace}:{NAME}"
    rule = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": list(plurals),
        "scope": "*",
    }
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": [
            {"name": "by-the-controller", "expression": f"request.userInfo.username == '{controller}'"}
        ],
        "validations": [{"expression": each, "message": f"{controller} {may}"} for each in unchanged],
    }
    binding = {"policyName": name, "validationActions": ["Deny", "Audit"]}
    return {
        key: {"apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec},
        f"{key}-binding": {
            "apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding,
        },
    }  # fmt: skip


def _only_our_annotations() -> list[str]:
    """CEL expressions: spec, metadata and all other annotations are as before."""
    fields = ["object.spec == oldObject.spec"]
    fields += [f"object.metadata.?{name} == oldObject.metadata.?{name}" for name in _POD_META_FIELDS]
    ours = f"['{COST_ANNOTATION}', '{WRITTEN_ANNOTATION}']"
    new, old = "has(object.metadata.annotations)", "has(oldObject.metadata.annotations)"

    def within(one: str, has_one: str, other: str, has_other: str) -> str:
        same = f"{has_other} && k in {other}.metadata.annotations && "
        same += f"{other}.metadata.annotations[k] == {one}.metadata.annotations[k]"
        return f"!{has_one} || {one}.metadata.annotations.all(k, k in {ours} || ({same}))"

    return [
        " && ".join(fields),
        within("object", new, "oldObject", old),
        within("oldObject", old, "object", new),
    ]


def _only_ca_bundles() -> str:
    """A CEL expression: the same webhooks by name; but for caBundle their fields and the metadata are as before."""
    equal = [f"n.?{name} == o.?{name}" for name in _HOOK_FIELDS]
    equal += [f"n.clientConfig.?{name} == o.clientConfig.?{name}" for name in ("service", "url")]
    hooks = f"oldObject.webhooks.all(o, object.webhooks.exists_one(n, n.name == o.name && {' && '.join(equal)}))"
    meta = [f"object.metadata.?{name} == oldObject.metadata.?{name}" for name in _WEBHOOK_META_FIELDS]
    return " && ".join(["size(object.webhooks) == size(oldObject.webhooks)", hooks, *meta])
