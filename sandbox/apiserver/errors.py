"""Refusals of the API server, each with the `metav1.Status` that a client sees.

Codes, reasons and wording follow k8s.io/apimachinery/pkg/api/errors, because clients (kubectl, client-go, our own
controller) branch on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `status.details.causes`: what is wrong (`reason`, a field error type) and where (`field`)."""

    reason: str
    message: str
    field: str = ""

    def body(self) -> dict[str, Any]:
        """The cause as JSON."""
        body = {"reason": self.reason, "message": self.message}
        return {**body, "field": self.field} if self.field else body


class APIError(Exception):
    """A request that is refused: HTTP `code`, machine-readable `reason`, message and details."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self.retry_after_seconds = retry_after

    def status(self) -> dict[str, Any]:
        """The `metav1.Status` body of this refusal."""
        body: dict[str, Any] = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        }  # fmt: skip
        if self.reason:
            body["reason"] = self.reason
        details = dict(self.details)
        if self.retry_after_seconds is not None:
            details["retryAfterSeconds"] = self.retry_after_seconds
        if details:
            body["details"] = details
        body["code"] = self.code
        return body


def _about(group: str, plural: str, name: str) -> dict[str, Any]:
    pairs = (("name", name), ("group", group), ("kind", plural))
    return {key: value for key, value in pairs if value}


def qualified(group: str, plural: str) -> str:
    """A resource as messages spell it: `pods`, `deployments.apps`."""
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> APIError:
    """404: no object of that name."""
    return APIError(
        404, "NotFound", f'{qualified(group, plural)} "{name}" not found', details=_about(group, plural, name)
    )


def no_such_path() -> APIError:
    """404: the path names no resource."""
    return APIError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> APIError:
    """409 on create: the name is taken."""
    message = f'{qualified(group, plural)} "{name}" already exists'
    return APIError(409, "AlreadyExists", message, details=_about(group, plural, name))


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(group: str, plural: str, name: str, why: str = STALE) -> APIError:
    """409: a stale resourceVersion, or a precondition (uid, resourceVersion) that does not hold."""
    message = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return APIError(409, "Conflict", message, details=_about(group, plural, name))


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> APIError:
    """422: the object breaks rules; every broken rule is a cause."""
    texts = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = {**_about(group, kind, name), "causes": [cause.body() for cause in causes]}
    return APIError(422, "Invalid", f'{qualified(group, kind)} "{name}" is invalid: {text}', details=details)


def bad_request(message: str) -> APIError:
    """400: the request cannot be understood."""
    return APIError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> APIError:
    """403: admission refuses the request."""
    message = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    return APIError(403, "Forbidden", message, details=_about(group, plural, name))


def unauthorized() -> APIError:
    """401: no bearer token, or not ours."""
    return APIError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> APIError:
    """410: the resourceVersion (or continue token) is older than the history that is kept."""
    return APIError(410, "Expired", message)


def too_many_requests(message: str, *, causes: Sequence[Cause] = (), retry_after: int | None = None) -> APIError:
    """429: try again later (an eviction that a PodDisruptionBudget holds back, or throttling)."""
    details = {"causes": [cause.body() for cause in causes]} if causes else {}
    return APIError(429, "TooManyRequests", message, details=details, retry_after=retry_after)


def method_not_allowed() -> APIError:
    """405: the resource does not know the verb."""
    return APIError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(sent: str, accepted: Sequence[str]) -> APIError:
    """415: a body that we do not decode (protobuf, CBOR)."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return APIError(415, "UnsupportedMediaType", message if sent else f"{message} (no Content-Type was sent)")


def internal(message: str) -> APIError:
    """500: we failed."""
    return APIError(
        500, "InternalError", f"Internal error occurred: {message}", details={"causes": [{"message": message}]}
    )
