"""The documentation's pages as topics: which there are, and their text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from controller.core.api.strict import did_you_mean
from controller.errors import NodelessError, Problem, ValidationError

FOLDERS = ("commands", "guides", "reference", "")
"""Parts of docs/ whose pages are topics; the last is docs/ itself."""
LEFT_OUT = frozenset({"README"})
IMAGE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n\n?", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def topics() -> dict[str, str]:
    """Return the titles of the pages by topic, the commands first."""
    return {name: _title(page) for name, page in _pages().items()}


def text(topic: str, section: str = "") -> str:
    """Return a topic's page as Markdown, without pictures and local links;
    or its sections with `section` in their headings.

    Raises ValidationError with the nearest name, NodelessError where there are no pages.
    """
    pages = _pages()
    if topic not in pages:
        raise ValidationError("nodeless help", [Problem(topic, "is no topic", did_you_mean(topic, pages))])
    page = LINK.sub(r"\1", IMAGE.sub("", pages[topic].read_text(encoding="utf-8")))
    if not section:
        return page
    parts = [part for heading, part in _sections(page) if section.lower() in heading.lower()]
    if not parts:
        headings = [heading for heading, _ in _sections(page)]
        problem = Problem(f"{topic} {section}", "is in no heading of the page", did_you_mean(section, headings))
        raise ValidationError("nodeless help", [problem])
    return "\n".join(parts)


def _pages() -> dict[str, Traversable]:
    package = resources.files("controller")
    packaged = package.joinpath("docs")
    root = packaged if packaged.is_dir() else package.joinpath("..", "docs")
    if not root.joinpath("commands").is_dir():
        raise NodelessError("this installation has no documentation, as the controller's image has none")
    pages: dict[str, Traversable] = {}
    for folder in FOLDERS:
        place = root.joinpath(folder) if folder else root
        for each in sorted(place.iterdir(), key=lambda path: path.name):
            stem, _, suffix = each.name.rpartition(".")
            if suffix == "md" and stem not in LEFT_OUT:
                pages[stem] = each
    return pages


def _title(page: Traversable) -> str:
    heading = HEADING.search(page.read_text(encoding="utf-8"))
    return heading[2].replace("`", "") if heading else ""


def _sections(page: str) -> Iterator[tuple[str, str]]:
    """Yield the headings below the page's title, each with its text down to the next of its level or above."""
    code = [match.span() for match in FENCED.finditer(page)]
    headings = [each for each in HEADING.finditer(page) if not any(start < each.start() < end for start, end in code)]
    for index, each in enumerate(headings[1:], 1):
        after = (other.start() for other in headings[index + 1 :] if len(other[1]) <= len(each[1]))
        yield each[2], page[each.start() : next(after, len(page))]
