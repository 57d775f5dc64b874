"""Run one replica's admission webhook: its server, and the renewal of the certificate that all replicas share.

Every replica does the same, leader or not, so that none depends on another to become ready. Any of them issues a new
certificate when it is missing or due; a conflict on the Secret decides between two that do so at once. All write the
Secret's authorities, old and new, into the webhook configurations. A replica serves a new certificate one look after
every configuration trusts it, and the previous one until then, so that an API server that reads the change late trusts
it too.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Final

import structlog

from controller.errors import ConflictError, KubeError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import SECRETS
from controller.runtime.clock import Clock
from controller.runtime.workers import periodic
from controller.webhook.admission import Known
from controller.webhook.ca_bundle import write_trust
from controller.webhook.certificates import ServingCertificate, from_secret, issue, server_names, to_secret, why_renew
from controller.webhook.https_server import AdmissionServer

LAST_CALLS_SECONDS: Final = 5.0
"""After SIGTERM the API server may call until it learns that this pod is no longer an endpoint; as in v0.27."""

_log = structlog.get_logger("webhook")


@dataclass(frozen=True, slots=True)
class WebhookTimes:
    """`first_look_seconds` between looks until it is ready, `look_seconds` from then on."""

    first_look_seconds: float = 0.5
    look_seconds: float = 30.0
    last_calls_seconds: float = LAST_CALLS_SECONDS


@dataclass(frozen=True, slots=True)
class Place:
    """The Service that the API server calls, and the port that the server listens on (0: a free one)."""

    service: str
    namespace: str
    port: int

    @property
    def secret(self) -> str:
        """The certificate's Secret, beside the Service; named as in Karpenter v0.27."""
        return f"{self.service}-cert"


class Webhook:
    """Start it, ask `unready`, and close it last."""

    def __init__(
        self,
        *,
        kube: KubeClient,
        place: Place,
        clock: Clock,
        times: WebhookTimes | None = None,
        known: Known | None = None,
    ) -> None:
        self._kube = kube
        self._place = place
        self._names = server_names(place.service, place.namespace)
        self._clock = clock
        self._times = times or WebhookTimes()
        self.known = known or Known()
        self._server = AdmissionServer(place.port, self.known)
        self._stop = threading.Event()
        self._served: ServingCertificate | None = None
        self._next: ServingCertificate | None = None
        """The certificate to serve after the next look."""
        self._logged = ""
        self._worker = periodic("webhook", self._step, clock, self._stop)

    def unready(self) -> str:
        """Return why the webhook must not be called yet; empty once it serves a trusted certificate."""
        return "" if self._served else self._logged or "there is no certificate yet"

    @property
    def port(self) -> int:
        """The port that the server listens on; 0 before it does."""
        return self._server.port

    def start(self) -> None:
        """Start looking at the Secret; serve once there is a trusted certificate."""
        self._worker.start()

    def close(self, stopping_since: float) -> None:
        """Close the server `last_calls_seconds` after `stopping_since` (monotonic seconds)."""
        self._stop.set()
        self._worker.join()
        self._server.drain()
        if self._served:
            left = stopping_since + self._times.last_calls_seconds - self._clock.monotonic()
            self._clock.wait(threading.Event(), max(0.0, left))
        self._server.close()

    def _step(self) -> float:
        """Look, and log what fails; return the seconds until the next look."""
        try:
            self.look()
        except (KubeError, OSError, ValueError) as error:
            self._log_failure(f"{type(error).__name__}: {error}")
        except Exception:  # noqa: BLE001 - serving continues; the trace is logged
            _log.exception("Check of the webhook certificate failed; trying again")
        else:
            self._logged = ""
        return self._times.look_seconds if self._served else self._times.first_look_seconds

    def look(self) -> None:
        """Take the next step: renew the certificate, have it trusted, serve it.

        Raises KubeError, OSError when the port is taken, ValueError when the certificate cannot be used.
        """
        document = self._secret()
        held = from_secret(document.get("data"))
        if reason := why_renew(held, self._names, self._clock.now()):
            held = self._renew(document, held, reason)
        if held is None:
            return
        if written := write_trust(self._kube, held.authorities):
            _log.info("Webhook certificate is trusted", configurations=written)
        if held != self._served and (self._served is None or held == self._next):
            self._server.use(held)
            self._served = held
            _log.info("Serves admission", port=self._server.port, until=held.ends_at.isoformat())
        self._next = held

    def _secret(self) -> dict[str, Any]:
        try:
            return self._kube.get(SECRETS, self._place.secret, self._place.namespace)
        except NotFoundError as error:
            where = f"{self._place.namespace}/{self._place.secret}"
            remedy = "deploy the stack again, or set DISABLE_WEBHOOK"
            raise NotFoundError(f"there is no Secret {where} for the webhook's certificate: {remedy}", 404) from error

    def _renew(
        self, document: dict[str, Any], held: ServingCertificate | None, reason: str
    ) -> ServingCertificate | None:
        """Issue and store a certificate; None when another replica was first: the next look reads that one."""
        made = issue(self._names, self._clock.now(), held)
        patch = {"metadata": {"resourceVersion": document["metadata"]["resourceVersion"]}, "data": to_secret(made)}
        try:
            self._kube.patch(SECRETS, self._place.secret, patch, namespace=self._place.namespace)
        except ConflictError:
            return None
        _log.info("Webhook certificate issued", because=reason, until=made.ends_at.isoformat())
        return made

    def _log_failure(self, text: str) -> None:
        if text != self._logged:
            _log.warning("Webhook certificate cannot be used; trying again", secret=self._place.secret, error=text)
        self._logged = text
