"""Connect to the API server: configuration, credentials and connection pool of the official client.

The `kubernetes` package reads all forms of kubeconfig (including exec plugins such as `aws eks get-token`), the
in-cluster service account with its rotating token, TLS and proxies. Nothing else of it is used: parsing with its models
takes twenty times as long as ours.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from controller.errors import ForbiddenError, Problem, ValidationError

_KEEPALIVE_SECONDS = 30
_KEEPALIVE_PROBES = 3


@dataclass(frozen=True, slots=True)
class Connection:
    """A pool of connections to one API server. `configuration` is the official client's."""

    server: str
    """The URL without a trailing slash."""
    pool: urllib3.PoolManager
    configuration: Any
    _renewing: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)
    """Held while credentials are renewed, so that an exec plugin runs once, not once per thread."""

    def auth_headers(self) -> dict[str, str]:
        """The Authorization header; a token that has expired is renewed.

        Raises ForbiddenError when there are no credentials.
        """
        try:
            with self._renewing:
                settings = self.configuration.auth_settings()
        except Exception as error:  # credential plugins raise anything
            raise ForbiddenError(f"No credentials for the API server at {self.server}: {error}", 401) from error
        bearer = settings.get("BearerToken")
        return {"Authorization": bearer["value"]} if bearer and bearer["value"] else {}


def connect(kubeconfig: str = "", context: str = "", pool_size: int = 32) -> Connection:
    """Connect as kubectl would: `kubeconfig`, else $KUBECONFIG, else our pod's service account, else ~/.kube/config.

    Nothing is sent yet. Raises ValidationError when no configuration is found or it cannot be read.
    """
    from kubernetes import config as kube_config  # slow to import; only a process that connects pays for it
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration()
    configuration.retries = False
    configuration.connection_pool_maxsize = pool_size
    configuration.socket_options = _socket_options()
    path = kubeconfig or os.environ.get("KUBECONFIG", "")
    in_cluster = not path and "KUBERNETES_SERVICE_HOST" in os.environ
    try:
        if in_cluster:
            kube_config.load_incluster_config(configuration)
        else:
            kube_config.load_kube_config(path or None, context or None, configuration, persist_config=False)
    except Exception as error:  # its loaders raise ConfigException, OSError, yaml errors, KeyError
        where = "the pod's service account" if in_cluster else path or str(Path.home() / ".kube" / "config")
        what = str(error) if isinstance(error, (kube_config.ConfigException, OSError)) else "it is no kubeconfig"
        named = ", and --context to one that `kubectl config get-contexts` lists" if context else ""
        remedy = f"set KUBECONFIG to the path of a kubeconfig file{named}"
        problem = Problem(where, f"cannot be used: {what}", remedy)
        raise ValidationError("Connection to the Kubernetes API server", [problem]) from error
    pool = ApiClient(configuration).rest_client.pool_manager
    return Connection(server=str(configuration.host).rstrip("/"), pool=pool, configuration=configuration)


def _socket_options() -> list[tuple[int, int, int]]:
    """TCP keepalive, so that a dead connection is noticed even while it is idle."""
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_SECONDS),
        ("TCP_KEEPINTVL", _KEEPALIVE_SECONDS),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options
