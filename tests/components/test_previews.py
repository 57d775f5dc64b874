"""The page of previews before and after: what is new, gone, moved and changed, of values."""

from __future__ import annotations

from typing import Any

from scripts.previews import Difference, difference, page

BEFORE: dict[str, dict[str, Any]] = {
    "nodeless:index:Role$aws:iam/role:Role::nodes": {"name": "n"},
    "nodeless:index:Role::identity": {},
    "aws:sqs/queue:Queue::queue": {"name": "q", "tags": {"a": "1"}},
    "aws:iam/policy:Policy::old": {},
}
AFTER: dict[str, dict[str, Any]] = {
    "nodeless:index:Role$aws:iam/role:Role::nodes": {"name": "n"},
    "nodeless:index:NodeLess$nodeless:index:Role::identity": {},
    "aws:sqs/queue:Queue::queue": {"name": "p", "tags": {"a": "1", "b": "2"}},
    "aws:iam/policy:Policy::new": {},
}


def test_what_moved_under_the_component_is_the_same_and_changes_are_named_by_their_inputs() -> None:
    assert difference(BEFORE, AFTER) == Difference(
        same=("nodeless:index:Role$aws:iam/role:Role::nodes", "nodeless:index:Role::identity"),
        changed={"aws:sqs/queue:Queue::queue": ("name", "tags.b")},
        new=("aws:iam/policy:Policy::new",),
        gone=("aws:iam/policy:Policy::old",),
    )
    written = page([("dev", BEFORE, AFTER)], "abc1234", "2026-01-01", "2026-02-01")
    assert "| dev | 4 | 4 | 2 | 1 | 1 | 1 |\n" in written
    lines = ("+ aws:iam/policy:Policy new", "- aws:iam/policy:Policy old", "~ aws:sqs/queue:Queue queue: name, tags.b")
    assert "\n".join(("```diff", *lines, "  2 more as before", "```")) in written
