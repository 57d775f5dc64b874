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
