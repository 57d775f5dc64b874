"""Reviews: virtual resources that answer a question. The sandbox has one user, who may do everything."""

from __future__ import annotations

from typing import Any

_PATHS = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": "access",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": "access",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": "self",
    "/apis/authentication.k8s.io/v1/tokenreviews": "token",
}
USER = {"username": "sandbox-admin", "groups": ["system:masters", "system:authenticated"]}


def review_kind(path: str) -> str:
    """What a POST on this path asks, or ""."""
    if path.endswith("/localsubjectaccessreviews"):
        return "access"
    return _PATHS.get(path, "")


def review(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """The question with its answer in `status`."""
    if kind == "access":
        return {**body, "status": {"allowed": True, "reason": "the sandbox has no authorization"}}
    if kind == "self":
        return {**body, "status": {"userInfo": USER}}
    return {**body, "status": {"authenticated": True, "user": USER}}
