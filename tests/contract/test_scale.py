"""The scale subresource of workloads."""

from __future__ import annotations

import pytest

from tests.contract.builders import deployment
from tests.contract.client import JSON_PATCH, MERGE, STRATEGIC, Client


def test_scale_shows_replicas_and_selector(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a", 3)).ok()
    scale = api.get(f"{api.path('deployments', 'a', 'apps')}/scale").ok()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 0, "selector": "app=a"}
    assert scale["metadata"]["name"] == "a"


def test_scale_by_put(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a", 3)).ok()
    path = api.path("deployments", "a", "apps")
    scale = api.get(f"{path}/scale").ok()
    scale["spec"]["replicas"] = 5
    assert api.put(f"{path}/scale", scale).ok()["spec"] == {"replicas": 5}
    obj = api.get(path).ok()
    assert (obj["spec"]["replicas"], obj["metadata"]["generation"]) == (5, 2)
    api.put(f"{path}/scale", scale).refused(409, "Conflict")


@pytest.mark.parametrize("content_type", [MERGE, STRATEGIC])
def test_scale_by_patch(api: Client, content_type: str) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a", 3)).ok()
    path = api.path("deployments", "a", "apps")
    assert api.patch(f"{path}/scale", {"spec": {"replicas": 0}}, content_type).ok()["spec"] == {}
    assert api.get(path).ok()["spec"]["replicas"] == 0


def test_scale_by_json_patch(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a", 3)).ok()
    path = api.path("deployments", "a", "apps")
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 7}]
    assert api.patch(f"{path}/scale", operations, JSON_PATCH).ok()["spec"] == {"replicas": 7}


def test_negative_replicas_are_422(api: Client) -> None:
    api.post(api.path("deployments", group="apps"), deployment("a", 3)).ok()
    path = api.path("deployments", "a", "apps")
    api.patch(f"{path}/scale", {"spec": {"replicas": -1}}).refused(422, "Invalid")


def test_scale_of_an_absent_object_is_404(api: Client) -> None:
    api.get(f"{api.path('deployments', 'a', 'apps')}/scale").refused(404, "NotFound")


def test_kinds_without_scale_have_no_such_path(api: Client) -> None:
    assert api.get(f"{api.path('daemonsets', 'a', 'apps')}/scale").code == 404
