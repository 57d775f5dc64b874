"""Golden pages: what the commands show for one small cluster, at a fixed width, moment and price list.

A change of a table is seen in its file. `uv run python -m tests.cli.golden_files` writes them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console

from controller.aws.catalog.offline_catalog import shipped_catalog
from controller.cli.check import findings
from controller.cli.check.findings import Finding, Level
from controller.cli.cluster import simulation_report
from controller.cli.cluster.cluster_view import ClusterLocation, ClusterView, build_cluster_view
from controller.cli.cluster.simulation import Simulation, simulate
from controller.cli.explain import answer
from controller.cli.explain.explain_node import explain_node
from controller.cli.explain.explain_pod import explain_pod
from controller.cli.explain.explain_provisioner import explain_provisioner
from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.objects import unfold
from controller.cli.inputs.scenario import scenario
from controller.cli.inputs.sources import source_for
from controller.cli.simulate import comparison
from controller.cli.view.screen import Page
from controller.cli.view.screen_state import ScreenState
from controller.cli.view.view_data import assess, view_of
from controller.core.api.strict import Report
from controller.core.decisions.decision import Decision, Entry
from controller.settings import Settings
from tests.cli.cluster.test_limits_report import EITHER, NOW, node, pod
from tests.cli.conftest import TEMPLATE, deployment, provisioner
from tests.cli.drawing import capture

GOLDEN = Path(__file__).parent / "golden"
WIDTH = 120
PRICES = {"m5.large": 0.1, "m5.xlarge": 0.2, "m5.2xlarge": 0.4, "c5.xlarge": 0.17}
"""$ an hour, so that the pages stay as they are when the shipped prices change."""
M5 = ("karpenter.k8s.aws/instance-family", "In", ["m5"])


def catalog() -> dict[str, Any]:
    """A few types at PRICES."""
    catalog = shipped_catalog("us-east-1").document()
    for part in ("types", "zones"):
        catalog[part] = {name: catalog[part][name] for name in PRICES}
    return {**catalog, "on_demand": PRICES, "generated": "2027-01-01", "source": "made up"}


def cluster() -> ClusterView:
    """Two nodes with pods, one that no Provisioner made, pods that wait for each sort of reason, each sort of limit."""
    bounded = provisioner(
        "default", EITHER, M5, consolidation={"enabled": True}, limits={"resources": {"cpu": "12", "memory": "400Gi"}}
    )
    bounded["metadata"]["annotations"] = {
        "karpenter.sh/price-limit": "0.5",
        "karpenter.sh/on-demand-base": "2",
        "karpenter.sh/headroom": '[{"cpu": "1", "memory": "1Gi", "count": 2}]',
    }
    foreign = node("ip-10-0-0-9.ec2.internal")
    of = foreign["metadata"]["labels"]
    foreign["metadata"]["labels"] = {
        **{key: value for key, value in of.items() if not key.startswith("karpenter.sh/")},
        "eks.amazonaws.com/nodegroup": "system",
    }
    documents = (
        TEMPLATE, bounded, foreign, node("ip-10-0-0-1.ec2.internal"), node("ip-10-0-0-2.ec2.internal", "spot"),
        pod("web-1", "3", on="ip-10-0-0-1.ec2.internal"), pod("web-2", "1", on="ip-10-0-0-2.ec2.internal"),
        pod("dns", "3500m", on="ip-10-0-0-9.ec2.internal"), pod("wide", "7"), pod("huge", "500"),
    )  # fmt: skip
    dump = {"kind": "ClusterDump", "objects": documents, "catalog": catalog()}
    report = Report()
    objects = unfold([LocatedObject({**dump, "objects": [_versioned(each) for each in documents]}, "dump")], report)
    assert not report.problems
    return build_cluster_view(objects, ClusterLocation())


def _versioned(document: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", **document}


def simulated(*requirements: tuple[str, str, list[str]], replicas: int = 9) -> Simulation:
    """A plan for a Deployment, and a pod that nothing holds."""
    placed = [
        LocatedObject(each, "fleet.yaml")
        for each in (
            TEMPLATE, provisioner("default", *requirements), deployment(replicas=replicas),
            deployment("huge", replicas=1, cpu="500"),
        )
    ]  # fmt: skip
    report = Report()
    wanted = scenario("after" if len(requirements) > 1 else "before", placed, report)
    assert wanted is not None, report.problems
    dump = unfold([LocatedObject({"kind": "ClusterDump", "objects": [], "catalog": catalog()}, "dump")], report)
    return simulate(wanted, source_for("", "us-east-1", Settings("c"), dump.catalog).types)


def decided() -> tuple[Entry, ...]:
    """Two decisions."""
    launch = Decision("launch", "provisioning", "Node/ip-10-0-0-2.ec2.internal", "2 pods had no room", "default")
    remove = Decision(
        "remove", "consolidation", "Node/ip-10-0-0-7.ec2.internal", "its pods fit elsewhere", "default",
        price_before=0.6, price_after=0.4,
    )  # fmt: skip
    return (Entry(1, NOW - 3600, launch, 1, NOW - 3600), Entry(2, NOW - 60, remove, 3, NOW - 60))


def checked() -> Iterable[Finding]:
    """One finding of each level."""
    yield Finding(Level.OK, "Kubernetes", "v1.34.4 at https://cluster.example.com")
    yield Finding(Level.WARNING, "Provisioner default", "spec.limits: is missing", "set spec.limits.resources.cpu")
    yield Finding(Level.PROBLEM, "Settings", "batchMaxDuration: no duration\nnonsense: unknown key", "correct them")
    yield Finding(Level.UNKNOWN, "Quotas", "cannot be checked: servicequotas:GetServiceQuota is not allowed")


def pages() -> dict[str, str]:
    """Each page by its file's name."""
    now, after, before = (
        cluster(),
        simulated(EITHER, M5),
        simulated(("karpenter.sh/capacity-type", "In", ["on-demand"])),
    )
    view = view_of(now, assess(now, NOW), decided(), NOW)

    def shown(show: Callable[[Console], None], width: int = WIDTH) -> str:
        return capture(show, width)

    return {
        "view.txt": shown(lambda c: c.print(Page(view, ScreenState()))),
        "view-80x30.txt": shown(lambda c: c.print(Page(view, ScreenState(), 30, keys=True)), 80),
        "explain-pod.txt": shown(lambda c: answer.show(explain_pod(now, "shop", "wide", NOW), c)),
        "explain-node.txt": shown(lambda c: answer.show(explain_node(now, "ip-10-0-0-2.ec2.internal", NOW), c)),
        "explain-provisioner.txt": shown(lambda c: answer.show(explain_provisioner(now, "default", NOW), c)),
        "check.txt": shown(lambda c: findings.show(checked(), c)),
        "simulate.txt": shown(lambda c: simulation_report.show(after, c, wide=False)),
        "simulate-wide.txt": shown(lambda c: simulation_report.show(after, c, wide=True)),
        "compare.txt": shown(lambda c: comparison.show(after, before, c)),
        "compare.md": comparison.markdown(after, before) + "\n",
    }


def main() -> None:
    """Write all of them."""
    GOLDEN.mkdir(exist_ok=True)
    for name, text in pages().items():
        (GOLDEN / name).write_text(text)


if __name__ == "__main__":
    main()
