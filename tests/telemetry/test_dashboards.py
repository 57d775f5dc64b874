"""Every query of the dashboards and alerts asks for a metric that there is, by labels that it has."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from components.config.addons import RUNBOOKS
from components.documents.addons import grafana_values, linked, prometheus_values
from controller.runtime import metrics
from controller.telemetry.registry import Metrics

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "dashboards"
ADDED_BY_PROMETHEUS = {"job", "instance", "pod", "namespace", "service", "endpoint", "node"}


def known() -> dict[str, set[str]]:
    """Every series that the controller's page may have, with its labels."""
    labels: dict[str, set[str]] = {}
    for metric in metrics.ALL:
        names = [metric.name]
        extra: set[str] = set()
        if metric.kind == "histogram":
            names = [f"{metric.name}_{part}" for part in ("bucket", "count", "sum")]
            extra = {"le"}
        elif metric.kind == "summary":
            names += [f"{metric.name}_count", f"{metric.name}_sum"]
            extra = {"quantile"}
        labels.update((name, {*metric.labels, *extra}) for name in names)
    text = Metrics().page({}).body.decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


KNOWN = known()


def problems(expr: Any) -> Iterator[str]:
    """What is wrong with a query; `labels` finds what it groups by."""
    kind = type(expr).__name__
    if kind == "VectorSelector":
        labels = KNOWN.get(expr.name)
        if labels is None:
            yield f"there is no metric {expr.name}"
            return
        for matcher in expr.matchers.matchers:
            if matcher.name not in labels | ADDED_BY_PROMETHEUS:
                yield f"{expr.name} has no label {matcher.name}"
    elif kind == "AggregateExpr":
        inner = set.union(set(), *labels_of(expr.expr))
        for label in expr.modifier.labels if expr.modifier else ():
            if label not in inner | ADDED_BY_PROMETHEUS:
                yield f"nothing in {expr.prettify()} has the label {label}"
        yield from problems(expr.expr)
    else:
        for child in children(expr):
            yield from problems(child)


def children(expr: Any) -> list[Any]:
    kind = type(expr).__name__
    if kind == "BinaryExpr":
        return [expr.lhs, expr.rhs]
    if kind == "Call":
        return list(expr.args)
    if kind == "MatrixSelector":
        return [expr.vector_selector]
    if kind in ("ParenExpr", "UnaryExpr", "SubqueryExpr", "AggregateExpr"):
        return [expr.expr]
    assert kind in ("NumberLiteral", "StringLiteral"), f"a kind of expression that this test does not know: {kind}"
    return []


def labels_of(expr: Any) -> Iterator[set[str]]:
    """The labels of each series that an expression asks for."""
    if type(expr).__name__ == "VectorSelector":
        yield KNOWN.get(expr.name, set())
    elif type(expr).__name__ == "AggregateExpr":
        yield set(expr.modifier.labels) if expr.modifier else set()
    else:
        for child in children(expr):
            yield from labels_of(child)


def check(query: str) -> list[str]:
    text = query.replace("$__rate_interval", "5m").replace("$distribution", "provisioner")
    return list(problems(promql_parser.parse(re.sub(r"\$\{?\w+\}?", "x", text))))


def panels() -> Iterator[tuple[str, str]]:
    for path in sorted(FOLDER.glob("*.json")):
        document = json.loads(path.read_text())
        for panel in document["panels"]:
            for target in panel.get("targets", ()):
                yield f"{path.stem}: {panel['title']}", target["expr"]
        for variable in document["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"]).groups()  # type: ignore[union-attr]
                yield f"{path.stem}: variable {variable['name']}", f"sum by ({label}) ({metric})"


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


@pytest.mark.parametrize(("place", "query"), [*panels(), *((rule["alert"], rule["expr"]) for rule in rules())])
def test_a_query_asks_for_what_there_is(place: str, query: str) -> None:
    assert check(query) == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("sum(karpenter_nodes_made)", "there is no metric karpenter_nodes_made"),
        ('rate(karpenter_nodes_created{cluster="x"}[5m])', "karpenter_nodes_created has no label cluster"),
        ("sum by (cluster) (karpenter_nodes_created) > 1", "has the label cluster"),
        ("karpenter_nodes_termination_time_seconds_bucket", "there is no metric"),
        ("sum by (zone) (sum by (provisioner) (nodeless_fleet_nodes))", "has the label zone"),
    ],
)
def test_a_query_for_what_is_not_there_is_found(query: str, problem: str) -> None:
    assert any(problem in reported for reported in check(query))


def test_the_choices_of_the_distribution_are_labels_of_pods() -> None:
    (variable,) = [
        each
        for each in json.loads((FOLDER / "nodeless-capacity.json").read_text())["templating"]["list"]
        if each["name"] == "distribution"
    ]
    assert set(variable["query"].split(",")) <= set(metrics.PODS_STATE.labels)


def test_each_of_our_metrics_that_tells_of_trouble_or_money_is_shown_or_alerted_on() -> None:
    asked = " ".join([query for _, query in panels()] + [rule["expr"] for rule in rules()])
    silent = {metric.name for metric in metrics.ALL if metric.name not in asked}
    assert silent == {
        "controller_runtime_active_workers",
        "controller_runtime_max_concurrent_reconciles",
        "karpenter_cloudprovider_batcher_batch_time_seconds",
        "karpenter_nodes_system_overhead",
        "karpenter_nodes_total_daemon_limits",
        "karpenter_nodes_total_pod_limits",
        "karpenter_provisioner_limit",
        "nodeless_metrics_dropped_series",
        "nodeless_price_comparison_age_seconds",
        "nodeless_price_comparison_duration_seconds",
    }, "a new metric is on a dashboard, or among these for a reason"


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    titles = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbooks.md").read_text(), re.MULTILINE)
    assert titles == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"{RUNBOOKS}#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")


def test_the_files_are_what_the_script_writes() -> None:
    """Somebody who edits a dashboard in Grafana brings the change to scripts/dashboards.py."""
    written = runpy.run_path(str(ROOT / "scripts" / "dashboards.py"))["written"]()
    assert {path.name: path.read_text() for path in FOLDER.glob("*.json")} == written


def test_panels_do_not_overlap_and_ids_are_unique() -> None:
    for path in FOLDER.glob("*.json"):
        shown = json.loads(path.read_text())["panels"]
        taken: set[tuple[int, int]] = set()
        for panel in shown:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            taken |= cells
        assert len({panel["id"] for panel in shown}) == len(shown)


def test_the_stack_hands_dashboards_and_rules_to_grafana_and_prometheus() -> None:
    shown = {path.stem: path.read_text() for path in FOLDER.glob("*.json")}
    values = grafana_values(shown)
    assert {name: json.loads(each["json"])["uid"] for name, each in values["dashboards"]["default"].items()} == {
        "nodeless-capacity": "nodeless-capacity",
        "nodeless-performance-cost": "nodeless-performance-cost",
    }
    alerts = yaml.safe_load((FOLDER / "alerts.yaml").read_text())
    assert prometheus_values("karpenter", alerts)["serverFiles"]["alerting_rules.yml"] == alerts


def shown_panels() -> dict[str, dict[str, Any]]:
    """The panels of both dashboards by title, without the titles of rows."""
    every = (panel for path in FOLDER.glob("*.json") for panel in json.loads(path.read_text())["panels"])
    return {panel["title"]: panel for panel in every if panel["type"] != "row"}


def colour(panel: dict[str, Any], value: float) -> str:
    """The colour that Grafana gives this value: the last step's that it reaches."""
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    reached: list[str] = [each["color"] for each in steps if each["value"] is None or value >= each["value"]]
    return reached[-1]


@pytest.mark.parametrize(
    ("title", "good", "bad", "alert"),
    [
        ("Price / fresh pack", 1.02, 2.7, "NodelessFleetTooDear"),
        ("Oldest pending pod", 20.0, 11 * 60.0, "NodelessPodsWait"),
        ("Oldest item of each queue", 20.0, 11 * 60.0, "NodelessPodsWait"),
    ],
)
def test_what_an_alert_fires_on_is_red_and_leads_to_its_runbook(
    title: str, good: float, bad: float, alert: str
) -> None:
    panel = shown_panels()[title]
    (limit,) = re.findall(r"> ([\d.]+)$", next(rule["expr"] for rule in rules() if rule["alert"] == alert))
    colours = [colour(panel, value) for value in (good, float(limit) - 0.01, float(limit) + 0.01, bad)]
    assert colours == ["green", "orange", "red", "red"]
    assert panel["links"][0]["url"] == f"${{runbooks}}#{alert.lower()}"


def test_a_leader_too_few_and_one_too_many_are_red_and_other_numbers_have_no_colour() -> None:
    panels = shown_panels()
    assert [colour(panels["Leaders"], number) for number in (0, 1, 2)] == ["red", "green", "red"]
    assert [colour(panels["Nodes without a price"], number) for number in (0, 1)] == ["green", "orange"]
    plain = [panel for panel in panels.values() if panel["type"] == "stat" and "links" not in panel]
    assert {
        panel["fieldConfig"]["defaults"].get("color", {}).get("fixedColor")
        for panel in plain
        if "thresholds" not in panel["fieldConfig"]["defaults"]
    } == {"text"}


def test_curves_have_room_for_their_legends() -> None:
    """A sixth of the page at least: below, names of subnets and zones would lie over each other."""
    narrow = {title for title, each in shown_panels().items() if each["type"] != "stat" and each["gridPos"]["w"] < 4}
    assert narrow == set()


def test_panels_that_karpenters_dashboards_have_too_have_its_names() -> None:
    of_karpenter = {
        "Nodes created", "Nodes terminated", "Pod phase", "Pod distribution: $distribution",
        "Deprovisioning actions performed", "Pod startup latency", "Node termination latency",
    }  # fmt: skip
    assert of_karpenter <= set(shown_panels())


def test_every_panel_is_in_a_row_and_links_lead_to_runbooks_that_there_are() -> None:
    alerts = {rule["alert"].lower() for rule in rules()}
    for path in FOLDER.glob("*.json"):
        document = json.loads(path.read_text())
        assert document["panels"][0]["type"] == "row"
        assert sum(panel["type"] == "row" for panel in document["panels"]) >= 5
        assert document["links"][0]["url"] == "${runbooks}"
        for panel in document["panels"]:
            for link in panel.get("links", ()):
                assert link["url"].partition("#")[2] in alerts, panel["title"]


def test_the_stacks_key_says_where_the_runbooks_are() -> None:
    ours = "https://git.example.com/platform/runbooks.md"
    rules_text, dashboard = ((FOLDER / name).read_text() for name in ("alerts.yaml", "nodeless-capacity.json"))
    assert linked(rules_text, ours).count(f"{ours}#nodeless") == len(rules())
    (constant,) = [
        each for each in json.loads(linked(dashboard, ours))["templating"]["list"] if each["name"] == "runbooks"
    ]
    assert (constant["query"], constant["current"]["value"]) == (ours, ours)
    assert RUNBOOKS not in linked(rules_text, ours) + linked(dashboard, ours)
