"""A real Kubernetes control plane on loopback, without Docker: etcd, kube-apiserver and what runs beside them.

The binaries come from the folder that `KUBEBUILDER_ASSETS` names, as in the envtest of controller-runtime
(https://book.kubebuilder.io/reference/envtest). RBAC and admission are on; kwok is the
kubelet, and there is no kube-proxy.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from sandbox.apiserver.runner import Running, write_kubeconfig
from sandbox.processes import Child, Processes, ProcessFailedError

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
REQUIRED = ("etcd", "kube-apiserver")
KWOK_ANNOTATION = "kwok.x-k8s.io/node=fake"
"""kwok plays the kubelet of nodes with this annotation."""

COMPONENTS = ("kube-scheduler", "kube-controller-manager", "kwok")
_READY_TIMEOUT_SECONDS = 60.0


class AssetsMissingError(Exception):
    """The binaries of a control plane are not where they should be; the message says how to get them."""


def assets_folder() -> Path:
    """The folder that KUBEBUILDER_ASSETS names. Raises AssetsMissingError when it is unset or lacks a binary."""
    named = os.environ.get(ASSETS_VARIABLE, "")
    if not named:
        raise AssetsMissingError(
            f"{ASSETS_VARIABLE} is not set: it names the folder with {' and '.join(REQUIRED)}; {_HOW}"
        )
    folder = Path(named)
    missing = [name for name in REQUIRED if not os.access(folder / name, os.X_OK)]
    if missing:
        raise AssetsMissingError(f"{ASSETS_VARIABLE}={named} has no executable {' or '.join(missing)}; {_HOW}")
    return folder


_HOW = "`setup-envtest use -p path` (sigs.k8s.io/controller-runtime/tools/setup-envtest) fetches them"


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane runs, where that is not kube-apiserver's and its companions' own default."""

    controllers: tuple[str, ...] = ("*",)
    """Those that kube-controller-manager runs."""
    uncached: tuple[str, ...] = ()
    """Resources that are read from etcd itself, so that `compact` makes watches of them answer 410."""
    audited_users: tuple[str, ...] = ()
    """Users whose requests are written to `audit_log`, with the answer's code and without bodies."""
    client_qps: int = 0
    """Requests a second that kube-scheduler and kube-controller-manager may make; 0: their defaults, 50 and 20."""


class RealControlPlane:
    """The processes of one control plane. The API server can be taken down and brought back on the same port."""

    def __init__(self, assets: Path, state: Path, processes: Processes, options: PlaneOptions | None = None) -> None:
        self._assets, self._state, self._processes = assets, state, processes
        self._options = options or PlaneOptions()
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self.token = secrets.token_hex(16)
        self.kubeconfig = state / "kubeconfig"
        self.apiserver: Child | None = None
        self._components: dict[str, Child] = {}

    @property
    def url(self) -> str:
        """Where clients find the API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def certificate(self) -> Path:
        """The API server's own certificate, which clients trust."""
        return self._state / "certs" / "apiserver.crt"

    @property
    def audit_log(self) -> Path:
        """One JSON document a line, of the kind audit.k8s.io/v1 Event; only with `audited_users`."""
        return self._state / "audit.log"

    def start(self, components: Sequence[str]) -> None:
        """Starts everything and waits until it is ready. Raises ProcessFailedError or AssetsMissingError."""
        missing = [name for name in components if not os.access(self._assets / name, os.X_OK)]
        if missing:
            raise AssetsMissingError(f"{self._assets} has no executable {', '.join(missing)}")
        self._write_secrets()
        self._write_audit_policy()
        self._start_etcd()
        self.start_apiserver()
        write_kubeconfig(self.kubeconfig, self.url, self.token, certificate_authority=str(self.certificate))
        for name in components:
            self._start_component(name)
        wait_until(self._has_default_namespace, "the namespace default exists", _READY_TIMEOUT_SECONDS)

    def _start_component(self, name: str) -> None:
        command = [str(self._assets / name), *self._component_flags(name)]
        self._components[name] = self._processes.start(name, command, python=False, throwaway=True)

    def restart_components(self) -> None:
        """Start kube-scheduler and the others anew. After an outage they ask again only when their back-off ends, which
        grows to a minute; whoever does not test them need not wait for it."""
        for name, child in list(self._components.items()):
            child.stop()
            self._start_component(name)

    def _write_secrets(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        private(self._state / "sa.key").write_bytes(pem)
        private(self._state / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')

    def _write_audit_policy(self) -> None:
        rules = [{"level": "Metadata", "users": list(self._options.audited_users)}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        (self._state / "audit-policy.json").write_text(json.dumps(policy))

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        flags = {
            "data-dir": str(self._state / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
        }
        command = [str(self._assets / "etcd"), *(f"--{name}={value}" for name, value in flags.items())]
        self._processes.start("etcd", command, python=False, throwaway=True)

    def start_apiserver(self) -> None:
        """Starts the API server (again) and waits until it is ready."""
        key = str(self._state / "sa.key")
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self.port),
            "cert-dir": str(self._state / "certs"),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "token-auth-file": str(self._state / "tokens.csv"),
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.0.0.0/16",
            "endpoint-reconciler-type": "none",
        }
        if self._options.uncached:
            flags["watch-cache-sizes"] = ",".join(f"{resource}#0" for resource in self._options.uncached)
        if self._options.audited_users:
            flags["audit-policy-file"] = str(self._state / "audit-policy.json")
            flags["audit-log-path"] = str(self.audit_log)
        command = [str(self._assets / "kube-apiserver"), *(f"--{name}={value}" for name, value in flags.items())]
        child = self.apiserver = self._processes.start("kube-apiserver", command, python=False, throwaway=True)
        wait_until(lambda: self._ready(child), "kube-apiserver is ready", _READY_TIMEOUT_SECONDS)

    def compact(self) -> int:
        """Compacts etcd at its present revision and returns that; uncached resources lose their history."""
        found = self._etcd("/v3/kv/range", {"key": "AA=="})
        revision = int(found["header"]["revision"])
        self._etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def _etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A call of etcd's JSON gateway."""
        url = f"http://127.0.0.1:{self._etcd_port}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310 - http on loopback
            answer: dict[str, Any] = json.load(response)
        return answer

    def stop_apiserver(self) -> None:
        """Takes the API server away; etcd keeps what is stored."""
        if self.apiserver is not None:
            self.apiserver.stop()

    def _component_flags(self, name: str) -> list[str]:
        kubeconfig = f"--kubeconfig={self.kubeconfig}"
        qps = self._options.client_qps
        limits = [f"--kube-api-qps={qps}", f"--kube-api-burst={2 * qps}"] if qps else []
        match name:
            case "kube-scheduler":
                return [kubeconfig, *limits, "--leader-elect=false", "--secure-port=0"]
            case "kube-controller-manager":
                return [
                    kubeconfig,
                    *limits,
                    "--leader-elect=false",
                    "--secure-port=0",
                    "--use-service-account-credentials=false",
                    f"--service-account-private-key-file={self._state / 'sa.key'}",
                    f"--root-ca-file={self.certificate}",
                    "--node-monitor-grace-period=24h",
                    f"--controllers={','.join(self._options.controllers)}",
                ]
            case _:
                return [kubeconfig, f"--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}"]

    def _ready(self, child: Child) -> bool:
        if not child.alive:
            raise ProcessFailedError(f"kube-apiserver ended with code {child.process.returncode}:\n{child.tail()}")
        return self._answers("/readyz")

    def _has_default_namespace(self) -> bool:
        return self._answers("/api/v1/namespaces/default")

    def _answers(self, path: str) -> bool:
        if not self.certificate.exists():
            return False
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.url + path, headers=headers)  # noqa: S310 - https on loopback
        try:
            context = ssl.create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(request, timeout=2, context=context) as response:  # noqa: S310 - https on loopback
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError, ssl.SSLError):
            return False


@contextmanager
def serve(
    *, state: Path, components: Sequence[str] = (), options: PlaneOptions | None = None
) -> Iterator[RealControlPlane]:
    """Runs a control plane until the block ends; what an earlier run left in `state` is thrown away.

    `components` are names out of COMPONENTS. Raises AssetsMissingError, or ProcessFailedError with the tail of a log.
    """
    assets = assets_folder()
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    with Processes(state / "logs") as processes:
        plane = RealControlPlane(assets, state, processes, options)
        plane.start(components)
        yield plane


def running(plane: RealControlPlane) -> Running:
    """The control plane as clients see it, in the same form as the embedded server."""
    return Running(plane.url, plane.token, plane.kubeconfig, plane.certificate)


def free_ports(count: int) -> list[int]:
    """Loopback ports that are free now. All are held until the last is found, so they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for found in sockets:
            found.bind(("127.0.0.1", 0))
        return [int(found.getsockname()[1]) for found in sockets]
    finally:
        for found in sockets:
            found.close()


def private(path: Path) -> Path:
    """An empty file that only its owner can read."""
    path.touch(mode=0o600)
    return path


def wait_until(holds: Callable[[], bool], what: str, timeout_seconds: float) -> None:
    """Asks until it holds. Raises ProcessFailedError when it does not in time."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() > deadline:
            raise ProcessFailedError(f"after {timeout_seconds:.0f} s it is not true that {what}")
        time.sleep(0.05)
