"""ConfigMaps that controllers of different versions keep records in."""

from __future__ import annotations

import base64
from typing import Any

from structlog.testing import capture_logs

from controller.core.decisions.decision import Decision
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.decision_store import CONFIG_MAP, KEY, DecisionsReconciler
from controller.reconcilers.bookkeeping.memory_store import CONFIG_MAP as MEMORY
from controller.reconcilers.bookkeeping.memory_store import MemoryReconciler
from controller.reconcilers.bookkeeping.stored_record import RECORD_VERSION, StoredRecord
from controller.telemetry.decision_ledger import Ledger
from tests import factories
from tests.reconcilers.conftest import World

NAMESPACE = "kube-system"


def stored(world: World, name: str) -> dict[str, Any]:
    return world.kube.get(CONFIG_MAPS, name, NAMESPACE)


def make(world: World, name: str, version: str | None, **content: Any) -> None:
    annotations = {} if version is None else {RECORD_VERSION: version}
    document = {"metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations}, **content}
    world.kube.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document}, NAMESPACE)


def test_a_record_carries_its_version_and_one_without_is_of_the_first(world: World) -> None:
    record = StoredRecord(world.context, "fresh")
    record.write(data={"a": "1"})
    assert stored(world, "fresh")["metadata"]["annotations"] == {RECORD_VERSION: "1"}
    make(world, "older", None, data={"a": "1"})
    record = StoredRecord(world.context, "older")
    assert record.read()["data"] == {"a": "1"}
    record.write(data={"b": "2"})
    assert stored(world, "older")["data"] == {"a": "1", "b": "2"}, "what another version stored stays"
    assert stored(world, "older")["metadata"]["annotations"] == {RECORD_VERSION: "1"}


def test_the_record_of_a_later_version_is_reported_and_left_as_it_is(world: World) -> None:
    make(world, "later", "2", data={"a": "1"})
    record = StoredRecord(world.context, "later")
    with capture_logs() as logs:
        assert record.read() == {}
        record.write(data={"a": "2"})
    assert stored(world, "later")["data"] == {"a": "1"}
    assert [(entry["event"], entry["record"]) for entry in logs] == [("Record cannot be read", "later")]


def test_decisions_that_are_no_base64_are_reported_and_a_new_record_begins(world: World) -> None:
    make(world, CONFIG_MAP, None, data={"note": "kept"}, binaryData={KEY: "?"})
    loop = DecisionsReconciler(world.context)
    with capture_logs() as logs:
        loop.reconcile(factories.snapshot())
    assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["Record cannot be read"]
    world.context.ledger.record(Decision("launch", "m", "Node/a", "r"))
    loop.flush()
    assert stored(world, CONFIG_MAP)["data"] == {"note": "kept"}
    later = Ledger(world.clock)
    assert later.restore(base64.b64decode(stored(world, CONFIG_MAP)["binaryData"][KEY])) == 1


def test_entries_of_memory_that_cannot_be_read_are_reported_and_stay(world: World) -> None:
    make(world, MEMORY, None, data={"m5.large_ami-1": str(7800 * 2**20), "later": "x"})
    loop = MemoryReconciler(world.context)
    with capture_logs() as logs:
        loop.reconcile(factories.snapshot())
        loop.reconcile(factories.snapshot())
    assert [entry["error"] for entry in logs if entry["event"] == "Record cannot be read"] == [
        "1 entries, the first 'later'"
    ]
    assert world.cloud.memory.of("m5.large", "ami-1", 8192 * 2**20) == 7800 * 2**20
    assert stored(world, MEMORY)["data"]["later"] == "x"
