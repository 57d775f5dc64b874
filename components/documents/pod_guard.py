"""What of pods the controller may change: two annotations.

RBAC knows no fields: who may patch a pod could give it another image. A ValidatingAdmissionPolicy (Kubernetes 1.30 and
later, see webhook.GUARD_SINCE) refuses every other change by the controller. Evictions and deletions are not updates.
"""

from __future__ import annotations

from typing import Any

from components.documents.labels import NAME, labels
from controller.core.api.labels import COST_ANNOTATION, WRITTEN_ANNOTATION

POD_GUARD = "karpenter-pods"
_META_FIELDS = ("finalizers", "generateName", "labels", "ownerReferences")


def pod_guard(namespace: str) -> dict[str, dict[str, Any]]:
    """The policy and its binding, by a key that is unique among them."""
    metadata = {"name": POD_GUARD, "labels": labels()}
    controller = f"system:serviceaccount:{namespace}:{NAME}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["pods"],
        "scope": "*",
    }
    message = f"{controller} may change the annotations {COST_ANNOTATION} and {WRITTEN_ANNOTATION} of pods alone"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": [rule]},
        "matchConditions": [
            {"name": "by-the-controller", "expression": f"request.userInfo.username == '{controller}'"}
        ],
        "validations": [{"expression": each, "message": message} for each in _unchanged()],
    }
    binding = {"policyName": POD_GUARD, "validationActions": ["Deny", "Audit"]}
    version = "admissionregistration.k8s.io/v1"
    return {
        "pod-guard": {
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata, "spec": spec,
        },
        "pod-guard-binding": {
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata, "spec": binding,
        },
    }  # fmt: skip


def _unchanged() -> list[str]:
    """CEL expressions: spec, metadata and all other annotations are as before."""
    fields = ["object.spec == oldObject.spec"]
    fields += [f"object.metadata.?{name} == oldObject.metadata.?{name}" for name in _META_FIELDS]
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
