"""Measure a CloudProvider: the duration of each call, and which calls failed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import (
    CloudIdentity,
    CloudInstance,
    CloudProvider,
    InstanceType,
    InterruptionQueue,
    LaunchRequest,
    TemplateStatus,
)
from controller.errors import CloudError
from controller.runtime.clock import Clock
from controller.runtime.metrics import CLOUD_DURATION, CLOUD_ERRORS, Recorder

T = TypeVar("T")

PROVIDER: Final = "aws"
_WORKER: Final = re.compile(r"[-_]\d+(_\d+)?$")


class MeasuredCloud:
    """A CloudProvider that delegates to another one and measures the calls to the cloud.

    Label `method` has the names of Karpenter v0.27's metrics decorator; `controller` is the loop or thread pool that
    called. The long poll of the interruption queue and the scheduled `refresh` would only hide the others' durations.
    """

    def __init__(self, cloud: CloudProvider, recorder: Recorder, clock: Clock) -> None:
        self._cloud = cloud
        self._recorder = recorder
        self._clock = clock

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        return self._measured("GetInstanceTypes", lambda: self._cloud.instance_types(provisioner, template))

    def create(self, request: LaunchRequest) -> CloudInstance:
        return self._measured("Create", lambda: self._cloud.create(request))

    def get(self, provider_id: str) -> CloudInstance:
        return self._measured("Get", lambda: self._cloud.get(provider_id))

    def find(self, provider_id: str) -> CloudInstance | None:
        return self._measured("Find", lambda: self._cloud.find(provider_id))

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        return self._measured("Known", lambda: self._cloud.known(provider_ids))

    def identity(self) -> CloudIdentity:
        return self._measured("GetIdentity", self._cloud.identity)

    def list(self) -> tuple[CloudInstance, ...]:
        return self._measured("List", self._cloud.list)

    def delete(self, provider_id: str) -> None:
        self._measured("Delete", lambda: self._cloud.delete(provider_id))

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        return self._measured("GetImageIDs", lambda: self._cloud.image_ids(template))

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        return self._measured("GetTemplateStatus", lambda: self._cloud.template_status(template))

    def check_permissions(self) -> None:
        self._measured("CheckPermissions", self._cloud.check_permissions)

    def zones_left(self) -> frozenset[str]:
        return self._cloud.zones_left()

    def use_pod_subnets(self, by_zone: Mapping[str, str]) -> None:
        self._cloud.use_pod_subnets(by_zone)

    def price_book(self) -> Mapping[str, Any]:
        return self._cloud.price_book()

    def refresh(self) -> None:
        self._cloud.refresh()

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        return self._cloud.advice(provisioner, template)

    @property
    def interruptions(self) -> InterruptionQueue:
        return self._cloud.interruptions

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        self._cloud.spot_interrupted(instance_type, zone)

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        return self._cloud.learn_memory(nodes)

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        self._cloud.restore_memory(learned)

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
