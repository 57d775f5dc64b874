"""The kinds for pods to come are watched when they are wanted and may all be read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.errors import ForbiddenError, KubeError, NotFoundError
from controller.kube.client import KubeClient
from controller.kube.resources import POD_OWNERS, Resource
from controller.operator.startup import owner_kinds
from tests.operator.test_composition import SETTINGS

WANTED = replace(SETTINGS, plan_ahead_owners=True)


class Refusing(KubeClient):
    """Lists nothing, and one kind not at all."""

    def __init__(self, kind: str, error: KubeError | None) -> None:
        self._kind, self._error = kind, error

    def list(self, resource: Resource, *_: Any, **__: Any) -> list[dict[str, Any]]:
        if resource.kind == self._kind and self._error is not None:
            raise self._error
        return []


@pytest.mark.parametrize("error", [ForbiddenError("no", 403), NotFoundError("no", 404)])
def test_a_watch_that_would_never_begin_is_left_out_and_said(error: KubeError) -> None:
    """It would keep the controller from acting."""
    with capture_logs() as logs:
        assert owner_kinds(Refusing("ResourceQuota", error), WANTED) == ()
        assert owner_kinds(Refusing("", None), WANTED) == POD_OWNERS
        assert owner_kinds(Refusing("ResourceQuota", error), SETTINGS) == ()
    assert [line["event"] for line in logs] == ["Pods to come are not planned for: planAheadOwners needs rights"]
