"""The exceptions that the controller raises on purpose, in one tree.

    NodelessError
    ├── ValidationError                 a user's object or setting breaks rules; carries every problem at once
    ├── CloudError                      the cloud refused or failed
    │   ├── InsufficientCapacityError   no offering of the request has capacity; try others
    │   ├── InstanceNotFoundError       the instance is terminated, or never existed
    │   ├── NodeTemplateError           a template cannot be resolved: no subnet, no group, no AMI, no template
    │   ├── CloudUnauthorizedError      a permission or credential is missing; retrying alone will not help
    │   └── CloudThrottledError         rate limited after the client's own retries; try again later
    ├── StoppingError                   the process stops: nothing new is begun
    └── KubeError                       the Kubernetes API refused or failed
        ├── NotFoundError               404
        ├── ConflictError               409: a stale resourceVersion
        │   └── NodeNameTakenError      the Node of another instance has the name of a new one's
        ├── AlreadyExistsError          409: the name is taken
        ├── InvalidObjectError          400 or 422
        ├── ForbiddenError              401 or 403: a missing verb in the role
        │   └── NamespaceTerminatingError   403: nothing can be created in a namespace that is being deleted
        ├── TooManyRequestsError        429; carries Retry-After
        ├── GoneError                   410: the resourceVersion was compacted
        ├── UnavailableError            no answer, a cut connection, or 5xx
        └── RemovalRefusedError         not sent: the process has not proven that it looks at its own cluster

Edges translate the exceptions of their libraries into these, with the cause chained. The core raises ValidationError
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class NodelessError(Exception):
    """The root of all expected errors."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: where (`path`, such as `spec.requirements[0].values`), what is wrong, and what to do."""

    path: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class ValidationError(NodelessError):
    """An object breaks one or more rules. `problems` has all of them, in the order of the object's fields."""

    def __init__(self, subject: str, problems: Sequence[Problem]) -> None:
        self.subject = subject
        self.problems = tuple(problems)
        super().__init__(f"{subject}: " + " | ".join(str(problem) for problem in self.problems))


class SearchInterruptedError(NodelessError):
    """A search for removals gave way to provisioning."""


class StoppingError(NodelessError):
    """The process stops, and what was asked for did not begin."""


class CloudError(NodelessError):
    """The cloud refused or failed; `code` is the API's own error code, or empty."""

    def __init__(self, message: str, code: str = "") -> None:
        self.code = code
        super().__init__(message)


class InsufficientCapacityError(CloudError):
    """No offering of the request has capacity."""


class InstanceNotFoundError(CloudError):
    """The instance does not exist, or is terminated."""


class NodeTemplateError(CloudError):
    """A node template cannot be turned into launch parameters."""


class CloudUnauthorizedError(CloudError):
    """The controller's role lacks a permission, or its credentials are not valid."""


class CloudThrottledError(CloudError):
    """The API kept throttling after the client's own retries."""


class KubeError(NodelessError):
    """The Kubernetes API refused or failed; `status` is the HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, status: int = 0, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        super().__init__(message)


class NotFoundError(KubeError):
    """404."""


class ConflictError(KubeError):
    """409: the object was changed since it was read."""


class NodeNameTakenError(ConflictError):
    """The Node of another instance has the name that a launched instance's Node must have."""


class AlreadyExistsError(KubeError):
    """409: an object of that name exists."""


class InvalidObjectError(KubeError):
    """400 or 422: the API server rejects the object."""


class ForbiddenError(KubeError):
    """401 or 403."""


class NamespaceTerminatingError(ForbiddenError):
    """403 because the namespace is being deleted with everything in it; no permission is missing."""


class TooManyRequestsError(KubeError):
    """429: for an eviction, a PodDisruptionBudget forbids it; otherwise the server is busy."""

    def __init__(self, message: str, status: int = 429, reason: str = "", retry_after_seconds: float = 0.0) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message, status, reason)


class GoneError(KubeError):
    """410: the resourceVersion is too old; list again."""


class UnavailableError(KubeError):
    """No answer, a cut connection or a 5xx."""


class RemovalRefusedError(KubeError):
    """Nothing was sent: it is not proven that the process looks at its own cluster, or the object is not of it."""
