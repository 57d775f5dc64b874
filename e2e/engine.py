"""`make e2e-pulumi`: the Pulumi program under Pulumi's own engine and providers, against the sandbox's endpoints.

Preview, up, a second up that changes nothing, a refresh that finds nothing, a change of one Provisioner that touches
that object alone, a destroy that leaves nothing, an up and a destroy after it. For whoever has `pulumi` and its
plugins; else it tells what to install.

What the stack's Deployment needs to be up is an instance that is not ours, as of a node group: the sandbox's kubelet
says that the pods run. Nothing runs in them, so the stack is told to serve no webhook.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import yaml

from sandbox import kubebinaries
from sandbox.environment import CLUSTER, Environment, EnvironmentSettings, start
from sandbox.realkube import ASSETS_VARIABLE, AssetsMissingError
from sandbox.stack import ROOT

STACK = "local"
PLUGINS = ("aws", "command", "kubernetes")
"""The providers that stacks/Pulumi.local.yaml needs."""
PROVISIONER = "kubernetes:karpenter.sh/v1alpha5:Provisioner"
KEPT = "customresourcedefinitions"
"""Destroy leaves the CRDs, on purpose: with them the API server would delete every object of theirs."""


class EngineError(Exception):
    """A step of the engine failed, or did what it must not; the message says which and what."""


@dataclass(frozen=True, slots=True)
class Engine:
    """The `pulumi` command with a state folder of its own."""

    command: str
    config: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> str:
        """What it prints. Raises EngineError with its words."""
        configured = () if arguments[0] == "stack" else ("--config-file", str(self.config))
        line = [self.command, *arguments, "--non-interactive", "--stack", STACK, *configured]
        done = subprocess.run(
            line, cwd=ROOT, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise EngineError(f"pulumi {arguments[0]} ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def preview(self) -> list[dict[str, Any]]:
        """The steps that an up would take, those that change nothing left out."""
        return changes(json.loads(self.run("preview", "--json")))


def changes(preview: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of `pulumi preview --json` that do something."""
    return [step for step in preview.get("steps", ()) if step["op"] not in ("same", "read")]


def missing() -> list[str]:
    """What to install before it can run; empty when all is there."""
    command = shutil.which("pulumi")
    wanted = {name: importlib.metadata.version(f"pulumi-{name}") for name in PLUGINS}
    if command is None:
        plugins = [f"pulumi plugin install resource {name} v{version}" for name, version in wanted.items()]
        return ["the pulumi command: https://www.pulumi.com/docs/install", *plugins]
    listed = subprocess.run([command, "plugin", "ls", "--json"], capture_output=True, text=True, check=True)
    installed = {(each["name"], str(each["version"]).removeprefix("v")) for each in json.loads(listed.stdout or "[]")}
    lacks = [(name, version) for name, version in wanted.items() if (name, version) not in installed]
    return [f"pulumi plugin install resource {name} v{version}" for name, version in lacks]


def write_config(target: Path, kubeconfig: Path) -> None:
    """stacks/Pulumi.local.yaml with what this machine is told beside it."""
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text())
    config = document["config"]
    config["nodeless:cluster"] = {**config["nodeless:cluster"], "kubeconfig": str(kubeconfig)}
    config["nodeless:controller"] = {**config["nodeless:controller"], "webhook": False, "placement": "any"}
    for check in ("skipCredentialsValidation", "skipMetadataApiCheck", "skipRegionValidation"):
        config[f"aws:{check}"] = "true"
    target.write_text(yaml.safe_dump(document))


def change_a_provisioner(config: Path, seconds: int) -> None:
    """Another ttlSecondsAfterEmpty for the first Provisioner."""
    document = yaml.safe_load(config.read_text())
    document["config"]["nodeless:provisioners"][0]["spec"]["ttlSecondsAfterEmpty"] = seconds
    config.write_text(yaml.safe_dump(document))


def tour(engine: Engine, environment: Environment, say: Callable[[str], None]) -> None:
    """Every step, each with what must come of it. Raises EngineError."""
    engine.run("stack", "init")
    planned = engine.preview()
    _must(bool(planned), "preview plans nothing")
    say(f"preview: {len(planned)} steps")
    engine.run("up", "--yes", "--skip-preview")
    say("up")
    engine.run("up", "--yes", "--skip-preview", "--expect-no-changes")
    say("up again: no changes")
    engine.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    say("refresh: no changes")
    change_a_provisioner(engine.config, 45)
    steps = engine.preview()
    urns = [step["urn"] for step in steps]
    _must(len(urns) == 1 and f"${PROVISIONER}::" in urns[0], f"a changed Provisioner changes {urns}")
    engine.run("up", "--yes", "--skip-preview")
    say(f"one Provisioner changed: {urns[0]}")
    engine.run("destroy", "--yes", "--skip-preview")
    left = json.loads(engine.run("stack", "export"))["deployment"].get("resources") or []
    _must(all(each["type"] == "pulumi:pulumi:Stack" for each in left), f"destroy leaves {left}")
    roles = boto3.client("iam", endpoint_url=environment.aws_endpoint).list_roles()["Roles"]
    ours = [role["RoleName"] for role in roles if role["RoleName"].startswith("Karpenter")]
    _must(not ours, f"destroy leaves the roles {ours}")
    say(f"destroy: nothing is left but the {KEPT}")
    engine.run("up", "--yes", "--skip-preview")
    engine.run("destroy", "--yes", "--skip-preview")
    say("up after destroy, and destroy: what the first stack left is taken over")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise EngineError(otherwise)


@contextmanager
def engine_of(environment: Environment, command: str) -> Iterator[Engine]:
    """An engine with its own state and configuration."""
    with tempfile.TemporaryDirectory(prefix="nodeless-pulumi-") as text:
        folder = Path(text)
        config = folder / f"Pulumi.{STACK}.yaml"
        write_config(config, environment.kubeconfig)
        variables = {
            **environment.aws_environment,
            "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": "sandbox",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        yield Engine(command, config, variables)


def launch_host(environment: Environment) -> None:
    """An instance of the cluster that no Provisioner made, for the controller's pods."""
    ec2 = boto3.client("ec2", endpoint_url=environment.aws_endpoint)
    subnet = ec2.describe_subnets(Filters=[{"Name": "tag:Name", "Values": [f"{CLUSTER}-private-*"]}])["Subnets"][0]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    ec2.run_instances(
        ImageId=image,
        InstanceType="m5.xlarge",
        MinCount=2,
        MaxCount=2,
        SubnetId=subnet["SubnetId"],
        UserData=f"#!/bin/bash\n/etc/eks/bootstrap.sh '{CLUSTER}'\n",
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}]}
        ],
    )


def main() -> int:
    """The exit code: 0, 1 when a step failed, EX_UNAVAILABLE (69) when something must be installed first."""
    if lacks := missing():
        print("make e2e-pulumi needs\n  " + "\n  ".join(lacks), file=sys.stderr)
        return os.EX_UNAVAILABLE
    try:
        os.environ[ASSETS_VARIABLE] = str(kubebinaries.find_or_build(lambda line: print(line, file=sys.stderr)))
    except AssetsMissingError as error:
        print(f"make e2e-pulumi cannot run: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    settings = EnvironmentSettings(Path(tempfile.mkdtemp(prefix="nodeless-e2e-")), "real")
    with start(settings) as environment:
        os.environ.update(environment.aws_environment)
        launch_host(environment)
        try:
            with engine_of(environment, shutil.which("pulumi") or "pulumi") as engine:
                tour(engine, environment, print)
        except EngineError as error:
            print(f"make e2e-pulumi: {error}\nLogs are in {settings.folder}", file=sys.stderr)
            return 1
    shutil.rmtree(settings.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
