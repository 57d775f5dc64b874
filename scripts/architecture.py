"""Draw the import graph of the controller's rooms for ARCHITECTURE.md: `uv run python scripts/architecture.py`.

The lists between the page's markers and the two pictures in docs/captures follow from the import statements and the
docstrings of the source, so page and code cannot differ; tests/test_house.py holds them equal. Arrows that follow from
others are left out (transitive reduction).
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
PICTURES = ROOT / "docs" / "captures"
SHELL = "controller"
CORE = "controller.core"
Graph = Mapping[str, frozenset[str]]


@cache
def imports(path: Path) -> frozenset[str]:
    """Every module of the controller that a source file imports, functions' own imports included."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(SHELL):
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names if alias.name.startswith(SHELL)}
    return frozenset(modules)


def room_of(module: str, parent: str) -> str:
    """The child of `parent` that holds a module; "" for what stands elsewhere."""
    return module.removeprefix(parent + ".").partition(".")[0] if module.startswith(parent + ".") else ""


@cache
def rooms(parent: str) -> Graph:
    """Each room of `parent`, and the rooms beside it that its modules import."""
    folder = ROOT / parent.replace(".", "/")
    known = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    known.discard("__init__")
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.rglob("*.py")):
        room = room_of(".".join(path.relative_to(ROOT).with_suffix("").parts), parent)
        if room in known:
            graph[room] |= {room_of(module, parent) for module in imports(path)} & known - {room}
    return {room: frozenset(targets) for room, targets in graph.items()}


def layers(graph: Graph) -> list[list[str]]:
    """The rooms from the top down: each stands above all that it imports. Raises ValueError for a circle."""
    depth: dict[str, int] = {}
    while len(depth) < len(graph):
        ready = {room for room, below in graph.items() if room not in depth and below <= depth.keys()}
        if not ready:
            raise ValueError(f"rooms import each other in a circle: {sorted(graph.keys() - depth.keys())}")
        depth |= {room: 1 + max((depth[one] for one in graph[room]), default=-1) for room in ready}
    return [sorted(room for room in graph if depth[room] == level) for level in range(max(depth.values()), -1, -1)]


def reduced(graph: Graph) -> Graph:
    """The graph without the arrows that follow from others."""

    def below(room: str) -> set[str]:
        return {one for target in graph[room] for one in (target, *below(target))}

    return {
        room: frozenset(one for one in targets if not any(one in below(other) for other in targets - {one}))
        for room, targets in graph.items()
    }


def summary(parent: str, room: str) -> str:
    """The first line of a room's docstring."""
    path = ROOT / parent.replace(".", "/") / room
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(source.read_text())) or "").partition("\n")[0].rstrip(".")


def listing(parent: str) -> str:
    """A line a room, from the top down: name and what is inside."""
    ordered = [room for level in layers(rooms(parent)) for room in level]
    width = max(map(len, ordered))
    return "\n".join(f"{room:{width}}  {summary(parent, room)}" for room in ordered)


def picture(parent: str) -> str:
    """The reduced graph as SVG, a row a layer."""
    graph = rooms(parent)
    levels, arrows = layers(graph), reduced(graph)
    box, gap, row, margin = (128, 34), 22, 84, 16
    width = margin * 2 + max(len(level) * (box[0] + gap) - gap for level in levels)
    places: dict[str, tuple[float, float]] = {}
    for number, level in enumerate(levels):
        left = (width - (len(level) * (box[0] + gap) - gap)) / 2
        places |= {room: (left + n * (box[0] + gap), margin + number * row) for n, room in enumerate(level)}
    height = margin * 2 + (len(levels) - 1) * row + box[1]
    shapes = [_arrow(places[room], places[one], box) for room in sorted(arrows) for one in sorted(arrows[room])]
    shapes += [_box(room, places[room], box) for room in sorted(places)]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">'
    )
    style = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>Import graph of {parent}: who imports whom</title>", style, *shapes, "</svg>", ""])


def _box(room: str, at: tuple[float, float], box: tuple[int, int]) -> str:
    x, y = at
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{box[0]}" height="{box[1]}" rx="6" fill="#eef4fb" stroke="#3b6ea5"/>'
        f'<text x="{x + box[0] / 2:.1f}" y="{y + 22:.1f}" text-anchor="middle" fill="#12283f">{room}</text>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], box: tuple[int, int]) -> str:
    x1, y1, x2, y2 = start[0] + box[0] / 2, start[1] + box[1], end[0] + box[0] / 2, end[1]
    middle = (y1 + y2) / 2
    return (
        f'<path d="M{x1:.1f},{y1:.1f} C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2 - 5:.1f}" fill="none" '
        f'stroke="#8aa4bf"/><path d="M{x2 - 4:.1f},{y2 - 7:.1f} L{x2:.1f},{y2:.1f} L{x2 + 4:.1f},{y2 - 7:.1f} Z" '
        f'fill="#8aa4bf"/>'
    )


def page(text: str, parents: Sequence[str] = (SHELL, CORE, f"{CORE}.provisioning")) -> str:
    """ARCHITECTURE.md's text with each list between its markers made anew."""
    for parent in parents:
        head, tail = f"<!-- rooms of {parent} -->\n", "<!-- end -->"
        before, _, rest = text.partition(head)
        _, _, after = rest.partition(tail)
        text = f"{before}{head}```\n{listing(parent)}\n```\n{tail}{after}"
    return text


def pictures() -> dict[Path, str]:
    """File and content of each picture."""
    names = {SHELL: "rooms-controller.svg", CORE: "rooms-core.svg"}
    return {PICTURES / name: picture(parent) for parent, name in names.items()}


def main() -> None:
    """Write the page and the pictures."""
    PAGE.write_text(page(PAGE.read_text()))
    for path, content in pictures().items():
        path.write_text(content)


if __name__ == "__main__":
    main()
