"""Commands run in this process, with files in a folder of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controller.aws.catalog.offline_catalog import RegionCatalog, shipped_catalog
from controller.cli.main import main
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from sandbox.apiserver import serve
from tests.product_crds import product_crds

Run = Callable[..., Result]
Write = Callable[..., str]

FEW_FAMILIES = {"c5", "g4dn", "g5", "m5", "r5", "t3"}
"""Of instance types: what tests of the commands name."""
TEMPLATE: dict[str, Any] = {
    "apiVersion": "karpenter.k8s.aws/v1alpha1",
    "kind": "AWSNodeTemplate",
    "metadata": {"name": "default"},
    "spec": {"amiFamily": "AL2023", "subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
}


def provisioner(name: str = "default", *requirements: tuple[str, str, list[str]], **spec: Any) -> dict[str, Any]:
    """A Provisioner of the template `default`; requirements as (key, operator, values)."""
    listed = [{"key": key, "operator": operator, "values": values} for key, operator, values in requirements]
    return {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Provisioner",
        "metadata": {"name": name},
        "spec": {"providerRef": {"name": "default"}, "requirements": listed, **spec},
    }


def container(cpu: str = "1", memory: str = "1Gi", **more: str) -> dict[str, Any]:
    """A container that asks for this."""
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory, **more}}}


def deployment(name: str = "web", replicas: int | None = 3, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A Deployment in the namespace `shop`."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container(cpu)], **spec},
            },
        },
    }


@pytest.fixture(autouse=True)
def few_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions sell few types here: a command takes a tenth of the time. A module that looks at all overrides it."""
    monkeypatch.setattr("controller.cli.inputs.sources.shipped_catalog", _few_types)


@cache
def _few_types(region: str) -> RegionCatalog:
    every = shipped_catalog(region)
    types = {name: info for name, info in every.types.items() if name.partition(".")[0] in FEW_FAMILIES}
    return replace(every, types=types, zones={name: every.zones[name] for name in types})


@pytest.fixture
def run() -> Run:
    """Run `nodeless ARGUMENTS`; standard output and standard error are kept apart."""

    def invoke(*arguments: str, **more: Any) -> Result:
        return CliRunner().invoke(main, list(arguments), catch_exceptions=False, **more)

    return invoke


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write documents to a file as YAML; returns its path."""

    def save(*documents: Any, name: str = "fleet.yaml") -> str:
        path = tmp_path / name
        path.write_text(documents[0] if isinstance(documents[0], str) else yaml.safe_dump_all(documents))
        return str(path)

    return save


def answer(result: Result) -> Any:
    """What `--output json` printed."""
    return json.loads(result.stdout)


@pytest.fixture(scope="package")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The kubeconfig of an API server with the cluster of `cluster.fill`; tests change nothing in it."""
    from tests.cli.cluster_files import fill

    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with serve(kubeconfig=path):
        fill(KubeClient(connect(str(path))), product_crds())
        yield str(path)
