"""Translate the API server's error answers into KubeErrors.

An answer's body is a Status: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller import errors
from controller.core.untrusted_json import UnreadableJsonError, read_object
from controller.errors import KubeError, UnavailableError

_MAX_PLAIN_TEXT = 300

_BY_STATUS: Mapping[int, type[KubeError]] = {
    400: errors.InvalidObjectError,
    401: errors.ForbiddenError,
    403: errors.ForbiddenError,
    404: errors.NotFoundError,
    410: errors.GoneError,
    413: errors.InvalidObjectError,
    415: errors.InvalidObjectError,
    422: errors.InvalidObjectError,
}


class NotSentError(UnavailableError):
    """No connection was made: the server has seen nothing of the request, so any verb may be repeated."""


class SilentStreamError(UnavailableError):
    """A watch sent nothing, not even a bookmark, for longer than its read timeout."""


def error_of(status: int, body: bytes, what: str, retry_after: str = "") -> KubeError:
    """The error for an HTTP status and body. `what` names the call and its object."""
    try:
        document = read_object(body)
    except UnreadableJsonError:
        document = {"message": body[:_MAX_PLAIN_TEXT].decode("utf-8", "replace").strip()}
    return error_of_status({**document, "code": status}, what, retry_after)


def error_of_status(document: Mapping[str, Any], what: str, retry_after: str = "") -> KubeError:
    """The error for a Status object, such as a watch sends in an ERROR event."""
    code = document.get("code")
    status = code if isinstance(code, int) else 0
    reason = str(document.get("reason") or "")
    text = f"{what}: {_message(document)} (HTTP {status})"
    if status == 409:
        kind = errors.AlreadyExistsError if reason == "AlreadyExists" else errors.ConflictError
        return kind(text, status, reason)
    if status == 429:
        return errors.TooManyRequestsError(text, status, reason, _seconds(retry_after, document))
    if reason == "Expired":
        return errors.GoneError(text, status, reason)
    if status == 403 and "NamespaceTerminating" in _causes(document, "reason"):
        return errors.NamespaceTerminatingError(text, status, reason)
    if status >= 500 or status == 408:
        return UnavailableError(text, status, reason)
    return _BY_STATUS.get(status, KubeError)(text, status, reason)


def _message(document: Mapping[str, Any]) -> str:
    """The message, with the causes that it does not tell: of a refused eviction they name the PodDisruptionBudget."""
    message = str(document.get("message") or document.get("reason") or "no message")
    untold = [text for text in _causes(document, "message") if text and text not in message]
    return " ".join([message, *untold])


def _causes(document: Mapping[str, Any], key: str) -> list[str]:
    """One field of each of Status.details.causes."""
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return [str(cause.get(key) or "") for cause in causes or () if isinstance(cause, Mapping)]


def _seconds(retry_after: str, document: Mapping[str, Any]) -> float:
    """Retry-After in seconds: the header, or Status.details.retryAfterSeconds; 0 without either."""
    if retry_after.strip().isdecimal():
        return float(retry_after)
    details = document.get("details")
    seconds = details.get("retryAfterSeconds") if isinstance(details, Mapping) else None
    return float(seconds) if isinstance(seconds, int | float) else 0.0
