"""The door to both control planes, and the real one's start, stop and absence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import urllib3
import yaml

from sandbox import controlplane, realkube
from tests.contract.builders import config_map, deployment
from tests.contract.client import Client, eventually

needs_assets = [
    pytest.mark.real,
    pytest.mark.skipif(not os.environ.get(realkube.ASSETS_VARIABLE), reason=f"{realkube.ASSETS_VARIABLE} is not set"),
]


@pytest.mark.parametrize("kind", ["embedded", pytest.param("real", marks=needs_assets)])
def test_both_kinds_write_a_kubeconfig_that_works(kind: controlplane.Kind, tmp_path: Path) -> None:
    with controlplane.start(kind, state=tmp_path / "state") as running:
        assert running.kubeconfig == tmp_path / "state" / "kubeconfig"
        cluster = yaml.safe_load(running.kubeconfig.read_text())["clusters"][0]["cluster"]
        assert cluster["server"] == running.url
        assert Client(running, kind, lambda: None).get("/api/v1/namespaces/default").code == 200
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", f"{running.url}/readyz", timeout=2.0, retries=False)


def test_missing_assets_are_named_with_a_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(realkube.ASSETS_VARIABLE, raising=False)
    with pytest.raises(realkube.AssetsMissingError, match=r"KUBEBUILDER_ASSETS is not set.*setup-envtest"):
        realkube.assets_folder()
    monkeypatch.setenv(realkube.ASSETS_VARIABLE, str(tmp_path))
    with pytest.raises(realkube.AssetsMissingError, match="no executable etcd or kube-apiserver"):
        realkube.assets_folder()


@pytest.mark.real
@pytest.mark.skipif(not os.environ.get(realkube.ASSETS_VARIABLE), reason=f"{realkube.ASSETS_VARIABLE} is not set")
def test_the_real_control_plane_runs_pods_and_outlives_its_api_server(tmp_path: Path) -> None:
    """Scheduler, controllers and kwok together; then the API server goes and comes back on the same port."""
    with realkube.serve(state=tmp_path / "state", components=realkube.COMPONENTS) as plane:
        api = Client(realkube.running(plane), "real", lambda: None, "default")
        annotation = dict([realkube.KWOK_ANNOTATION.split("=")])
        status = {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "10"}}
        node = {"metadata": {"name": "n1", "annotations": annotation}, "status": status}
        eventually(lambda: api.get(api.path("serviceaccounts", "default")).code == 200)
        api.post("/api/v1/nodes", node).ok()
        api.post(api.path("deployments", group="apps"), deployment("web", 2)).ok()
        phases = eventually(
            lambda: [pod["status"]["phase"] for pod in api.get(api.path("pods")).ok()["items"]],
            lambda found: found == ["Running", "Running"],
            seconds=60,
        )
        assert len(phases) == 2
        plane.stop_apiserver()
        with pytest.raises(urllib3.exceptions.HTTPError):
            api.get("/readyz")
        plane.start_apiserver()
        assert api.post(api.path("configmaps"), config_map("after")).code == 201
        assert api.get(api.path("deployments", "web", "apps")).ok()["spec"]["replicas"] == 2
