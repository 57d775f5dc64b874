"""Answer an AdmissionReview: default and validate Provisioners and node templates.

The rules are those by which the controller reads these kinds (core.api), so that exactly what would work is accepted.
An update is refused for problems that it introduces: one that the stored object already has becomes a warning. What of
a valid Provisioner is likely a mistake is a warning too (core.provisioner_warnings). An object that is being deleted is
allowed, so that its finalizers can be removed.
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from controller.core.api.document import Document, mapping, text
from controller.core.api.provisioner import Provisioner
from controller.core.api.strict import Report
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.provisioner_warnings import overlap, provisioner_warnings
from controller.core.untrusted_json import UnreadableJsonError, read_object
from controller.errors import NodelessError, Problem

API_VERSION: Final = "admission.k8s.io/v1"
MAX_BODY_BYTES: Final = 7 * 2**20
"""Room for the old and the new object (each at most 3 MiB in the API server) and the rest of the review."""

KINDS: Final = V1ALPHA5.kinds


class UnreadableReviewError(NodelessError):
    """The request's body is not an AdmissionReview of the supported version."""


@dataclass(slots=True)
class Known:
    """What warnings about a Provisioner are made from; what is not known gives no warning.

    instance_types: those that some region sells. provisioners: gives those of the cluster, once they are watched.
    """

    instance_types: Collection[str] = ()
    provisioners: Callable[[], Iterable[Provisioner]] = tuple


def answer(path: str, body: bytes, known: Known) -> bytes | None:
    """Return the AdmissionReview with the response to the one in `body`; None when nothing is served on this path.

    Raises UnreadableReviewError.
    """
    respond = PATHS.get(path)
    if respond is None:
        return None
    try:
        review = read_object(body, MAX_BODY_BYTES)
    except UnreadableJsonError as error:
        raise UnreadableReviewError(f"the body {error}") from error
    request = mapping(review.get("request"))
    if review.get("apiVersion") != API_VERSION or not text(request.get("uid")):
        raise UnreadableReviewError(f"the body is no AdmissionReview of {API_VERSION} with a request")
    response = {"uid": request["uid"], **respond(request, known)}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def default(request: Document, known: Known) -> dict[str, Any]:
    """Return the response that adds the defaults of the request's kind, as a JSON patch.

    Broken rules are refused here too, before the API server checks the schema, whose messages name no remedy.
    """
    verdict = validate(request, known)
    if not verdict["allowed"]:
        return verdict
    obj = mapping(request.get("object"))
    patch = [] if _being_deleted(obj) else KINDS[_kind(request)].default_patch(obj)
    if not patch:
        return {"allowed": True}
    encoded = base64.b64encode(msgspec.json.encode(patch)).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def validate(request: Document, known: Known) -> dict[str, Any]:
    """Return the response that refuses an invalid object with every problem (key path and remedy), or warns."""
    name, obj = _kind(request), mapping(request.get("object"))
    kind = KINDS.get(name)
    if kind is None:
        return _denied(f"there are no rules for a {name or 'nameless kind'} here", 400, "BadRequest")
    if _being_deleted(obj):
        return {"allowed": True}
    problems = kind.validate(obj)
    held = set(kind.validate(mapping(request.get("oldObject")))) if request.get("operation") == "UPDATE" else set()
    if any(problem not in held for problem in problems):
        return _invalid(name, obj, problems)
    warnings = [f"{problem} (this was so before)" for problem in problems]
    if not problems and kind is V1ALPHA5.pool:
        provisioner = V1ALPHA5.pool.read(Report(), obj)
        problems = provisioner_warnings(provisioner, known.instance_types)
        warnings = [str(each) for each in (*problems, *overlap(provisioner, known.provisioners()))]
    return {"allowed": True, **({"warnings": warnings} if warnings else {})}


PATHS: Final[Mapping[str, Callable[[Document, Known], dict[str, Any]]]] = {
    "/default/karpenter.k8s.aws": default,
    "/validate/karpenter.sh": validate,
    "/validate/karpenter.k8s.aws": validate,
}
"""Handlers by path, which the stack's webhook configurations name."""


def _kind(request: Document) -> str:
    return text(mapping(request.get("kind")).get("kind"))


def _being_deleted(obj: Document) -> bool:
    return bool(mapping(obj.get("metadata")).get("deletionTimestamp"))


def _invalid(kind: str, obj: Document, problems: tuple[Problem, ...]) -> dict[str, Any]:
    """Return a 422 in the form of the API server's own validation: kubectl shows one cause per line."""
    meta = mapping(obj.get("metadata"))
    name = text(meta.get("name")) or text(meta.get("generateName"))
    details = {
        "name": name,
        "group": text(obj.get("apiVersion")).partition("/")[0],
        "kind": kind,
        "causes": [
            {"reason": "FieldValueInvalid", "field": p.path, "message": str(replace(p, path=""))} for p in problems
        ],
    }
    lines = [str(problem) for problem in problems]
    listed = lines[0] if len(lines) == 1 else "".join(f"\n  {line}" for line in lines)
    message = f'{kind} "{name}" is invalid: {listed}'
    return _denied(message, 422, "Invalid", details)


def _denied(message: str, code: int, reason: str, details: Mapping[str, Any] | None = None) -> dict[str, Any]:
    status = {"status": "Failure", "code": code, "reason": reason, "message": message}
    return {"allowed": False, "status": {**status, **({"details": details} if details else {})}}
