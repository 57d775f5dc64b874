"""Records of other versions: today's controller reads what each earlier one wrote, and an earlier one reads today's.

`records/COMMIT.json` is what `scripts/kept_records.py` wrote with the controller of that commit.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller.aws.catalog.learned_memory import LearnedMemory
from controller.core.api.frozen import FrozenMap
from controller.core.decisions.decision import Entry, entry_of
from controller.core.deprovisioning.backoff import (
    FAILURE_ANNOTATION,
    RESTING_ANNOTATION,
    Failure,
    parse_failure,
    read_failure,
    resting,
    stale,
    write_failure,
    write_resting,
)
from controller.core.deprovisioning.records import (
    COMMAND_ANNOTATION,
    Record,
    parse_record,
    read_record,
    recorded_commands,
    write_record,
)
from controller.core.deprovisioning.unreadable_records import unreadable_records
from controller.core.state.snapshot import StateNode
from controller.telemetry.decision_ledger import Ledger
from scripts.kept_records import AT, records
from tests import factories
from tests.manual_clock import ManualClock
from tests.upgrade import readers_19291ea as old

KEPT = sorted((Path(__file__).parent / "records").glob("*.json"))
COMMAND = Record("c-1", "consolidation", "cheaper nodes", ("a", "b"), ("token-1",), AT, cordoned=True)
FAILURE = Failure("drift", 3, AT, 2)
MEMORY = 7900 * 2**20
ON_NODES = (COMMAND_ANNOTATION, FAILURE_ANNOTATION, RESTING_ANNOTATION)

Kept = dict[str, Any]


@pytest.fixture(params=KEPT, ids=[path.stem for path in KEPT])
def kept(request: pytest.FixtureRequest) -> Kept:
    """What a controller of one commit left in a cluster."""
    document: Kept = json.loads(request.param.read_text())
    return document


def noted(annotations: dict[str, str], name: str = "a") -> StateNode:
    return factories.state_node(node=factories.node(name=name, annotations=FrozenMap(annotations)))


def ledger_of(packed: str) -> Ledger:
    ledger = Ledger(ManualClock())
    ledger.restore(base64.b64decode(packed))
    return ledger


def test_a_command_that_an_earlier_version_began_is_continued(kept: Kept) -> None:
    nodes = [noted({COMMAND_ANNOTATION: kept[COMMAND_ANNOTATION]}, name) for name in ("a", "b")]
    (command,) = recorded_commands(factories.snapshot(nodes=nodes))
    assert command.record == COMMAND
    assert [node.name for node in command.carriers] == ["a", "b"]
    assert not command.torn


def test_a_back_off_and_a_rest_that_an_earlier_version_began_hold(kept: Kept) -> None:
    node = noted({key: kept[key] for key in (FAILURE_ANNOTATION, RESTING_ANNOTATION)})
    assert read_failure(node) == FAILURE
    assert resting(factories.snapshot(nodes=[node]), AT + 599) == {"rs-1", "rs-2"}
    assert stale(node, AT + 599) == ()
    assert unreadable_records(node.node) == ()


def test_the_decisions_and_the_memory_of_an_earlier_version_are_known(kept: Kept) -> None:
    entries = ledger_of(kept["karpenter-decisions"]).entries()
    assert [(each.decision.kind, each.decision.subject, each.times) for each in entries] == [
        ("launch", "Node/a", 1),
        ("skip", "Pod/default/web", 2),
        ("remove", "Node/b", 1),
    ]
    memory = LearnedMemory()
    memory.restore(kept["karpenter-learned-memory"])
    assert memory.of("m5.large", "ami-1", 8 * 2**30) == MEMORY


def test_no_node_drifts_because_the_controller_is_another(kept: Kept) -> None:
    """Else an upgrade, or taking it back, would replace every node of every cluster."""
    assert records()["hashes"] == kept["hashes"]


def test_a_controller_that_is_rolled_back_reads_todays_records() -> None:
    today: dict[str, Any] = records()
    command = old.read_command(today[COMMAND_ANNOTATION])
    assert command == {name: getattr(COMMAND, name) for name in command}
    assert old.read_failure(today[FAILURE_ANNOTATION]) == ("drift", 3, AT, 2)
    assert old.resting(today[RESTING_ANNOTATION], AT + 599) == {"rs-1", "rs-2"}
    entries = old.read_decisions(base64.b64decode(today["karpenter-decisions"]))
    assert [(each["kind"], each["subject"], each["times"]) for each in entries] == [
        ("launch", "Node/a", 1),
        ("skip", "Pod/default/web", 2),
        ("remove", "Node/b", 1),
    ]
    assert old.read_memory(today["karpenter-learned-memory"]) == {("m5.large", "ami-1"): MEMORY}


def test_every_record_on_a_node_carries_its_version() -> None:
    today: dict[str, Any] = records()
    for key in ON_NODES:
        assert json.loads(today[key])["version"] == 1, key


def with_member(text: str, **members: Any) -> str:
    return json.dumps({**json.loads(text), **members})


def test_members_of_another_version_are_kept_when_a_record_is_written_again() -> None:
    today: dict[str, Any] = records()
    later: dict[str, Any] = {"why": ["a", {"b": 1}]}
    again: dict[str, Callable[[str], str]] = {
        COMMAND_ANNOTATION: lambda text: write_record(parse_record(text)),
        FAILURE_ANNOTATION: lambda text: write_failure(parse_failure(text)),
        RESTING_ANNOTATION: lambda text: write_resting(noted({RESTING_ANNOTATION: text}), ["rs-2"], AT, AT + 600),
    }
    for key, rewrite in again.items():
        text = with_member(today[key], **later)
        assert rewrite(text) == text


def test_members_of_another_version_are_kept_in_the_ledger() -> None:
    entry: dict[str, Any] = {"number": 1, "at": AT, "kind": "launch", "method": "m", "subject": "Node/a", "risk": [0.1]}
    ledger = Ledger(ManualClock())
    ledger.restore(gzip.compress(json.dumps(entry).encode()))
    (line,) = gzip.decompress(ledger.compact()).splitlines()
    assert json.loads(line) == entry
    assert entry_of(entry) == Entry(1, AT, entry_of(entry).decision, 1, AT, FrozenMap({"risk": [0.1]}))


def test_a_command_of_a_later_version_is_taken_back_and_its_other_records_are_left_alone() -> None:
    today: dict[str, Any] = records()
    node = noted({key: with_member(today[key], version=2) for key in ON_NODES})
    record = read_record(node)
    assert record is not None
    assert record.method == "unreadable"
    assert read_failure(node) is None
    rest = noted({RESTING_ANNOTATION: node.node.annotations[RESTING_ANNOTATION]})
    assert resting(factories.snapshot(nodes=[rest]), AT) == set()
    assert stale(node, AT + 10**6) == ()
    unreadable = unreadable_records(node.node)
    assert tuple(each.key for each in unreadable) == ON_NODES
    assert {each.error for each in unreadable} == {"is of version 2; this controller reads up to 1"}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": "x"}', '{"version": 0}', '{"at": 1e999}'])
def test_a_record_that_cannot_be_read_stops_no_other(text: str) -> None:
    broken, well = noted({COMMAND_ANNOTATION: text, FAILURE_ANNOTATION: text}), records()
    others = [noted({COMMAND_ANNOTATION: str(well[COMMAND_ANNOTATION])}, name) for name in ("b", "c")]
    commands = recorded_commands(factories.snapshot(nodes=[broken, *others]))
    assert [each.record.method for each in commands] == ["unreadable", "consolidation"]
    assert [each.key for each in unreadable_records(broken.node)] == [COMMAND_ANNOTATION, FAILURE_ANNOTATION]
    assert stale(broken, AT) == (FAILURE_ANNOTATION,)
