"""Leader election on a Lease by client-go's rules: one process leads, the others stand by.

The leader renews every `retry_seconds`. If it fails to for `renew_deadline_seconds`, the process exits, before another
may take over `lease_duration_seconds` after the last renewal. Candidates measure on their own clocks how long a lease
has been unchanged, so that clocks need not agree. Unlike in Karpenter v0.27 the lease is released at exit, and a
process with the leader's identity takes it over at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from controller.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import LEASES
from controller.kube.retry import Backoff
from controller.runtime.clock import Clock
from controller.runtime.workers import Run, Worker, periodic

_log = structlog.get_logger("leader-election")

LEASE_NAME = "karpenter-leader-election"


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """client-go's default durations."""

    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration_seconds > self.renew_deadline_seconds > self.retry_seconds > 0:
            raise ValueError("A lease must last longer than its renew deadline, and that longer than the retry period")


@dataclass(frozen=True, slots=True)
class _Observed:
    """A lease's content, and when it was first seen, on this process's monotonic clock."""

    holder: str
    renewed: str
    at: float


class LeaderElector:
    """One candidate: `acquire`, then `keep`, finally `release`."""

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        identity: str,
        clock: Clock,
        options: LeaseOptions | None = None,
        run: Run = Worker.start,
    ) -> None:
        """`identity` is unique to the process, but the same after a restart in place (the pod's name)."""
        self.identity = identity
        self.options = options or LeaseOptions()
        self.client = client.with_options(
            connect_timeout_seconds=self.options.retry_seconds,
            timeout_seconds=self.options.renew_deadline_seconds / 2,
            backoff=Backoff(attempts=1),
        )
        self._namespace = namespace
        self.clock = clock
        self._observed: _Observed | None = None
        self._held: dict[str, Any] | None = None
        """The lease as this process wrote it last."""
        self._renewed_at = self._renewal_tried_at = 0.0
        self._leading = False
        self.follows_a_crash = False
        """Whether the lease already named this identity when it was taken: the previous process ended without releasing
        it, and the lease did not have to expire first."""
        self._failing = False
        self._on_lost: Callable[[], None] = lambda: None
        self._stop = threading.Event()
        self._lost = threading.Lock()
        self._run = run
        self._workers: tuple[Worker, ...] = ()

    @property
    def leading(self) -> bool:
        """Whether this process may act now: it holds the lease and has renewed it in time."""
        return self._leading and self.clock.monotonic() - self._renewed_at < self.options.renew_deadline_seconds

    def acquire(self, stop: threading.Event) -> bool:
        """Wait until the lease is held (True) or `stop` is set (False). An outage is logged once."""
        waiting_for = ""
        while not stop.is_set():
            if self.renew_once():
                self._leading = True
                _log.info("Leads", lease=LEASE_NAME, identity=self.identity)
                return True
            holder = self._observed.holder if self._observed else ""
            if holder and holder != waiting_for:
                waiting_for = holder
                _log.info("Standing by: another process leads", lease=LEASE_NAME, holder=holder)
            self.clock.wait(stop, self.options.retry_seconds)
        return False

    def keep(self, on_lost: Callable[[], None]) -> None:
        """Renew in the background until `release`. A worker calls `on_lost` once when the lease is lost.

        A second worker watches the deadline, which a renewal that hangs in the network would miss.
        """
        self._on_lost = on_lost
        self._workers = (
            periodic("lease-renewal", self._renew, self.clock, self._stop),
            periodic("lease-deadline", self._watch_deadline, self.clock, self._stop),
        )
        for worker in self._workers:
            self._run(worker)

    def release(self) -> None:
        """Stop renewing and release the lease, so that another process takes over at once."""
        self._stop.set()
        for worker in self._workers:
            worker.join(self.options.renew_deadline_seconds)
        if not self._leading:
            return
        self._leading = False
        try:
            lease = self.client.get(LEASES, LEASE_NAME, self._namespace)
            if lease["spec"].get("holderIdentity") == self.identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
                self.client.update(LEASES, lease, self._namespace)
                _log.info("Released the lease", lease=LEASE_NAME)
        except KubeError as error:
            _log.warning("Lease was not released and will expire", lease=LEASE_NAME, error=str(error))

    def _renew(self) -> float:
        """Renew if the last attempt was a retry period ago; return the seconds until the next."""
        since = self.clock.monotonic() - self._renewal_tried_at
        if since < self.options.retry_seconds:
            return self.options.retry_seconds - since
        renewed = self.renew_once()
        holder = self._observed.holder if self._observed else ""
        if not renewed and holder not in ("", self.identity):
            self._lose("another process holds it")
        return self.options.retry_seconds

    def _watch_deadline(self) -> float:
        """Give up the lease if it was not renewed in time; return the seconds until the next check."""
        left = self._renewed_at + self.options.renew_deadline_seconds - self.clock.monotonic()
        if left <= 0:
            self._lose("it could not be renewed in time")
        return left if left > 0 else self.options.renew_deadline_seconds

    def _lose(self, reason: str) -> None:
        with self._lost:
            if not self._leading or self._stop.is_set():
                return
            self._leading = False
        self._stop.set()
        _log.error("Lost the lead", lease=LEASE_NAME, reason=reason)
        self._on_lost()

    def renew_once(self) -> bool:
        """Take or renew the lease once. False when another process holds it or the API server fails."""
        self._renewal_tried_at = asked_at = self.clock.monotonic()
        try:
            held = self._take()
        except (ConflictError, AlreadyExistsError):
            return False  # another candidate was faster
        except KubeError as error:
            if not self._failing:
                _log.warning("Lease cannot be read or written", lease=LEASE_NAME, error=str(error))
            self._failing = True
            return False
        self._failing = False
        if held:
            self._renewed_at = asked_at
        return held

    def _take(self) -> bool:
        """Write the lease that this process holds, by one request; read it before if another may have written it."""
        if self._held is not None:
            try:
                held = self._held["spec"]
                self._write(self._held, held.get("leaseTransitions") or 0, held.get("acquireTime"))
                return True
            except (ConflictError, NotFoundError):
                self._held = None
        try:
            lease = self.client.get(LEASES, LEASE_NAME, self._namespace)
        except NotFoundError:
            spec = self._spec(transitions=0, acquired=self._now())
            metadata = {"name": LEASE_NAME, "namespace": self._namespace}
            document = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
            self._hold(self.client.create(LEASES, document, self._namespace))
            return True
        self._observe(lease)
        spec = lease.get("spec") or {}
        own = spec.get("holderIdentity") == self.identity
        if not own and not self._expired(spec):
            return False
        self.follows_a_crash |= own and not self._leading
        transitions = int(spec.get("leaseTransitions") or 0) + (0 if own else 1)
        acquired = spec.get("acquireTime") if own else None
        self._write(lease, transitions, acquired)
        return True

    def _write(self, lease: dict[str, Any], transitions: int, acquired: str | None) -> None:
        spec = {**(lease.get("spec") or {}), **self._spec(transitions, acquired or self._now())}
        self._hold(self.client.update(LEASES, {**lease, "spec": spec}, self._namespace))

    def _hold(self, lease: dict[str, Any]) -> None:
        self._held = lease
        self._observe(lease)

    def _observe(self, lease: dict[str, Any]) -> None:
        spec = lease.get("spec") or {}
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        seen = self._observed
        if seen is None or (seen.holder, seen.renewed) != (holder, renewed):
            self._observed = _Observed(holder, renewed, self.clock.monotonic())

    def _expired(self, spec: dict[str, Any]) -> bool:
        """Whether nobody holds the lease, or its holder was not seen to renew it for the lease's own duration."""
        if not spec.get("holderIdentity") or self._observed is None:
            return True
        duration = float(spec.get("leaseDurationSeconds") or self.options.lease_duration_seconds)
        return self.clock.monotonic() - self._observed.at >= duration

    def _spec(self, transitions: int, acquired: str) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self.options.lease_duration_seconds)),
            "acquireTime": acquired,
            "renewTime": self._now(),
            "leaseTransitions": transitions,
        }

    def _now(self) -> str:
        return datetime.fromtimestamp(self.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
