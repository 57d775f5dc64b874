"""A small IAM: would these policies let this request pass? (IAM user guide, policy evaluation logic)

Identity policies only, the operators that our policies use, and every other one refused, so that a condition is never
taken for met because it was not understood.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Context = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True)
class Request:
    """One action on one resource, with the condition keys of the request."""

    action: str
    resource: str = "*"
    context: Context = field(default_factory=dict)


def allowed(policies: Sequence[Mapping[str, Any]], request: Request) -> bool:
    """Some statement allows it, and none denies it."""
    statements = [statement for policy in policies for statement in policy["Statement"]]
    effects = {statement["Effect"] for statement in statements if _applies(statement, request)}
    return effects == {"Allow"}


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    action = any(_like(pattern.lower(), request.action.lower()) for pattern in _list(statement["Action"]))
    resource = any(_like(pattern, request.resource) for pattern in _list(statement["Resource"]))
    conditions = statement.get("Condition", {}).items()
    return action and resource and all(_holds(operator, keys, request.context) for operator, keys in conditions)


def _holds(operator: str, keys: Mapping[str, Any], context: Context) -> bool:
    operator, optional = operator.removesuffix("IfExists"), operator.endswith("IfExists")
    compare = {"StringEquals": str.__eq__, "ArnEquals": _like, "ArnLike": _like, "StringLike": _like, "Bool": _same}
    test = compare[operator]
    lowered = {name.lower(): value for name, value in context.items()}
    for name, wanted in keys.items():
        have = lowered.get(name.lower())
        if have is None and optional:
            continue
        if have is None or not any(test(pattern, value) for pattern in _list(wanted) for value in _list(have)):
            return False
    return True


def _like(pattern: str, value: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*").replace(r"\?", "."), value, re.DOTALL) is not None


def _same(pattern: str, value: str) -> bool:
    return pattern.lower() == value.lower()


def _list(value: Any) -> Sequence[Any]:
    return [value] if isinstance(value, str) else value
