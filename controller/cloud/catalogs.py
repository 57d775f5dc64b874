"""The instance types of every usable Provisioner, and why others have none; one failure never stops the others."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controller.core.api.frozen import EMPTY
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, InstanceType, TypeSource
from controller.core.provisioning.offerings.option_table import TableCache
from controller.core.provisioning.offerings.usable import unusable
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, NodeTemplateError, ValidationError
from controller.runtime.executors import INLINE, Executor

CATALOG_WORKERS = 8


@dataclass(frozen=True, slots=True)
class CatalogView:
    """Instance types by Provisioner, and by Provisioner why it may not launch.

    A Provisioner whose requirements no type meets is in both: the nodes that it made before still have a type.
    """

    types: Catalog = field(default_factory=lambda: EMPTY)
    problems: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    tables: TableCache = field(default_factory=TableCache, compare=False, repr=False)
    """`types` compiled for the solver: computed when the first solve asks, and again when `types` change."""

    def briefly(self) -> Mapping[str, str]:
        """Return the first problem of each Provisioner, short enough for a pod's event, and where to read the rest."""
        return {name: _brief(name, problem) for name, problem in self.problems.items()}


def _brief(name: str, problem: str) -> str:
    first, *more = problem.split(" | ")
    return f"{first} (and {len(more)} more: kubectl describe provisioner {name})" if more else first


def template_of(snapshot: Snapshot, provisioner: Provisioner) -> AWSNodeTemplate:
    """Return the node template that the Provisioner refers to, or the one that its deprecated spec.provider stands for.

    Raises NodeTemplateError when it does not exist, is invalid or is being deleted.
    """
    if provisioner.inline_template is not None:
        return provisioner.inline_template
    name = provisioner.provider_ref
    if name is None:
        raise NodeTemplateError(f"Provisioner {provisioner.name} names no AWSNodeTemplate; set spec.providerRef.name")
    invalid = snapshot.invalid.get(("AWSNodeTemplate", name))
    if invalid is not None:
        raise NodeTemplateError(f"AWSNodeTemplate {name} is invalid: {invalid.error}")
    template = snapshot.node_templates.get(name)
    if template is None:
        raise NodeTemplateError(
            f"Provisioner {provisioner.name}: AWSNodeTemplate {name} does not exist; "
            "create it or correct spec.providerRef.name"
        )
    if template.deleted_at is not None:
        raise NodeTemplateError(f"AWSNodeTemplate {name} is being deleted; it launches nothing any more")
    return template


class Catalogs:
    """Ask the cloud for the instance types of Provisioners, concurrently. The provider caches them, not this class."""

    def __init__(self, cloud: TypeSource, executor: Executor = INLINE) -> None:
        self._cloud = cloud
        self._executor = executor
        self._tables = TableCache()
        self._verdicts: dict[str, tuple[Provisioner, tuple[InstanceType, ...], str]] = {}
        """By Provisioner: what the verdict was computed from, and the verdict (empty: usable)."""

    def view(self, snapshot: Snapshot, names: Collection[str] | None = None) -> CatalogView:
        """Return the catalogs of these Provisioners (None: of all that are not being deleted), by name."""
        chosen = [
            provisioner
            for name, provisioner in sorted(snapshot.provisioners.items())
            if provisioner.deleted_at is None and (names is None or name in names)
        ]
        answers = self._executor.map(lambda provisioner: self._types(snapshot, provisioner), chosen)
        types: dict[str, tuple[InstanceType, ...]] = {}
        problems: dict[str, str] = {}
        for provisioner, answer in zip(chosen, answers, strict=True):
            if isinstance(answer, str):
                problems[provisioner.name] = answer
                continue
            types[provisioner.name] = answer
            if verdict := self._unusable(provisioner, answer):
                problems[provisioner.name] = verdict
        return CatalogView(types, problems, self._tables)

    def _types(self, snapshot: Snapshot, provisioner: Provisioner) -> tuple[InstanceType, ...] | str:
        try:
            types = self._cloud.instance_types(provisioner, template_of(snapshot, provisioner))
        except (CloudError, ValidationError) as error:
            return str(error)
        if not types:
            return f"no instance type is on offer for Provisioner {provisioner.name} in the zones of its subnets"
        return types

    def _unusable(self, provisioner: Provisioner, types: tuple[InstanceType, ...]) -> str:
        """Return why the Provisioner can launch nothing; recomputed only when its requirements or its types change."""
        known = self._verdicts.get(provisioner.name)
        if known is not None and known[1] is types and known[0].requirements == provisioner.requirements:
            return known[2]
        verdict = unusable(provisioner, types)
        self._verdicts[provisioner.name] = (provisioner, types, verdict)
        return verdict
