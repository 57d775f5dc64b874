"""The sandbox's runner of the stack (`sandbox.stack`), in this process: what it refuses, would make, and makes.

The controller does not run: the stack is told to serve no webhook, so that nothing of it waits for one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pulumi.runtime import mocks, rpc

from controller.kube.client import KubeClient
from controller.kube.connection import connect
from e2e.removal import Remover
from e2e.steps import SECRET, STACK_FILE
from sandbox import stack
from sandbox.environment import REGION
from sandbox.stack_state import HIDDEN, State

LOOP = asyncio.new_event_loop()
"""Pulumi takes the thread's own, to which its root stack stays bound."""
CONTROLLER = {"webhook": False, "env": {"TOKEN": SECRET}}
LATER = "known after it is made"
"""Outputs in a plan: an input with one in it is not compared, as in a preview of Pulumi's."""


class RefusedError(Exception):
    """The program refused the stack before it declared anything; `problems` has each with its key path."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class SandboxRunner:
    """Runs stacks/Pulumi.local.yaml against the AWS that AWS_ENDPOINT_URL names and the kubeconfig's API server."""

    kubeconfig: Path
    keys: dict[str, Any] = field(default_factory=dict)
    """Top-level keys over the stack file's."""

    def up(self, **keys: Any) -> list[str]:
        """Deploy with `keys` over the others; returns a line for all that was made or changed.

        Raises RefusedError, and stack.DeploymentFailedError where AWS or the API server refuses.
        """
        given = {**self.keys, **keys}
        given["controller"] = {**CONTROLLER, **given.get("controller", {})}
        overrides = {f"nodeless:{name}": value for name, value in given.items()}
        made: list[str] = []
        asyncio.set_event_loop(LOOP)
        with _errors() as errors:
            try:
                stack.deploy(STACK_FILE, self.kubeconfig, made.append, 0, overrides, ("nodeless:controller",))
            except SystemExit:
                raise RefusedError(errors) from None
        return made

    def destroy(self) -> None:
        """Remove all that the state has, and the state."""
        kube = KubeClient(connect(str(self.kubeconfig)))
        Remover(kube, REGION).remove(json.loads(self.recorded()))
        self.lose_state()

    def plan(self) -> list[str]:
        """TYPE::NAME of what is not in the state, or differs from it."""
        changed: list[str] = []
        with _instead(stack, "Engine", _planner(changed)):
            self.up()
        return sorted(changed)

    def change_a_provisioner(self, seconds: int) -> None:
        """Another ttlSecondsAfterEmpty for the first Provisioner."""
        document = yaml.safe_load((stack.ROOT / "stacks" / f"Pulumi.{STACK_FILE}.yaml").read_text())
        self.keys["provisioners"] = document["config"]["nodeless:provisioners"]
        self.keys["provisioners"][0]["spec"]["ttlSecondsAfterEmpty"] = seconds

    def recorded(self) -> str:
        """The state file's text; empty: there is none."""
        return self._state.read_text() if self._state.exists() else ""

    def lose_state(self) -> None:
        """As a backend that is gone."""
        self._state.unlink()

    @property
    def _state(self) -> Path:
        return self.kubeconfig.with_name(f"{STACK_FILE}.state.json")


class _Compared(State):
    """A state that is not written: what would be is compared with it."""

    def __init__(self, kept: dict[str, Any], changed: list[str]) -> None:
        self._kept, self._changed = kept, changed

    def has(self, type_: str, name: str) -> bool:
        return f"{type_}::{name}" in self._kept

    def keep(self, type_: str, name: str, _identity: str, inputs: dict[str, Any]) -> None:
        key = f"{type_}::{name}"
        shown = {name: HIDDEN if rpc.is_rpc_secret(value) else value for name, value in inputs.items()}
        if key not in self._kept or _differ(json.loads(json.dumps(shown)), self._kept[key]["inputs"]):
            self._changed.append(key)


def _differ(wanted: dict[str, Any], kept: dict[str, Any]) -> bool:
    known = {name: value for name, value in wanted.items() if LATER not in json.dumps(value)}
    return any(kept.get(name) != value for name, value in known.items()) or bool(kept.keys() - wanted.keys())


def _planner(changed: list[str]) -> type[stack.Engine]:
    """An engine that makes nothing, and adds to `changed` what it would. What is there answers with its outputs."""

    class Planner(stack.Engine):
        def __init__(self, aws: Any, kubeconfig: Path, say: Any, webhook_port: int, _state: State) -> None:
            path = kubeconfig.with_name(f"{STACK_FILE}.state.json")
            kept = json.loads(path.read_text()) if path.exists() else {}
            super().__init__(aws, kubeconfig, say, webhook_port, _Compared(kept, changed))

        def _make(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
            return args.name, {"arn": LATER, "url": LATER}

    return Planner


@contextmanager
def _instead(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Another attribute until the block ends."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Collector(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


@contextmanager
def _errors() -> Iterator[list[str]]:
    """Messages of level error until the block ends: the program's problems are logged one by one."""
    messages: list[str] = []
    handler = _Collector(messages)
    logging.getLogger().addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger().removeHandler(handler)
