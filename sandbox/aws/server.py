"""Starts a sandbox AWS on loopback, in a thread of this process, and hands out a handle on it."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from moto.iam.models import SERVICE_NAME_CONVERSION
from moto.moto_api._internal import mock_random
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from sandbox.aws.calls import CallLog
from sandbox.aws.clock import Now
from sandbox.aws.control import view
from sandbox.aws.eks import KubernetesEndpoint
from sandbox.aws.faults import Faults
from sandbox.aws.gateway import Gateway
from sandbox.aws.seed import Seed, seed_account
from sandbox.aws.world import AwsSettings, World

CREDENTIALS = {
    "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
}
"""AWS's documentation credentials; any others work as well."""

_accounts = itertools.count(123_456_789_012)
SERVICE_NAME_CONVERSION["spot"] = "EC2Spot"  # moto would call the role AWSServiceRoleForspot


class _QuietHandler(WSGIRequestHandler):
    """Writes errors to stderr, but not every call: those are in the call log. The Date header is the gateway's."""

    def send_response(self, code: int, message: str | None = None) -> None:
        self.send_response_only(code, message)

    def connection_dropped(self, *_args: Any) -> None:
        """A fault of the scenario, or a caller that went away: the connection ends."""
        self.close_connection = True

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@cache
def _client(service: str, endpoint: str, region: str) -> Any:
    return boto3.client(  # type: ignore[call-overload]
        service, endpoint_url=endpoint, region_name=region, **CREDENTIALS
    )


@dataclass(frozen=True, slots=True)
class Aws:
    """A running sandbox. `seeded` is None when it was started empty."""

    endpoint: str
    settings: AwsSettings
    account: str
    world: World
    calls: CallLog
    seeded: Seed | None

    @property
    def faults(self) -> Faults:
        """The scenario's rules."""
        return self.world.faults

    def client(self, service: str, region: str | None = None) -> Any:
        """A boto3 client against this sandbox, the same for all who ask."""
        return _client(service, self.endpoint, region or self.settings.region)

    def environment(self) -> dict[str, str]:
        """Environment variables that point any AWS SDK here."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": self.settings.region,
            "AWS_DEFAULT_REGION": self.settings.region,
            "AWS_ACCESS_KEY_ID": CREDENTIALS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["aws_secret_access_key"],
        }

    def instances(self) -> list[dict[str, Any]]:
        """All instances that are not forgotten, as GET /sandbox/instances shows them."""
        return [view(self.world, instance) for instance in self.world.instances.all()]

    def set_kubernetes_endpoint(self, url: str, certificate_authority_data: str = "") -> None:
        """DescribeCluster of the seeded cluster names this Kubernetes API from now on."""
        self.world.clusters.set_endpoint(self.settings.cluster, KubernetesEndpoint(url, certificate_authority_data))


@contextmanager
def serve(
    settings: AwsSettings | None = None,
    *,
    port: int = 0,
    now: Now = time.time,
    seed: bool = True,
    installed: bool = True,
) -> Iterator[Aws]:
    """A sandbox AWS on 127.0.0.1 for as long as the context lasts. Each has an account of its own.

    `port` 0 takes a free one; `now` is the clock of delays and prices; `seed` fills the account (seed.py), and
    without `installed` with the network and the cluster alone.
    """
    settings = settings or AwsSettings()
    account = str(next(_accounts))
    world = World(settings, account, now)
    mock_random.seed(settings.seed)
    calls = CallLog()
    gateway = Gateway(world, DomainDispatcherApplication(create_backend_app), calls)
    server: BaseWSGIServer = make_server("127.0.0.1", port, gateway, threaded=True, request_handler=_QuietHandler)
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="sandbox-aws", daemon=True
    )
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        made = None
        if seed:
            made = seed_account(
                endpoint,
                region=settings.region,
                cluster=settings.cluster,
                version=settings.kubernetes_version,
                credentials=CREDENTIALS,
                installed=installed,
            )
            calls.clear()
        yield Aws(endpoint, settings, account, world, calls, made)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
