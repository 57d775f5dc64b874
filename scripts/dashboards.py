"""Write dashboards/*.json: Grafana's dashboards, from one line a panel.

uv run python scripts/dashboards.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from components.config.addons import RUNBOOKS  # noqa: E402 - the project is a program, not installed

FOLDER = ROOT / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24
RATE = "$__rate_interval"


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries`: (PromQL, legend). Four kinds: timeseries, stat, table, bargauge. `text` explains it."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    text: str = ""
    columns: Mapping[str, tuple[str, str]] | None = None
    """Of a table: title and unit by the query's letter."""
    steps: Sequence[tuple[float, str]] = ()
    """(value, colour) from which the panel has that colour; it is green below the first. None: no colour means
    anything."""
    runbook: str = ""
    """The alert whose runbook the panel links to."""
    column_steps: Mapping[str, Sequence[tuple[float, str]]] | None = None
    """Of a table: `steps` by the query's letter."""

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """The panel at its place."""
        table = self.kind == "table"
        targets = [
            {
                "datasource": SOURCE,
                "expr": expr,
                "legendFormat": legend or "__auto",
                "refId": letter,
                **({"format": "table", "instant": True} if table else {}),
                **({"instant": True} if self.kind in ("stat", "bargauge") else {}),
            }
            for letter, (expr, legend) in zip("ABCDEFGH", self.queries, strict=False)
        ]
        made: dict[str, Any] = {
            "id": number,
            "title": self.title,
            "description": self.text,
            "type": self.kind,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "targets": targets,
            "fieldConfig": {"defaults": self._defaults(), "overrides": self._overrides()},
            "options": self._options(),
        }
        if self.runbook:
            link = {"title": f"Runbook: {self.runbook}", "url": f"${{runbooks}}#{self.runbook.lower()}"}
            made["links"] = [{**link, "targetBlank": True}]
        if table:
            made["transformations"] = self._transformations()
        return made

    def _defaults(self) -> dict[str, Any]:
        defaults: dict[str, Any] = {"unit": self.unit, "custom": self._custom()}
        if self.steps:
            defaults["thresholds"] = thresholds(self.steps)
            if self.kind == "timeseries":
                defaults["custom"]["thresholdsStyle"] = {"mode": "dashed"}
            else:
                defaults["color"] = {"mode": "thresholds"}
        elif self.kind == "stat":
            defaults["color"] = {"mode": "fixed", "fixedColor": "text"}
        return defaults

    def _custom(self) -> dict[str, Any]:
        if self.kind != "timeseries":
            return {}
        fill = {"fillOpacity": 25, "stacking": {"mode": "normal"}} if self.stacked else {"fillOpacity": 5}
        return {"drawStyle": "line", "lineWidth": 1, "showPoints": "never", **fill}

    def _options(self) -> dict[str, Any]:
        if self.kind == "timeseries":
            return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
        if self.kind in ("stat", "bargauge"):
            colour = {"colorMode": "background" if self.steps else "value"} if self.kind == "stat" else {}
            reduced = {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "auto", "orientation": "horizontal"}
            return {**reduced, **colour}
        return {"showHeader": True}

    def _overrides(self) -> list[dict[str, Any]]:
        made = []
        for letter, (title, unit) in (self.columns or {}).items():
            properties: list[dict[str, Any]] = [{"id": "unit", "value": unit}]
            steps = (self.column_steps or {}).get(letter)
            if steps:
                properties.append({"id": "thresholds", "value": thresholds(steps)})
                properties.append({"id": "custom.cellOptions", "value": {"type": "color-text"}})
            made.append({"matcher": {"id": "byName", "options": title}, "properties": properties})
        return made

    def _transformations(self) -> list[dict[str, Any]]:
        names = {f"Value #{letter}": title for letter, (title, _) in (self.columns or {}).items()}
        return [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
        ]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a dashboard, which Grafana folds by a click: its title, and lines of panels."""

    title: str
    lines: Sequence[Sequence[Panel]]


def thresholds(steps: Sequence[tuple[float, str]]) -> dict[str, Any]:
    """Grafana's thresholds: green below the first step, unless that step is at minus infinity."""
    given: list[dict[str, Any]] = [{"color": colour, "value": value} for value, colour in steps]
    if steps[0][0] == float("-inf"):
        given[0]["value"] = None
    else:
        given.insert(0, {"color": "green", "value": None})
    return {"mode": "absolute", "steps": given}


def variable(name: str, metric: str, label: str = "") -> dict[str, Any]:
    """Values of a label, several at a time."""
    query = f"label_values({metric}, {label or name})"
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def choice(name: str, options: Sequence[str], default: str) -> dict[str, Any]:
    """One of a few."""
    return {
        "name": name,
        "type": "custom",
        "query": ",".join(options),
        "current": {"text": default, "value": default},
        "options": [{"text": each, "value": each, "selected": each == default} for each in options],
    }


def runbooks() -> dict[str, Any]:
    """The address of the runbooks' page, for links; not shown. The stack sets it by addons.runbooks."""
    return {
        "name": "runbooks",
        "type": "constant",
        "hide": 2,
        "query": RUNBOOKS,
        "current": {"text": RUNBOOKS, "value": RUNBOOKS},
    }


def dashboard(uid: str, title: str, refresh: str, variables: Iterable[Any], rows: Iterable[Row]) -> Any:
    """A dashboard of rows; each line of panels is as high as its highest panel."""
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": WIDTH, "h": 1}
        panels.append(
            {
                "id": len(panels) + 1,
                "title": row.title,
                "type": "row",
                "collapsed": False,
                "gridPos": place,
                "panels": [],
            }
        )
        y += 1
        for line in row.lines:
            x = 0
            for panel in line:
                panels.append(panel.json(len(panels) + 1, x, y))
                x += panel.width
            assert x <= WIDTH, f"{title}: the line of {line[0].title} is {x} wide"
            y += max(panel.height for panel in line)
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}
    link = {"title": "Runbooks", "type": "link", "icon": "doc", "url": "${runbooks}", "targetBlank": True}
    return {
        "uid": uid,
        "title": title,
        "tags": ["nodeless", "karpenter"],
        "editable": True,
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": refresh,
        "links": [link],
        "templating": {"list": [source, *variables, runbooks()]},
        "panels": panels,
    }


def stat(
    title: str,
    expr: str,
    unit: str = "short",
    text: str = "",
    *,
    steps: Sequence[tuple[float, str]] = (),
    runbook: str = "",
) -> Panel:
    """One number."""
    return Panel(title, [(expr, "")], unit, "stat", 4, 4, text=text, steps=steps, runbook=runbook)


def quantiles(title: str, metric: str, by: str, text: str = "") -> Panel:
    """Median and tails of a histogram."""
    queries = [
        (f"histogram_quantile({share}, sum by (le, {by}) (rate({metric}_bucket[10m])))", f"{{{{{by}}}}} p{name}")
        for share, name in ((0.5, "50"), (0.99, "99"))
    ]
    return Panel(title, queries, "s", text=text)


FLEET = 'provisioner=~"$provisioner",zone=~"$zone",capacity_type=~"$capacity_type"'
NODES = f'{FLEET},arch=~"$arch",instance_type=~"$instance_type"'
OURS = f'{NODES},provisioner!=""'


def use(resource: str, by: str) -> str:
    """The share of what nodes have that pods and DaemonSets request; where none of these runs there is no series."""
    pods, daemons = (
        f'sum by ({by}) ({metric}{{{OURS},resource_type="{resource}"}})'
        for metric in ("karpenter_nodes_total_pod_requests", "karpenter_nodes_total_daemon_requests")
    )
    have = f'sum by ({by}) (karpenter_nodes_allocatable{{{OURS},resource_type="{resource}"}})'
    return f"({pods} + {daemons} or {pods} or {daemons}) / {have}"


CAPACITY = dashboard(
    "nodeless-capacity",
    "NodeLess Capacity",
    "30s",
    [
        *(variable(n, "karpenter_nodes_allocatable") for n in ("provisioner", "zone", "arch", "capacity_type")),
        variable("instance_type", "karpenter_nodes_allocatable"),
        choice(
            "distribution",
            ("arch", "capacity_type", "instance_type", "namespace", "node", "provisioner", "zone"),
            "provisioner",
        ),
    ],
    [
        Row(
            "Overview",
            [
                [
                    stat("Nodes", f"sum(nodeless_fleet_nodes{{{FLEET}}})"),
                    stat(
                        "Spot share",
                        f'sum(nodeless_fleet_nodes{{{FLEET},capacity_type="spot"}})'
                        f" / sum(nodeless_fleet_nodes{{{FLEET}}})",
                        "percentunit",
                    ),
                    stat(
                        "Price per hour", f"sum(nodeless_fleet_price_per_hour{{{FLEET}}})", "currencyUSD", "$ an hour."
                    ),
                    stat("Pending pods", 'nodeless_queue_length{queue="pods"}'),
                    stat(
                        "Oldest pending pod",
                        'nodeless_queue_oldest_age_seconds{queue="pods"}',
                        "s",
                        steps=((300, "orange"), (600, "red")),
                        runbook="NodelessPodsWait",
                    ),
                    stat(
                        "Unavailable offerings",
                        "sum(nodeless_unavailable_offerings)",
                        text="Left out of plans: EC2 had no capacity for them, or their zone no free addresses.",
                    ),
                ]
            ],
        ),
        Row(
            "Nodes and pods",
            [
                [
                    Panel(
                        "Nodes created",
                        [(f"sum by (reason) (increase(karpenter_nodes_created[{RATE}]))", "{{reason}}")],
                        stacked=True,
                    ),
                    Panel(
                        "Nodes terminated",
                        [(f"sum by (reason) (increase(karpenter_nodes_terminated[{RATE}]))", "{{reason}}")],
                        stacked=True,
                    ),
                    Panel(
                        "Deprovisioning actions performed",
                        [
                            (
                                f"sum by (action) (increase(karpenter_deprovisioning_actions_performed[{RATE}]))",
                                "{{action}}",
                            )
                        ],
                        stacked=True,
                    ),
                ],
                [
                    Panel(
                        "Nodes by state",
                        [(f"sum by (state) (nodeless_fleet_nodes{{{FLEET}}})", "{{state}}")],
                        stacked=True,
                    ),
                    Panel("Pod phase", [("sum by (phase) (karpenter_pods_state)", "{{phase}}")], stacked=True),
                    Panel(
                        "Pod distribution: $distribution",
                        [("sum by ($distribution) (karpenter_pods_state)", "{{$distribution}}")],
                        stacked=True,
                    ),
                ],
            ],
        ),
        Row(
            "Use and decisions",
            [
                [
                    Panel("CPU requested", [(use("cpu", "provisioner"), "{{provisioner}}")], "percentunit"),
                    Panel("Memory requested", [(use("memory", "provisioner"), "{{provisioner}}")], "percentunit"),
                    Panel(
                        "Decisions by method",
                        [(f"sum by (kind, method) (increase(nodeless_decisions[{RATE}]))", "{{kind}} {{method}}")],
                        text="Each is recorded with its reason: /decisions on the metrics port.",
                    ),
                ]
            ],
        ),
        Row(
            "Limits and headroom",
            [
                [
                    Panel(
                        "Launches refused by limits",
                        [
                            (
                                f"sum by (guard, provisioner) (increase(nodeless_guard_refusals[{RATE}]))",
                                "{{guard}} {{provisioner}}",
                            )
                        ],
                        width=12,
                        height=6,
                        text="price-limit of a Provisioner; launchLimits of the settings.",
                    ),
                    Panel(
                        "Headroom",
                        [("sum by (provisioner, state) (nodeless_headroom_units)", "{{provisioner}} {{state}}")],
                        width=12,
                        height=6,
                        text="Units of headroom: wanted, and kept on existing nodes.",
                    ),
                ]
            ],
        ),
        Row(
            "By Provisioner and by node",
            [
                [
                    Panel(
                        "Provisioners",
                        [
                            (f"sum by (provisioner) (nodeless_fleet_nodes{{{FLEET}}})", ""),
                            (f"sum by (provisioner) (nodeless_fleet_price_per_hour{{{FLEET}}})", ""),
                            ('karpenter_provisioner_usage{provisioner=~"$provisioner",resource_type="cpu"}', ""),
                            ('karpenter_provisioner_usage{provisioner=~"$provisioner",resource_type="memory"}', ""),
                            ('karpenter_provisioner_usage_pct{provisioner=~"$provisioner",resource_type="cpu"}', ""),
                            ('karpenter_provisioner_usage_pct{provisioner=~"$provisioner",resource_type="memory"}', ""),
                        ],
                        kind="table",
                        width=12,
                        columns={
                            "A": ("Nodes", "short"),
                            "B": ("$ an hour", "currencyUSD"),
                            "C": ("CPU", "short"),
                            "D": ("Memory", "bytes"),
                            "E": ("CPU limit", "percent"),
                            "F": ("Memory limit", "percent"),
                        },
                        column_steps=dict.fromkeys("EF", ((75, "orange"), (90, "red"))),
                        runbook="NodelessLimitNear",
                    ),
                    Panel(
                        "Nodes",
                        [
                            (use("cpu", "node_name, instance_type, zone, capacity_type"), ""),
                            (use("memory", "node_name, instance_type, zone, capacity_type"), ""),
                            (
                                f"sum by (node_name, instance_type, zone, capacity_type) "
                                f'(karpenter_nodes_total_pod_requests{{{OURS},resource_type="pods"}})',
                                "",
                            ),
                        ],
                        kind="table",
                        width=12,
                        columns={"A": ("CPU", "percentunit"), "B": ("Memory", "percentunit"), "C": ("Pods", "short")},
                    ),
                ]
            ],
        ),
    ],
)

PERFORMANCE = dashboard(
    "nodeless-performance-cost",
    "NodeLess Performance and Cost",
    "30s",
    [variable("controller", "controller_runtime_reconcile_time_seconds_count")],
    [
        Row(
            "Overview",
            [
                [
                    stat("Price per hour", "sum(nodeless_fleet_price_per_hour)", "currencyUSD"),
                    stat("Price per month", "730 * sum(nodeless_fleet_price_per_hour)", "currencyUSD", "730 hours."),
                    stat(
                        "Price / fresh pack",
                        "nodeless_fleet_price_over_fresh_pack",
                        text="1: a new plan for the same pods would cost as much as the fleet.",
                        steps=((1.1, "orange"), (1.3, "red")),
                        runbook="NodelessFleetTooDear",
                    ),
                    stat(
                        "Price / lower bound",
                        "nodeless_fleet_price_over_lower_bound",
                        text="No plan for these pods costs less than the bound; it may not be attainable.",
                        steps=((1.2, "orange"), (1.5, "red")),
                    ),
                    stat(
                        "Leaders",
                        "sum(leader_election_master_status) or vector(0)",
                        text="Leading processes: one.",
                        steps=((float("-inf"), "red"), (1, "green"), (2, "red")),
                        runbook="NodelessNobodyLeads",
                    ),
                    stat(
                        "Nodes without a price",
                        "nodeless_fleet_unpriced_nodes",
                        text="They are not consolidated.",
                        steps=((1, "orange"),),
                        runbook="NodelessPriceUnknown",
                    ),
                ]
            ],
        ),
        Row(
            "Price",
            [
                [
                    Panel(
                        "Price per hour by capacity type",
                        [("sum by (capacity_type) (nodeless_fleet_price_per_hour)", "{{capacity_type}}")],
                        "currencyUSD",
                        stacked=True,
                    ),
                    Panel(
                        "Price per hour by Provisioner",
                        [("sum by (provisioner) (nodeless_fleet_price_per_hour)", "{{provisioner}}")],
                        "currencyUSD",
                        stacked=True,
                    ),
                    Panel(
                        "Price, fresh pack, lower bound",
                        [
                            ("sum(nodeless_fleet_price_per_hour)", "fleet"),
                            ("nodeless_fresh_pack_price_per_hour", "fresh pack"),
                            ("nodeless_lower_bound_price_per_hour", "lower bound"),
                        ],
                        "currencyUSD",
                    ),
                ]
            ],
        ),
        Row(
            "Latency",
            [
                [
                    Panel(
                        "Pod startup latency",
                        [("max by (quantile) (karpenter_pods_startup_time_seconds)", "p{{quantile}}")],
                        "s",
                        text="From a pod's creation to its readiness, of pods that were seen pending.",
                    ),
                    Panel(
                        "Node termination latency",
                        [("max by (quantile) (karpenter_nodes_termination_time_seconds)", "p{{quantile}}")],
                        "s",
                    ),
                    Panel(
                        "Oldest item of each queue",
                        [("nodeless_queue_oldest_age_seconds", "{{queue}}")],
                        "s",
                        steps=((300, "orange"), (600, "red")),
                        runbook="NodelessPodsWait",
                    ),
                ]
            ],
        ),
        Row(
            "Scheduling and cloud provider",
            [
                [
                    Panel(
                        "Scheduling duration",
                        [
                            (
                                f"histogram_quantile({share}, "
                                f"sum by (le) (rate(karpenter_provisioner_scheduling_duration_seconds_bucket[10m])))",
                                f"p{share * 100:g}",
                            )
                            for share in (0.5, 0.99)
                        ],
                        "s",
                    ),
                    quantiles("Cloud provider latency", "karpenter_cloudprovider_duration_seconds", "method"),
                    Panel(
                        "Cloud provider errors",
                        [("sum by (method, error) (rate(nodeless_cloudprovider_errors[10m]))", "{{method}} {{error}}")],
                        "cps",
                    ),
                ]
            ],
        ),
        Row(
            "Reconciliation",
            [
                [
                    Panel(
                        "Reconciliation latency",
                        [
                            (
                                "histogram_quantile(0.99, sum by (le, controller) (rate("
                                'controller_runtime_reconcile_time_seconds_bucket{controller=~"$controller"}[10m])))',
                                "{{controller}} p99",
                            )
                        ],
                        "s",
                    ),
                    Panel(
                        "Reconciliation rate",
                        [
                            (
                                "sum by (controller) "
                                '(rate(controller_runtime_reconcile_total{controller=~"$controller"}[10m]))',
                                "{{controller}}",
                            )
                        ],
                        "cps",
                        kind="bargauge",
                    ),
                    Panel(
                        "Reconciliation errors",
                        [
                            (
                                "sum by (controller) "
                                '(rate(controller_runtime_reconcile_errors_total{controller=~"$controller"}[10m]))',
                                "{{controller}}",
                            )
                        ],
                        "cps",
                    ),
                ]
            ],
        ),
        Row(
            "Deprovisioning and planning ahead",
            [
                [
                    quantiles(
                        "Deprovisioning evaluation duration",
                        "karpenter_deprovisioning_evaluation_duration_seconds",
                        "method",
                    ),
                    Panel(
                        "Eligible machines by method",
                        [("karpenter_deprovisioning_eligible_machines", "{{deprovisioner}}")],
                    ),
                    Panel(
                        "Replacement node initialization",
                        [
                            (
                                "histogram_quantile(0.9, sum by (le) (rate("
                                "karpenter_deprovisioning_replacement_node_initialized_seconds_bucket[1h])))",
                                "p90",
                            )
                        ],
                        "s",
                    ),
                ],
                [
                    Panel(
                        "CPU of consolidation searches",
                        [("rate(nodeless_search_seconds[10m])", "share of a core")],
                        "percentunit",
                        width=8,
                        text="A tenth of one core on the mean; none while pods wait for nodes.",
                    ),
                    Panel(
                        "Pods planned ahead",
                        [(f"sum by (outcome) (increase(nodeless_pods_planned_ahead[{RATE}]))", "{{outcome}}")],
                        width=8,
                        text="taken-back: no pod of the planned node waited any more when it was to be launched.",
                    ),
                    Panel(
                        "Pod deletion costs written",
                        [(f"sum by (action) (increase(nodeless_pod_deletion_costs_written[{RATE}]))", "{{action}}")],
                        width=8,
                        text="On pods of nodes that consolidation would empty; taken off where that is no longer so.",
                    ),
                ],
            ],
        ),
        Row(
            "Interruption",
            [
                [
                    Panel(
                        "Interruption messages received",
                        [
                            (
                                f"sum by (message_type) (increase(karpenter_interruption_received_messages[{RATE}]))",
                                "{{message_type}}",
                            ),
                            (f"increase(karpenter_interruption_deleted_messages[{RATE}])", "handled"),
                        ],
                    ),
                    Panel(
                        "Interruption latency",
                        [
                            (
                                "histogram_quantile(0.9, sum by (le) (rate("
                                "karpenter_interruption_message_latency_time_seconds_bucket[10m])))",
                                "p90",
                            )
                        ],
                        "s",
                        text="From the event in AWS to the end of handling; a spot warning leaves two minutes.",
                    ),
                    Panel(
                        "Interruption actions",
                        [
                            (
                                f"sum by (action_type) (increase(karpenter_interruption_actions_performed[{RATE}]))",
                                "{{action_type}}",
                            )
                        ],
                    ),
                ]
            ],
        ),
        Row(
            "Health",
            [
                [
                    Panel(
                        "Consistency errors",
                        [(f"sum by (check) (increase(karpenter_consistency_errors[{RATE}]))", "{{check}}")],
                    ),
                    Panel(
                        "Unreadable records",
                        [("sum by (record) (nodeless_unreadable_records)", "{{record}}")],
                        text="Annotations and ConfigMaps of the controller, since its replicas started.",
                    ),
                    Panel(
                        "Batch size",
                        [
                            (
                                "sum by (batcher) (rate(karpenter_cloudprovider_batcher_batch_size_sum[10m]))"
                                " / sum by (batcher) (rate(karpenter_cloudprovider_batcher_batch_size_count[10m]))",
                                "{{batcher}}",
                            )
                        ],
                    ),
                ],
                [
                    Panel(
                        "Unavailable offerings",
                        [
                            (
                                "sum by (zone, capacity_type) (nodeless_unavailable_offerings)",
                                "{{zone}} {{capacity_type}}",
                            ),
                            ("max by (zone) (nodeless_zone_left)", "{{zone}} left by a zonal shift"),
                        ],
                        width=12,
                    ),
                    Panel(
                        "Free subnet addresses",
                        [("min by (subnet, zone) (nodeless_subnet_free_addresses)", "{{zone}} {{subnet}}")],
                        width=12,
                        text="Of the subnets that node templates select. A node takes its pods' and one more.",
                    ),
                ],
            ],
        ),
        Row(
            "Process",
            [
                [
                    Panel(
                        "API server requests",
                        [(f"sum by (code, method) (rate(rest_client_requests_total[{RATE}]))", "{{method}} {{code}}")],
                        "reqps",
                    ),
                    Panel(
                        "Controller CPU usage", [(f"rate(process_cpu_seconds_total[{RATE}])", "{{instance}}")], "short"
                    ),
                    Panel("Controller memory usage", [("process_resident_memory_bytes", "{{instance}}")], "bytes"),
                ]
            ],
        ),
    ],
)


def written() -> dict[str, str]:
    """Each file's text."""
    made = {"nodeless-capacity.json": CAPACITY, "nodeless-performance-cost.json": PERFORMANCE}
    return {name: json.dumps(value, indent=1) + "\n" for name, value in made.items()}


def main() -> None:
    """Write both files."""
    for name, text in written().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
