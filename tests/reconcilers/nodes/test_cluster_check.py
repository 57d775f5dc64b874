"""While the cluster is not proven: what is said, and that nothing is launched into another account."""

from __future__ import annotations

from dataclasses import replace

from controller.kube.resources import PROVISIONERS
from controller.reconcilers.nodes.cluster_check_reconciler import ClusterCheckReconciler
from controller.reconcilers.status.conditions_reconciler import ConditionsReconciler
from controller.telemetry.health import Health
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import nodes_are, reconciler

ELSEWHERE = "arn:aws:eks:eu-west-1:999999999999:cluster/test"


def test_another_account_launches_nothing_and_says_so_until_it_is_the_own_one_again(world: World) -> None:
    world.add_provisioner()
    world.add_pod("a")
    own = world.cloud.where
    assert world.context.removals.proof.proven
    world.cloud.where = replace(own, cluster_arn=ELSEWHERE)
    check = ClusterCheckReconciler(world.context)
    check.reconcile(world.caught_up())
    loop = reconciler(world)
    for _ in range(5):
        loop.reconcile(world.caught_up())
        world.clock.ahead_seconds += 5.0
    assert world.cloud.requests == []
    assert ELSEWHERE in world.context.waits.text()
    assert ELSEWHERE in world.await_event("RemovalsRefused")["message"]
    ConditionsReconciler(world.context).reconcile(world.caught_up())
    (active,) = world.kube.get(PROVISIONERS, "default")["status"]["conditions"]
    assert (active["type"], active["status"]) == ("Active", "False")
    assert ELSEWHERE in active["message"]
    world.cloud.where = own
    check.reconcile(world.caught_up())
    world.passes(loop, nodes_are(1), "a node")
    assert world.context.waits.text() == ""


def test_readiness_shows_what_is_held_back_and_does_not_fail_for_it() -> None:
    """An unready pod would take the admission webhook out of service."""
    health, held = Health(), ["nothing is removed: another account"]
    health.notes["removals"] = lambda: held[0]
    page = health.readyz({})
    assert (page.status, b"[+]removals ok: nothing is removed: another account" in page.body) == (200, True)
    held[0] = ""
    assert b"[+]removals ok\n" in health.readyz({}).body
