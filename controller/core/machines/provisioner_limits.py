"""The total capacity of a Provisioner's nodes (status.resources), and whether its limits allow more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.pod import Resources
from controller.core.api.provisioner import Provisioner
from controller.core.state.snapshot import Snapshot


def total(parts: Iterable[Resources]) -> Resources:
    """Return the sum; resources whose sum is 0 are left out."""
    amounts: Counter[str] = Counter()
    for part in parts:
        amounts.update(part)
    return FrozenMap({name: amounts[name] for name in sorted(amounts) if amounts[name]})


def usage(snapshot: Snapshot, provisioner_name: str, without: Collection[str] = ()) -> Resources:
    """Sum up the capacity of the Provisioner's nodes that stay: its status.resources. `without`: nodes to leave out."""
    return total(node.capacity for node in snapshot.nodes_of(provisioner_name, without))


def exceeded_by(provisioner: Provisioner, used: Resources, more: Resources = EMPTY) -> str:
    """Return which limit `used` and `more` together would exceed; empty if none. Reaching a limit is allowed."""
    name, excess = exceeded(provisioner.limits or EMPTY, used, more)
    return f"limits.resources.{name} of Provisioner {provisioner.name}: {excess}" if excess else ""


def exceeded(limits: Resources, used: Resources, more: Resources) -> tuple[str, str]:
    """Return the first resource of which `used` and `more` together exceed the limit, and by how much, in words."""
    for name, limit in sorted(limits.items()):
        if (amount := used.get(name, 0) + more.get(name, 0)) > limit:
            unit = "m" if name == "cpu" else ""
            return name, f"{amount}{unit} would exceed {limit}{unit}"
    return "", ""
