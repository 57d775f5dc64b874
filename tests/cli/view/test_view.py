"""`nodeless view`: what a cluster's nodes are, cost and carry, whoever made them."""

from __future__ import annotations

import base64
import csv
import io
import os
import pty
import select
import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest
from rich.console import Console

from controller.cli.cluster.limits_report import LimitStatus
from controller.cli.cluster.node_facts import NodeFacts, capacity_type, owner, price_of
from controller.cli.view.command import refresh
from controller.cli.view.node_rows import NodeTable
from controller.cli.view.screen import KEYS, Page
from controller.cli.view.screen_state import ScreenState
from controller.cli.view.view_data import View, Waiting, ordered
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import INSTANCE_TYPE, ZONE
from controller.core.api.node import Node
from controller.core.decisions.decision import Decision
from controller.core.state.snapshot import StateNode
from controller.errors import UnavailableError
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.decision_store import CONFIG_MAP, KEY
from controller.telemetry.decision_ledger import Ledger
from tests.cli.cluster_files import FARGATE, GROUP, OURS
from tests.cli.conftest import Run, Write, answer
from tests.cli.drawing import drawn
from tests.cli.golden_files import catalog
from tests.manual_clock import ManualClock


@pytest.fixture(scope="module")
def seen(kubeconfig: str) -> Any:
    from click.testing import CliRunner

    from controller.cli.main import main

    return answer(CliRunner().invoke(main, ["view", "--kubeconfig", kubeconfig, "-o", "json"]))


def test_nodes_of_every_origin_are_shown_with_what_is_known(seen: Any) -> None:
    nodes = {node["name"]: node for node in seen["nodes"]}
    assert nodes[OURS]["owner"] == "default"
    assert nodes[OURS]["pricePerHour"] == pytest.approx(0.384)
    assert nodes[OURS]["use"]["cpu"] == pytest.approx(1 / 8)
    assert (nodes[GROUP]["owner"], nodes[GROUP]["capacityType"]) == ("system", "spot")
    assert (nodes[FARGATE]["owner"], nodes[FARGATE]["pricePerHour"]) == ("fargate", None)
    assert seen["summary"]["nodesOfUnknownPrice"] == 1
    assert seen["summary"]["pricePerMonth"] == pytest.approx(seen["summary"]["pricePerHour"] * 730, abs=0.01)


def test_pods_that_wait_are_shown_with_the_controllers_reason(seen: Any) -> None:
    waiting = {each["workload"]: each for each in seen["waiting"]}
    assert "us-east-9z" in waiting["default/stuck-rs"]["reason"]
    assert waiting["default/waiting-rs"]["reason"] == "would get a m5.2xlarge on-demand of default"
    assert "default/gated-rs" not in waiting, "nobody has said that it finds no place"


def test_selector_is_kubernetes_own(run: Run, kubeconfig: str) -> None:
    asked = ("view", "--kubeconfig", kubeconfig, "-o", "json", "-l")
    assert [n["name"] for n in answer(run(*asked, "karpenter.sh/provisioner-name in (default)"))["nodes"]] == [OURS]
    assert run(*asked, "=(").exit_code == 1


def test_export_for_spreadsheets_has_a_line_a_node(run: Run, kubeconfig: str) -> None:
    text = run("view", "--kubeconfig", kubeconfig, "-o", "csv", "--sort", "name", "--reverse").stdout
    down = sorted([OURS, GROUP, FARGATE], reverse=True)
    assert [row["name"] for row in csv.DictReader(io.StringIO(text))] == down
    listed = answer(run("view", "--kubeconfig", kubeconfig, "-o", "json", "--sort", "name", "--reverse"))["nodes"]
    assert [node["name"] for node in listed] == down


def test_decisions_on_record_are_shown(run: Run, kubeconfig: str) -> None:
    ledger, kube = Ledger(ManualClock()), KubeClient(connect(kubeconfig))
    ledger.record(Decision("launch", "provisioning", f"Node/{OURS}", "2 pods had no room", "default"))
    ledger.record(Decision("skip", "provisioning", "Pod/shop/big", "why it is pending"))
    data = {KEY: base64.b64encode(ledger.compact()).decode()}
    kube.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "binaryData": data}, "default")
    try:
        said = "provisioning: launch ours-1: 2 pods had no room"
        shown = run("view", "--kubeconfig", kubeconfig).stdout
        assert said in shown
        assert "why it is pending" not in shown, "pending pods have their reasons beside them"
        listed = answer(run("view", "--kubeconfig", kubeconfig, "-o", "json"))["decisions"]
        assert [each["reason"] for each in listed] == ["2 pods had no room", "why it is pending"]
        assert said in run("explain", "node", OURS, "--kubeconfig", kubeconfig).stdout
    finally:
        kube.delete(CONFIG_MAPS, CONFIG_MAP, "default")


def facts(name: str, price: float | None = 1.0, cpu: int = 500, of: str = "a") -> NodeFacts:
    room = FrozenMap({"cpu": 1000})
    return NodeFacts(name, "m5.large", "z", "spot", of, "Ready", 60.0, price, 1, room, {"cpu": cpu}, {})


def test_nodes_are_sorted_by_what_was_asked_for() -> None:
    view = View((facts("b", 2.0, 100), facts("a", None, 900), facts("c", 3.0, 500)), (), (), ("cpu",), 0.0)
    assert [n.name for n in ordered(view, "price")] == ["c", "b", "a"]
    assert [n.name for n in ordered(view, "cpu")] == ["a", "c", "b"]
    assert [n.name for n in ordered(view, "name", reverse=True)] == ["c", "b", "a"]


def test_keys_sort_select_and_hide() -> None:
    view = View((facts("one", of="a"), facts("two", of="b")), (Waiting("w", 1, "why not"),), (), ("cpu",), 0.0)
    screen = ScreenState()
    drawn = _drawn(view, screen)
    assert "one" in drawn
    assert "why not" in drawn
    for key in "sfp":
        screen.press(key, view)
    drawn = _drawn(view, screen)
    assert "by name" in drawn
    assert "one" in drawn
    assert "two" not in drawn
    assert "why not" not in drawn
    screen.press("f", view)
    assert "two" in _drawn(view, screen)


def test_page_keeps_to_the_height_of_the_terminal_and_says_what_it_hides() -> None:
    nodes = tuple(facts(f"node-{number:03}") for number in range(200))
    waiting = tuple(Waiting(f"w{number}", 2, "x " * 200) for number in range(30))
    drawn = _drawn(View(nodes, waiting, (), ("cpu",), 0.0), ScreenState(), 30)
    assert len(drawn.splitlines()) <= 30
    assert "more nodes · by price" in drawn
    assert "and 48 pods of other workloads" in drawn
    assert KEYS in drawn


def test_limits_are_shown_and_hidden() -> None:
    bound = LimitStatus("default", "cpu", "8", "100", 0.08)
    view, screen = View((facts("a"),), (), (), ("cpu",), 0.0, limits=(bound,)), ScreenState()
    assert "Limit" in _drawn(view, screen)
    screen.press("l", view)
    assert "Limit" not in _drawn(view, screen)


def test_what_is_wrong_with_the_look_takes_the_place_of_the_keys() -> None:
    view = View((facts("a"),), (), (), ("cpu",), 0.0, warnings=("The API server does not answer",))
    assert "does not answer" in _drawn(view, ScreenState())
    assert KEYS not in _drawn(view, ScreenState())


@pytest.mark.parametrize("width", [40, 80, 120])
def test_columns_give_way_to_the_width_but_never_the_use(width: int) -> None:
    lines = drawn(NodeTable((facts("ip-10-0-0-101.ec2.internal"),), ("cpu",), "", ""), width).splitlines()
    assert max(map(len, lines)) <= width
    assert "cpu" in lines[0]
    assert lines[1].startswith("ip-10-0-0-")
    assert ("$/month" in lines[0]) is (width == 120)
    assert ("$/h" in lines[0]) is (width > 40)


def test_names_lose_their_domain_where_it_has_no_room_and_tells_no_nodes_apart() -> None:
    table = NodeTable((facts("ip-10-0-0-101.ec2.internal"), facts("ip-10-0-0-102.ec2.internal")), ("cpu",))
    assert [line.split()[0] for line in drawn(table, 80).splitlines()[1:3]] == ["ip-10-0-0-101", "ip-10-0-0-102"]
    assert "ip-10-0-0-101.ec2.internal" in drawn(table, 160)
    alike = NodeTable((facts("node-of-group-a.east"), facts("node-of-group-a.west")), ("cpu",))
    assert "…" in drawn(alike, 80)


def _drawn(view: View, screen: ScreenState, height: int = 60) -> str:
    console = Console(file=io.StringIO(), width=150, no_color=True)
    console.print(Page(view, screen, height, keys=True))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"karpenter.sh/capacity-type": "spot"}, "spot"),
        ({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on-demand"),
        ({"eks.amazonaws.com/compute-type": "fargate"}, "fargate"),
        ({}, "on-demand"),
    ],
)
def test_capacity_type_is_read_from_whoever_set_it(labels: dict[str, str], expected: str) -> None:
    assert capacity_type(labels) == expected


def test_owner_is_whoever_labelled_the_node() -> None:
    assert owner({"karpenter.sh/nodepool": "later", "eks.amazonaws.com/nodegroup": "g"}) == "later"
    assert owner({}) == ""


def test_on_a_terminal_it_stays_until_q(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn on a real pseudo-terminal; a look that fails is said, and the next one goes on."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("LINES", "40")
    monkeypatch.setenv("TERM", "xterm")
    looks = iter([View((facts("first"),), (), (), ("cpu",), 0.0), None, View((facts("third"),), (), (), ("cpu",), 0.0)])
    last = View((facts("last"),), (), (), ("cpu",), 0.0)

    def read() -> View:
        look = next(looks, last)
        if look is None:
            raise UnavailableError("the API server does not answer")
        return look

    with os.fdopen(theirs) as keys, os.fdopen(os.dup(theirs), "w", buffering=1) as screen:
        monkeypatch.setattr("sys.stdin", keys)
        monkeypatch.setattr("sys.stdout", screen)
        thread = threading.Thread(target=refresh, args=(lambda: nullcontext(read), ScreenState(), 0.5))
        thread.start()
        for text in ("first", "the API server does not answer", "third"):
            _read_until(ours, text)
        os.write(ours, b"s")
        _read_until(ours, "by name")
        os.write(ours, b"q")
        thread.join(10)
        assert not thread.is_alive()
    os.close(ours)


def test_a_node_of_a_spot_node_group_has_the_price_of_spot() -> None:
    labels = FrozenMap({INSTANCE_TYPE: "m5.large", ZONE: "a", "eks.amazonaws.com/capacityType": "SPOT"})
    node = StateNode(Node("n", labels=labels), (), EMPTY, EMPTY, ())
    prices = {("m5.large", "a", "spot"): 0.04, ("m5.large", "a", "on-demand"): 0.1}
    assert price_of(node, prices) == 0.04


def _read_until(descriptor: int, text: str) -> str:
    output, deadline = "", time.monotonic() + 30
    while text not in output:
        ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
        assert ready, f"{text!r} was not drawn in time; this was: {output}"
        output += os.read(descriptor, 65_536).decode(errors="replace")
    return output


@pytest.mark.parametrize(("chosen", "made_up"), [((), True), (("--catalog", "shipped"), False)])
def test_prices_are_the_dumps_unless_others_are_asked_for(
    run: Run, write: Write, chosen: tuple[str, ...], made_up: bool
) -> None:
    dump = write({"kind": "ClusterDump", "objects": [], "catalog": catalog()})
    notes = answer(run("view", "--from", dump, *chosen, "-o", "json"))["notes"]
    assert any("made up" in note for note in notes) is made_up
