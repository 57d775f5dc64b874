"""The steps that a stack is taken through, whoever runs it: Pulumi's own engine, or the sandbox's runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

STACK_FILE = "local"
"""stacks/Pulumi.local.yaml: the stack of all that is tried on one machine."""
SECRET = "a-secret-of-the-stack-file"
"""What must not be seen in a state."""
PROVISIONER = "kubernetes:karpenter.sh/v1alpha5:Provisioner"


class StepError(Exception):
    """A step failed, or did what it must not; the message says which and what."""


class Runner(Protocol):
    """Who runs the stack, with a secret (SECRET) in its configuration."""

    def plan(self) -> list[str]:
        """TYPE::NAME of what an up would make, change or remove."""

    def up(self) -> object:
        """Deploy."""

    def destroy(self) -> object:
        """Remove all that was made but what the program retains."""

    def recorded(self) -> str:
        """The stack's state, as text."""

    def change_a_provisioner(self, seconds: int) -> None:
        """Write another ttlSecondsAfterEmpty for the first Provisioner into the configuration."""


def install_and_change(runner: Runner, say: Callable[[str], None]) -> None:
    """Preview, up, a preview that finds nothing, a change of one Provisioner that touches that object alone.

    Raises StepError.
    """
    planned = runner.plan()
    must(bool(planned), "preview plans nothing")
    say(f"preview: {len(planned)} steps")
    runner.up()
    say("up")
    must(SECRET not in runner.recorded(), "the state shows a secret of the configuration")
    say("the state shows no secret")
    again = runner.plan()
    must(not again, f"the same stack would change {again}")
    say("preview again: no changes")
    runner.change_a_provisioner(45)
    changed = runner.plan()
    must(len(changed) == 1 and changed[0].startswith(f"{PROVISIONER}::"), f"a changed Provisioner changes {changed}")
    runner.up()
    say(f"one Provisioner changed: {changed[0]}")


def up_after_destroy(runner: Runner, nothing_is_left: Callable[[], None], say: Callable[[str], None]) -> None:
    """Destroy, and up again: what the first stack left is taken over. `nothing_is_left` looks after the destroy.

    Raises StepError.
    """
    runner.destroy()
    nothing_is_left()
    say("destroy: nothing is left but what is kept on purpose")
    runner.up()
    say("up after destroy: what the first stack left is taken over")


def must(holds: bool, otherwise: str) -> None:
    """Raise StepError unless it holds."""
    if not holds:
        raise StepError(otherwise)
