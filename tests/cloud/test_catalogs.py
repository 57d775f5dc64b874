"""The catalogs of Provisioners: one that fails never stops the others, and says why."""

from __future__ import annotations

import pytest

from controller.cloud.catalogs import Catalogs, template_of
from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import INSTANCE_TYPE
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import InvalidObject
from controller.errors import CloudError, NodeTemplateError
from tests import factories
from tests.reconcilers.cloud import MemoryCloud


def test_each_provisioner_has_types_or_a_reason() -> None:
    cloud = MemoryCloud()
    cloud.types_errors["b"] = CloudError("no subnet matches")
    provisioners = [
        factories.provisioner(name="a"),
        factories.provisioner(name="b"),
        factories.provisioner(name="c", provider_ref="nowhere"),
        factories.provisioner(name="d", deleted_at=1.0),
    ]
    view = Catalogs(cloud).view(
        factories.snapshot(provisioners=provisioners, node_templates=[factories.node_template()])
    )
    assert dict(view.types) == {"a": cloud.types}
    assert view.problems["b"] == "no subnet matches"
    assert "AWSNodeTemplate nowhere does not exist" in view.problems["c"]
    assert "d" not in view.problems


def test_only_those_asked_for_are_looked_up() -> None:
    provisioners = [factories.provisioner(name=name) for name in "abc"]
    snapshot = factories.snapshot(provisioners=provisioners, node_templates=[factories.node_template()])
    assert list(Catalogs(MemoryCloud()).view(snapshot, {"b"}).types) == ["b"]


def test_all_views_share_what_is_compiled_for_the_solver() -> None:
    catalogs, snapshot = Catalogs(MemoryCloud()), factories.snapshot(provisioners=[factories.provisioner()])
    assert catalogs.view(snapshot).tables is catalogs.view(snapshot).tables


def test_a_provisioner_to_which_nothing_is_offered_says_so() -> None:
    cloud = MemoryCloud()
    cloud.types = ()
    snapshot = factories.snapshot(provisioners=[factories.provisioner()], node_templates=[factories.node_template()])
    assert "no instance type is on offer" in Catalogs(cloud).view(snapshot).problems["default"]


def test_an_invalid_template_gives_its_own_reason() -> None:
    broken = InvalidObject("AWSNodeTemplate", "default", "uid", 1, "spec.subnetSelector: is required")
    snapshot = factories.snapshot(invalid=FrozenMap({("AWSNodeTemplate", "default"): broken}))
    with pytest.raises(NodeTemplateError, match=r"spec\.subnetSelector: is required"):
        template_of(snapshot, factories.provisioner())


def test_a_template_that_is_being_deleted_launches_nothing() -> None:
    snapshot = factories.snapshot(node_templates=[factories.node_template(deleted_at=1.0)])
    with pytest.raises(NodeTemplateError, match="being deleted"):
        template_of(snapshot, factories.provisioner())


def test_a_provisioner_that_names_no_template_is_told_what_to_set() -> None:
    with pytest.raises(NodeTemplateError, match=r"spec\.providerRef\.name"):
        template_of(factories.snapshot(), factories.provisioner(provider_ref=None))


def test_the_deprecated_inline_provider_stands_for_a_template() -> None:
    inline = factories.node_template(name="default")
    provisioner = factories.provisioner(provider_ref=None, inline_template=inline)
    assert template_of(factories.snapshot(), provisioner) is inline


def test_a_provisioner_that_no_type_can_serve_keeps_the_types_of_its_nodes_and_says_why_it_launches_none() -> None:
    """Nodes made before an edit must still initialize, and be priced."""
    cloud = MemoryCloud()
    odd = factories.provisioner(requirements=[factories.requirement(INSTANCE_TYPE, "In", "m5.gigantic")])
    snapshot = factories.snapshot(provisioners=[odd], node_templates=[factories.node_template()])
    view = Catalogs(cloud).view(snapshot)
    assert view.types["default"] is cloud.types
    assert "m5.gigantic" in view.problems["default"]
    assert build(snapshot, view.types, skipped=view.briefly()).provisioners == ()
