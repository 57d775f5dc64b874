"""A cloud provider that measures another one: how long each method took, and what failed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import CloudInstance, CloudProvider, InstanceType, LaunchRequest
from controller.errors import CloudError
from controller.runtime.clock import Clock
from controller.runtime.metrics import CLOUD_DURATION, CLOUD_ERRORS, Recorder

T = TypeVar("T")

PROVIDER: Final = "aws"
_WORKER: Final = re.compile(r"[-_]\d+(_\d+)?$")


class MeasuredCloud:
    """Implements CloudProvider. Methods have the peer's names; `controller` is the loop or pool that called."""

    def __init__(self, cloud: CloudProvider, recorder: Recorder, clock: Clock) -> None:
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        """See CloudProvider."""
        return self._measured("GetInstanceTypes", lambda: self._cloud.instance_types(provisioner, template))

    def create(self, request: LaunchRequest) -> CloudInstance:
        """See CloudProvider."""
        return self._measured("Create", lambda: self._cloud.create(request))

    def get(self, provider_id: str) -> CloudInstance:
        """See CloudProvider."""
        return self._measured("Get", lambda: self._cloud.get(provider_id))

    def list(self) -> tuple[CloudInstance, ...]:
        """See CloudProvider."""
        return self._measured("List", self._cloud.list)

    def delete(self, provider_id: str) -> None:
        """See CloudProvider."""
        self._measured("Delete", lambda: self._cloud.delete(provider_id))

    def _measured(self, method: str, call: Callable[[], T]) -> T:
        caller = _WORKER.sub("", threading.current_thread().name)
        began = self._clock.monotonic()
        try:
            return call()
        except CloudError as error:
            self._recorder.count(CLOUD_ERRORS, caller, method, type(error).__name__)
            raise
        finally:
            self._recorder.observe(CLOUD_DURATION, self._clock.monotonic() - began, caller, method, PROVIDER)
