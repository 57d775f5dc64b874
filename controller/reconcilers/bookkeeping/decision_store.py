"""Keep the decision ledger in a ConfigMap, so that the next leader still has it."""

from __future__ import annotations

import base64
import binascii

import structlog

from controller.core.state.snapshot import Snapshot
from controller.errors import AlreadyExistsError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS
from controller.runtime.clock import Clock
from controller.telemetry.decision_ledger import Ledger

CONFIG_MAP = "karpenter-decisions"
KEY = "decisions.jsonl.gz"
PAUSE_SECONDS = 30.0
"""Between two writes. A decision that a crash loses is still in the log."""
FIRST_SECONDS = 2.0
"""Until the first write after a time without decisions."""


class DecisionsReconciler:
    """Read the ConfigMap once, then write new decisions."""

    name = "decisions"

    def __init__(self, *, kube: KubeClient, namespace: str, ledger: Ledger, clock: Clock) -> None:
        self._kube = kube
        self._namespace = namespace
        self._ledger = ledger
        self._clock = clock
        self._exists = False
        self._written: int | None = None
        """The ledger's version as last read or written; None: not read yet."""
        self._due_at = clock.monotonic() + FIRST_SECONDS
        self._log = structlog.get_logger(self.name)

    def reconcile(self, _snapshot: Snapshot) -> float:
        """Read the ConfigMap, or write what is new when it is due. Raises KubeError; the next pass tries again."""
        if self._written is None:
            restored = self._ledger.restore(self._read())
            self._written = self._ledger.version
            self._log.debug("Read the decisions on record", known=restored)
        left = self._due_at - self._clock.monotonic()
        if left > 0:
            return left
        version = self._ledger.version
        if version == self._written:
            return FIRST_SECONDS
        self._write(self._ledger.compact())
        self._written = version
        self._due_at = self._clock.monotonic() + PAUSE_SECONDS
        return PAUSE_SECONDS

    def flush(self) -> None:
        """Write what is new at once, before the lease is released. Raises KubeError."""
        if self._written is not None and self._ledger.version != self._written:
            self._due_at = self._clock.monotonic()
            self.reconcile(Snapshot())

    def _read(self) -> bytes:
        try:
            data = self._kube.get(CONFIG_MAPS, CONFIG_MAP, self._namespace).get("binaryData") or {}
        except NotFoundError:
            return b""
        self._exists = True
        try:
            return base64.b64decode(str(data.get(KEY, "")), validate=True)
        except binascii.Error:
            return b""

    def _write(self, packed: bytes) -> None:
        data = {KEY: base64.b64encode(packed).decode()}
        if not self._exists and self._created(data):
            return
        try:
            self._kube.patch(CONFIG_MAPS, CONFIG_MAP, {"binaryData": data}, namespace=self._namespace)
        except NotFoundError:
            self._exists = False  # somebody deleted it: the next pass creates it again
            raise

    def _created(self, data: dict[str, str]) -> bool:
        metadata = {"name": CONFIG_MAP, "namespace": self._namespace}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": data}
        try:
            self._kube.create(CONFIG_MAPS, document, self._namespace)
        except AlreadyExistsError:
            self._log.debug("ConfigMap of decisions exists", name=CONFIG_MAP)
            self._exists = True
            return False
        self._exists = True
        return True
