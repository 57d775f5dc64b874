"""`make e2e-pulumi`: the Pulumi program under Pulumi's own engine and providers, against the sandbox's endpoints.

The steps of e2e.steps (to an up after a destroy), a second up that changes nothing, a refresh that finds nothing, and
a last destroy. Then once more in another world, with the webhook and a controller that runs: nodes of its
own are there when the stack is destroyed. For whoever has `pulumi` and its plugins; else it tells what to install.

What the stack's Deployment needs to be up is an instance that is not ours, as of a node group: the sandbox's kubelet
says that the pods run. Nothing runs in them, so the first stack is told to serve no webhook; for the second e2e.fargate
starts the controller.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import yaml

from e2e.cluster import PROVISIONER_NAME
from e2e.fargate import fargate
from e2e.steps import SECRET, STACK_FILE, StepError, install_and_change, must, up_after_destroy
from e2e.workloads import deployment
from sandbox import kubebinaries
from sandbox.demo.story import connected
from sandbox.environment import CLUSTER, Environment, EnvironmentSettings, start
from sandbox.realkube import ASSETS_VARIABLE, AssetsMissingError
from sandbox.stack import ROOT

STACK = "e2e"
"""Not the stack file's name: the engine writes a file of the stack's own, which goes again."""
PLUGINS = ("aws", "command", "kubernetes")
"""The providers that stacks/Pulumi.local.yaml needs."""
HOSTS = 2
"""Instances for the controller's pods, of m5.xlarge."""
PATIENCE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Engine:
    """The `pulumi` command with a state folder of its own; a Runner of e2e.steps."""

    command: str
    config: Path
    environment: Mapping[str, str]

    def run(self, *arguments: str) -> str:
        """What it prints. Raises StepError with its words."""
        configured = () if arguments[0] == "stack" else ("--config-file", str(self.config))
        line = [self.command, *arguments, "--non-interactive", "--stack", STACK, *configured]
        done = subprocess.run(
            line, cwd=ROOT, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise StepError(f"pulumi {arguments[0]} ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def plan(self) -> list[str]:
        """TYPE::NAME of the steps that an up would take, those that change nothing left out."""
        return changes(json.loads(self.run("preview", "--json")))

    def up(self) -> None:
        """Without a preview."""
        self.run("up", "--yes", "--skip-preview")

    def destroy(self) -> None:
        """Without a preview."""
        self.run("destroy", "--yes", "--skip-preview")

    def recorded(self) -> str:
        """The deployment as the backend has it."""
        return self.run("stack", "export")

    def change_a_provisioner(self, seconds: int) -> None:
        """Another ttlSecondsAfterEmpty for the first Provisioner."""
        document = yaml.safe_load(self.config.read_text())
        document["config"]["nodeless:provisioners"][0]["spec"]["ttlSecondsAfterEmpty"] = seconds
        self.config.write_text(yaml.safe_dump(document))


def changes(preview: Mapping[str, Any]) -> list[str]:
    """TYPE::NAME of the steps of `pulumi preview --json` that do something."""
    urns = (step["urn"] for step in preview.get("steps", ()) if step["op"] not in ("same", "read"))
    return ["::".join([urn.split("::")[-2].rpartition("$")[2], urn.split("::")[-1]]) for urn in urns]


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


def write_config(target: Path, kubeconfig: Path, *, webhook: bool) -> None:
    """stacks/Pulumi.local.yaml with what this machine is told beside it."""
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{STACK_FILE}.yaml").read_text())
    config = document["config"]
    config["nodeless:cluster"] = {**config["nodeless:cluster"], "kubeconfig": str(kubeconfig)}
    config["nodeless:controller"] = {**config["nodeless:controller"], "webhook": webhook, "placement": "any"}
    for check in ("skipCredentialsValidation", "skipMetadataApiCheck", "skipRegionValidation"):
        config[f"aws:{check}"] = "true"
    target.write_text(yaml.safe_dump(document))


def begin(engine: Engine) -> None:
    """A stack with a secret in its configuration."""
    engine.run("stack", "init")
    engine.run("config", "set", "--secret", "--path", "nodeless:controller.env.TOKEN", SECRET)
    must(SECRET not in engine.config.read_text(), "the secret is in plain text in the stack file")


def tour(engine: Engine, environment: Environment, say: Callable[[str], None]) -> None:
    """Every step without a controller, each with what must come of it. Raises StepError."""
    launch_host(environment)
    begin(engine)
    install_and_change(engine, say)
    engine.run("up", "--yes", "--skip-preview", "--expect-no-changes")
    say("up again: no changes")
    engine.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
    say("refresh: no changes")
    up_after_destroy(engine, lambda: nothing_is_left(engine, environment), say)
    engine.destroy()
    say("destroy again")


def life(engine: Engine, environment: Environment, say: Callable[[str], None]) -> None:
    """A controller that serves its webhook and has nodes when the stack is destroyed. Raises StepError."""
    begin(engine)
    with fargate(environment, lambda: launch_host(environment)) as running:
        engine.up()
        say("up: Provisioners passed the webhook of the controller")
        must(running.environment_of_controller().get("TOKEN") == SECRET, "the controller does not have its secret")
        asyncio.run(_apply_workload(environment))
        until(lambda: len(_instances(environment)) > HOSTS, "pods that wait got a node")
        say("pods run on nodes of the controller")
        engine.destroy()
        nothing_is_left(engine, environment)
        left = [each["instanceId"] for each in _instances(environment)]
        must(len(left) == HOSTS, f"destroy leaves instances: {left}, of which {HOSTS} are the hosts")
        say("destroy: the nodes were drained and ended first")


def nothing_is_left(engine: Engine, environment: Environment) -> None:
    """Neither in the state nor in IAM, nor in the repository. Raises StepError."""
    left = json.loads(engine.recorded())["deployment"].get("resources") or []
    must(all(each["type"] == "pulumi:pulumi:Stack" for each in left), f"destroy leaves {left}")
    roles = boto3.client("iam", endpoint_url=environment.aws_endpoint).list_roles()["Roles"]
    ours = [role["RoleName"] for role in roles if role["RoleName"].startswith("Karpenter")]
    must(not ours, f"destroy leaves the roles {ours}")


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait. Raises StepError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        must(time.monotonic() < deadline, f"after {seconds:.0f} s it is not true that {what}")
        time.sleep(0.5)


async def _apply_workload(environment: Environment) -> None:
    waiting = deployment("waiting", 3, nodeSelector={PROVISIONER_NAME: "default"})
    async with connected(environment) as client:
        await client.request("POST", "/apis/apps/v1/namespaces/default/deployments", body=waiting)


def _instances(environment: Environment) -> list[dict[str, Any]]:
    return [each for each in environment.instances() if each["state"] in ("pending", "running")]


@contextmanager
def engine_of(environment: Environment, command: str, *, webhook: bool) -> Iterator[Engine]:
    """An engine with its own state and configuration. The repository's stack files stay as they are.

    Raises StepError where one of them has changed by the end.
    """
    with tempfile.TemporaryDirectory(prefix="nodeless-pulumi-") as text, unchanged_stack_files():
        folder = Path(text)
        config = folder / f"Pulumi.{STACK}.yaml"
        write_config(config, environment.kubeconfig, webhook=webhook)
        variables = {
            **environment.aws_environment,
            "PULUMI_BACKEND_URL": f"file://{folder}",
            "PULUMI_CONFIG_PASSPHRASE": "sandbox",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }
        yield Engine(command, config, variables)


@contextmanager
def unchanged_stack_files(folder: Path = ROOT / "stacks") -> Iterator[None]:
    """Remove the file that `pulumi stack init` writes. Raises StepError where another one is not as it was."""
    own = folder / f"Pulumi.{STACK}.yaml"
    before = {path.name: path.read_bytes() for path in folder.glob("*.yaml")}
    try:
        yield
    finally:
        own.unlink(missing_ok=True)
    after = {path.name: path.read_bytes() for path in folder.glob("*.yaml")}
    must(before == after, "the stack files of the repository are not as they were")


def launch_host(environment: Environment) -> None:
    """An instance of the cluster that no Provisioner made, for the controller's pods."""
    ec2 = boto3.client("ec2", endpoint_url=environment.aws_endpoint)
    subnet = ec2.describe_subnets(Filters=[{"Name": "tag:Name", "Values": [f"{CLUSTER}-private-*"]}])["Subnets"][0]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    ec2.run_instances(
        ImageId=image,
        InstanceType="m5.xlarge",
        MinCount=HOSTS,
        MaxCount=HOSTS,
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
    for act, webhook in ((tour, False), (life, True)):
        settings = EnvironmentSettings(Path(tempfile.mkdtemp(prefix="nodeless-e2e-")), "real")
        try:
            with start(settings) as environment:
                os.environ.update(environment.aws_environment)
                with engine_of(environment, shutil.which("pulumi") or "pulumi", webhook=webhook) as engine:
                    act(engine, environment, print)
        except StepError as error:
            print(f"make e2e-pulumi: {error}\nLogs are in {settings.folder}", file=sys.stderr)
            return 1
        shutil.rmtree(settings.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
