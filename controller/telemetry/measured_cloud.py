"""Measure a CloudProvider: the duration of each call, and which calls failed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from controller.core.cloud import CloudProvider
from controller.errors import CloudError
from controller.runtime.clock import Clock
from controller.runtime.metrics import CLOUD_DURATION, CLOUD_ERRORS, Recorder

PROVIDER: Final = "aws"
METHODS: Final = {
    "instance_types": "GetInstanceTypes",
    "create": "Create",
    "get": "Get",
    "find": "Find",
    "known": "Known",
    "identity": "GetIdentity",
    "list": "List",
    "delete": "Delete",
    "image_ids": "GetImageIDs",
    "template_status": "GetTemplateStatus",
    "check_permissions": "CheckPermissions",
}
"""Methods that are measured → their label `method`, as in Karpenter v0.27's metrics decorator. Others ask the cloud
nothing, or would only hide the others' durations: the long poll of the interruption queue, the scheduled `refresh`."""
_WORKER: Final = re.compile(r"[-_]\d+(_\d+)?$")


def measured_cloud(cloud: CloudProvider, recorder: Recorder, clock: Clock) -> CloudProvider:
    """Return a CloudProvider that delegates to `cloud` and measures METHODS; label `controller` is the caller's thread
    (a loop, or a thread pool without the number of its worker)."""
    return cast("CloudProvider", _MeasuredCloud(cloud, recorder, clock))


class _MeasuredCloud:
    def __init__(self, cloud: CloudProvider, recorder: Recorder, clock: Clock) -> None:
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._cloud, name)
        return partial(self._measured, METHODS[name], member) if name in METHODS else member

    def _measured(self, method: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        caller = _WORKER.sub("", threading.current_thread().name)
        began = self._clock.monotonic()
        try:
            return call(*args, **options)
        except CloudError as error:
            self._recorder.count(CLOUD_ERRORS, caller, method, type(error).__name__)
            raise
        finally:
            self._recorder.observe(CLOUD_DURATION, self._clock.monotonic() - began, caller, method, PROVIDER)
