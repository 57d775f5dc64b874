"""What pages are made of: style, tables, bars. Names are escaped, and nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1d2430; --soft: #667085; --line: #d9dee7; --bg: #f6f7f9; --card: #fff; --free: #eceff4; --bad: #b42318;
  --old: #98a2b3; --new: #2e75d1;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e9ef; --soft: #98a2b3; --line: #3a4150; --bg: #14171d; --card: #1d222b; --free: #2b313c; --bad: #f97066;
    --old: #667085; --new: #6aa5f0;
  }
}
* { box-sizing: border-box }
body { margin: 0; padding: 24px; font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--bg) }
body { overflow-wrap: anywhere }
h1 { font-size: 20px; margin: 0 0 16px }
h2 { font-size: 15px; margin: 28px 0 10px }
small, .soft { color: var(--soft) }
.bad, .bad b { color: var(--bad) }
.tiles, .nodes { display: flex; flex-wrap: wrap; gap: 10px }
.tile, .node, table, .chart { background: var(--card); border: 1px solid var(--line); border-radius: 8px }
.tile { padding: 10px 16px }
.tile b { display: block; font-size: 20px }
table { border-collapse: collapse; display: block; width: fit-content; max-width: 100% }
th, td { padding: 5px 12px; text-align: right; border-bottom: 1px solid var(--line) }
th, td:not(.w) { white-space: nowrap; overflow-wrap: normal }
.w { text-align: left }
.node { padding: 8px 10px; max-width: 100% }
.node header { display: flex; justify-content: space-between; gap: 8px; font-weight: 600 }
.node p { margin: 0 0 6px; font-size: 12px }
.node details { font-size: 11px; margin-top: 5px }
summary { cursor: pointer; color: var(--soft) }
.row { display: grid; grid-template-columns: 58px 1fr 38px; gap: 6px; align-items: center; font-size: 11px }
.row { margin-top: 3px }
.bar { display: flex; height: 14px; background: var(--free); border-radius: 3px; overflow: hidden }
.bar i { display: block; height: 100%; border-right: 1px solid var(--card) }
.bar i.d { background: repeating-linear-gradient(45deg, #98a2b3 0 3px, transparent 3px 6px) }
.bar i.o { background: var(--old) }
.bar i.n { background: var(--new) }
.key { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12px; margin-bottom: 12px }
.key i { display: inline-block; width: 13px; height: 13px; border-radius: 2px; margin-right: 5px; vertical-align: -2px }
.key i.d { background: repeating-linear-gradient(45deg, #98a2b3 0 3px, transparent 3px 6px) }
.key i.o { background: var(--old) }
.key i.n { background: var(--new) }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(320px, 100%), 1fr)); gap: 10px }
.chart { padding: 10px 12px; min-width: 0 }
.chart h3 { font-size: 13px; margin: 0 0 6px }
.pair { display: grid; grid-template-columns: minmax(60px, 32%) 1fr minmax(64px, auto); gap: 2px 8px; font-size: 12px }
.pair { align-items: center; margin-top: 6px }
.pair .bar { height: 10px }
.pair span:first-child { grid-row: span 2 }
.pair b { font-weight: 500; text-align: right; white-space: nowrap }
@media (max-width: 640px) {
  body { padding: 12px }
  table { width: 100% }
  tbody, tr, td { display: block }
  tr { padding: 6px 12px; border-bottom: 1px solid var(--line) }
  tr:first-child { display: none }
  td, td:not(.w) { display: flex; justify-content: space-between; gap: 12px; padding: 1px 0; border: 0 }
  td, td:not(.w) { white-space: normal }
  td:first-child { font-weight: 600; justify-content: flex-start }
  td:empty { display: none }
  td:not(:first-child)::before { content: attr(data-of); color: var(--soft); font-weight: 400; text-align: left }
  .node { width: 100% !important }
}
"""
"""On a narrow screen each row of a table is a block, and each cell has its column's title beside it."""

HUES = (212, 28, 140, 350, 268, 52, 182, 320, 90, 240, 8, 162)
"""Degrees, in an order in which neighbours differ most."""
TEXTURES = (
    "{c}",
    "repeating-linear-gradient(90deg,{c} 0 4px,{l} 4px 7px)",
    "repeating-linear-gradient(135deg,{c} 0 3px,{l} 3px 6px)",
)
"""Plain, upright stripes, slanting stripes."""
MOST_FILLS = len(HUES) * len(TEXTURES)
"""Fills that people can distinguish."""


def fill(number: int) -> str:
    """Return a CSS background, different for each number below MOST_FILLS."""
    hue = HUES[number % len(HUES)]
    texture = TEXTURES[number // len(HUES) % len(TEXTURES)]
    return "background:" + texture.format(c=f"hsl({hue} 58% 50%)", l=f"hsl({hue} 60% 84%)")


def document(title: str, body: Iterable[str]) -> str:
    """Return a self-contained page without scripts, under this title. `body` is HTML."""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>',
            f"<style>{STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *body,
            "</body></html>",
            "",
        ]
    )


def tiles_of(tiles: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the figures in a row: figure, words and CSS class of each."""
    yield '<div class="tiles">'
    for figure, text, style in tiles:
        yield f'<div class="tile {style}"><b>{escape(figure)}</b><small>{escape(text)}</small></div>'
    yield "</div>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]], words: int = 1) -> Iterator[str]:
    """Yield a table whose first `words` columns are text, the others numbers."""
    titles = tuple(head)
    yield f"<table><tr>{''.join(_cell('th', title, '', index < words) for index, title in enumerate(titles))}</tr>"
    for row in rows:
        cells = (
            _cell("td", cell, title if index else "", index < words)
            for index, (title, cell) in enumerate(zip(titles, row, strict=True))
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table>"


def _cell(tag: str, text: str, title: str, word: bool) -> str:
    of = f' data-of="{escape(title)}"' if title else ""
    word_class = ' class="w"' if word else ""
    return f"<{tag}{word_class}{of}>{escape(text)}</{tag}>"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a bar: its share of the width, its CSS class or background, and what it stands for."""

    share: float
    title: str
    kind: str = ""
    background: str = ""


def bar(pieces: Iterable[Piece]) -> str:
    """Return a bar of pieces from the left."""
    drawn = "".join(
        f'<i class="{each.kind}" style="width:{100 * min(1.0, max(0.0, each.share)):.2f}%;{each.background}"'
        f' title="{escape(each.title)}"></i>'
        for each in pieces
    )
    return f'<div class="bar">{drawn}</div>'


@dataclass(frozen=True, slots=True)
class Pair:
    name: str
    before: float
    after: float
    words: Callable[[float], str]


def pairs(title: str, members: Sequence[Pair]) -> Iterator[str]:
    """Yield a chart: two bars for each member, all to one scale."""
    most = max((max(each.before, each.after) for each in members), default=0.0) or 1.0
    yield f'<div class="chart"><h3>{escape(title)}</h3>'
    for each in members:
        yield f'<div class="pair"><span>{escape(each.name)}</span>'
        for kind, label, value in (("o", "before", each.before), ("n", "after", each.after)):
            figure = each.words(value)
            yield f"{bar([Piece(value / most, f'{label}: {figure}', kind)])}<b>{escape(figure)}</b>"
        yield "</div>"
    yield "</div>"
