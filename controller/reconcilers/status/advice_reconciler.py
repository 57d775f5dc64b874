"""Warn about settings that are valid but have no effect, once per version of the objects."""

from __future__ import annotations

from controller.cloud.catalogs import template_of
from controller.core.api.provisioner import Provisioner
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.kube.events import ObjectRef
from controller.reconcilers.context import ContextReconciler, ReconcilerContext

PAUSE_SECONDS = 60.0


class AdviceReconciler(ContextReconciler):
    """Warn about Provisioners with a usable template; the problems of others are in their conditions."""

    name = "advice"

    def __init__(self, context: ReconcilerContext) -> None:
        super().__init__(context)
        self._advised: dict[str, tuple[object, ...]] = {}
        """By Provisioner: uid and generation of it and of its template, when it was checked last."""

    def _pass(self, snapshot: Snapshot) -> float:
        """Warn about Provisioners and templates that changed."""
        self._advised = {name: version for name, version in self._advised.items() if name in snapshot.provisioners}
        for provisioner in snapshot.provisioners.values():
            self._advise(snapshot, provisioner)
        return PAUSE_SECONDS

    def _advise(self, snapshot: Snapshot, provisioner: Provisioner) -> None:
        try:
            template = template_of(snapshot, provisioner)
            version = (provisioner.uid, provisioner.generation, template.uid, template.generation)
            if self._advised.get(provisioner.name) == version:
                return
            sentences = self._cloud.advice(provisioner, template)
        except (CloudError, ValidationError) as error:
            self._log.debug("No advice on a Provisioner that cannot be used", reason=str(error))
            return
        self._advised[provisioner.name] = version
        for sentence in sentences:
            self._log.warning("Setting has no effect", provisioner=provisioner.name, advice=sentence)
            dedupe = (provisioner.uid, str(provisioner.generation), sentence)
            self._events.publish(ObjectRef.of(provisioner), "Warning", "SettingIgnored", sentence, dedupe)
