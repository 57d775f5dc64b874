"""The EBS CSI driver's attacher: what the attach-detach controller wants attached is attached at once.

kube-controller-manager has that controller. It waits for an attachment before it takes it back, and a node that goes
waits until it has: without an answer, for minutes.
"""

from __future__ import annotations

from sandbox.world.client import ApiClient, ApiError
from sandbox.world.clock import WorldClock
from sandbox.world.informer import Informers
from sandbox.world.machines.ebs import DRIVER
from sandbox.world.resources import VOLUME_ATTACHMENTS, Key, Obj, key_of
from sandbox.world.workqueue import Workqueue


class Attacher:
    """Keys are VolumeAttachments."""

    def __init__(self, client: ApiClient, informers: Informers, clock: WorldClock) -> None:
        self._client = client
        self._queue: Workqueue[Key] = Workqueue("attacher", clock)
        self._attachments = informers.of(VOLUME_ATTACHMENTS)
        self._attachments.add_handler(self._on_change)

    def _on_change(self, _: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    async def run(self) -> None:
        """Attach for ever."""
        await self._queue.run(self._sync, concurrency=4)

    async def _sync(self, key: Key) -> None:
        found = self._attachments.get(key)
        if found is None or found["spec"]["attacher"] != DRIVER or (found.get("status") or {}).get("attached"):
            return
        try:
            self._attachments.absorb(
                await self._client.patch(VOLUME_ATTACHMENTS, key, {"status": {"attached": True}}, subresource="status")
            )
        except ApiError as error:
            if not error.not_found:
                raise
