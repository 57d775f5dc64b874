"""`nodeless explain` against a cluster: the controller's own rules, in words."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from controller.cli.explain.explain_node import explain_node
from controller.core.decisions.decision import Decision
from controller.core.provisioning.offerings import option_table
from controller.core.provisioning.offerings.option_table import OptionTable
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.decision_store import CONFIG_MAP, KEY
from controller.telemetry.decision_ledger import Ledger
from tests.cli.cluster.test_limits_report import NOW, cluster, node
from tests.cli.cluster_files import FARGATE, GROUP, M5, ON_DEMAND, OURS, WAITING, labels
from tests.cli.conftest import TEMPLATE, Run, Write, answer, container, provisioner
from tests.manual_clock import ManualClock


@pytest.fixture
def ask(run: Run, kubeconfig: str) -> Any:
    """The document of `explain KIND NAME`."""

    def asked(kind: str, name: str) -> Any:
        return answer(run("explain", kind, name, "--kubeconfig", kubeconfig, "-o", "json"))

    return asked


def test_pod_that_no_provisioner_can_place_says_which_rule_on_which_provisioner(ask: Any) -> None:
    explanation = ask("pod", "stuck")
    assert explanation["verdict"] == "cannot be placed"
    why = explanation["reasons"]["whyAndWhatWouldHelp"]
    assert any(line.startswith("Provisioner default: topology.kubernetes.io/zone In [us-east-9z]") for line in why)
    assert any(line.startswith("Provisioner lonely is not used: no instance type on offer") for line in why)


def test_waiting_pod_says_which_node_it_would_get_and_what_came_second(ask: Any) -> None:
    explanation = ask("pod", "waiting")
    assert explanation["verdict"].startswith("would get a new node: m5.2xlarge on-demand in us-east-1a")
    assert any("Provisioner default: " in line for line in explanation["reasons"]["why"])
    assert "the plan for all pending pods is optimal" in explanation["reasons"]["why"]


def test_gated_pod_says_who_must_act(ask: Any) -> None:
    assert "it has scheduling gates" in ask("pod", "gated")["verdict"]


def test_bound_pod_says_where_and_for_how_much(ask: Any) -> None:
    assert ask("pod", "web-0")["verdict"] == f"runs on {OURS} (m5.2xlarge on-demand us-east-1a, $0.3840/h)"
    assert GROUP in ask("pod", "kube-system/coredns")["verdict"]


def test_the_catalog_is_compiled_once_for_all_plans_of_an_answer(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Mock(wraps=OptionTable)
    monkeypatch.setattr(option_table, "OptionTable", compiled)
    ask("node", OURS)
    assert compiled.call_count == 1


def test_node_says_what_its_pods_would_get_today_and_why_it_stays_or_goes(ask: Any) -> None:
    explanation = ask("node", OURS)
    assert explanation["verdict"] == "belongs to Provisioner default"
    assert explanation["facts"]["price"].startswith("$0.3840/h")
    assert explanation["reasons"]["whyThisType"][0].startswith("its pods alone would get today: m5.large on-demand")
    stays = explanation["reasons"]["staysOrGoes"]
    assert "expiration: never (ttlSecondsUntilExpired is not set)" in stays
    assert any(line.startswith("consolidation: removes it: ") for line in stays)


def test_foreign_node_is_named_as_such(ask: Any) -> None:
    assert "belongs to no Provisioner" in ask("node", GROUP)["verdict"]
    assert ask("node", GROUP)["facts"]["type"] == "m5.large spot"
    assert ask("node", FARGATE)["facts"]["type"] == "fargate fargate"


def test_provisioner_shows_what_each_requirement_leaves(ask: Any) -> None:
    explanation = ask("provisioner", "default")
    assert explanation["verdict"] == "can launch nodes"
    counts = [int(line.split()[0]) for line in explanation["reasons"]["whatItsRequirementsLeave"]]
    assert counts == sorted(counts, reverse=True)
    assert 0 < counts[-1] < counts[0]
    assert explanation["reasons"]["cheapestOfferings"][0].startswith("m5.large on-demand")
    assert explanation["reasons"]["limits"] == ["cpu: 8 of 100"]


def test_provisioner_without_any_type_says_which_requirement_it_is(ask: Any) -> None:
    explanation = ask("provisioner", "lonely")
    assert explanation["verdict"] == "launches nothing now"
    assert "instance-family In [m99]" in explanation["reasons"]["problems"][0]


@pytest.mark.parametrize(
    ("annotations", "limits", "verdict"),
    [
        ({}, {"cpu": 4}, "launches nothing now: its limit of cpu is full"),
        ({}, {"cpu": 5, "nvidia.com/gpu": 0}, "can launch nodes"),
        ({"karpenter.sh/price-limit": "0.1"}, {}, "launches nothing now: its limit of $ an hour is full"),
        ({"karpenter.sh/price-limit": "low"}, {}, "launches nothing now: its limit of $ an hour is unreadable"),
    ],
)
def test_a_provisioner_whose_limits_leave_no_node_launches_none(
    run: Run, write: Write, annotations: dict[str, str], limits: dict[str, int], verdict: str
) -> None:
    """It has one node of 4 CPU for $0.192 an hour."""
    own = provisioner("default", limits={"resources": limits})
    own["metadata"]["annotations"] = annotations
    dump = write({"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": [TEMPLATE, own, node("a")]})
    assert answer(run("explain", "provisioner", "default", "--from", dump, "-o", "json"))["verdict"] == verdict


@pytest.mark.parametrize(("kind", "hint"), [("pod", "-n NAMESPACE"), ("node", "no node"), ("provisioner", "default")])
def test_what_is_not_there_is_said_with_a_hint(run: Run, kubeconfig: str, kind: str, hint: str) -> None:
    result = run("explain", kind, "nobody", "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert hint in result.stderr


def test_node_that_is_gone_is_told_by_the_record(run: Run, kubeconfig: str) -> None:
    """Who removed it and why is what is asked most about a node that is no more."""
    ledger, kube = Ledger(ManualClock()), KubeClient(connect(kubeconfig))
    ledger.record(Decision("launch", "provisioning", "Node/gone-1", "2 pods had no room", "default"))
    ledger.record(Decision("remove", "emptiness", "Node/gone-1", "no pods for 30 s", "default"))
    data = {KEY: base64.b64encode(ledger.compact()).decode()}
    kube.create(CONFIG_MAPS, {"metadata": {"name": CONFIG_MAP}, "binaryData": data}, "default")
    try:
        result = run("explain", "node", "gone-1", "--kubeconfig", kubeconfig, "-o", "json")
        assert answer(result)["verdict"] == "is gone: emptiness removed it: no pods for 30 s"
        assert len(answer(result)["reasons"]["decisions"]) == 2
    finally:
        kube.delete(CONFIG_MAPS, CONFIG_MAP, "default")


def test_for_people_there_are_no_colours_in_a_pipe(run: Run, kubeconfig: str) -> None:
    explained = partial(run, "explain", "node", OURS, "--kubeconfig", kubeconfig)
    assert "\x1b[" not in explained().stdout
    assert f"Node {OURS}: belongs to Provisioner default" in explained().stdout
    assert "Types and prices of us-east-1" in explained().stdout


def test_the_disruption_budgets_of_the_settings_count(ask: Any, kubeconfig: str) -> None:
    kube, name = KubeClient(connect(kubeconfig)), "karpenter-global-settings"
    kube.patch(CONFIG_MAPS, name, {"data": {"disruptionBudgets": '[{"nodes": "0"}]'}}, namespace="default")
    try:
        allowed = ask("provisioner", "default")["reasons"]["nodesThatMayBeOnTheirWayOutAtOnce"]
        stays = ask("node", OURS)["reasons"]["staysOrGoes"]
    finally:
        kube.patch(CONFIG_MAPS, name, {"data": {"disruptionBudgets": None}}, namespace="default")
    assert allowed[0].startswith("expired: 0 of ")
    assert "setting disruptionBudgets" in allowed[0]
    assert any(line.startswith("consolidation: setting disruptionBudgets: 0 at once") for line in stays)


def test_a_node_that_counts_as_no_room_says_so_and_so_does_a_pod_that_would_fit_there(run: Run, write: Write) -> None:
    """At the time of the dump: the deadlines of its nodes were over then, or not."""
    objects = [TEMPLATE, provisioner("default", M5, ON_DEMAND), _pod("waits"), _pod("runs", nodeName="sick")]
    for name, at, initialized in (("sick", "11:57", "true"), ("late", "11:40", "false"), ("coming", "11:59", "false")):
        objects.append(_unready_node(name, at, initialized))
    settings = {"metadata": {"name": "karpenter-global-settings"}, "kind": "ConfigMap"}
    objects.append({**settings, "data": {"aws.clusterName": "shop", "initializationDeadline": "10m"}})
    dump = write({"kind": "ClusterDump", "taken": "2026-03-01T12:00:00Z", "objects": objects})

    def verdict(kind: str, name: str) -> Any:
        return answer(run("explain", kind, name, "--from", dump, "-o", "json"))

    sick, late, coming = (verdict("node", name)["verdict"] for name in ("sick", "late", "coming"))
    assert sick == "belongs to Provisioner default; counts as no room for pods: it has not been Ready for 120 s"
    assert late.startswith("is starting for Provisioner default; counts as no room for pods: it was not initialized")
    assert "no room" not in coming
    assert verdict("pod", "runs")["verdict"].endswith("which takes no more pods: it has not been Ready for 120 s")
    waiting = verdict("pod", "waits")
    assert waiting["verdict"].startswith("would get a new node")
    assert [line.partition(":")[0] for line in waiting["reasons"]["nodesThatCountAsNoRoom"]] == ["late", "sick"]


def test_a_leaving_node_names_the_budget_that_holds_each_pod(run: Run, write: Write) -> None:
    leaving = _unready_node("going", "11:00", "true")
    leaving["metadata"] |= {"deletionTimestamp": "2026-03-01T11:59:00Z", "finalizers": ["karpenter.sh/termination"]}
    held, free = _pod("held", nodeName="going"), _pod("free", nodeName="going")
    held["metadata"]["labels"] = {"app": "held"}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "never", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
    }
    objects = [TEMPLATE, provisioner("default", M5, ON_DEMAND), leaving, held, free, budget]
    dump = write({"kind": "ClusterDump", "taken": "2026-03-01T12:00:00Z", "objects": objects})
    assert answer(run("explain", "node", "going", "--from", dump, "-o", "json"))["reasons"]["whatItWaitsFor"] == [
        "pod default/free is to be evicted",
        "PodDisruptionBudget default/never allows no disruption; it holds pod default/held",
    ]


def test_the_soft_taint_of_on_demand_nodes_is_told_at_its_nodes_and_at_pods_that_it_turns_away(
    run: Run, write: Write
) -> None:
    taint = {"key": "karpenter.sh/on-demand", "effect": "PreferNoSchedule"}
    kept, plain = (_unready_node(name, "11:59", "true") for name in ("kept", "plain"))
    kept["spec"] = {"taints": [taint]}
    expression = {"key": ON_DEMAND[0], "operator": ON_DEMAND[1], "values": ON_DEMAND[2]}
    preferred = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    tolerates = [{"key": "karpenter.sh/on-demand", "operator": "Exists"}]
    pods = (
        _pod("prefers", affinity=affinity, nodeName="plain"),
        _pod("tolerates", affinity=affinity, tolerations=tolerates, nodeName="plain"),
        _pod("indifferent", nodeName="plain"),
    )
    objects = [TEMPLATE, provisioner("default", M5, ON_DEMAND), kept, plain, *pods]

    def reasons(kind: str, name: str, **settings: str) -> Any:
        metadata = {"kind": "ConfigMap", "metadata": {"name": "karpenter-global-settings"}}
        taken = {"kind": "ClusterDump", "taken": "2026-03-01T12:00:00Z"}
        dump = write({**taken, "objects": [*objects, {**metadata, "data": {"aws.clusterName": "shop", **settings}}]})
        return answer(run("explain", kind, name, "--from", dump, "-o", "json"))["reasons"]

    taint_line, setting_line = reasons("node", "kept")["keptForOnDemandPods"]
    assert taint_line.startswith(
        "taint karpenter.sh/on-demand:PreferNoSchedule: kube-scheduler places pods that do not"
    )
    assert setting_line.endswith("(setting onDemandTaint)")
    assert "it is off now" in reasons("node", "kept", onDemandTaint="false")["keptForOnDemandPods"][1]
    told, remedy = reasons("pod", "prefers")["preferenceOfOnDemandNodes"]
    assert "1 of them have the taint karpenter.sh/on-demand:PreferNoSchedule (setting onDemandTaint)" in told
    assert "tolerations: [{key: karpenter.sh/on-demand, operator: Exists}]" in remedy
    assert "keptForOnDemandPods" not in reasons("node", "plain")
    for name in ("tolerates", "indifferent"):
        assert "preferenceOfOnDemandNodes" not in reasons("pod", name)


def _unready_node(name: str, at: str, initialized: str) -> dict[str, Any]:
    """Made and not Ready since `at`; all but one are too small for the pod that waits."""
    ours = {"karpenter.sh/provisioner-name": "default", "karpenter.sh/initialized": initialized}
    room = {"cpu": "1" if name == "coming" else "8", "memory": "32Gi", "pods": "58"}
    since = f"2026-03-01T{at}:00Z"
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": since}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels("m5.2xlarge", **ours), "creationTimestamp": since},
        "status": {"capacity": room, "allocatable": room, "conditions": [condition]},
    }


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    """It waits unless it has a node."""
    status = {"phase": "Running"} if spec else {"conditions": [WAITING]}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container("4")], **spec},
        "status": status,
    }


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        ("", "the node is empty; 30s count from when the controller notes it, which waits for pods on their way"),
        ("2027-01-15T07:59:50Z", "its time is not over (20s left)"),
        ("2027-01-15T07:00:00Z", "removes it: empty for 30 s or longer"),
    ],
)
def test_an_empty_node_says_how_long_it_stays(stamp: str, said: str) -> None:
    empty = node("a")
    empty["metadata"]["annotations"] = {"karpenter.sh/emptiness-timestamp": stamp} if stamp else {}
    sections = explain_node(cluster(empty, ttlSecondsAfterEmpty=30), "a", NOW).sections
    assert f"emptiness: {said}" in [line for section in sections for line in section.lines]
