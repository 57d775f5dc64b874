"""Why nodes came outlives the process: the ledger in its ConfigMap, written seldom, read once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.decisions.decision import Decision
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.decision_store import (
    CONFIG_MAP,
    FIRST_SECONDS,
    PAUSE_SECONDS,
    DecisionsReconciler,
)
from controller.telemetry.decision_ledger import Ledger
from tests.reconcilers.conftest import World, apply_fault


def process(world: World) -> tuple[DecisionsReconciler, Ledger]:
    ledger = Ledger(world.clock)
    return DecisionsReconciler(replace(world.context, ledger=ledger)), ledger


def decide(ledger: Ledger, name: str) -> None:
    ledger.record(Decision("launch", "provisioning", f"Node/{name}", "fits"))


def version(world: World) -> str:
    return str(world.kube.get(CONFIG_MAPS, CONFIG_MAP, "kube-system")["metadata"]["resourceVersion"])


def known(ledger: Ledger) -> list[str]:
    return [entry.decision.subject for entry in ledger.entries()]


def test_leaders_in_turn_add_to_one_record_and_the_last_words_are_written_on_the_way_out(world: World) -> None:
    first, ledger = process(world)
    first.reconcile(Snapshot())
    decide(ledger, "n1")
    world.clock.ahead_seconds += FIRST_SECONDS
    assert first.reconcile(Snapshot()) == PAUSE_SECONDS
    written = version(world)
    assert first.reconcile(Snapshot()) > FIRST_SECONDS
    decide(ledger, "n2")
    first.reconcile(Snapshot())
    assert version(world) == written, "one write in half a minute"
    first.flush()
    second, later = process(world)
    second.reconcile(Snapshot())
    assert known(later) == ["Node/n1", "Node/n2"]
    unchanged = version(world)
    second.flush()
    assert version(world) == unchanged, "nothing new, nothing written"


def test_a_record_that_somebody_deletes_is_made_anew_and_an_outage_loses_nothing(world: World) -> None:
    loop, ledger = process(world)
    loop.reconcile(Snapshot())
    decide(ledger, "n1")
    loop.flush()
    world.kube.delete(CONFIG_MAPS, CONFIG_MAP, "kube-system")
    decide(ledger, "n2")
    loop.flush()
    decide(ledger, "n3")
    apply_fault(world, {"kind": "errors", "seconds": 30, "code": 403, "rate": 1.0})
    with pytest.raises(KubeError):
        loop.flush()
    apply_fault(world, None)
    loop.flush()
    other, later = process(world)
    other.reconcile(Snapshot())
    assert known(later) == ["Node/n1", "Node/n2", "Node/n3"]


def test_a_process_that_never_read_the_record_does_not_write_over_it(world: World) -> None:
    loop, ledger = process(world)
    decide(ledger, "n1")
    loop.flush()
    assert world.kube.list(CONFIG_MAPS, "kube-system") == []
