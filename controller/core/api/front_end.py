"""The interface of one generation of Karpenter's API to the rest of the program.

All other code knows one model of a pool (`core.api.provisioner`) and of a node template (`core.api.nodetemplate`). How
a generation spells them (group, version, kinds, field paths, defaults, rules, conditions) is known to its folder alone,
which offers a single `FrontEnd`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from controller.core.api.document import Document
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.api.strict import Report
from controller.errors import Problem, ValidationError

Model = TypeVar("Model", Provisioner, AWSNodeTemplate)


@dataclass(frozen=True, slots=True)
class ApiKind(Generic[Model]):
    """One kind: its names in the API, and how its documents are read and defaulted."""

    group: str
    version: str
    plural: str
    name: str
    """The kind, such as Provisioner."""
    read: Callable[[Report, Document], Model]
    """Read a document with its defaults; every broken rule goes to the report."""
    default_patch: Callable[[Document], list[dict[str, Any]]] = lambda _: []
    """JSON patch (RFC 6902) that adds the defaults which admission writes into the object."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    def parse(self, document: Document) -> Model:
        """Return the model of a document, with its defaults. Raises ValidationError with every broken rule."""
        report = Report()
        model = self.read(report, document)
        if report.problems:
            raise ValidationError(f"{self.name} {model.name}".rstrip(), report.problems)
        return model

    def validate(self, document: Document) -> tuple[Problem, ...]:
        """Return every broken rule; none for a valid document."""
        report = Report()
        self.read(report, document)
        return report.problems


@dataclass(frozen=True, slots=True)
class AnnotationKeys:
    """Keys of the annotations that steer removals."""

    disruption_budgets: str
    """Of a pool: JSON, see core.api.disruption."""
    do_not_evict: str
    """Of a pod: "true" keeps its node from being removed voluntarily."""
    do_not_consolidate: str
    """Of a node: "true" keeps consolidation away."""
    emptiness_timestamp: str
    """Of a node: the RFC 3339 time since which it has no pods."""
    voluntary_disruption: str
    """Of a node: `expired` or `drifted`; users ask by it for a replacement now."""
    consolidation_threshold: str
    """Of a pool: the least score of a consolidation; 0: any saving is enough, as in Karpenter v0.27."""
    grace_period: str
    """Of a pool: how long its nodes may drain, such as 2h; without it the setting `terminationGracePeriod` holds."""
    rebalance_recommendation: str
    """Of a pool: `replace` replaces a node, replacement first; anything else ignores the recommendation."""


@dataclass(frozen=True, slots=True)
class FrontEnd:
    pool: ApiKind[Provisioner]
    node_template: ApiKind[AWSNodeTemplate]
    template_name: Callable[[Document], str]
    """The node template that a pool's document names; empty for none."""
    conditions: Callable[[Sequence[Mapping[str, Any]], str, float], list[dict[str, Any]] | None]
    """(status.conditions, why the object cannot be used or "", Unix seconds) → the conditions to write; None: as is."""
    keys: AnnotationKeys

    @property
    def kinds(self) -> dict[str, ApiKind[Any]]:
        """Both kinds by name, node templates first: pools refer to them."""
        return {self.node_template.name: self.node_template, self.pool.name: self.pool}
