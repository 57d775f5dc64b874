"""The Kubernetes matching rules that the auditor applies, implemented independently of `core.scheduling`.

A mistake in the packer's requirement algebra must not be repeated by its judge. Sources:
the API reference of NodeSelectorTerm, LabelSelector, Toleration; kube-scheduler's nodeaffinity, tainttoleration and
nodeports plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.api.labels import NORMALIZED
from controller.core.api.node import Taint
from controller.core.api.pod import HostPort, LabelSelector, NodeSelectorTerm, PodSpec, SelectorRequirement, Toleration

ANY_ADDRESS = ("0.0.0.0", "::", "")  # noqa: S104 - what the API calls every address; nothing is bound here


def label_of(labels: Mapping[str, str], key: str) -> str | None:
    """Return the value of a node label, by this key or by the key that replaced it."""
    value = labels.get(key)
    return labels.get(NORMALIZED.get(key, key)) if value is None else value


def expression_holds(expression: SelectorRequirement, value: str | None) -> bool:
    """Return whether an expression matches a label's value; None: the label is absent."""
    operator, values = expression.operator, expression.values
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if value is None or len(values) != 1:
        return False
    try:
        have, bound = int(value), int(values[0])
    except ValueError:
        return False
    return have > bound if operator == "Gt" else have < bound


def term_holds(term: NodeSelectorTerm, labels: Mapping[str, str], node_name: str) -> bool:
    """Return whether a node selector term matches; one without any expression matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return False
    return all(expression_holds(e, label_of(labels, e.key)) for e in term.match_expressions) and all(
        e.key == "metadata.name" and expression_holds(e, node_name) for e in term.match_fields
    )


def any_term_holds(terms: Iterable[NodeSelectorTerm], labels: Mapping[str, str], node_name: str) -> bool:
    """Return whether one of the terms matches: they are ORed."""
    return any(term_holds(term, labels, node_name) for term in terms)


def node_accepted(spec: PodSpec, labels: Mapping[str, str], node_name: str) -> bool:
    """Return whether spec.nodeSelector and required node affinity accept the node."""
    if any(label_of(labels, key) != value for key, value in spec.node_selector.items()):
        return False
    terms = spec.required_node_affinity
    return terms is None or any_term_holds(terms, labels, node_name)


def selector_matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches labels of a pod or namespace; None matches nothing, an empty one everything."""
    return selector is not None and all(expression_holds(e, labels.get(e.key)) for e in selector.expressions)


def required_labels(selector: LabelSelector | None) -> tuple[tuple[str, str], ...]:
    """Return (key, value) pairs of which every match of the selector has one; empty without an In expression."""
    for expression in selector.expressions if selector is not None else ():
        if expression.operator == "In":
            return tuple((expression.key, value) for value in dict.fromkeys(expression.values))
    return ()


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.operator in ("Equal", "") and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that is not tolerated."""
    for taint in taints:
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def ports_clash(one: HostPort, two: HostPort) -> bool:
    """Return whether port and protocol are the same, on the same address or on every address."""
    return (
        one.port == two.port
        and one.protocol == two.protocol
        and (one.ip == two.ip or one.ip in ANY_ADDRESS or two.ip in ANY_ADDRESS)
    )
