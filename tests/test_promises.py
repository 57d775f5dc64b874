"""docs/promises.md lists every name that outlives a process or is typed by people: the page and the code agree."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

import click
import pytest

from controller.cli.main import main
from controller.core.api import labels
from controller.core.api.disruption import parse_budgets
from controller.core.api.frozen import FrozenMap
from controller.core.decisions.decision import Decision, Entry
from controller.core.deprovisioning.backoff import Failure, write_failure
from controller.core.deprovisioning.records import Record, write_record
from controller.core.guards.headroom import parse_headroom
from controller.core.guards.spending import LaunchLimits
from controller.core.machines.interruption_messages import Interruption, Kind
from controller.core.price_rules import PriceRule
from controller.runtime import metrics
from tests.source_trees import READS_SOURCES, ROOT, syntax_trees

pytestmark = READS_SOURCES
PAGE = (ROOT / "docs" / "promises.md").read_text()
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
QUOTED = re.compile(r"`([^`\n]+)`")
OURS = re.compile(r"(karpenter\.sh|karpenter\.k8s\.aws)/(?!v1)[a-z0-9.-]+")
PUBLISHERS = ("publish", "_publish", "_say")
"""Methods whose third argument is an event's reason."""
OTHERS = {"karpenter.sh/nodepool", "karpenter.k8s.aws/dry-run"}
"""A later Karpenter's label, which `view` and `convert` read; the name of a launch template that is never made."""


def trees() -> Mapping[Path, ast.Module]:
    return {**syntax_trees("controller"), **syntax_trees("components")}


@cache
def constants() -> frozenset[str]:
    """Every string constant of the controller and the stack, docstrings aside or not: a name is found as a whole."""
    return frozenset(
        node.value
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def quoted(section: str) -> set[str]:
    return set(QUOTED.findall(SECTIONS[section]))


def first_column(section: str) -> set[str]:
    """Names in the first column of a section's table."""
    rows = re.findall(r"^\| *(`[^|]+)\|", SECTIONS[section], re.MULTILINE)
    return {name for row in rows for name in QUOTED.findall(row)}


def members(where: str) -> set[str]:
    """The members that the page has for JSON at one place."""
    (row,) = [line for line in SECTIONS["JSON in annotations, settings and ConfigMaps"].splitlines() if where in line]
    return set(QUOTED.findall(row.split("|")[2]))


def test_every_key_of_ours_on_nodes_pods_provisioners_and_instances_is_on_the_page() -> None:
    values = {value for value in vars(labels).values() if isinstance(value, str)}
    code = {each for each in constants() | values if OURS.fullmatch(each)} - OTHERS
    page = first_column("Annotations, labels, taints and finalizers") | first_column("Tags in AWS")
    foreign = {each for each in page if not OURS.fullmatch(each)}
    assert page - foreign == code
    assert foreign <= constants()


def reasons(tree: ast.Module) -> Iterator[str]:
    """Reasons of the events that a module publishes; a name stands for what the module assigns to it."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in PUBLISHERS and len(node.args) > 2:
            given = node.args[2]
            sources = assigned.get(given.id, []) if isinstance(given, ast.Name) else [given]
            parts = (part for source in sources for part in ast.walk(source))
            texts = (part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str))
            yield from (text for text in texts if re.match(r"[A-Z]", text))


def test_every_reason_of_an_event_is_on_the_page() -> None:
    states = ("", "stopping", "terminated")
    announced = {Interruption(kind, state=state).reason for kind in Kind for state in states} - {""}
    code = announced | {reason for tree in trees().values() for reason in reasons(tree)}
    assert {each for each in quoted("Reasons of events") if not each.startswith("kubectl")} == code


def test_every_metric_is_on_the_page() -> None:
    prefixes = {"karpenter_", "controller_runtime_", "rest_client_", "leader_election_", "nodeless_"}
    aside = {*prefixes, "controller/runtime/metrics.py"}
    assert quoted("Metrics") - aside == {metric.name for metric in metrics.ALL}
    assert all(any(metric.name.startswith(prefix) for prefix in prefixes) for metric in metrics.ALL)


def test_every_command_and_option_is_on_the_page() -> None:
    rows = re.findall(r"^\| `nodeless ([a-z]+)` \|(.*)\|$", SECTIONS["The command line"], re.MULTILINE)
    page = {name: set(QUOTED.findall(options)) for name, options in rows}
    context = click.Context(main)
    code = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        code[name] = {opt for each in command.params if isinstance(each, click.Option) for opt in each.opts}
    assert page == code


def test_every_variable_of_the_process_is_on_the_page() -> None:
    tree = trees()[ROOT / "controller/operator/options.py"]
    values = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    code = {each for each in values if isinstance(each, str) and re.fullmatch(r"[A-Z]+(_[A-Z]+)+", each)}
    assert quoted("Environment of the process") - {"nodeless run"} == code


def test_every_http_path_is_on_the_page() -> None:
    shell = {ROOT / "controller/operator/process.py", ROOT / "controller/telemetry/open_ports.py"}
    code = {
        node.value
        for path, tree in trees().items()
        if path in shell
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"/[a-z/]+", node.value)
    }
    assert first_column("HTTP paths") == code


def test_members_of_json_that_the_controller_writes_are_on_the_page() -> None:
    record = Record("id", "method", "reason", ("node",), ("token",), 1.0)
    assert members("`karpenter.sh/deprovisioning-command`") == set(json.loads(write_record(record)))
    assert members("`karpenter.sh/deprovisioning-failure`") == set(json.loads(write_failure(Failure("drift", 1, 1.0))))
    details = FrozenMap({"instance": "i-1"})
    decision = Decision("launch", "m", "Node/n", "r", "p", "i", 1.0, 2.0, ("default/web",), 1, "replace", details)
    assert members("`karpenter-decisions`") == set(Entry(1, 1.0, decision, 2, 2.0).document())


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_members_of_json_that_users_write_are_on_the_page() -> None:
    assert members("`launchLimits`") == {camel(each.name) for each in fields(LaunchLimits)}
    assert members("`aws.priceRules`") == {camel(each.name) for each in fields(PriceRule)}
    for where, read in (("`disruptionBudgets`", parse_budgets), ("`karpenter.sh/headroom`", parse_headroom)):
        with pytest.raises(ValueError, match="known are") as refused:
            read('[{"unknown": 1}]')
        assert members(where) == set(str(refused.value).rpartition("known are ")[2].partition(":")[0].split(", "))


def test_names_of_objects_in_the_cluster_are_in_the_code() -> None:
    names = first_column("Objects in the cluster")
    assert "karpenter-cert" in names
    assert names - {"karpenter-cert"} <= constants()
    kept = {"decisions.jsonl.gz", "server-key.pem", "server-cert.pem", "ca-cert.pem", "loglevel.", "zap-logger-config"}
    assert kept <= quoted("Objects in the cluster") & constants()


def test_config_maps_and_the_lease_of_the_code_are_on_the_page() -> None:
    code = {
        node.value.value
        for tree in trees().values()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id in ("CONFIG_MAP", "LEASE_NAME")
    }
    assert len(code) > 3
    assert code <= first_column("Objects in the cluster")


def test_log_messages_that_pages_quote_are_kept() -> None:
    kept = quoted("Log messages that pages quote")
    assert all(any(each.startswith(message) for each in constants()) for message in kept)
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "promises.md"]
    phrases = {each for path in pages for each in re.findall(r"`([A-Z][a-z]+(?: [A-Za-z]+)+)`", path.read_text())}
    assert phrases <= kept
