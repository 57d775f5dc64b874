"""The stack's ValidatingAdmissionPolicy on pods: the controller changes its two annotations alone.

Both servers store it; the real one evaluates it, and is what proves it.
"""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from components.documents.guards import pod_guard
from controller.core.deprovisioning.scale_in.deletion_costs import COST_ANNOTATION, WRITTEN_ANNOTATION
from tests.contract.client import Client, eventually

ROOT = "/apis/admissionregistration.k8s.io/v1"
CONTROLLER = "system:serviceaccount:karpenter:karpenter"


def test_of_a_pod_the_controller_changes_its_two_annotations_and_nothing_else(client: Client) -> None:
    plurals = {"pod-guard": "validatingadmissionpolicies", "pod-guard-binding": "validatingadmissionpolicybindings"}
    made = []
    for key, document in pod_guard("karpenter").items():
        client.post(f"{ROOT}/{plurals[key]}", document).ok()
        made.append(f"{ROOT}/{plurals[key]}/{document['metadata']['name']}")
    try:
        assert client.get(made[1]).ok()["spec"]["policyName"] == "karpenter-pods"
        if client.kind != "real":
            pytest.skip("the embedded server stores such policies and does not evaluate them")
        name = f"guarded-{secrets.token_hex(3)}"
        spec = {"containers": [{"name": "c", "image": "i"}]}
        pods = "/api/v1/namespaces/default/pods"
        client.post(pods, {"metadata": {"name": name, "annotations": {"team": "a"}}, "spec": spec}).ok()

        def changed(body: dict[str, Any], user: str = CONTROLLER) -> int:
            return client.patch(f"{pods}/{name}", body, as_user=user).code

        # The API server reads new policies from a watch.
        eventually(lambda: changed({"metadata": {"labels": {"x": secrets.token_hex(2)}}}) == 422)
        ours = {COST_ANNOTATION: "-5", WRITTEN_ANNOTATION: "-5"}
        assert changed({"metadata": {"annotations": ours}}) == 200
        assert changed({"metadata": {"annotations": {**ours, "team": "b"}}}) == 422
        assert changed({"metadata": {"annotations": {"team": None}}}) == 422
        assert changed({"metadata": {"annotations": {"more": "1"}}}) == 422
        assert changed({"spec": {"containers": [{"name": "c", "image": "other"}]}}) == 422
        assert changed({"metadata": {"finalizers": ["a.example/b"]}}) == 422
        assert changed({"metadata": {"annotations": dict.fromkeys(ours)}}) == 200
        assert changed({"metadata": {"labels": {"x": "y"}}}, user="somebody") == 200
    finally:
        for path in made:
            client.delete(path).ok()
