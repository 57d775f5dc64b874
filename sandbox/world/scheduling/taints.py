"""Taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint; `effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    value: str
    effect: str

    @classmethod
    def parse_all(cls, node: Mapping[str, Any]) -> tuple[Taint, ...]:
        """The taints of a Node's JSON."""
        found = (node.get("spec") or {}).get("taints") or ()
        return tuple(cls(taint["key"], taint.get("value") or "", taint["effect"]) for taint in found)


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; empty key with Exists tolerates all, empty effect means every effect."""

    key: str
    operator: str
    value: str
    effect: str
    seconds: int | None = None

    @classmethod
    def parse_all(cls, spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
        """The tolerations of a pod spec's JSON."""
        return tuple(
            cls(
                toleration.get("key") or "",
                toleration.get("operator") or "Equal",
                toleration.get("value") or "",
                toleration.get("effect") or "",
                toleration.get("tolerationSeconds"),
            )
            for toleration in spec.get("tolerations") or ()
        )

    def tolerates(self, taint: Taint) -> bool:
        """Kubernetes' rule (v1.Toleration.ToleratesTaint)."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return bool(self.key) and self.operator == "Equal" and self.value == taint.value


def first_untolerated(
    taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: tuple[str, ...] = ("NoSchedule", "NoExecute")
) -> Taint | None:
    """The first taint with one of `effects` that nothing tolerates."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not any(toleration.tolerates(taint) for toleration in tolerations):
            return taint
    return None
