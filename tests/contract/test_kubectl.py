"""What people type: kubectl against both servers, by its exit codes and its words."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.builders import deployment, pod, widget_crd
from tests.contract.client import Client, eventually

_ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
KUBECTL = shutil.which("kubectl", path=f"{_ASSETS}{os.pathsep}{os.environ.get('PATH', '')}")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="there is no kubectl, neither in KUBEBUILDER_ASSETS nor on PATH"
)


class Kubectl:
    """Runs kubectl in the test's namespace with a cache of its own."""

    def __init__(self, api: Client, folder: Path) -> None:
        self.api, self._folder = api, folder

    def __call__(self, *words: str, stdin: Any = None, fails: bool = False) -> str:
        assert KUBECTL is not None
        flags = [
            f"--kubeconfig={self.api.server.kubeconfig}",
            f"--cache-dir={self._folder}",
            f"--namespace={self.api.namespace}",
        ]
        text = stdin if stdin is None or isinstance(stdin, str) else yaml.safe_dump(stdin)
        done = subprocess.run(
            [KUBECTL, *flags, *words], input=text, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode != 0) is fails, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture
def kubectl(api: Client, tmp_path: Path) -> Kubectl:
    return Kubectl(api, tmp_path)


@pytest.fixture
def node(api: Client) -> Any:
    """A Ready node of the test's own."""
    name = f"n-{secrets.token_hex(3)}"
    status = {"capacity": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
    api.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status}).ok()
    yield name
    api.delete(f"/api/v1/nodes/{name}")


def test_a_kind_that_nobody_serves_is_told_in_kubectls_usual_words(kubectl: Kubectl) -> None:
    body = {"apiVersion": "example.org/v1", "kind": "Nothing", "metadata": {"name": "x"}}
    for verb in ("apply", "create"):
        said = kubectl(verb, "-f", "-", stdin=body, fails=True)
        assert 'no matches for kind "Nothing" in version "example.org/v1"' in said
        assert "ensure CRDs are installed first" in said
    assert 'the server doesn\'t have a resource type "nothings"' in kubectl("get", "nothings", fails=True)


def test_apply_is_idempotent_and_takes_changes(kubectl: Kubectl) -> None:
    body = deployment("web", 1)
    assert "deployment.apps/web created" in kubectl("apply", "-f", "-", stdin=body)
    assert "deployment.apps/web unchanged" in kubectl("apply", "-f", "-", stdin=body)
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "B", "value": "2"}]
    assert "deployment.apps/web configured" in kubectl("apply", "-f", "-", stdin=body)
    container = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "B", "value": "2"}]


def test_apply_says_which_field_is_unknown(kubectl: Kubectl) -> None:
    body = deployment("web", 1)
    body["spec"]["replica"] = 3
    assert 'unknown field "spec.replica"' in kubectl("apply", "-f", "-", stdin=body, fails=True)


def test_server_side_apply(kubectl: Kubectl) -> None:
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=deployment("web", 1))
    assert kubectl("diff", "--server-side", "-f", "-", stdin=deployment("web", 1)) == ""


def test_scale_and_get(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment("web", 1))
    assert "scaled" in kubectl("scale", "deployment", "web", "--replicas=3")
    table = kubectl("get", "deployments")
    assert table.split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert "0/3" in table


def test_imperative_creation(kubectl: Kubectl) -> None:
    """kubectl sends these in protobuf."""
    kubectl("create", "deployment", "web", "--image=pause:3.9", "--replicas=2")
    deployment = kubectl.json("get", "deployment", "web")
    assert deployment["spec"]["replicas"] == 2
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "pause:3.9"
    kubectl("create", "configmap", "settings", "--from-literal=a=b")
    assert kubectl.json("get", "configmap", "settings")["data"] == {"a": "b"}
    kubectl("create", "secret", "generic", "hidden", "--from-literal=a=b")
    assert kubectl.json("get", "secret", "hidden")["data"] == {"a": "Yg=="}
    kubectl("create", "pdb", "budget", "--selector=app=web", "--min-available=1")
    assert kubectl.json("get", "pdb", "budget")["spec"] == {
        "minAvailable": 1,
        "selector": {"matchLabels": {"app": "web"}},
    }


def test_label_annotate_taint_cordon(kubectl: Kubectl, node: str) -> None:
    kubectl("label", "node", node, "a=b")
    kubectl("annotate", "node", node, "c=d")
    kubectl("taint", "node", node, "k=v:NoSchedule")
    kubectl("cordon", node)
    labelled = kubectl.json("get", "node", node)
    assert labelled["metadata"]["labels"] == {"a": "b"}
    assert {"key": "k", "value": "v", "effect": "NoSchedule"} in labelled["spec"]["taints"]
    assert labelled["spec"]["unschedulable"] is True
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", node)
    kubectl("uncordon", node)
    kubectl("taint", "node", node, "k-")
    assert "unschedulable" not in kubectl.json("get", "node", node)["spec"]


def test_drain_evicts(kubectl: Kubectl, node: str) -> None:
    """The pod's kubelet is missing: drain waits for the pod, which is on its way out."""
    kubectl.api.post(kubectl.api.path("pods"), pod("p", nodeName=node)).ok()
    words = kubectl("drain", node, "--force", "--timeout=1s", fails=True)
    assert f"evicting pod {kubectl.api.namespace}/p" in words
    assert "deletionTimestamp" in kubectl.json("get", "pod", "p")["metadata"]
    kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert "drained" in kubectl("drain", node, "--force", "--timeout=10s")


def test_drain_waits_for_a_budget(kubectl: Kubectl, node: str) -> None:
    api = kubectl.api
    api.post(api.path("pods"), pod("p", nodeName=node)).ok()
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.patch(f"{api.path('pods', 'p')}/status", {"status": status}).ok()
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "p"}}, "minAvailable": 1}}
    api.post(api.path("poddisruptionbudgets", group="policy"), budget).ok()
    path = f"{api.path('poddisruptionbudgets', 'b', 'policy')}/status"
    counts = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    api.patch(path, {"status": counts}).ok()
    words = kubectl("drain", node, "--force", "--timeout=2s", fails=True)
    assert "Cannot evict pod as it would violate the pod's disruption budget" in words


def test_describe(kubectl: Kubectl, node: str) -> None:
    kubectl.api.post(kubectl.api.path("pods"), pod("p", nodeName=node)).ok()
    assert "Service Account:  default" in kubectl("describe", "pod", "p")
    words = kubectl("describe", "node", node)
    assert "node.kubernetes.io/not-ready:NoSchedule" in words
    assert " p " in words


def test_events_are_shown(kubectl: Kubectl) -> None:
    body = {
        "metadata": {"name": "e1"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": kubectl.api.namespace},
        "reason": "Nominated", "message": "Pod should schedule on node n", "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z", "firstTimestamp": "2026-01-01T00:00:00Z", "count": 1,
    }  # fmt: skip
    kubectl.api.post(kubectl.api.path("events"), body).ok()
    words = kubectl("get", "events")
    assert "Nominated" in words
    assert "pod/p" in words
    assert "Pod should schedule on node n" in kubectl("events")


def test_custom_resources_by_category_and_explain(kubectl: Kubectl) -> None:
    group = f"k{secrets.token_hex(3)}.example.com"
    kubectl("apply", "-f", "-", stdin=widget_crd(group))
    kubectl("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=20s")
    eventually(lambda: group in kubectl("api-resources", "--categories=toys", "--cached=false"))
    body = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
    kubectl("apply", "-f", "-", stdin=body)
    assert kubectl("get", f"widgets.{group}").split()[:5] == ["NAME", "SIZE", "AGE", "w", "3"]
    eventually(lambda: "size\t<integer>" in kubectl("explain", "widgets.spec", "--api-version", f"{group}/v1"))
    bad = {**body, "spec": {"size": 0}}
    assert "should be greater than or equal to 1" in kubectl("apply", "-f", "-", stdin=bad, fails=True)
    kubectl("delete", f"crd/widgets.{group}", "--timeout=30s")


def test_explain_of_a_built_in_kind(kubectl: Kubectl) -> None:
    assert "FIELD: nodeName <string>" in kubectl("explain", "pod.spec.nodeName")


def test_wait_for_deletion(kubectl: Kubectl) -> None:
    kubectl.api.post(kubectl.api.path("pods"), pod("p")).ok()
    kubectl("delete", "pod", "p", "--wait=true", "--timeout=20s")
    assert "NotFound" in kubectl("get", "pod", "p", fails=True)


def test_patch_edit_and_replace(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=deployment("web", 1))
    kubectl("set", "image", "deployment/web", "main=pause:9")
    kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":2}}')
    spec = kubectl.json("get", "deployment", "web")["spec"]
    assert (spec["replicas"], spec["template"]["spec"]["containers"][0]["image"]) == (2, "pause:9")
    assert "replaced" in kubectl("replace", "-f", "-", stdin=deployment("web", 4))


def test_can_i(kubectl: Kubectl) -> None:
    assert "yes" in kubectl("auth", "can-i", "delete", "nodes").splitlines()
