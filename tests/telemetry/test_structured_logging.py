"""Log lines as a cluster's log pipeline reads them."""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from controller.errors import ValidationError
from controller.telemetry.structured_logging import REPEAT_SECONDS, Repeats, configure, set_level
from tests.manual_clock import ManualClock
from tests.source_trees import READS_SOURCES, syntax_trees


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    handlers = list(logging.getLogger().handlers)
    yield
    logging.getLogger().handlers[:] = handlers
    set_level("info")
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_json_line_has_karpenters_keys_and_the_fields() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    structlog.get_logger("provisioning").info("Launched node", node="n1", price_per_hour=0.1)
    (line,) = lines(stream)
    assert line["time"].endswith("Z")
    del line["time"]
    assert line == {
        "level": "INFO",
        "logger": "provisioning",
        "message": "Launched node",
        "node": "n1",
        "price_per_hour": 0.1,
    }


def test_the_level_changes_while_the_process_runs() -> None:
    stream = io.StringIO()
    configure("warning", stream=stream)
    log = structlog.get_logger("x")
    log.info("Unheard")
    log.warning("Heard")
    set_level("DEBUG")
    log.debug("Heard too")
    assert [line["message"] for line in lines(stream)] == ["Heard", "Heard too"]


def test_a_level_that_does_not_exist_is_refused_with_those_that_do_and_the_old_one_stays() -> None:
    stream = io.StringIO()
    configure("error", stream=stream)
    with pytest.raises(ValidationError, match="debug, info, warn"):
        set_level("loud")
    structlog.get_logger("x").info("Unheard")
    assert stream.getvalue() == ""


def test_an_exception_is_one_line_with_its_traceback() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        structlog.get_logger("x").exception("Failed")
    (line,) = lines(stream)
    assert (line["level"], line["message"]) == ("ERROR", "Failed")
    assert "ZeroDivisionError: a bug" in line["exception"]


def test_fields_of_any_type_can_be_written() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    structlog.get_logger("x").info("Odd", a={1, 2}, b=ValueError("x"), c=b"\xff")
    assert lines(stream)[0]["b"] == "x"


def test_libraries_speak_in_our_format_from_warnings_on() -> None:
    stream = io.StringIO()
    configure("debug", stream=stream)
    configure("debug", stream=stream)
    logging.getLogger("urllib3.connectionpool").warning("Pool is full: %s", "x")
    logging.getLogger("urllib3.connectionpool").info("Unheard")
    (line,) = lines(stream)
    assert (line["logger"], line["level"], line["message"]) == ("urllib3.connectionpool", "WARNING", "Pool is full: x")


def test_the_console_format_is_for_people() -> None:
    stream = io.StringIO()
    configure(style="console", stream=stream)
    structlog.get_logger("provisioning").info("Launched node", node="n1")
    assert "Launched node" in stream.getvalue()
    assert "node=n1" in stream.getvalue()
    assert "\x1b[" not in stream.getvalue(), "no colours off a terminal"


def test_a_traceback_on_the_console_shows_no_local_variables() -> None:
    stream = io.StringIO()
    configure(style="console", stream=stream)
    try:
        token = "a" + "secret"
        raise ValueError(len(token))
    except ValueError:
        structlog.get_logger("provisioning").exception("Failed to launch")
    assert "ValueError: 7" in stream.getvalue()
    assert "asecret" not in stream.getvalue()


def test_repeats_are_held_back_and_counted() -> None:
    clock = ManualClock()
    repeats = Repeats(60.0, clock)
    assert [repeats.admit("a") for _ in range(5)] == [1, 0, 0, 0, 0]
    assert repeats.admit("b") == 1
    clock.advance(61.0)
    assert repeats.admit("a") == 5, "four that were held back, and this one"
    assert repeats.admit("a") == 0


def test_the_same_line_is_said_once_a_minute_and_then_how_often_it_was_meant() -> None:
    """To the last field: another node, another level or another error is another line. Debug lines are all there."""
    clock, stream = ManualClock(), io.StringIO()
    configure("debug", stream=stream, clock=clock)
    log = structlog.get_logger("registration")
    for _ in range(3):
        log.warning("Node is odd", node="a")
        log.debug("Looked")
    log.warning("Node is odd", node="b")
    log.info("Node is odd", node="a")
    structlog.get_logger("other").warning("Node is odd", node="a")
    for reason in ("one", "two", "two"):
        try:
            raise RuntimeError(reason)
        except RuntimeError:
            log.exception("Broken")
    clock.advance(REPEAT_SECONDS + 1)
    log.warning("Node is odd", node="a")
    told = [(line["message"], line.get("node", ""), line.get("repeats", 1)) for line in lines(stream)]
    assert told == [
        ("Node is odd", "a", 1),
        *[("Looked", "", 1)] * 3,
        ("Node is odd", "b", 1),
        ("Node is odd", "a", 1),
        ("Node is odd", "a", 1),
        ("Broken", "", 1),
        ("Broken", "", 1),
        ("Node is odd", "a", 3),
    ]


LEVEL_METHODS = {"debug", "info", "warning", "error", "exception"}


def spoken() -> Iterator[tuple[str, ast.expr]]:
    """Every message that the controller logs, with its place."""
    for path, tree in syntax_trees("controller").items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute)):
                continue
            source = ast.unparse(node.func.value)
            if node.func.attr in LEVEL_METHODS and (source.split(".")[-1] in ("_log", "log") or "get_logger" in source):
                yield f"{path.name}:{node.lineno}", node.args[0]


@READS_SOURCES
def test_messages_are_constant_and_begin_with_a_capital() -> None:
    """What differs is in the fields: a search for a message finds all of its lines."""
    messages = dict(spoken())
    assert len(messages) > 80, "the scan sees them"
    for place, message in messages.items():
        assert not isinstance(message, ast.JoinedStr | ast.BinOp | ast.Call), f"{place}: {ast.unparse(message)}"
        if isinstance(message, ast.Constant):
            assert str(message.value)[0].isupper(), place
