"""Deploys the Pulumi program into the sandbox: `python -m sandbox.stack`.

The program is run by its path, as Pulumi's own language host runs it; where the engine and its providers would be,
each resource is made in the sandbox's AWS or applied to its Kubernetes API, in the order of the program's dependencies.
A state file beside the kubeconfig says what the stack has made: that is changed, the rest is created or imported. There
is no diff. What depends on the controller waits until it is up, by whoever starts it.
(docs/adr/0010-stack-in-the-sandbox.md)
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pulumi
import yaml
from botocore.exceptions import BotoCoreError, ClientError
from pulumi.runtime import mocks, rpc

from sandbox.stack_aws import EKS_CLUSTER, AwsProvider, UnsupportedTypeError
from sandbox.stack_kube import CONTROLLER_DEPLOYED, WEBHOOKS, apply_object, await_controller, is_controller
from sandbox.stack_state import State
from sandbox.world.client import ApiError

ROOT = Path(__file__).parents[1]
PROJECT = "nodeless"
READ_OUTPUTS = "pulumi:pulumi:readStackOutputs"
"""Asks the engine for what a stack exported."""
STACK = "pulumi:pulumi:Stack"
"""The root resource: in the state with outputs once an up has come to its end."""


class DeploymentFailedError(Exception):
    """A resource could not be made; the message names it."""


class Monitor(mocks.MockMonitor):
    """Hands the role of a pulumi-eks cluster over by ARN: the component's plugin would read it off the reference."""

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - the name of the call
        """Register a resource, as the program's language host asks."""
        if request.type == EKS_CLUSTER:
            role = request.object.fields["serviceRole"]
            role.string_value = self.resources[role.struct_value.fields["urn"].string_value].state["arn"]
        return super().RegisterResource(request)  # type: ignore[no-untyped-call]


class Engine(mocks.Mocks):
    """Makes what the program declares."""

    def __init__(
        self, aws: AwsProvider, kubeconfig: Path, say: Callable[[str], None], webhook_port: int, state: State
    ) -> None:
        self._state = state
        self._upserting: set[str] = set()
        self._aws = aws
        self._kubeconfig = kubeconfig
        self._say = say
        self._webhook_port = webhook_port
        self._webhooks: list[dict[str, Any]] = []
        self.made = 0
        self.failures: list[str] = []

    def call(self, args: mocks.MockCallArgs) -> Any:
        """A look-up; a refusal is handed on, for the program to judge."""
        if args.token == READ_OUTPUTS:
            _, project, stack = args.args["name"].split("/")
            finished = self._state.has(STACK, f"{project}-{stack}")
            return {"name": args.args["name"], "outputs": {"finished": True} if finished else {}}
        try:
            return self._aws.ask(args.token, args.args)
        except (ClientError, UnsupportedTypeError) as error:
            return {}, [("", str(error))]

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """Make it. Returns its id and properties."""
        component = not args.custom and args.typ != EKS_CLUSTER
        if component or args.typ.startswith(("pulumi:", "command:")):  # a command that runs on destroy alone
            if args.inputs.get("upsertExistingObjects") == "true":
                self._upserting.add(args.name)
            return f"{args.name}-id", dict(args.inputs)
        given = args.inputs
        args.inputs = {name: rpc.unwrap_rpc_secret(value) for name, value in args.inputs.items()}
        try:
            identity, outputs = self._make(args)
        except (ClientError, BotoCoreError, ApiError, UnsupportedTypeError, KeyError, TimeoutError) as error:
            self.failures.append(f"{args.typ} {args.name}: {error}")
            raise DeploymentFailedError(self.failures[-1]) from error
        self._state.keep(args.typ, args.name, identity, given)
        self.made += 1
        return identity, {**args.inputs, **outputs}

    def finish(self, stack: str) -> None:
        """All is made: the stack has its outputs."""
        self._state.keep(STACK, f"{PROJECT}-{stack}", "", {})

    def _make(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        present = self._state.has(args.typ, args.name) or bool(args.resource_id)
        if not args.typ.startswith("kubernetes:"):
            made = self._aws.make(args.typ, args.inputs, present=present)
            self._say(f"{args.typ} {args.name}")
            return made
        present = present or (args.provider or "").split("::")[-2:][0] in self._upserting
        document = apply_object(self._kubeconfig, dict(args.inputs), self._webhook_port, present=present)
        self._say(f"{args.typ} {args.name}")
        if document["kind"] in WEBHOOKS:
            self._webhooks.append(document)
        if is_controller(document):
            self._say(CONTROLLER_DEPLOYED)
            await_controller(self._kubeconfig, self._webhooks)
        metadata = document["metadata"]
        return "/".join(filter(None, (metadata.get("namespace"), metadata["name"]))), document


def stack_config(path: Path, overrides: dict[str, Any]) -> dict[str, str]:
    """A stack file's keys as the engine hands them to the program: structured values as JSON, namespaces written out.

    `overrides` go over the members of structured keys, as `pulumi config set --path` would.
    """
    config: dict[str, Any] = yaml.safe_load(path.read_text())["config"]
    for key, value in overrides.items():
        config[key] = {**config.get(key, {}), **value} if isinstance(value, dict) else value
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


def deploy(
    stack: str,
    kubeconfig: Path,
    say: Callable[[str], None],
    webhook_port: int,
    overrides: dict[str, Any],
    secret_keys: Sequence[str],
) -> int:
    """Run the program with stacks/Pulumi.STACK.yaml against what the environment's AWS_ENDPOINT_URL names.

    Returns the number of resources made. Raises DeploymentFailedError, SystemExit when the program refuses its
    configuration.
    """
    overrides = {"nodeless:cluster": {"kubeconfig": str(kubeconfig)}, **overrides}
    config = stack_config(ROOT / "stacks" / f"Pulumi.{stack}.yaml", overrides)
    state = State(kubeconfig.with_name(f"{stack}.state.json"))
    engine = Engine(AwsProvider(config["aws:region"]), kubeconfig, say, webhook_port, state)
    mocks.set_mocks(engine, project=PROJECT, stack=stack, preview=False, monitor=Monitor(engine))
    pulumi.runtime.set_all_config(config, list(secret_keys))

    def program() -> None:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")

    try:
        mocks.test(program)()  # type: ignore[no-untyped-call]
    except Exception as error:
        if engine.failures:
            raise DeploymentFailedError("; ".join(engine.failures)) from error
        raise
    engine.finish(stack)
    return engine.made


@click.command()
@click.option("--stack", default="local", show_default=True, help="stacks/Pulumi.STACK.yaml.")
@click.option("--kubeconfig", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--webhook-port", type=int, required=True, help="Where the controller's webhook listens on loopback.")
@click.option("--set", "given", multiple=True, help="KEY=YAML over a key of the stack file.")
@click.option("--secret", "secret_keys", multiple=True, help="A key of the stack file that holds a secret.")
def main(stack: str, kubeconfig: Path, webhook_port: int, given: Sequence[str], secret_keys: Sequence[str]) -> None:
    """Deploy a stack into the sandbox that AWS_ENDPOINT_URL and the kubeconfig name."""
    if not os.environ.get("AWS_ENDPOINT_URL"):
        raise click.UsageError("AWS_ENDPOINT_URL is not set: this is for the sandbox, not for an account")
    sys.path.insert(0, str(ROOT))
    try:
        overrides = {key: yaml.safe_load(text) for key, _, text in (each.partition("=") for each in given)}
        made = deploy(stack, kubeconfig, click.echo, webhook_port, overrides, secret_keys)
    except DeploymentFailedError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"deployed {made} resources of stack {stack}")


if __name__ == "__main__":
    main()
