"""From planned nodes to launch requests: what is left out, what is refused, and how removal commands differ."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND
from controller.core.api.node import Taint
from controller.core.api.provisioner import Provisioner
from controller.core.machines.launching import LaunchPolicy
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.provisioning.plan import PlannedNode
from controller.core.scheduling.requirements import Requirements
from controller.core.scheduling.taints import ON_DEMAND_TAINT
from controller.core.state.snapshot import Snapshot
from controller.errors import StoppingError
from controller.kube.resources import NODES
from controller.machines.launch_pipeline import LaunchPipeline, Prepared, prepare
from controller.runtime.executors import INLINE
from tests import factories
from tests.core.machines.test_launching import planned
from tests.reconcilers.conftest import World

CATALOG = {"default": factories.small_catalog()}
POD = factories.pending_pod(name="a")
NODE = planned("m5.large")
FREE = factories.provisioner()
LIMITED = factories.provisioner(limits={"cpu": "2"})


def snapshot(*nodes: str, token: str = "", provisioner: Provisioner = LIMITED) -> Snapshot:
    annotations = FrozenMap({LAUNCH_TOKEN: token} if token else {})
    standing = [factories.state_node(node=factories.node(name=name, annotations=annotations)) for name in nodes]
    return factories.snapshot(
        pending=[POD], nodes=standing, provisioners=[provisioner], node_templates=[factories.node_template()]
    )


def prepared(view: Snapshot, policy: LaunchPolicy | None = None, *nodes: PlannedNode) -> Prepared:
    return prepare(nodes or (NODE,), view, CATALOG, {POD.key: POD}, policy or LaunchPolicy())


def test_nodes_that_leave_do_not_count_in_the_limits() -> None:
    """A replacement and the node that it replaces may exceed the limit together while both run."""
    (refusal,) = prepared(snapshot("old")).refused
    assert "limits.resources.cpu" in refusal.reason
    (launch,) = prepared(snapshot("old"), LaunchPolicy(leaving=frozenset({"old"}), on_record=True)).launches
    assert launch.request.on_record


def test_a_node_that_is_there_under_a_token_on_record_is_not_launched_again() -> None:
    (launch,) = prepared(snapshot()).launches
    token = launch.request.token
    recorded = LaunchPolicy(leaving=frozenset({"one"}), own_tokens=frozenset({token}))
    assert prepared(snapshot("one", token=token), recorded).launches == ()
    unrecorded = prepared(snapshot("one", token=token), LaunchPolicy(leaving=frozenset({"one"})))
    assert unrecorded.launches[0].request.token != token, "without a record it is another item"


@pytest.mark.parametrize(("wanted", "taints"), [(True, (ON_DEMAND_TAINT,)), (False, ())])
def test_nodes_are_left_to_pods_that_must_be_on_demand_where_the_setting_says_so(
    wanted: bool, taints: tuple[Taint, ...]
) -> None:
    must = factories.pending_pod(node_selector={CAPACITY_TYPE: ON_DEMAND})
    node = replace(
        NODE,
        offering=replace(NODE.offering, capacity_type=ON_DEMAND),
        requirements=Requirements.from_labels({CAPACITY_TYPE: ON_DEMAND}),
        pods=(must.key,),
    )
    (launch,) = prepare((node,), snapshot(), CATALOG, {must.key: must}, LaunchPolicy(on_demand_taint=wanted)).launches
    assert launch.request.node_taints == taints


@pytest.mark.parametrize("wanted", [True, False])
def test_nodes_of_a_plan_open_together_where_the_policy_says_so(wanted: bool) -> None:
    pods = [factories.pending_pod(name=size, requests={"cpu": size}) for size in ("1", "2")]
    nodes = [replace(NODE, pods=(pod.key,)) for pod in pods]
    view = replace(snapshot(provisioner=FREE), pods=FrozenMap({pod.key: pod for pod in pods}))
    launches = prepare(nodes, view, CATALOG, view.pods, LaunchPolicy(open_together=wanted)).launches
    groups = {launch.request.opens_with for launch in launches}
    assert groups == {launches[0].request.token if wanted else ""}


def test_every_node_of_a_provisioner_that_went_away_or_has_no_template_is_refused() -> None:
    (refusal,) = prepared(snapshot(provisioner=factories.provisioner(deleted_at=1.0))).refused
    assert refusal.reason == "Provisioner default went away before the launch"
    bare = factories.snapshot(pending=[POD], provisioners=[LIMITED])
    (refusal,) = prepared(bare).refused
    assert "AWSNodeTemplate default does not exist" in refusal.reason
    assert refusal.pods == (POD.key,)


def test_launches_that_the_cloud_may_merge_follow_each_other() -> None:
    """Workers take them in order, and those of one moment become one call; the order of the plan is kept otherwise."""
    pods = [factories.pending_pod(name=str(number)) for number in range(6)]
    nodes = [
        replace(planned(name), pods=(pod.key,))
        for name, pod in zip(["m5.large", "m5.xlarge", "m5.2xlarge"] * 2, pods, strict=True)
    ]
    view = replace(snapshot(provisioner=FREE), pods=FrozenMap({pod.key: pod for pod in pods}))
    launches = prepare(nodes, view, CATALOG, view.pods, LaunchPolicy()).launches
    assert [launch.planned.pods[0][1] for launch in launches] == ["0", "3", "1", "4", "2", "5"]


def test_nothing_is_launched_once_the_process_stops(world: World) -> None:
    stop = threading.Event()
    stop.set()
    (job,) = LaunchPipeline(world.launcher, INLINE, stop).begin(prepared(snapshot()).launches, lambda *_: None)
    with pytest.raises(StoppingError):
        job.result()
    assert world.cloud.requests == []


def test_a_launch_does_not_wait_for_the_node_of_another_to_be_created(world: World) -> None:
    """One worker launches both while the first Node cannot be written; without a second executor it would wait."""
    world.add_provisioner()
    slow, create = threading.Event(), world.kube.create

    def created(resource: Any, *args: Any, **more: Any) -> Any:
        assert resource is not NODES or slow.wait(30.0)
        return create(resource, *args, **more)

    world.kube.create = created  # type: ignore[method-assign]
    (first,) = prepared(snapshot(provisioner=FREE)).launches
    pipeline = LaunchPipeline(
        world.launcher, world.executors.executor("one", 1), world.stop, world.executors.executor("writes", 1)
    )
    told: list[str] = []
    second = replace(first, request=replace(first.request, token="another"))
    jobs = pipeline.begin((first, second), lambda _launch, outcome: told.append(outcome.node_name))
    world.until(lambda _: len(world.cloud.running) == 2, "both are launched")
    assert not any(job.done() for job in jobs)
    assert world.launcher.under_way() == 2
    slow.set()
    assert [job.exception(10.0) for job in jobs] == [None, None]
    assert len(set(told)) == 2
    assert world.launcher.under_way() == 0
