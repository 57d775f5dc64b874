"""What the webhook answers: defaults as a patch, every broken rule at once, and no wall for what was wrong before."""

from __future__ import annotations

import base64
import json
from typing import Any

import jsonpatch
import pytest

from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.v1alpha5.provisioner_defaults import default_provisioner
from controller.webhook.admission import PATHS, Known, UnreadableReviewError, answer

DEFAULT, VALIDATE, VALIDATE_TEMPLATE = (
    "/default/karpenter.k8s.aws",
    "/validate/karpenter.sh",
    "/validate/karpenter.k8s.aws",
)
REF = {"providerRef": {"name": "default"}}
SPOT = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}


def provisioner(spec: Any, **metadata: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default", **metadata}}
    return head if spec is None else {**head, "spec": spec}


def template(**spec: Any) -> dict[str, Any]:
    head = {"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "default"}}
    return {**head, "spec": spec}


def ask(
    path: str, obj: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "", known: Known | None = None
) -> dict[str, Any]:
    """The response to one request."""
    request = {
        "uid": "u-1",
        "kind": {"kind": kind or obj["kind"]},
        "operation": "UPDATE" if old else "CREATE",
        "object": obj,
        "oldObject": old,
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    said = answer(path, body.encode(), known or Known())
    assert said is not None
    review = json.loads(said)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = review["response"]
    assert response.pop("uid") == "u-1"
    return response


@pytest.mark.parametrize(
    "spec",
    [
        REF,
        {**REF, "requirements": []},
        {**REF, "requirements": None},
        {**REF, "requirements": [SPOT]},
        {**REF, "labels": {"kubernetes.io/arch": "arm64"}},
    ],
)
def test_the_patch_makes_what_reading_would_make(spec: dict[str, Any]) -> None:
    obj = provisioner(spec)
    response = ask(DEFAULT, obj)
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    patched = jsonpatch.JsonPatch(json.loads(base64.b64decode(response["patch"]))).apply(obj)
    assert patched == default_provisioner(obj)
    assert V1ALPHA5.pool.parse(patched).requirements == V1ALPHA5.pool.parse(obj).requirements
    assert ask(DEFAULT, patched) == {"allowed": True}, "nothing is added twice"


def test_a_template_has_no_defaults() -> None:
    selector = {"karpenter.sh/discovery": "c"}
    assert ask(DEFAULT, template(subnetSelector=selector, securityGroupSelector=selector)) == {"allowed": True}


@pytest.mark.parametrize("path", [DEFAULT, VALIDATE])
def test_every_broken_rule_is_told_at_once_with_its_path_and_remedy(path: str) -> None:
    bad = provisioner({"requirements": [{**SPOT, "operator": "Is"}], "weight": 0, "ttlSecondsAfterEmpty": -1})
    response = ask(path, bad)
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["message"].startswith('Provisioner "default" is invalid: \n  spec.')
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert set(fields) == {
        "spec.providerRef",
        "spec.requirements[0].operator",
        "spec.weight",
        "spec.ttlSecondsAfterEmpty",
    }
    assert all(f"\n  {field}: " in status["message"] for field in fields)
    assert "providerRef: {name: default}" in status["message"], "the remedy"
    assert (status["details"]["kind"], status["details"]["group"]) == ("Provisioner", "karpenter.sh")


def test_one_broken_rule_is_one_line() -> None:
    message = ask(VALIDATE_TEMPLATE, template(subnetSelector={"a": "b"}))["status"]["message"]
    assert message == (
        'AWSNodeTemplate "default" is invalid: spec.securityGroupSelector: is missing; '
        "select security groups by tag or by aws-ids"
    )


@pytest.mark.parametrize("spec", ["text", [], 5, {"requirements": "text", **REF}, {"requirements": [None], **REF}])
@pytest.mark.parametrize("path", [DEFAULT, VALIDATE])
def test_fields_of_the_wrong_type_are_refused_and_harm_nobody(path: str, spec: Any) -> None:
    response = ask(path, provisioner(spec))
    assert response["allowed"] is False
    assert response["status"]["details"]["causes"]


def test_an_update_is_not_refused_for_what_was_wrong_before() -> None:
    """An object from before the webhook was there can be mended step by step; what is left comes as a warning."""
    old = provisioner({**REF, "weight": 0, "ttlSecondsUntilExpired": -1})
    better = provisioner({**REF, "weight": 0})
    response = ask(VALIDATE, better, old)
    assert response["allowed"] is True
    (warning,) = response["warnings"]
    assert warning.startswith("spec.weight: ")
    assert ask(DEFAULT, better, old)["allowed"] is True


def test_likely_mistakes_are_warned_of_where_the_object_is_validated() -> None:
    """Whole texts: tests/core/test_provisioner_warnings.py."""
    odd = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.larg"]}
    warnings = [
        "spec.requirements[0].values[1]: no region is known to sell m5.larg; did you mean 'm5.large'?",
        "spec.limits: is missing; set spec.limits.resources.cpu, to bound what a mistake in a Deployment can buy",
    ]
    obj = provisioner({**REF, "requirements": [odd]})
    assert ask(VALIDATE, obj, known=Known(("m5.large",))) == {"allowed": True, "warnings": warnings}
    assert ask(VALIDATE, obj) == {"allowed": True, "warnings": warnings[1:]}, "no table of types"
    assert "warnings" not in ask(DEFAULT, obj, known=Known(("m5.large",))), "told once a request"
    assert ask(VALIDATE, provisioner({**REF, "limits": {"resources": {"cpu": 9}}})) == {"allowed": True}


def test_provisioners_that_take_the_same_pods_are_warned_of_when_one_is_written() -> None:
    """Which overlap: tests/core/test_provisioner_warnings.py."""
    limited = {**REF, "limits": {"resources": {"cpu": 9}}}
    there = [V1ALPHA5.pool.parse({**provisioner(limited), "metadata": {"name": name}}) for name in ("default", "web")]
    known = Known(provisioners=lambda: there)
    (warning,) = ask(VALIDATE, provisioner(limited), known=known)["warnings"]
    assert warning.startswith("spec.weight: the same as of web, "), "of the other one alone"
    assert ask(VALIDATE, provisioner({**limited, "weight": 9}), known=known) == {"allowed": True}


def test_an_update_is_refused_for_what_it_breaks_and_all_is_told() -> None:
    old = provisioner({**REF, "weight": 0})
    response = ask(VALIDATE, provisioner({**REF, "weight": 0, "ttlSecondsUntilExpired": -1}), old)
    assert response["allowed"] is False
    assert len(response["status"]["details"]["causes"]) == 2


@pytest.mark.parametrize("path", [DEFAULT, VALIDATE])
def test_what_is_being_deleted_passes_as_it_is(path: str) -> None:
    """Or its finalizers could not be taken off."""
    dying = provisioner({"weight": 0}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert ask(path, dying, provisioner({**REF})) == {"allowed": True}


def test_a_kind_without_rules_is_refused() -> None:
    assert ask(VALIDATE, provisioner(REF), kind="Pod")["status"]["code"] == 400


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"apiVersion": "admission.k8s.io/v1beta1", "request": {"uid": "u"}}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": {}}',
        b'{"apiVersion": "admission.k8s.io/v1", "request": "text"}',
    ],
)
def test_what_is_no_review_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(UnreadableReviewError, match="the body is no"):
        answer(VALIDATE, body, Known())


def test_other_paths_are_not_served() -> None:
    assert set(PATHS) == {DEFAULT, VALIDATE, VALIDATE_TEMPLATE}
    assert answer("/", b"{}", Known()) is None
