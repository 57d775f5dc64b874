"""The one reader of JSON from outside: plain values within bounds, or its one exception."""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.untrusted_json import (
    MOST_DEPTH,
    MOST_WHOLE,
    UnreadableJsonError,
    number,
    read_json,
    read_object,
    unpacked,
    whole,
)
from tests.hostile_json import HOSTILE_TEXTS, json_texts, json_values


def depth(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(depth, below), default=-1 if not isinstance(value, (dict, list)) else 0)


@pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=range(len(HOSTILE_TEXTS)))
def test_hostile_text_raises_the_one_exception(text: str) -> None:
    with pytest.raises(UnreadableJsonError):
        read_json(text)


@given(st.one_of(st.text(), st.binary(), json_texts()))
def test_whatever_the_text_is_the_reader_answers_or_raises_its_one_exception(text: str | bytes) -> None:
    try:
        value = read_json(text)
    except UnreadableJsonError:
        return
    assert depth(value) <= MOST_DEPTH
    assert json.loads(text) == value


@given(json_values)
def test_numbers_are_finite_and_within_bounds_or_refused(value: Any) -> None:
    for read in (number, whole):
        try:
            assert 0 <= read(value) < math.inf
        except UnreadableJsonError:
            continue


def test_the_bounds_themselves_are_read() -> None:
    nested = "[" * MOST_DEPTH + "]" * MOST_DEPTH
    assert depth(read_json(nested)) == MOST_DEPTH
    assert read_json(str(MOST_WHOLE)) == MOST_WHOLE
    assert read_json("1" * 5, most_bytes=5) == 11111
    for beyond in (f"[{nested}]", str(MOST_WHOLE + 1), str(-MOST_WHOLE - 1)):
        with pytest.raises(UnreadableJsonError):
            read_json(beyond)
    with pytest.raises(UnreadableJsonError, match="longer than 4 bytes"):
        read_json("1" * 5, most_bytes=4)


def test_an_object_is_asked_for_where_only_an_object_will_do() -> None:
    assert read_object('{"a": [1, 2.5, null, true]}') == {"a": [1, 2.5, None, True]}
    with pytest.raises(UnreadableJsonError, match="not a JSON object"):
        read_object("[]")


def test_gzip_is_unpacked_within_bounds_or_refused() -> None:
    """A few kilobytes may unpack to gigabytes, and a stored text may be damaged."""
    packed = gzip.compress(b"x" * 1000)
    assert unpacked(packed, 1000) == b"x" * 1000
    for damaged, most in ((packed, 999), (packed[:-1], 1000), (b"plain", 1000), (b"", 1000)):
        with pytest.raises(UnreadableJsonError):
            unpacked(damaged, most)
