"""Write docs/captures/previews.md: what the committed stacks declare now, beside what they did at an earlier commit.

    uv run python scripts/previews.py --before 2d44bf1

Both sides are golden files of previews (tests/components/golden), the earlier one as git has it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parent.parent
GOLDEN = Path("tests/components/golden")
PAGE = ROOT / "docs" / "captures" / "previews.md"
COMPONENT = "nodeless:index:NodeLess$"
"""The type's prefix of what the component of the whole stack declares itself; its alias is the name without."""

Preview = Mapping[str, Mapping[str, Any]]
"""Inputs by resource (TYPE::NAME)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Resources of two previews. `changed`: names of inputs that differ, by resource."""

    same: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]
    new: tuple[str, ...]
    gone: tuple[str, ...]


def difference(before: Preview, after: Preview) -> Difference:
    """Compare two previews. What moved under the component is the same resource: it has an alias."""
    one, two = ({name.removeprefix(COMPONENT): inputs for name, inputs in each.items()} for each in (before, after))
    both = sorted(one.keys() & two.keys())
    changed = {name: tuple(_changed(one[name], two[name])) for name in both if one[name] != two[name]}
    same = tuple(name for name in both if name not in changed)
    return Difference(same, changed, tuple(sorted(two.keys() - one.keys())), tuple(sorted(one.keys() - two.keys())))


def _changed(one: Mapping[str, Any], two: Mapping[str, Any]) -> Iterator[str]:
    """Names of inputs that differ; of an object's metadata, spec and data the member that does."""
    for name in sorted({*one, *two}):
        left, right = one.get(name), two.get(name)
        if left == right:
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            yield from (
                f"{name}.{member}" for member in sorted({*left, *right}) if left.get(member) != right.get(member)
            )
        else:
            yield name


def page(previews: Sequence[tuple[str, Preview, Preview]], commit: str, day: str, today: str) -> str:
    """A page of Markdown. `previews`: (stack, before, after); `commit` of before, and the days of both."""
    found = [(name, one, two, difference(one, two)) for name, one, two in previews]
    rows = []
    for name, one, two, each in found:
        counted = (one, two, each.same, each.changed, each.new, each.gone)
        rows.append(f"| {name} | {' | '.join(str(len(those)) for those in counted)} |\n")
    head = (
        "# Previews before and after\n\nWhat `pulumi preview` of each committed stack declares: before is commit "
        f"{commit} of {day}, after is {today}. Written by\n`uv run python scripts/previews.py --before {commit}` "
        "from the golden files that a test holds every preview to. `+` is new,\n`-` is gone, `~` has other inputs. "
        "What moved under the component `NodeLess` has an alias, and is not replaced.\n\n"
        "| stack | before | after | as before | other inputs | new | gone |\n|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(rows) + "".join(f"\n## {name}\n\n```diff\n{_lines(each)}```\n" for name, *_, each in found)


def _lines(found: Difference) -> str:
    lines = [
        *(f"+ {_short(name)}" for name in found.new),
        *(f"- {_short(name)}" for name in found.gone),
        *(f"~ {_short(name)}: {', '.join(keys)}" for name, keys in found.changed.items()),
    ]
    return "".join(f"{line}\n" for line in [*lines, f"  {len(found.same)} more as before"])


def _short(name: str) -> str:
    """The resource without its parents' types."""
    kind, _, own = name.partition("::")
    return f"{kind.rpartition('$')[2]} {own}"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S607


@click.command(help=__doc__)
@click.option("--before", required=True, metavar="COMMIT")
def main(before: str) -> None:
    """Read both sides, write the page."""
    previews = []
    for path in sorted((ROOT / GOLDEN).glob("*.json")):
        one = json.loads(_git("show", f"{before}:{GOLDEN / path.name}"))
        previews.append((path.stem, one, json.loads(path.read_text())))
    days = [_git("log", "-1", "--format=%as", each).strip() for each in (before, "HEAD")]
    PAGE.write_text(page(previews, before, days[0], days[1]))
    click.echo(str(PAGE.relative_to(ROOT)))


if __name__ == "__main__":
    main()
