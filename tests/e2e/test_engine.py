"""`make e2e-pulumi`: what it asks of the engine and what it holds against it; `pulumi` is a script here."""

from __future__ import annotations

import json
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from e2e import engine
from e2e.engine import Engine, life, tour, unchanged_stack_files, write_config
from e2e.fargate import loopback_patch
from e2e.steps import SECRET, StepError
from sandbox.environment import Environment

PULUMI = """#!/bin/sh
echo "$@" >> "$STATE/calls"
case "$1 $2" in
"plugin ls") echo '[{"name": "aws", "version": "7.51.1"}]' ;;
"preview --json") cat "$STATE/preview-$(grep -c ^preview "$STATE/calls")" ;;
"stack export") cat "$STATE/export" ;;
esac
[ ! -e "$STATE/fail" ] || ! grep -q "$(cat "$STATE/fail")" "$STATE/calls" || { echo "the engine's words"; exit 255; }
"""
PROVISIONER = (
    "urn:pulumi:local::nodeless::nodeless:index:Provisioning$kubernetes:karpenter.sh/v1alpha5:Provisioner::default"
)


def step(urn: str, op: str = "update") -> dict[str, str]:
    return {"urn": urn if "::" in urn else f"urn:pulumi:e2e::nodeless::aws:iam/role:Role::{urn}", "op": op}


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that decides what the engine answers: all is well."""
    (tmp_path / "pulumi").write_text(PULUMI)
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("STATE", str(tmp_path))
    monkeypatch.setattr("e2e.engine.boto3.client", lambda *_, **__: SimpleNamespace(list_roles=lambda: {"Roles": []}))
    monkeypatch.setattr("e2e.engine.launch_host", lambda _: None)
    steps = [step("a", "create"), step("b", "same")]
    (tmp_path / "preview-1").write_text(json.dumps({"steps": steps}))
    (tmp_path / "preview-2").write_text(json.dumps({"steps": [step("a", "same"), step("b", "read")]}))
    (tmp_path / "preview-3").write_text(json.dumps({"steps": [step(PROVISIONER), step("a", "same")]}))
    (tmp_path / "export").write_text(json.dumps({"deployment": {}}))
    return tmp_path


def toured(folder: Path) -> list[str]:
    """Run the tour; what it said."""
    said: list[str] = []
    tour(made(folder), cast("Environment", SimpleNamespace(aws_endpoint="")), said.append)
    return said


def made(folder: Path) -> Engine:
    config = folder / "Pulumi.local.yaml"
    write_config(config, folder / "kubeconfig", webhook=False)
    return Engine(str(folder / "pulumi"), config, {})


def calls(folder: Path) -> list[list[str]]:
    return [line.split() for line in (folder / "calls").read_text().splitlines()]


def test_every_step_is_taken_in_order(pulumi: Path) -> None:
    said = toured(pulumi)
    assert [call[0] for call in calls(pulumi)] == [
        "stack", "config",
        "preview", "up", "stack", "preview", "preview", "up",
        "up", "refresh", "destroy", "stack", "up", "destroy",
    ]  # fmt: skip
    assert [call[0] for call in calls(pulumi) if "--expect-no-changes" in call] == ["up", "refresh"]
    assert all(("--config-file" in call) == (call[0] != "stack") for call in calls(pulumi))
    assert {call[call.index("--stack") + 1] for call in calls(pulumi)} == {"e2e"}, (
        "no file of the repository is its own"
    )
    assert calls(pulumi)[1][:4] == ["config", "set", "--secret", "--path"]
    assert said[0] == "preview: 1 steps"
    assert "one Provisioner changed: kubernetes:karpenter.sh/v1alpha5:Provisioner::default" in said
    assert said[-3].startswith("destroy: nothing is left")
    assert said[-2].startswith("up after destroy")


def test_a_stack_is_destroyed_while_its_controller_runs_and_has_nodes(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = [{"instanceId": f"i-{number}", "state": "running"} for number in range(3)]
    environment = cast("Environment", SimpleNamespace(aws_endpoint="", instances=lambda: instances))
    running = SimpleNamespace(environment_of_controller=lambda: {"TOKEN": SECRET})
    monkeypatch.setattr(engine, "fargate", lambda *_: nullcontext(running))

    async def apply(_: Environment) -> None:
        assert calls(pulumi)[-1][0] == "up"

    monkeypatch.setattr(engine, "_apply_workload", apply)
    with pytest.raises(StepError, match=r"destroy leaves instances: \['i-0', 'i-1', 'i-2'\], of which 2 are the hosts"):
        life(made(pulumi), environment, lambda _: None)
    assert calls(pulumi)[-2][0] == "destroy"
    monkeypatch.setattr(engine.Engine, "destroy", lambda _: instances.pop())
    said: list[str] = []
    life(made(pulumi), environment, said.append)
    assert said[-1] == "destroy: the nodes were drained and ended first"
    running.environment_of_controller = dict
    with pytest.raises(StepError, match="does not have its secret"):
        life(made(pulumi), environment, said.append)


def test_the_repositorys_stack_files_stay_as_they_are(tmp_path: Path) -> None:
    committed, own = tmp_path / "Pulumi.local.yaml", tmp_path / "Pulumi.e2e.yaml"
    committed.write_text("config: {}")
    with unchanged_stack_files(tmp_path):
        own.write_text("encryptionsalt: a")
    assert not own.exists()
    with pytest.raises(StepError, match="not as they were"), unchanged_stack_files(tmp_path):
        committed.write_text("encryptionsalt: a")


def test_a_webhook_is_asked_on_this_machine_and_keeps_its_trust() -> None:
    config = {"caBundle": "Y2E=", "service": {"name": "karpenter", "namespace": "karpenter", "path": "/validate"}}
    assert loopback_patch({"webhooks": [{"name": "a", "clientConfig": config}]}, 8443) == [
        {
            "op": "replace",
            "path": "/webhooks/0/clientConfig",
            "value": {"caBundle": "Y2E=", "url": "https://127.0.0.1:8443/validate"},
        }
    ]


def test_the_engine_gets_the_stack_as_it_is_but_for_this_machine(pulumi: Path) -> None:
    config = pulumi / "config"
    write_config(config, Path("/k"), webhook=True)
    written: dict[str, Any] = yaml.safe_load(config.read_text())["config"]
    assert written["nodeless:cluster"] == {"name": "nodeless-demo", "kubeconfig": "/k"}
    assert written["nodeless:controller"] == {"image": "nodeless:local", "webhook": True, "placement": "any"}
    Engine("pulumi", config, {}).change_a_provisioner(45)
    changed: dict[str, Any] = yaml.safe_load(config.read_text())["config"]
    (provisioner,) = changed.pop("nodeless:provisioners")
    assert provisioner["spec"]["ttlSecondsAfterEmpty"] == 45
    assert changed.items() <= written.items()


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("fail", "^refresh", "pulumi refresh ended with code 255:\nthe engine's words"),
        ("preview-1", {"steps": []}, "preview plans nothing"),
        ("preview-2", {"steps": [step("b")]}, "the same stack would change"),
        ("preview-3", {"steps": [step(PROVISIONER), step("b", "replace")]}, "a changed Provisioner changes"),
        ("preview-3", {"steps": [step("b")]}, "a changed Provisioner changes"),
        ("export", {"deployment": {"resources": [{"type": "aws:iam/role:Role"}]}}, "destroy leaves"),
        ("export", f'{{"deployment": {{}}, "shown": "{SECRET}"}}', "the state shows a secret"),
    ],
)
def test_what_must_not_be_ends_the_run(pulumi: Path, file: str, content: Any, words: str) -> None:
    (pulumi / file).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(StepError) as failed:
        toured(pulumi)
    assert words in str(failed.value)


def test_what_is_missing_is_said_and_has_its_own_code(
    pulumi: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command, kubernetes = engine.missing()
    assert command.startswith("pulumi plugin install resource command v1."), "the sweep of a destroy"
    assert kubernetes.startswith("pulumi plugin install resource kubernetes v4.")
    monkeypatch.setenv("PATH", "/nowhere")
    assert engine.main() == os.EX_UNAVAILABLE
    told = capsys.readouterr().err
    assert "https://www.pulumi.com/docs/install" in told
    assert "pulumi plugin install resource aws v7." in told
