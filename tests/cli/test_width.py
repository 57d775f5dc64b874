"""Tables fit a terminal of 80 columns, whatever the names: nothing is cut off at its right edge."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from controller.cli.check import findings
from controller.cli.check.findings import Finding, Level
from tests.cli.cluster.test_limits_report import EITHER, node, pod
from tests.cli.conftest import TEMPLATE, Run, Write, deployment, provisioner
from tests.cli.drawing import capture

COLUMNS = 80
TYPE = r"[a-z]\w+\.\w+"
LONG = "payments-and-settlement-batch-reconciliation"
OURS = "ip-10-0-153-211.us-east-1.compute.internal"
SERVICE = {
    "kind": "Service",
    "metadata": {
        "name": LONG, "namespace": "shop", "annotations": {"service.kubernetes.io/topology-mode": "Auto"},
    },
    "spec": {"selector": {"app": LONG}, "ports": [{"port": 80}]},
}  # fmt: skip
ZONES = ("topology.kubernetes.io/zone", "In", ["us-east-1a", "us-east-1b", "us-east-1c"])
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": LONG}},
    }
]


def pool(*requirements: tuple[str, str, list[str]]) -> dict[str, Any]:
    own = provisioner(
        f"{LONG}-pool", EITHER, *requirements, consolidation={"enabled": True},
        limits={"resources": {"cpu": "12", "memory": "400Gi", "nvidia.com/gpu": "8"}},
    )  # fmt: skip
    own["metadata"]["annotations"] = {
        "karpenter.sh/price-limit": "0.5",
        "karpenter.sh/on-demand-base": "2",
        "karpenter.sh/headroom": '[{"cpu": "1", "memory": "1Gi", "count": 2}]',
    }
    return own


def of_pool(document: dict[str, Any]) -> dict[str, Any]:
    document["metadata"]["labels"]["karpenter.sh/provisioner-name"] = f"{LONG}-pool"
    return document


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A dump of a full cluster, and two fleets to compare: long names, all zones, pods that nothing holds."""
    folder = tmp_path_factory.mktemp("width")
    workloads = [
        deployment(f"{LONG}-{number}", 7, f"{number + 1}500m", topologySpreadConstraints=SPREAD) for number in range(3)
    ]
    huge = deployment(f"{LONG}-huge", 2, "900")
    gpu = deployment(f"{LONG}-gpu", 1)
    gpu["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "1"
    cluster = [
        TEMPLATE, pool(), SERVICE, of_pool(node(OURS)), of_pool(node(OURS.replace("211", "212"), "spot")),
        *(pod(f"{LONG}-{number}", "300m", on=OURS) for number in range(6)),
        pod(f"{LONG}-wide", "13"), pod(f"{LONG}-huge", "900"),
    ]  # fmt: skip
    made = {
        "dump": {"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": cluster},
        "after": {"kind": "List", "items": [TEMPLATE, pool(ZONES), *workloads, huge, gpu]},
        "before": {"kind": "List", "items": [TEMPLATE, pool(("karpenter.sh/capacity-type", "In", ["on-demand"]))]},
    }
    paths = {}
    for name, document in made.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(document))
        paths[name] = str(path)
    return paths


@pytest.mark.parametrize(
    ("call", "row"),
    [
        ("simulate after", rf"\d +{TYPE}  spot .* \d+ %  \$0\.\d{{4}}$"),
        ("simulate after -o wide --gap", rf"{TYPE}  spot .* \$0\.\d{{4}} .* \d+ %"),
        ("simulate after --compare before", r"Price per month +\$\d+\.\d\d .* %\)"),
        ("simulate dump --repack ours", rf"\d +{TYPE} +spot .*  \$0\.\d{{4}}$"),
        (f"explain pod shop/{LONG}-wide --from dump", r"  None of the 2 existing nodes"),
        (f"explain pod shop/{LONG}-0 --from dump", r"  asks for  0\.3 CPU, 1 GiB memory"),
        (f"explain node {OURS} --from dump", r"  in use .* 10 % of 58 pods"),
        (f"explain provisioner {LONG}-pool --from dump", r"  memory: 32 GiB of 400 GiB"),
        (f"explain service shop/{LONG} --from dump", r"  us-east-1a: 100 % of the CPU"),
        ("view --once --from dump", r"memory +payments.* 32 GiB  400 GiB +8 %"),
        ("cost --from dump", r"shop +6  \$0\.\d{4} +\$\d+\.\d\d +\d+ %"),
        ("cost --by workload --from dump", r"shop/payments.* 1  \$0\.\d{4} .* %"),
    ],
)
def test_no_line_of_a_table_is_wider_than_the_terminal(
    run: Run, files: dict[str, str], call: str, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    result = run(*(files.get(word, word) for word in call.split()))
    assert result.exit_code in (0, 3), result.stderr
    lines = result.stdout.splitlines()
    assert any(re.search(row, line.rstrip()) for line in lines), f"no row with all of its numbers:\n{result.stdout}"
    assert [line for line in lines if len(line.rstrip()) > COLUMNS] == []
    assert "…" not in result.stdout, "nothing is cut off where it could be folded"


def test_a_columns_name_is_not_folded_where_its_cells_are_short(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of nodes in three zones: the names of zones are folded."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    owner = provisioner("web", EITHER, ZONES, ("karpenter.k8s.aws/instance-size", "In", ["2xlarge"]))
    spread = deployment(LONG, 3, "6", topologySpreadConstraints=SPREAD)
    shown = run("simulate", write(TEMPLATE, owner, spread)).stdout
    assert ".2xlarge " in shown
    assert " Capacity  Provisioner  Zones " in shown, shown


def test_findings_of_check_fit_too() -> None:
    found = [Finding(level, f"Provisioner {LONG}", f"{LONG} " * 4, f"set {LONG} " * 4) for level in Level]
    shown = capture(lambda console: findings.show(found, console), COLUMNS)
    assert max(map(len, shown.splitlines())) <= COLUMNS
    assert shown.rstrip().endswith("1 ok, 1 warning, 1 problem, 1 unknown")
    twice = capture(lambda console: findings.show(found * 2, console), COLUMNS)
    assert twice.rstrip().endswith("2 ok, 2 warnings, 2 problems, 2 unknown")
