"""Zonal shifts of the cluster (ARC): zones that its traffic is moved away from, by hand or by AWS (autoshift).

EKS cordons the nodes of such a zone and takes their pods out of EndpointSlices; nodes are ours to launch elsewhere. A
cluster that is not registered with ARC has none. Source: ARC zonal shift API reference, GetManagedResource.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

import structlog

from controller.aws.api.aws_errors import transient, translated
from controller.errors import CloudError
from controller.runtime.clock import Clock

READ_SECONDS: Final = 60.0
ACTION: Final = "arc-zonal-shift:GetManagedResource"
NOT_REGISTERED: Final = "ResourceNotFoundException"


class ZonalShifts:
    """The zones that are being left, as last read. Safe for many threads."""

    def __init__(self, client: Any, clock: Clock, logger: structlog.typing.FilteringBoundLogger) -> None:
        self._arc_zonal_shift = client
        self._clock = clock
        self._log = logger
        self._lock = threading.Lock()
        self._until: Mapping[str, float] = {}
        """By zone, when its shift ends (Unix seconds); infinite: when AWS says so."""
        self._problem = ""

    def zones(self) -> frozenset[str]:
        """Return the ids (`use1-az1`) of the zones that are being left now, without shifts that have expired."""
        now = self._clock.now()
        return frozenset(zone for zone, until in self._until.items() if until > now)

    def read(self, cluster_arn: str) -> str:
        """Read the cluster's shifts; returns why that fails, empty when it does not.

        It raises nothing: without an answer the last one holds, until its shifts expire; where AWS refuses, or does not
        know the cluster, no zone is being left.
        """
        problem = ""
        try:
            with translated(ACTION, cluster_arn):
                answer = self._arc_zonal_shift.get_managed_resource(resourceIdentifier=cluster_arn)
            until = dict(_shifts(answer))
        except CloudError as error:
            until = dict(self._until) if transient(error) else {}
            problem = "" if error.code == NOT_REGISTERED else str(error)
        with self._lock:
            before, self._problem, self._until = self._problem, problem, until
        if problem and not before:
            self._log.warning("Zonal shifts cannot be read", error=problem, setting="aws.zonalShift")
        return problem


def _shifts(answer: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield zone and end of each shift that is in effect: of several at a time ARC applies one."""
    for shift in (*answer.get("zonalShifts", ()), *answer.get("autoshifts", ())):
        if shift.get("appliedStatus") == "APPLIED":
            expires = shift.get("expiryTime")
            yield shift["awayFrom"], expires.timestamp() if expires else math.inf
