"""What the documents say to type about a cluster: each command runs as it stands there.

In the order of the pages: first those of nodeless, then those of kubectl, those that delete last. A scratch folder has
the files of the documents, an API server the objects that they name; nothing else acts there: no controller, no
kubelets, no AWS. Left out are kinds of others, and what asks for a Deployment's history; nothing is watched for long.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controller.cli.main import main
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import (
    AWS_NODE_TEMPLATES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    PROVISIONERS,
    SERVICES,
    Resource,
)
from sandbox import apiserver
from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, deployment, provisioner
from tests.cli.conftest import few_types as few_types
from tests.contract.test_kubectl import KUBECTL
from tests.product_crds import product_crds
from tests.test_docs_commands import ASKS_A_CLUSTER, Command, calls, commands, reader

NODE = "ip-10-0-0-4"
"""The node of the documents, where they have one's name; elsewhere they have the word NODE."""
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)
LEFT_OUT = ("nodepools,ec2nodeclasses", "docs/examples/placeholders.yaml", "undo", "clusterrolebinding")
"""Words of Karpenter v1's kinds, of KEDA's, of a history that only the Deployment controller writes, and of what
kubectl sends as protobuf, which this API server does not read."""
NO_AWS = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""A laptop without credentials."""


def fill(kube: KubeClient) -> None:
    """Make what the documents name: of two nodes of the Provisioner `web`, one is too much for the pods."""
    for crd in product_crds():
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    for namespace in ("shop", "karpenter"):
        kube.create(NAMESPACES, {"metadata": {"name": namespace}})
    subnet = {"id": "subnet-0a1b2c3d4e5f60001", "zone": "us-east-1a"}
    _with_status(kube, AWS_NODE_TEMPLATES, {**TEMPLATE, "status": {"subnets": [subnet]}})
    kube.create(PROVISIONERS, provisioner("default", M5_XLARGE))
    kube.create(PROVISIONERS, provisioner("web", M5_XLARGE, consolidation={"enabled": True}))
    for name, data in (("karpenter-global-settings", {"aws.clusterName": "shop-prod"}), ("config-logging", {})):
        kube.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, "karpenter")
    for namespace, name in (("default", "inflate"), ("karpenter", "karpenter")):
        made = deployment(name, 0)
        made["metadata"]["namespace"] = namespace
        kube.create(DEPLOYMENTS, made, namespace)
        kube.patch(DEPLOYMENTS, name, {"status": {"observedGeneration": 9}}, namespace=namespace, subresource="status")
    for namespace, name in (("shop", "web"), ("default", "web"), ("default", "web-close")):
        service = {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
        kube.create(SERVICES, service, namespace)
    for name in (NODE, "ip-10-0-0-5"):
        document = node(name)
        document["metadata"]["labels"]["karpenter.sh/provisioner-name"] = "web"
        _with_status(kube, NODES, document)
        kube.patch(NODES, name, {"spec": {"taints": None}})
    set_of_web = {**deployment("web", 0), "kind": "ReplicaSet"}
    uid = kube.create(REPLICA_SETS, set_of_web, "shop")["metadata"]["uid"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}
    for name, on in (("web-1", NODE), ("web-2", "ip-10-0-0-5"), ("web-7d9f", "")):
        document = pod(name, on=on)
        document["metadata"]["ownerReferences"] = [owner]
        _with_status(kube, PODS, document, "shop")


def _with_status(kube: KubeClient, resource: Resource, document: dict[str, Any], namespace: str = "") -> None:
    name = kube.create(resource, document, namespace)["metadata"]["name"]
    kube.patch(resource, name, {"status": document["status"]}, namespace=namespace, subresource="status")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_types: None) -> Iterator[Path]:
    """The scratch folder, as the working directory, with the kubeconfig of the cluster in the environment."""
    for variable in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    for variable, value in {**NO_AWS, "KUBECONFIG": str(tmp_path / "kubeconfig"), "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(reader(tmp_path))
    with apiserver.serve(kubeconfig=tmp_path / "kubeconfig"):
        fill(KubeClient(connect(str(tmp_path / "kubeconfig"))))
        yield tmp_path


def about_a_cluster() -> list[Command]:
    """Calls of nodeless and kubectl, each once."""
    ours = {each.words: each for each in calls() if each.asks_a_cluster and not each.asks_aws}
    every: dict[tuple[str, ...], Command] = {}
    for each in commands():
        if each.words in ours:
            every.setdefault(each.words, ours[each.words])
        elif each.program == "kubectl" and "nodeless" not in " ".join(each.words) and not {*LEFT_OUT} & {*each.words}:
            every.setdefault(each.words, each)
    return sorted(every.values(), key=lambda each: (each.program == "kubectl", "delete" in each.words[:2]))


def test_every_command_about_a_cluster_does_what_it_says(folder: Path, subtests: pytest.Subtests) -> None:
    typed = about_a_cluster()
    assert {each.words[1] for each in typed if each.program == "nodeless"} == ASKS_A_CLUSTER | {"simulate"}
    for each in typed:
        with subtests.test(str(each)):
            words = [NODE if word == "NODE" else word for word in each.words if word != "--watch"]
            code, output, errors = _run_nodeless(words) if each.program == "nodeless" else _run_kubectl(words)
            assert code in (0, 3), errors
            assert output or errors
            if each.into:
                (folder / each.into).write_text(output)


def _run_nodeless(words: list[str]) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    return result.exit_code, result.stdout, result.stderr


def _run_kubectl(words: list[str]) -> tuple[int, str, str]:
    if KUBECTL is None:
        return 0, "not here", ""
    done = subprocess.run([KUBECTL, *words[1:]], capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr
