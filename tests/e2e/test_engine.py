"""`make e2e-pulumi`: what it asks of the engine and what it holds against it; `pulumi` is a script here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from e2e import engine
from e2e.engine import Engine, EngineError, tour, write_config
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
    return {"urn": urn, "op": op}


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that decides what the engine answers: all is well."""
    (tmp_path / "pulumi").write_text(PULUMI)
    (tmp_path / "pulumi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("STATE", str(tmp_path))
    monkeypatch.setattr("e2e.engine.boto3.client", lambda *_, **__: SimpleNamespace(list_roles=lambda: {"Roles": []}))
    steps = [step("a", "create"), step("b", "same")]
    (tmp_path / "preview-1").write_text(json.dumps({"steps": steps}))
    (tmp_path / "preview-2").write_text(json.dumps({"steps": [step(PROVISIONER), step("a", "same")]}))
    (tmp_path / "export").write_text(json.dumps({"deployment": {}}))
    return tmp_path


def toured(folder: Path) -> list[str]:
    """Run the tour; what it said."""
    config = folder / "Pulumi.local.yaml"
    write_config(config, folder / "kubeconfig")
    said: list[str] = []
    tour(Engine(str(folder / "pulumi"), config, {}), cast("Environment", SimpleNamespace(aws_endpoint="")), said.append)
    return said


def test_every_step_is_taken_in_order(pulumi: Path) -> None:
    said = toured(pulumi)
    calls = [line.split() for line in (pulumi / "calls").read_text().splitlines()]
    steps = ["stack", "preview", "up", "up", "refresh", "preview", "up", "destroy", "stack", "up", "destroy"]
    assert [call[0] for call in calls] == steps
    assert [call[0] for call in calls if "--expect-no-changes" in call] == ["up", "refresh"]
    assert all(("--config-file" in call) == (call[0] != "stack") for call in calls)
    assert said[0] == "preview: 1 steps"
    assert said[-2].startswith("destroy: nothing is left")
    assert said[-1].startswith("up after destroy")


def test_the_engine_gets_the_stack_as_it_is_but_for_this_machine(pulumi: Path) -> None:
    config = pulumi / "config"
    write_config(config, Path("/k"))
    written: dict[str, Any] = yaml.safe_load(config.read_text())["config"]
    assert written["nodeless:cluster"] == {"name": "nodeless-demo", "kubeconfig": "/k"}
    assert written["nodeless:controller"]["image"] == "nodeless:local"
    engine.change_a_provisioner(config, 45)
    changed: dict[str, Any] = yaml.safe_load(config.read_text())["config"]
    (provisioner,) = changed.pop("nodeless:provisioners")
    assert provisioner["spec"]["ttlSecondsAfterEmpty"] == 45
    assert changed.items() <= written.items()


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("fail", "^refresh", "pulumi refresh ended with code 255:\nthe engine's words"),
        ("preview-1", {"steps": []}, "preview plans nothing"),
        ("preview-2", {"steps": [step(PROVISIONER), step("b", "replace")]}, "a changed Provisioner changes"),
        ("preview-2", {"steps": [step("b")]}, "a changed Provisioner changes"),
        ("export", {"deployment": {"resources": [{"type": "aws:iam/role:Role"}]}}, "destroy leaves"),
    ],
)
def test_what_must_not_be_ends_the_run(pulumi: Path, file: str, content: Any, words: str) -> None:
    (pulumi / file).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(EngineError) as failed:
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
