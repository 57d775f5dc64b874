"""Keys of the live view: how a terminal sends them, and what each does to the page."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import Mock

import pytest
from rich.console import Console

from controller.cli.cluster.limits_report import LimitStatus
from controller.cli.cluster.workload_costs import Cost, Costs
from controller.cli.formatting import bar
from controller.cli.view import node_rows
from controller.cli.view.keyboard import Keyboard
from controller.cli.view.reading import Read, reading
from controller.cli.view.screen import Page
from controller.cli.view.screen_state import ScreenState
from controller.cli.view.view_data import View, Waiting
from controller.errors import ForbiddenError
from tests.cli.view.test_view import facts

WHY = f"no type of Provisioner default has room for it, {'and then some, ' * 12}and that is all"
COSTS = Costs({("shop", "web"): Cost(0.5, 3), ("data", "db"): Cost(0.2, 1)}, 0.3, 1.0)


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b[A\x1b[B\x1bOC\x1b[D", ["up", "down", "right", "left"]),
        ("\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["page up", "page down", "home", "end"]),
        ("/ü\x7f\n", ["/", "ü", "backspace", "enter"]),
        ("\x1b[1;5Cq", ["", "q"]),
        ("\x1b", ["escape"]),
        ("\x1bq", ["escape", "q"]),
    ],
)
def test_what_a_terminal_sends_becomes_keys(sent: str, keys: list[str]) -> None:
    """Also of a terminal in application mode; a sequence that means nothing here is one key that does nothing."""
    ours, theirs = os.pipe()
    keyboard = Keyboard(ours)
    os.write(theirs, sent.encode())
    assert keyboard.typed()
    assert [keyboard.key(10) for _ in keys] == keys
    assert not keyboard.typed()
    keyboard.close()
    os.close(theirs)
    os.close(ours)


def test_a_key_is_not_waited_for_when_there_is_something_new_to_draw() -> None:
    ours, theirs = os.pipe()
    keyboard = Keyboard(ours)
    keyboard.wake()
    assert keyboard.key(60) == ""
    os.close(theirs)
    assert keyboard.key(60) == "", "the terminal is gone"
    keyboard.wake()
    assert keyboard.key(60) == ""
    keyboard.close()
    keyboard.wake()
    os.close(ours)


def forty() -> View:
    nodes = tuple(facts(f"node-{number:02}", of="ab"[number % 2]) for number in range(40))
    return View(nodes, (), (), ("cpu",), 0.0)


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["down", "down", "up"], "node-01"),
        (["page down"], "node-13"),
        (["j", "k"], "node-00"),
        ([*["right"] * 9, "left"], "node-14"),
        (["end"], "node-27"),
        (["end", "home"], "node-00"),
        (["up", "up", "down"], "node-01"),
        (["end", "f"], "node-00"),
    ],
)
def test_keys_move_through_the_nodes_and_stop_at_both_ends(keys: list[str], first: str) -> None:
    view, screen = forty(), ScreenState("name")
    shown = page(view, screen, 20)
    for key in keys:
        screen.press(key, view)
        shown = page(view, screen, 20)
    assert next(line for line in shown.splitlines() if line.startswith("node-")).split()[0] == first
    assert len(shown.splitlines()) == 20


def test_words_that_are_typed_choose_nodes_and_totals_are_theirs() -> None:
    view, screen = forty(), ScreenState()
    for key in ["/", *"1 SPOT qx", "backspace"]:
        screen.press(key, view)
    shown = page(view, screen)
    assert "/1 SPOT q▏" in shown
    assert "0 of 40 nodes" in shown
    for key in ("backspace", "backspace", "enter", "f"):
        screen.press(key, view)
    shown = page(view, screen)
    assert "5 of 40 nodes" in shown, "10, 12, 14, 16 and 18"
    assert "$5.00/h" in shown
    assert "2.5 of 5" in shown
    assert "of a · with '1 SPOT' · by price" in shown
    screen.press("escape", view)
    assert "40 nodes (40 spot)" in page(view, screen)


def test_reasons_are_in_full_where_they_have_room_or_when_asked_for() -> None:
    bound = LimitStatus("default", "cpu", "8", "8", 1.0, "unreadable", WHY)
    few = View((facts("a"),), (Waiting("shop/web", 2, WHY),), (), ("cpu",), 0.0, limits=(bound,))
    whole = " ".join(page(few, ScreenState(), 30).split())
    assert whole.count("and that is all") == 2
    assert page(few, ScreenState(), 13).count("and that is all") == 0
    many = View(forty().nodes, few.waiting, (), ("cpu",), 0.0, limits=(bound,))
    screen = ScreenState()
    assert "and that is all" not in page(many, screen, 30)
    screen.press("w", many)
    shown = page(many, screen, 30)
    assert " ".join(shown.split()).count("and that is all") == 2
    assert len(shown.splitlines()) == 30


@pytest.mark.parametrize("height", [5, 8, 12, 20])
def test_a_page_is_never_higher_than_the_terminal_and_ends_with_the_keys(height: int) -> None:
    waiting = tuple(Waiting(f"w{number}", 2, WHY) for number in range(30))
    view = View(forty().nodes, waiting, (), ("cpu",), 0.0, costs=COSTS)
    for keys in ((), ("w",), ("c",), ("?",)):
        screen = ScreenState()
        for key in keys:
            screen.press(key, view)
        lines = page(view, screen, height).splitlines()
        assert len(lines) == height
        assert sum(line.startswith("node-") for line in lines) >= min(3, height - 5)


def test_costs_are_shown_by_namespace_then_by_workload_then_not() -> None:
    view, screen = View((facts("a"),), (), (), ("cpu",), 0.0, costs=COSTS), ScreenState()
    seen = []
    for _ in range(3):
        screen.press("c", view)
        shown = page(view, screen)
        seen.append([name for name in ("shop  ", "shop/web", "(idle)") if name in shown])
    assert seen == [["shop  ", "(idle)"], ["shop/web", "(idle)"], []]
    screen.press("c", view)
    assert "Costs of all nodes" not in page(view, screen)
    screen.search = "a"
    assert "Costs of all nodes" in page(view, screen), "the totals above are those of the chosen ones"


def test_every_key_of_the_help_does_something() -> None:
    view, screen = forty(), ScreenState()
    screen.press("?", view)
    shown = page(view, screen)
    for keys in ("↑ ↓", "PgUp PgDn", "/ text Enter", "p l d", "e ", "q "):
        assert keys in shown


def test_keys_are_answered_while_the_cluster_is_read() -> None:
    """The first frame does not wait for the first list; what cannot be read is raised by the thread that draws."""
    go, woken = threading.Event(), threading.Event()

    def read() -> View:
        assert go.wait(10)
        return forty()

    with reading(lambda: nullcontext(read), 60.0, woken.set) as current:
        assert current.view is None
        go.set()
        assert woken.wait(10)
        assert current.view is not None

    @contextmanager
    def refused() -> Iterator[Read]:
        raise ForbiddenError("list nodes: not yours")
        yield read

    woken.clear()
    with reading(refused, 60.0, woken.set) as current:
        assert woken.wait(10)
        assert isinstance(current.failure, ForbiddenError)


def test_a_frame_of_many_nodes_is_the_work_of_the_rows_that_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells are made for the rows on the terminal alone, on every page, whatever the number of nodes."""
    made = Mock(wraps=bar)
    monkeypatch.setattr(node_rows, "bar", made)
    counted = []
    for number in (30, 500):
        view = View(tuple(facts(f"node-{each:03}") for each in range(number)), (), (), ("cpu", "memory"), 0.0)
        screen = ScreenState("name")
        for keys in ((), ("page down",), ("end",), ("s", "home")):
            for key in keys:
                screen.press(key, view)
            made.reset_mock()
            lines = page(view, screen, 20).splitlines()
            counted.append((sum(line.startswith("node-") for line in lines), made.call_count))
    assert len(set(counted)) == 1, "the same work for 30 nodes as for 500, on each page"
    assert counted[0][0] > 10


def page(view: View, screen: ScreenState, height: int = 40) -> str:
    console = Console(file=io.StringIO(), width=100, no_color=True)
    console.print(Page(view, screen, height, keys=True))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
