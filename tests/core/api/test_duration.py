"""Durations are Go's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.duration import duration_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("1.5h", 5400),
        (".5s", 0.5),
        ("1.s", 1),
        ("0", 0),
        ("-2m", -120),
        ("+2m", 120),
        ("1h0m0.25s", 3600.25),
        ("3us", 3e-6),
        ("3µs", 3e-6),
        ("7ns", 7e-9),
    ],
)
def test_reads_go_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == pytest.approx(seconds, abs=0)


@pytest.mark.parametrize(
    "text", ["", "10", "s", "1d", "1 s", "1s ", "1.2.3s", "--1s", "1e3s", "1s2", "9999999999h", "٣s"]
)
def test_refuses_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"(not a duration|too long): "):
        duration_seconds(text)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert duration_seconds(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds
