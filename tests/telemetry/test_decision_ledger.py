"""The ledger: bounded, repeats counted, found by what it is about, and carried from process to process."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from controller.core.decisions.decision import Decision
from controller.runtime.metrics import NODES_CREATED, NODES_TERMINATED
from controller.telemetry import decision_ledger as module
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.manual_clock import ManualClock


def launch(name: str = "n1", **fields: object) -> Decision:
    known = {"kind": "launch", "method": "provisioning", "reason": "fits", "provisioner": "default"}
    return Decision(**{**known, "subject": f"Node/{name}", **fields})  # type: ignore[arg-type]


def skip(name: str = "a", reason: str = "no room") -> Decision:
    return Decision("skip", "provisioning", f"Pod/default/{name}", reason, pods=(f"default/{name}",))


def test_a_skip_that_repeats_is_one_entry_that_counts() -> None:
    clock = ManualClock()
    ledger = Ledger(clock)
    ledger.record(skip())
    ledger.record(launch())
    clock.advance(60)
    again = ledger.record(skip())
    assert (again.number, again.times, again.last_at - again.at) == (1, 2, 60.0)
    ledger.record(skip(reason="limits"))
    assert [entry.decision.reason for entry in ledger.entries(kind="skip")] == ["no room", "limits"]
    assert ledger.record(skip()).number == 4, "what was said in between is not undone"


def test_two_launches_of_one_node_name_are_two() -> None:
    ledger = Ledger(ManualClock())
    assert [ledger.record(launch()).number for _ in range(2)] == [1, 2]


def test_the_oldest_go_when_it_is_full() -> None:
    ledger = Ledger(ManualClock(), most_entries=3)
    for index in range(5):
        ledger.record(launch(f"n{index}"))
    assert [entry.number for entry in ledger.entries()] == [3, 4, 5]


def test_a_node_counts_as_removed_from_its_removal_until_its_name_is_launched_again_or_its_entry_goes() -> None:
    ledger = Ledger(ManualClock(), most_entries=2)
    for name in ("a", "b"):
        ledger.record(launch(name, kind="remove", method="emptiness"))
    assert ledger.removed() == {"a", "b"}
    ledger.record(launch("b"))
    assert ledger.removed() == set(), "the entry of a is the oldest of three"
    ledger.record(launch("b", kind="remove", method="emptiness"))
    successor = Ledger(ManualClock())
    successor.record(launch("c", kind="remove", method="emptiness"))
    successor.restore(ledger.compact())
    assert successor.removed() == {"b", "c"}


def test_it_is_asked_by_kind_method_provisioner_subject_pod_and_number() -> None:
    ledger = Ledger(ManualClock())
    ledger.record(launch("n1", pods=("default/a", "default/b")))
    ledger.record(launch("n2", provisioner="gpu"))
    ledger.record(skip("c"))
    ledger.record(launch("n1", kind="remove", method="emptiness"))

    def numbers(**query: str) -> list[int]:
        return [each["number"] for each in json.loads(ledger.page(query).body)["decisions"]]

    assert numbers() == [1, 2, 3, 4]
    assert numbers(kind="launch") == [1, 2]
    assert numbers(method="emptiness") == [4]
    assert numbers(provisioner="gpu") == [2]
    assert numbers(subject="n1") == numbers(subject="Node/n1") == [1, 4]
    assert numbers(subject="default/b") == [1]
    assert numbers(subject="c") == [3]
    assert numbers(since="2") == [3, 4]
    assert numbers(limit="1") == [4]
    assert numbers(limit="0") == []


@pytest.mark.parametrize("query", [{"colour": "red"}, {"kind": "guess"}, {"limit": "-1"}, {"since": "x"}])
def test_a_question_that_it_does_not_know_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"kind|number|parameter"):
        Ledger(ManualClock()).page(query)


def test_the_next_process_goes_on_where_the_last_one_ended() -> None:
    first = Ledger(ManualClock())
    for index in range(3):
        first.record(launch(f"n{index}"))
    later = Ledger(ManualClock())
    later.record(skip("early"))
    assert later.restore(first.compact()) == 3
    assert [(entry.number, entry.decision.subject) for entry in later.entries()] == [
        *((1, "Node/n0"), (2, "Node/n1"), (3, "Node/n2"), (4, "Pod/default/early"))
    ]
    assert later.record(skip("early")).times == 2
    assert later.record(launch("new")).number == 5


def test_a_record_that_cannot_be_read_costs_no_more_than_itself() -> None:
    ledger = Ledger(ManualClock())
    with capture_logs() as logs:
        assert ledger.restore(b"not gzip") == 0
    assert len(logs) == 1
    assert ledger.restore(b"") == 0
    assert ledger.record(launch()).number == 1


def test_the_compact_form_keeps_to_its_bound_and_drops_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 2000)
    ledger = Ledger(ManualClock())
    for index in range(300):
        ledger.record(launch(f"n{index}", inputs=f"{hash(index * 7919) & 0xFFFFFFFF:016x}"))
    packed = ledger.compact()
    assert len(packed) <= 2000
    later = Ledger(ManualClock())
    kept = later.restore(packed)
    assert 10 < kept < 300
    assert later.entries()[-1].decision.subject == "Node/n299"


def test_decisions_are_counted_under_karpenters_metric_names() -> None:
    metrics = Metrics()
    ledger = Ledger(ManualClock(), metrics)
    ledger.record(launch())
    ledger.record(launch(method="consolidation", action="replace"))
    ledger.record(launch(kind="remove", method="consolidation", action="delete"))
    ledger.record(launch(kind="remove", method="interruption"))
    text = metrics.page({}).body.decode()
    for line in (
        f'{NODES_CREATED.name}{{provisioner="default",reason="provisioning"}} 1.0',
        f'{NODES_CREATED.name}{{provisioner="default",reason="consolidation/replace"}} 1.0',
        f'{NODES_TERMINATED.name}{{provisioner="default",reason="consolidation/delete"}} 1.0',
        f'{NODES_TERMINATED.name}{{provisioner="default",reason="interruption"}} 1.0',
        'nodeless_decisions{kind="launch",method="provisioning",provisioner="default"} 1.0',
    ):
        assert line in text
