"""JSON that somebody made up to break its reader, for tests of everything that reads JSON from outside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import strategies as st

HOSTILE_TEXTS: Final = (
    "",
    "{",
    "nan",
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 400,
    "-" + "9" * 5000,
    '{"a": ' + "9" * 400 + "}",
    "[" * 65 + "]" * 65,
    "[" * 900 + "]" * 900,
    "[" * 200_000,
    '{"a":' * 3000 + "1" + "}" * 3000,
    '["\\ud800"]',
    '["\ud800"]',
    '"' + "a" * (2**20) + '"',
)
"""Texts that no reader may take."""

_NUMBERS: Final = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**53, 2**63 - 1, 10**18, 1e12, 1e300, 5e-324, -1e300, 253402300800.0]),
    st.floats(allow_nan=False, allow_infinity=False),
)
_TEXTS: Final = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "inf", "nan", "1e400", "9" * 5000, "10%", "²", "0001-01-01T00:00:00+14:00", "9" * 18 + "h"]),
)
json_values: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_TEXTS, inner, max_size=4)),
    max_leaves=12,
)
"""Decoded JSON of any shape."""


def hostile_objects(members: Sequence[str], **usual: Any) -> st.SearchStrategy[str]:
    """JSON objects with `usual`, some of `members` with values of any kind instead, and some that nobody knows."""
    changed = st.dictionaries(st.sampled_from([*members, "unknown"]), json_values, max_size=4)
    return changed.map(lambda values: json.dumps({**usual, **values}))


def json_texts() -> st.SearchStrategy[str]:
    """JSON, and JSON cut off or hostile."""
    whole = json_values.map(json.dumps)
    cut = st.tuples(whole, st.integers(0, 30)).map(lambda pair: pair[0][: -pair[1] or None])
    return st.one_of(whole, cut, st.sampled_from(HOSTILE_TEXTS))
