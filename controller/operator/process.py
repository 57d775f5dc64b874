"""The process: wait for settings, make clients, serve probes and metrics, take the lease, handle signals.

Start-up waits for the API server and AWS, and logs that once. A lost lease ends the process at once, because another
one may lead already (invariant 7). After SIGTERM every loop finishes its current action.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import uuid

import structlog

import controller
from controller.aws.api.clients import make_clients
from controller.aws.catalog.shipped_tables import shipped_type_names
from controller.aws.provider import AWSProvider
from controller.core.cloud import CloudProvider
from controller.errors import CloudUnauthorizedError, KubeError
from controller.kube.client import ClientOptions, KubeClient
from controller.kube.connection import Connection, connect
from controller.kube.lease import LeaderElector
from controller.kube.resources import SERVICES
from controller.operator.composition import Edges, Operator, OperatorTimes
from controller.operator.configuration import Configuration
from controller.operator.options import Options
from controller.operator.startup import (
    device_kinds,
    owner_kinds,
    refuse_old_kubernetes,
    wait_for_answer,
    wait_for_settings,
)
from controller.runtime.clock import Clock, ServerClock
from controller.runtime.memory import collect_seldom, watch_memory
from controller.runtime.metrics import Recorder
from controller.settings import Settings
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.health import Health
from controller.telemetry.open_ports import Serving
from controller.webhook.admission import Known
from controller.webhook.serving import Place, Webhook

LEAST_CONNECTIONS = 64
"""Least size of the pool of connections to the API server: one per watch and loop."""
EXIT_SECONDS = 28.0
"""Time after SIGTERM at which the process exits, even if something still runs."""

_log = structlog.get_logger("operator")


def run(options: Options, *, kubeconfig: str = "", level: str = "info", times: OperatorTimes | None = None) -> int:
    """Run until SIGTERM, SIGINT, or settings that need a restart; return the exit code.

    `level`: the log level where the ConfigMap of log levels has none.

    Raises errors that waiting would not cure: ValidationError for invalid settings, for a port in use and without a
    Kubernetes configuration, and CloudUnauthorizedError without a region.
    """
    collect_seldom()
    serving = Serving(
        metrics_port=options.metrics_port,
        health_probe_port=options.health_probe_port,
        profiling=options.enable_profiling,
        token=options.decisions_token,
    )
    serving.health.ready["caches"] = lambda: "waiting for settings and for AWS"
    serving.start()
    try:
        return _run(options, kubeconfig, level, times or OperatorTimes(), serving)
    finally:
        serving.stop()


def _run(options: Options, kubeconfig: str, level: str, times: OperatorTimes, serving: Serving) -> int:
    clock, stop = ServerClock(), threading.Event()
    limits = ClientOptions(qps=options.kube_client_qps, burst=options.kube_client_burst)
    kube = KubeClient(connection(options, kubeconfig), limits, clock, stop, serving.metrics)
    _stop_on_signals(stop)
    watch_memory(options.memory_limit_bytes, clock, stop)
    ledger = Ledger(clock, serving.metrics)
    serving.pages.routes["/decisions"] = ledger.page
    _log.info("Starts", version=controller.__version__, server=kube.connection.server)
    webhook = serve_webhook(options, kube, clock, times, serving.health)
    configuration = Configuration(
        kube, options, level, clock, stop, times=times.configuration, recorder=serving.metrics
    )
    configuration.start()
    refuse_old_kubernetes(kube, options.kubernetes_min_version, clock, stop)
    settings = wait_for_settings(kube, options.system_namespace, clock, stop)
    if settings is None:
        return 0
    provider = make_provider(settings, kube, clock, stop, serving.metrics)
    wait_for_answer(lambda: check(provider), "AWS", clock, stop)
    if not settings.interruption_queue_name:
        _log.info("Interruptions are not handled: aws.interruptionQueueName is not set")
    edges = Edges(kube, provider, clock, ledger, stop)
    devices = wait_for_answer(lambda: device_kinds(kube), "Kubernetes", clock, stop) or ()
    owners = wait_for_answer(lambda: owner_kinds(kube, settings), "Kubernetes", clock, stop) or ()
    more = (*devices, *owners)
    operator = Operator(settings, edges, namespace=options.system_namespace, times=times, more_kinds=more)
    operator.checks(serving.health)
    serving.metrics.add_part(operator.cluster_series)
    operator.watch()
    if webhook is not None:
        webhook.known.provisioners = operator.provisioners
    configuration.follow(settings, operator.tune, operator.leads, operator.events)
    elector = wait_for_lease(options, kube, clock, stop, times)
    if not stop.is_set():
        operator.start_leading(after_crash=elector is None or elector.follows_a_crash)
        _log.info("Acts", cluster=settings.cluster_name)
        stop.wait()
    _log.info("Stops")
    stopping_since = clock.monotonic()
    ended = operator.close()
    if elector is not None:
        hand_over(elector, "" if ended else "a pass has not ended", operator.unsettled())
    if webhook is not None:
        webhook.close(stopping_since)
    _log.info("Stopped", finished=ended)
    return 0


def connection(options: Options, kubeconfig: str) -> Connection:
    """Connect to the API server, with a pool as large as a burst of requests; see `connect`."""
    return connect(kubeconfig, pool_size=max(LEAST_CONNECTIONS, options.kube_client_burst))


def serve_webhook(
    options: Options, kube: KubeClient, clock: Clock, times: OperatorTimes, health: Health
) -> Webhook | None:
    """Serve admission on every replica, before start-up waits for anything; None where it is disabled.

    A replica is not ready before its webhook answers: once the Deployment is ready, Provisioners can be applied.
    """
    if options.disable_webhook or not options.karpenter_service:
        because = "DISABLE_WEBHOOK is set" if options.disable_webhook else "KARPENTER_SERVICE is not set"
        _log.info("Admission webhooks are not served", because=because)
        return None
    place = Place(options.karpenter_service, options.system_namespace, options.webhook_port)
    webhook = Webhook(kube=kube, place=place, clock=clock, times=times.webhook, known=Known(shipped_type_names()))
    health.ready["webhook"] = webhook.unready
    webhook.start()
    return webhook


def _stop_on_signals(stop: threading.Event) -> None:
    """Set `stop` on SIGTERM and SIGINT, and exit in time even if a call to AWS hangs in its retries."""

    def handle(*_: object) -> None:
        if not stop.is_set():
            stop.set()
            limit = threading.Timer(EXIT_SECONDS, _end_at_once, ["an action does not end"])
            limit.daemon = True
            limit.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def make_provider(
    settings: Settings, kube: KubeClient, clock: Clock, stop: threading.Event, recorder: Recorder
) -> CloudProvider:
    """Make the cloud provider. Raises CloudUnauthorizedError when no region is configured."""
    logger = structlog.get_logger("aws")
    clients = make_clients(version=controller.__version__)
    return AWSProvider(settings, clients, clock, logger, dns_ip=_dns_ip(kube), stop=stop, recorder=recorder)


def check(provider: CloudProvider) -> None:
    """Log which permissions are missing. The process continues, for the existing nodes.

    Raises CloudErrors if AWS does not respond.
    """
    try:
        provider.check_permissions()
    except CloudUnauthorizedError as error:
        _log.error("AWS permissions are missing", error=str(error))


def _dns_ip(kube: KubeClient) -> str:
    """Return the ClusterIP of kube-dns; empty when it is unknown: nodes then use their default."""
    try:
        address = kube.get(SERVICES, "kube-dns", "kube-system").get("spec", {}).get("clusterIP", "")
    except KubeError as error:
        _log.info("ClusterIP of kube-dns is not known; nodes use their own default", because=str(error))
        return ""
    return "" if address == "None" else address


def wait_for_lease(
    options: Options, kube: KubeClient, clock: Clock, stop: threading.Event, times: OperatorTimes
) -> LeaderElector | None:
    """Wait until the lease is held, or `stop` is set; None without leader election."""
    if not options.leader_elect:
        return None
    identity = options.pod_name or f"{socket.gethostname()}_{uuid.uuid4()}"
    elector = LeaderElector(kube, options.system_namespace, identity, clock, options=times.lease)
    if elector.acquire(stop):
        elector.keep(lambda: _end_at_once("the lease is lost: another may act by now"))
    return elector


def hand_over(elector: LeaderElector, *unsettled: str) -> None:
    """Release the lease, unless something is unsettled: then renew it to the end of the process and let it expire.

    A successor that takes a released lease launches at once. One that takes an expired lease has waited for longer
    than EC2 takes to show an instance.
    """
    if because := "; ".join(filter(None, unsettled)):
        _log.warning("Keeps the lease until it expires: launches are not settled", because=because)
    else:
        elector.release()


def _end_at_once(because: str) -> None:
    """Exit without cleaning up: the next process resumes unfinished work."""
    _log.error("Exits at once", because=because)
    os._exit(1)
