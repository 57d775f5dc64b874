"""EC2's `Filters`: values are or-ed, filters and-ed, `*` and `?` are wildcards, `tag:KEY` and `tag-key` look at tags.

Source: "List and filter using the CLI and API" in the EC2 user guide.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sandbox.aws.wire import AwsError

Values = Callable[[Any, str], Iterable[str] | None]
"""(item, filter name) -> its values; None when there is no such filter."""


@functools.lru_cache(maxsize=4096)
def pattern(text: str) -> re.Pattern[str]:
    """`*` stands for any run, `?` for one character, `\\` takes the next one as it is; case counts."""
    out, escaped = [], False
    for char in text:
        if escaped or char not in "*?\\":
            out.append(re.escape(char))
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            out.append(".*" if char == "*" else ".")
    return re.compile("".join(out), re.DOTALL)


def matches(item: Any, filters: list[dict[str, Any]], values: Values, tags: Mapping[str, str]) -> bool:
    """Whether the item passes all filters. Raises InvalidParameterValue for a filter that `values` does not know."""
    return all(_passes(item, f, values, tags) for f in filters)


def _passes(item: Any, one: dict[str, Any], values: Values, tags: Mapping[str, str]) -> bool:
    name = one.get("Name", "")
    wanted = [pattern(value) for value in one.get("Values", [])]
    found: Iterable[str] | None
    if name.startswith("tag:"):
        key = name[4:]
        found = [tags[key]] if key in tags else []
    elif name == "tag-key":
        found = tags
    elif name == "tag-value":
        found = tags.values()
    else:
        found = values(item, name)
    if found is None:
        raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
    return any(w.fullmatch(value) for value in found for w in wanted)


def check(filters: list[dict[str, Any]], known: Callable[[str], bool]) -> None:
    """Refuse unknown filters even when there is nothing to filter, as EC2 does."""
    for one in filters:
        name = one.get("Name", "")
        if not (name.startswith("tag:") or name in {"tag-key", "tag-value"} or known(name)):
            raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")
