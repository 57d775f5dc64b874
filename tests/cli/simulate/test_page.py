"""The page of `simulate --html`: charts of a comparison, many workloads, narrow screens."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from controller.cli.cluster.page_parts import MOST_FILLS, fill
from controller.cli.main import main
from controller.cli.simulate.page_charts import MOST, members
from tests.cli.conftest import TEMPLATE, Run, Write, answer, deployment, provisioner

M5 = ("karpenter.k8s.aws/instance-family", "In", ["m5"])
SPOT = ("karpenter.sh/capacity-type", "In", ["spot"])
WORKLOADS = 60


class Document(HTMLParser):
    """What a page has: elements with their attributes, and the text of each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, Any], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.elements[-1][2].append(data)

    def all(self, tag: str, kind: str = "") -> list[tuple[dict[str, Any], str]]:
        """(attributes, text) of the elements with this tag and class."""
        found = ((of, "".join(text).strip()) for name, of, text in self.elements if name == tag)
        return [(of, text) for of, text in found if not kind or kind in of.get("class", "").split()]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Document, Any]:
    """The page and the document of a comparison: 60 workloads on spot, before on demand and of other sizes."""
    folder = tmp_path_factory.mktemp("page")
    numbers = range(WORKLOADS)
    fleets = {
        "after": [
            TEMPLATE, provisioner("default", M5, SPOT),
            *(deployment(f"w{number:02}", 1 + number // 40, f"{200 + number}m") for number in numbers),
        ],
        "before": [
            TEMPLATE, provisioner("default", M5),
            *(deployment(f"w{number:02}", 1, f"{300 - number}m") for number in numbers),
        ],
    }  # fmt: skip
    for name, items in fleets.items():
        (folder / name).with_suffix(".json").write_text(json.dumps({"kind": "List", "items": items}))
    page = folder / "page.html"
    files = (str(folder / "after.json"), "--compare", str(folder / "before.json"))
    result = CliRunner().invoke(main, ["simulate", *files, "--budget", "0", "--html", str(page), "-o", "json"])
    return Document(page.read_text()), answer(result)


def test_every_figure_of_a_comparison_is_drawn_before_and_after_to_one_scale(compared: tuple[Document, Any]) -> None:
    page, report = compared
    assert [text for _, text in page.all("h3")] == [
        "$/month of the new nodes", "New nodes", "In use", "$/month by type", "$/month by namespace",
    ]  # fmt: skip
    before, after = (page.all("i", kind)[1:] for kind in "on")
    assert len(before) == len(after) > 10
    prices = [report[when]["summary"]["pricePerMonth"] for when in ("before", "after")]
    assert [bars[0][0]["title"] for bars in (before, after)] == [
        f"{when}: ${price:,.2f}" for when, price in zip(("before", "after"), prices, strict=True)
    ]
    drawn = [_width(bars[0][0]) / _width(bars[1][0]) for bars in (before, after)]
    in_all = [report[when]["summary"]["costPerHour"] * 730 for when in ("before", "after")]
    assert drawn == pytest.approx([price / cost for price, cost in zip(prices, in_all, strict=True)], rel=0.01)
    assert _width(after[0][0]) / _width(before[0][0]) == pytest.approx(prices[1] / prices[0], rel=0.01)


def test_both_packings_are_drawn_with_one_fill_for_each_workload(compared: tuple[Document, Any]) -> None:
    page, _ = compared
    titles = [text for _, text in page.all("h2") if text.startswith("What runs where")]
    assert titles == ["What runs where, after", "What runs where, before"]
    fills: dict[str, set[str]] = {}
    for of, _ in page.all("i"):
        who, _, amount = of.get("title", "").partition(": ")
        if re.fullmatch(r"[\d.]+ CPU", amount) and who.startswith("shop/") and "," not in who:
            fills.setdefault(who, set()).add(of["style"].partition(";")[2])
    assert len(fills) == MOST_FILLS - 1
    assert all(len(each) == 1 for each in fills.values())
    assert len(set().union(*fills.values())) == len(fills), "no two look alike"
    assert "shop/w59" in fills, "the largest have fills of their own"
    assert f"{WORKLOADS - MOST_FILLS + 1} other workloads, " in " ".join(text for _, text in page.all("i"))


def test_every_workload_is_named_on_its_nodes_without_a_pointer(compared: tuple[Document, Any]) -> None:
    page, _ = compared
    said = " ".join(text for _, text in page.all("summary"))
    assert all(f"shop/w{number:02} ×" in said for number in range(WORKLOADS))


def test_nothing_is_wider_than_a_narrow_screen(compared: tuple[Document, Any]) -> None:
    """Cells become lines that carry their column's title, cards and bars take the width that there is."""
    page, _ = compared
    style = "".join(text for _, text in page.all("style"))
    narrow = style.partition("@media (max-width: 640px)")[2]
    assert "td, td:not(.w) { white-space: normal }" in narrow
    assert ".node { width: 100% !important }" in narrow
    assert "attr(data-of)" in narrow
    assert "overflow-wrap: anywhere" in style
    cells = page.all("td")
    assert len(cells) > 40
    assert {bool(of.get("data-of")) for of, text in cells if text.startswith(("$", "−$"))} == {True}
    assert page.all("meta")[-1][0]["content"] == "width=device-width, initial-scale=1"


def test_fills_differ_and_small_members_of_a_chart_are_added_up() -> None:
    assert len({fill(number) for number in range(MOST_FILLS)}) == MOST_FILLS
    before = {f"t{number}": float(number) for number in range(MOST + 5)}
    drawn = members(before, {"t1": 100.0}, str)
    assert len(drawn) == MOST
    assert (drawn[0].name, drawn[0].before, drawn[0].after) == ("t1", 1.0, 100.0)
    assert drawn[-1].name == "6 others"
    assert sum(pair.before for pair in drawn) == sum(before.values())


def test_a_page_alone_has_costs_and_no_comparison(run: Run, write: Write, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    run("simulate", write(TEMPLATE, provisioner("default", M5), deployment()), "--html", str(target))
    page = Document(target.read_text())
    titles = [text for _, text in page.all("h2")]
    assert titles == ["New nodes", "What runs where", "Cost of the new nodes by workload"]
    assert page.all("h3") == []


def _width(of: dict[str, Any]) -> float:
    found = re.match(r"width:([\d.]+)%", of["style"])
    assert found
    return float(found[1])
