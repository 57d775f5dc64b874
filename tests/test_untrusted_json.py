"""Every reader of JSON from outside goes through core.untrusted_json, and raises what its callers expect."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.aws.catalog.price_book import _hourly
from controller.core.api.disruption import parse_budgets
from controller.core.api.frozen import FrozenMap
from controller.core.api.settings import readers
from controller.core.deprovisioning import backoff, records
from controller.core.deprovisioning.rebalance import approval
from controller.core.deprovisioning.unreadable_records import unreadable_records
from controller.core.guards.headroom import HEADROOM_ANNOTATION, headroom_pods
from controller.core.guards.spending import parse_launch_limits
from controller.core.machines.interruption_messages import parse_message
from controller.core.price_rules import parse_price_rules
from controller.core.state.snapshot import StateNode
from controller.errors import ValidationError
from controller.kube.refusals import error_of
from controller.operator.configuration import ZAP_CONFIG, log_levels
from controller.runtime.loops import BackoffTimes
from controller.telemetry.decision_ledger import MOST_UNPACKED_BYTES, Ledger
from controller.webhook.admission import PATHS, Known, UnreadableReviewError, answer
from tests import factories
from tests.hostile_json import HOSTILE_TEXTS, hostile_objects, json_texts
from tests.manual_clock import ManualClock
from tests.source_trees import READS_SOURCES, ROOT, syntax_trees

NOW = 1_700_000_000.0
OF_ANOTHER_TYPE = ('"x"', '"inf"', "null", "true", "-1", "[]", "{}", "[null]")
DECODES = frozenset({"loads", "load", "JSONDecoder", "decode", "Decoder"})
ALLOWED = {
    "controller/core/untrusted_json.py": "the reader itself",
    "controller/aws/catalog/shipped_tables.py": "a file of this package",
    "controller/kube/list_decoding.py": "answers of the API server, by a decoder that knows the type",
    "controller/kube/stream.py": "events of the API server, by a decoder that knows the type",
}


@READS_SOURCES
def test_nothing_else_decodes_json() -> None:
    decoding = {
        str(path.relative_to(ROOT))
        for path, tree in syntax_trees("controller").items()
        if any(map(_decodes_json, ast.walk(tree)))
    }
    assert decoding == set(ALLOWED)


def _decodes_json(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module in ("json", "msgspec.json")
    return isinstance(node, ast.Attribute) and node.attr in DECODES and _is_json(node.value)


def _is_json(value: ast.expr) -> bool:
    """Whether an expression is the module json, or msgspec.json."""
    return (isinstance(value, ast.Name) and value.id == "json") or (
        isinstance(value, ast.Attribute) and value.attr == "json"
    )


def noted(annotation: str, text: str) -> StateNode:
    return factories.state_node(node=factories.node(name="a", annotations=FrozenMap({annotation: text})))


def removal_state(node: StateNode) -> None:
    """Everything that a pass of deprovisioning reads of a Node's annotations."""
    snapshot = factories.snapshot(nodes=[node], provisioners=[factories.provisioner()])
    records.recorded_commands(snapshot)
    records.engaged(snapshot)
    backoff.held_back(snapshot, "drift", NOW, BackoffTimes().delay_seconds)
    backoff.write_failure(backoff.next_failure(snapshot, node, "drift", NOW))
    backoff.resting(snapshot, NOW)
    backoff.write_resting(node, ["w"], NOW, NOW + 600)
    backoff.stale(node, NOW)
    approval.under_way(snapshot)
    unreadable_records(node.node)


def headroom(text: str) -> None:
    provisioner = factories.provisioner(object_annotations=FrozenMap({HEADROOM_ANNOTATION: text}))
    headroom_pods(provisioner, factories.snapshot(provisioners=[provisioner]), NOW)


def budgets(text: str) -> None:
    for budget in parse_budgets(text):
        budget.active(NOW)
        budget.allows(100)


RECORD = {
    "id": "c1", "method": "drift", "reason": "drifted", "nodes": ["a"], "replacements": ["t"], "startedAt": NOW,
    "cordoned": True,
}  # fmt: skip
FAILURE = {"method": "drift", "generation": 1, "at": NOW, "count": 3}
APPROVAL = {
    "plan": "p", "at": NOW, "step": 1, "steps": 2, "nodes": 3, "pods": ["ab"], "saves": 0.5, "planSaves": 1,
    "cordoned": True, "stopped": "",
}  # fmt: skip
MESSAGE = {
    "version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
    "time": "2026-03-02T12:00:00Z", "detail": {"instance-id": "i-1"},
}  # fmt: skip
DECISION = {"number": 1, "at": NOW, "kind": "launch", "method": "provisioning", "subject": "Node/a", "pods": ["a/b"]}
PRODUCT = {"product": {"attributes": {"instanceType": "m5.large"}}, "terms": {"OnDemand": {}}}
HEADROOM = {"cpu": "1", "count": 2, "schedule": "0 8 * * *", "duration": "8h"}
REVIEW = {"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "kind": {"kind": "Provisioner"}, "object": {}}}
READERS: Mapping[str, tuple[Callable[[str], Any], Mapping[str, Any], tuple[type[Exception], ...]]] = {
    "records": (lambda text: removal_state(noted(records.COMMAND_ANNOTATION, text)), RECORD, ()),
    "failures": (lambda text: removal_state(noted(backoff.FAILURE_ANNOTATION, text)), FAILURE, ()),
    "resting": (lambda text: removal_state(noted(backoff.RESTING_ANNOTATION, text)), {"w": NOW + 60}, ()),
    "approvals": (lambda text: removal_state(noted(approval.APPROVAL_ANNOTATION, text)), APPROVAL, ()),
    "messages": (parse_message, MESSAGE, (ValueError,)),
    "tags": (readers.tags, {"team": "web"}, (ValueError,)),
    "launch limits": (parse_launch_limits, {"pricePerHour": 5, "resources": {"cpu": "9"}}, (ValueError,)),
    "price rules": (lambda text: parse_price_rules(f"[{text}]"), {"discountPercent": 5}, (ValueError,)),
    "budgets": (lambda text: budgets(f"[{text}]"), {"nodes": "1"}, (ValueError,)),
    "headroom": (lambda text: headroom(f"[{text}]"), HEADROOM, (ValueError,)),
    "log levels": (lambda text: log_levels({ZAP_CONFIG: text}, "info"), {"level": "info"}, (ValidationError,)),
    "ledger": (lambda text: Ledger(ManualClock()).restore(gzip.compress(text.encode(errors="replace"))), DECISION, ()),
    "prices": (lambda text: dict(_hourly([text])), PRODUCT, ()),
    "refusals": (lambda text: error_of(409, text.encode(errors="replace"), "update"), {"reason": "Conflict"}, ()),
    "webhook": (
        lambda text: [answer(path, text.encode(errors="replace"), Known()) for path in PATHS],
        REVIEW,
        (UnreadableReviewError,),
    ),
}


def read_all(name: str, text: str) -> None:
    read, _, expected = READERS[name]
    try:
        read(text)
    except expected:
        return


@pytest.mark.parametrize("name", READERS)
def test_what_is_hostile_as_a_whole_is_refused(name: str) -> None:
    for text in HOSTILE_TEXTS:
        read_all(name, text)


@pytest.mark.parametrize("name", READERS)
def test_what_is_hostile_in_one_member_is_refused(name: str) -> None:
    usual = READERS[name][1]
    for member in usual:
        for text in (*HOSTILE_TEXTS, *OF_ANOTHER_TYPE):
            others = json.dumps({key: value for key, value in usual.items() if key != member})[1:-1]
            read_all(name, f'{{"{member}": {text or 0}{others and ", " + others}}}')


@given(st.data())
def test_values_of_any_kind_in_any_member_raise_nothing_unexpected(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(READERS)))
    usual = READERS[name][1]
    read_all(name, data.draw(st.one_of(hostile_objects(sorted(usual), **usual), json_texts())))


def test_the_usual_form_of_each_is_read() -> None:
    assert records.read_record(noted(records.COMMAND_ANNOTATION, json.dumps(RECORD))) == records.Record(
        "c1", "drift", "drifted", ("a",), ("t",), NOW
    )
    assert backoff.read_failure(noted(backoff.FAILURE_ANNOTATION, json.dumps(FAILURE))) == backoff.Failure(
        "drift", 1, NOW, 3
    )
    assert Ledger(ManualClock()).restore(gzip.compress(json.dumps(DECISION).encode())) == 1


def test_a_failure_from_the_future_holds_nothing_back() -> None:
    node = noted(backoff.FAILURE_ANNOTATION, json.dumps({**FAILURE, "at": NOW + 86_400}))
    snapshot = factories.snapshot(nodes=[node], provisioners=[factories.provisioner(generation=1)])
    assert backoff.held_back(snapshot, "drift", NOW, BackoffTimes().delay_seconds) == frozenset()
    assert backoff.stale(node, NOW) == (backoff.FAILURE_ANNOTATION,)


def test_a_workload_does_not_rest_for_ever() -> None:
    node = noted(backoff.RESTING_ANNOTATION, json.dumps({"w": NOW + 10**8, "x": NOW + 60}))
    assert backoff.resting(factories.snapshot(nodes=[node]), NOW) == {"x"}


def test_a_small_ledger_that_unpacks_to_gigabytes_is_left_out() -> None:
    assert Ledger(ManualClock()).restore(gzip.compress(b" " * (MOST_UNPACKED_BYTES + 1))) == 0
