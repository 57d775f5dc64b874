"""Names that are taken in the cluster, said at preview: asked over HTTP of the sandbox's API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.documents.account import Account
from components.documents.manifests import KeyedObject, Place, keyed_objects
from components.lookups.cluster_objects import (
    STACK_ANNOTATION,
    ClusterApi,
    UnansweredError,
    check_objects,
    object_path,
)
from controller.core.api.strict import Report
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from sandbox import apiserver
from sandbox.demo.apply import address
from sandbox.stack_kube import apply_object
from sandbox.world.client import ApiClient, Connection
from tests.components.engine import ACCOUNT_ID, DECLARES, run_stack
from tests.components.stacks import ROOT, minimal, stack

pytestmark = DECLARES

HELM = {"annotations": {"meta.helm.sh/release-name": "karpenter", "meta.helm.sh/release-namespace": "karpenter"}}
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
OURS = "nodeless/test"
REMEDY = "remove it, leave it out, or take it over with `adopt: true`"


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    with apiserver.serve(kubeconfig=tmp_path / "kubeconfig"):
        yield tmp_path / "kubeconfig"


def preview(caplog: pytest.LogCaptureFixture, path: Path, **keys: Any) -> list[str]:
    """What preview refuses and what it warns of."""
    given = minimal(cluster={"name": "myeks", "kubeconfig": str(path)}, **keys)
    caplog.clear()
    try:
        run_stack("test", {f"nodeless:{name}": json.dumps(value) for name, value in given.items()}, preview=True)
    except SystemExit:  # refused: its lines are among those that are returned
        assert any(each.levelname == "ERROR" for each in caplog.records)
    return [each.message for each in caplog.records if each.levelname in ("ERROR", "WARNING")]


def wanted() -> list[KeyedObject]:
    """The objects of the stack that has most kinds."""
    chosen = stack("prod")
    return list(keyed_objects(chosen.config, Place(Account("aws", ACCOUNT_ID, "eu-west-1"), (1, 34)), chosen.objects))


def asked(kubeconfig: Path, *, lost: bool = False) -> list[str]:
    """What is refused of the objects that a stack wants."""
    report = Report()
    assert check_objects(ClusterApi.of_kubeconfig(str(kubeconfig)), wanted(), OURS, lost=lost, report=report) == []
    return [str(each) for each in report.problems]


def test_what_others_made_in_the_cluster_is_refused_with_whose_it_is_and_what_pulumi_made_is_not(
    kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kube = KubeClient(connect(str(kubeconfig)))
    assert asked(kubeconfig) == [], "nothing is there"
    kube.create(NAMESPACES, {"metadata": {"name": "karpenter"}})
    kube.create(ACCOUNTS, {"metadata": {"name": "karpenter", **HELM}}, "karpenter")
    kube.create(ROLES, {"metadata": {"name": "karpenter", **HELM}, "rules": []})
    refused = [
        f"controller.namespace: Namespace karpenter exists in the cluster, and this stack did not make it; {REMEDY}",
        "controller.namespace: ServiceAccount karpenter/karpenter exists in the cluster, and Helm release "
        f"karpenter/karpenter made it; {REMEDY}",
        "controller: ClusterRole karpenter exists in the cluster, and Helm release karpenter/karpenter made it; "
        + REMEDY,
    ]
    assert asked(kubeconfig) == preview(caplog, kubeconfig) == refused
    apply_three(kubeconfig, {})
    assert asked(kubeconfig) == []
    apply_three(kubeconfig, {STACK_ANNOTATION: OURS})
    assert asked(kubeconfig) == []
    lost = asked(kubeconfig, lost=True)
    assert len(lost) == 3
    assert all("exists in the cluster, and the state of the stack that made it is not here" in each for each in lost)


def apply_three(kubeconfig: Path, annotations: dict[str, str]) -> None:
    """What the test before refuses, as Pulumi writes it."""
    for each in wanted():
        metadata = each.document["metadata"]
        if metadata["name"] == "karpenter" and each.document["kind"] in ("Namespace", "ServiceAccount", "ClusterRole"):
            with_ours = {**(metadata.get("annotations") or {}), **annotations}
            apply_object(kubeconfig, {**each.document, "metadata": {**metadata, "annotations": with_ours}})


def test_what_another_pulumi_stack_made_in_the_cluster_is_refused_by_that_stacks_name(
    kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    apply_three(kubeconfig, {STACK_ANNOTATION: "platform/blue"})
    refused = asked(kubeconfig)
    assert refused == [
        f"controller.namespace: Namespace karpenter exists in the cluster, and stack platform/blue made it; {REMEDY}",
        "controller.namespace: ServiceAccount karpenter/karpenter exists in the cluster, and stack platform/blue made "
        f"it; {REMEDY}",
        f"controller: ClusterRole karpenter exists in the cluster, and stack platform/blue made it; {REMEDY}",
    ]
    assert preview(caplog, kubeconfig) == refused


def test_definitions_of_a_helm_release_are_taken_over_with_a_warning(
    kubeconfig: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kube = KubeClient(connect(str(kubeconfig)))
    document = yaml.safe_load((ROOT / "crds/karpenter.sh_provisioners.yaml").read_text())
    kube.create(CUSTOM_RESOURCE_DEFINITIONS, {**document, "metadata": {**document["metadata"], **HELM}})
    (warning,) = preview(caplog, kubeconfig)
    named = "CustomResourceDefinition provisioners.karpenter.sh"
    assert warning.startswith(f"controller.manageCrds: {named} is of Helm release karpenter/karpenter, and the stack")
    assert preview(caplog, kubeconfig, controller={"image": "registry.example/nodeless:1", "manageCrds": False}) == []


def test_a_cluster_that_does_not_answer_is_said_once_and_stops_nothing(
    kubeconfig: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"]["token"] = "wrong"
    path = tmp_path / "refused"
    path.write_text(yaml.safe_dump(document))
    (warning,) = preview(caplog, path)
    said = "the cluster was not asked which names are taken in it, `up` would tell: "
    assert warning.startswith(f"{said}HTTP 401")
    document["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    path.write_text(yaml.safe_dump(document))
    (reason,) = check_objects(ClusterApi.of_kubeconfig(str(path)), wanted(), OURS, lost=False, report=Report())
    assert reason.startswith("http://127.0.0.1:9: ")
    with pytest.raises(UnansweredError, match=r"kubeconfig .*none cannot be used"):
        ClusterApi.of_kubeconfig(str(tmp_path / "none"))


def test_the_path_of_every_object_is_that_of_the_apis_discovery(kubeconfig: Path) -> None:
    kube = KubeClient(connect(str(kubeconfig)))
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
    kinds = {each.document["kind"]: each.document for each in wanted()}
    assert {"Provisioner", "NetworkPolicy", "ValidatingAdmissionPolicy", "PodDisruptionBudget", "Role"} <= set(kinds)

    async def discovered() -> dict[str, tuple[str, bool]]:
        async with ApiClient(Connection.from_kubeconfig(kubeconfig), "test") as client:
            return {kind: await address(client, each["apiVersion"], kind) for kind, each in kinds.items()}

    for kind, (plural, namespaced) in asyncio.run(discovered()).items():
        assert namespaced == ("namespace" in kinds[kind]["metadata"])
        assert f"/{plural}/{kinds[kind]['metadata']['name']}" in object_path(kinds[kind])
