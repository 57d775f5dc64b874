"""The cluster under test: kubectl for what a user would do, plain HTTP requests for what is polled."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from e2e.audit import AuditLog
from e2e.replicas import Replicas
from sandbox import realkube
from sandbox.environment import NAMESPACE, Environment
from sandbox.world.resources import EVENTS, LEASES, NODES, PODS, Obj, Resource
from tests.contract.client import Client

T = TypeVar("T")

LEASE = "karpenter-leader-election"
PROVISIONER_NAME = "karpenter.sh/provisioner-name"
PROVISIONERS = Resource("karpenter.sh/v1alpha5", "provisioners", "Provisioner", namespaced=False)
TEMPLATES = Resource("karpenter.k8s.aws/v1alpha1", "awsnodetemplates", "AWSNodeTemplate", namespaced=False)
PATIENCE_SECONDS = 90.0
"""The deadline for changes that take a few seconds on an idle machine."""


class KubectlError(Exception):
    """kubectl failed; the message is its standard error."""


class Cluster:
    """One control plane with the stack in it and two replicas of the controller."""

    def __init__(self, environment: Environment, plane: realkube.RealControlPlane, replicas: Replicas) -> None:
        self.environment, self.plane, self.replicas = environment, plane, replicas
        self.http = Client(realkube.running(plane), "real", lambda: None)
        self.audit = AuditLog(plane.audit_log)
        self._kubectl = str(Path(os.environ[realkube.ASSETS_VARIABLE]) / "kubectl")

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its output. Raises KubectlError."""
        command = [self._kubectl, "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise KubectlError(done.stderr.strip())
        return done.stdout

    def apply(self, *documents: Obj) -> None:
        """Apply documents by `kubectl apply -f -`. Raises KubectlError."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self.kubectl("apply", "-f", "-", stdin=text)

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj | None:
        """Return an object, None if it does not exist."""
        reply = self.http.get(resource.path(namespace, name))
        return None if reply.code == 404 else reply.ok()

    def has_left(self, node: Obj) -> bool:
        """Return whether this very node is gone; another may have its name, as EC2 gives free addresses again."""
        there = self.get(NODES, node["metadata"]["name"])
        return there is None or there["metadata"]["uid"] != node["metadata"]["uid"]

    def all(self, resource: Resource, namespace: str = "", **query: str) -> list[Obj]:
        """List the objects of a kind, in one namespace or in all."""
        items: list[Obj] = self.http.get(resource.path(namespace), **query).ok()["items"]
        return items

    def nodes(self, provisioner: str = "") -> list[Obj]:
        """List the controller's nodes, of one Provisioner or of all."""
        return self.all(NODES, labelSelector=f"{PROVISIONER_NAME}={provisioner}" if provisioner else PROVISIONER_NAME)

    def pods(self, namespace: str, app: str = "") -> list[Obj]:
        """List the pods that are not terminating, of one app or of all."""
        selected = self.all(PODS, namespace, **({"labelSelector": f"app={app}"} if app else {}))
        return [pod for pod in selected if not pod["metadata"].get("deletionTimestamp")]

    def instances(self) -> list[Obj]:
        """List the EC2 instances that are pending or running."""
        return [each for each in self.environment.instances() if each["state"] in ("pending", "running")]

    def leader(self) -> str:
        """Return the lease's holder, empty when nobody holds it."""
        lease = self.get(LEASES, LEASE, NAMESPACE)
        return str((lease or {}).get("spec", {}).get("holderIdentity") or "")

    def running(self, namespace: str, app: str, replicas: int) -> list[Obj]:
        """Wait until exactly `replicas` pods of an app exist and all are Ready; return them."""

        def all_run() -> list[Obj]:
            pods = self.pods(namespace, app)
            return pods if len(pods) == replicas and all(map(is_running, pods)) else []

        if replicas == 0:
            self.until(lambda: not self.pods(namespace, app), f"no pod of {app} is left")
            return []
        return self.until(all_run, f"{replicas} pods of {app} run")

    def until(
        self, ask: Callable[[], T], what: str, seconds: float = PATIENCE_SECONDS, *, every_seconds: float = 0.2
    ) -> T:
        """Poll until `ask` returns a true value, and return it. An API server that does not answer is asked again.

        Raises AssertionError after `seconds`, with the state of the cluster.
        """
        deadline, trouble = time.monotonic() + seconds, ""
        while True:
            try:
                if answer := ask():
                    return answer
                trouble = ""
            except urllib3.exceptions.HTTPError as error:
                trouble = f" ({error})"
            if time.monotonic() > deadline:
                raise AssertionError(f"after {seconds:.0f} s it is not true that {what}{trouble}\n{self.describe()}")
            time.sleep(every_seconds)

    def describe(self) -> str:
        """Describe the cluster for a failure message: nodes, pods that do not run, warnings, the controller's log."""
        try:
            nodes = [f"  node {n['metadata']['name']}: {_conditions(n)}" for n in self.nodes()]
            pods = [pod for pod in self.all(PODS) if not is_running(pod)]
            waiting = [f"  pod {_name(p)} {p['status'].get('phase')}: {_conditions(p)}" for p in pods]
            events = [f"  {e['reason']} {_name(e)}: {e['message']}" for e in self.all(EVENTS) if e["type"] == "Warning"]
        except (urllib3.exceptions.HTTPError, AssertionError) as error:
            nodes, waiting, events = [f"  the API server does not say: {error}"], [], []
        logged = [f"  {line}" for line in self.replicas.lines()[-15:]]
        return "\n".join(["Nodes:", *nodes, "Pods:", *waiting, "Warnings:", *events[-10:], "Controller:", *logged])


def is_running(pod: Obj) -> bool:
    """Whether the pod is in phase Running and Ready."""
    return condition(pod, "Ready") == "True" and pod["status"].get("phase") == "Running"


def condition(thing: Obj, kind: str) -> str:
    """Return the status of a condition, empty if the object has none of that type."""
    conditions = thing.get("status", {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == kind), "")


def labels(thing: Obj) -> dict[str, str]:
    """Return an object's labels."""
    own: dict[str, str] = thing["metadata"].get("labels") or {}
    return own


def _name(thing: Obj) -> str:
    return f"{thing['metadata'].get('namespace', '')}/{thing['metadata']['name']}"


def _conditions(thing: Obj) -> Any:
    return {c["type"]: c.get("message") or c["status"] for c in thing.get("status", {}).get("conditions") or ()}
