"""Label selectors over pods and namespaces (metav1.LabelSelector), by kube-scheduler's rules."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.api.pod import LabelSelector, SelectorRequirement


def matches_expression(expression: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy one expression. An operator that selectors don't have matches nothing."""
    value = labels.get(expression.key)
    if expression.operator == "In":
        return value is not None and value in expression.values
    if expression.operator == "NotIn":
        return value is None or value not in expression.values
    if expression.operator == "Exists":
        return value is not None
    if expression.operator == "DoesNotExist":
        return value is None
    return False


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy the selector: None matches nothing, an empty selector everything."""
    return selector is not None and all(matches_expression(e, labels) for e in selector.expressions)


def invalid(selector: LabelSelector | None) -> str:
    """Return why a selector is not valid (the API server refuses such pods; matches nothing), or empty."""
    for expression in selector.expressions if selector else ():
        needs = expression.operator in ("In", "NotIn")
        if expression.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            return f"{expression.key}: operator {expression.operator!r} is not one of In, NotIn, Exists, DoesNotExist"
        if needs != bool(expression.values):
            return f"{expression.key} {expression.operator}: values must {'not be empty' if needs else 'be empty'}"
    return ""
