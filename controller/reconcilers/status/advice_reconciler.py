"""Warn about settings that are valid and yet have no effect, once for each version of the objects."""

from __future__ import annotations

import structlog

from controller.cloud.catalogs import template_of
from controller.core.api.provisioner import Provisioner
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ReconcilerContext

PAUSE_SECONDS = 60.0


class AdviceReconciler:
    """Warn about Provisioners whose template can be used; the problems of others are in their conditions."""

    name = "advice"

    def __init__(self, context: ReconcilerContext) -> None:
        self._events, self._cloud = context.events, context.cloud
        self._log = structlog.get_logger(self.name)
        self._told: dict[str, tuple[object, ...]] = {}

    def reconcile(self, snapshot: Snapshot) -> float:
        """Warn about what is new."""
        if not snapshot.synced:
            return 1.0
        self._told = {name: told for name, told in self._told.items() if name in snapshot.provisioners}
        for provisioner in snapshot.provisioners.values():
            self._look(snapshot, provisioner)
        return PAUSE_SECONDS

    def _look(self, snapshot: Snapshot, provisioner: Provisioner) -> None:
        try:
            template = template_of(snapshot, provisioner)
            version = (provisioner.uid, provisioner.generation, template.uid, template.generation)
            if self._told.get(provisioner.name) == version:
                return
            sentences = self._cloud.advice(provisioner, template)
        except (CloudError, ValidationError) as error:
            self._log.debug("No advice on a Provisioner that cannot be used", reason=str(error))
            return
        self._told[provisioner.name] = version
        for sentence in sentences:
            self._log.warning("Setting has no effect", provisioner=provisioner.name, advice=sentence)
            dedupe = (provisioner.uid, str(provisioner.generation), sentence)
            self._events.publish(ObjectRef.of(provisioner), "Warning", "SettingIgnored", sentence, dedupe)
