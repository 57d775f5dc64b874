"""Warnings about likely mistakes in valid Provisioners, shown at admission and by `nodeless check`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from controller.core.api import labels
from controller.core.api.provisioner import Provisioner
from controller.core.api.strict import did_you_mean, step
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.guards import headroom
from controller.core.guards.headroom import HEADROOM_ANNOTATION, parse_headroom
from controller.core.guards.mix import BASE_ANNOTATION, MOST, PERCENTAGE_ANNOTATION, readable
from controller.core.guards.spending import PRICE_LIMIT_ANNOTATION, price_limit
from controller.core.scheduling.requirements import Requirements
from controller.core.zones.balance import AIMS, INTERVAL_ANNOTATION, read_interval
from controller.errors import Problem

SHOWN: Final = 5
"""Number of unknown label keys, or instance types, with a warning each; a remedy for many keys would take seconds."""
SHOWN_CHARACTERS: Final = 40
"""Limit on the part of an annotation's value that is shown."""
KUBERNETES_NODE_DOMAIN: Final = "node.kubernetes.io"
"""A domain of Kubernetes in which users may set labels, as in Karpenter v0.27."""
REMEDIES: Final = {
    "max_share": "write a share above 0 and up to 1, such as 0.4",
    "premium": "write a share of 0 or more, such as 0.05",
    "cluster": "write provisioner or cluster",
    "move_seconds": "write a duration, such as 30m, or 0",
}
"""By member of a `ZoneBalance`."""
UNREADABLE: Final = {
    PRICE_LIMIT_ANNOTATION: ("nothing is launched", "write $ an hour, such as 12.5"),
    BASE_ANNOTATION: ("new nodes are on demand", f"write 0 to {MOST[BASE_ANNOTATION]}"),
    PERCENTAGE_ANNOTATION: ("new nodes are on demand", f"write 0 to {MOST[PERCENTAGE_ANNOTATION]}"),
    HEADROOM_ANNOTATION: ("no room is kept free", f"write {headroom.EXAMPLE}"),
    V1ALPHA5.keys.disruption_budgets: ("no node is removed", 'write [{"nodes": "10%"}], say'),
    V1ALPHA5.keys.consolidation_threshold: ("the default holds", "write a number of 0 or more, such as 0.2"),
    V1ALPHA5.keys.grace_period: ("nodes drain as long as it takes", "write a duration above 0, such as 2h"),
}
"""By annotation of a Provisioner: what holds while it cannot be read, and what to write."""


def provisioner_warnings(provisioner: Provisioner, instance_types: Collection[str]) -> tuple[Problem, ...]:
    """Return the likely mistakes, each with its path and remedy.

    instance_types: those that some region sells; empty: not known, and no type is reported.
    """
    return (
        *islice(_unknown_keys(provisioner), SHOWN),
        *(_unknown_types(provisioner, instance_types) if instance_types else ()),
        *_contradictions(provisioner),
        *_limits(provisioner),
        *_zone_aims(provisioner),
        *_unreadable(provisioner),
        *_unknown_annotations(provisioner),
    )


def overlap(provisioner: Provisioner, others: Iterable[Provisioner]) -> tuple[Problem, ...]:
    """Return one warning that names those of `others` which take the same pods at the same weight, if there are any."""
    names = [other.name for other in others if _overlap(provisioner, other)]
    if not names:
        return ()
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (
        Problem(
            "spec.weight",
            f"the same as of {', '.join(names[:SHOWN])}{more}, and pods without a selector fit both",
            "give one a higher weight to have it first; else costs decide",
        ),
    )


def _overlap(one: Provisioner, other: Provisioner) -> bool:
    """Return whether both may launch equal nodes: weight and taints are equal, and no requirements conflict."""
    return (
        one.name != other.name
        and one.weight == other.weight
        and _barring(one) == _barring(other)
        and not _of_nodes(one).conflicts(_of_nodes(other))
    )


def _barring(provisioner: Provisioner) -> frozenset[tuple[str, str, str]]:
    """Key, value and effect of the taints that keep pods away."""
    return frozenset((t.key, t.value, t.effect) for t in provisioner.taints if t.effect != "PreferNoSchedule")


def _of_nodes(provisioner: Provisioner) -> Requirements:
    return Requirements.of(provisioner.requirements).intersection(Requirements.from_labels(provisioner.labels))


def _unknown_keys(provisioner: Provisioner) -> Iterator[Problem]:
    """Yield keys of requirements that look like well-known labels and are none."""
    for index, requirement in enumerate(provisioner.requirements):
        key = labels.normalize_label(requirement.key)
        if key in labels.WELL_KNOWN or key in provisioner.labels or key == labels.EXCLUDE_BALANCERS:
            continue
        remedy = (
            f"did you mean {near!r}?"
            if (near := labels.near_well_known(key))
            else "use a domain of your own for a label of yours"
        )
        if near or key.partition("/")[0] == KUBERNETES_NODE_DOMAIN:
            yield Problem(f"spec.requirements[{index}].key", f"{key} is no well-known label", remedy)


def _unknown_types(provisioner: Provisioner, known: Collection[str]) -> Iterator[Problem]:
    """Yield values of node.kubernetes.io/instance-type that are none, the first `SHOWN` of them each with its path."""
    unknown = [
        (f"spec.requirements[{index}].values[{place}]", value)
        for index, requirement in enumerate(provisioner.requirements)
        if labels.normalize_label(requirement.key) == labels.INSTANCE_TYPE
        for place, value in enumerate(requirement.values)
        if value not in known
    ]
    for path, value in islice(unknown, SHOWN):
        near = did_you_mean(value, known)
        remedy = near if near.startswith("did") else "check its name, unless it is newer than this release"
        yield Problem(path, f"no region is known to sell {value}", remedy)
    if len(unknown) > SHOWN:
        yield Problem(
            "spec.requirements", f"{len(unknown) - SHOWN} more instance types that no region is known to sell"
        )


def _contradictions(provisioner: Provisioner) -> Iterator[Problem]:
    """Labels that no node of the Provisioner can have, since its requirements or labels exclude each other."""
    excluded = [each.key for each in _of_nodes(provisioner).values() if not each.satisfiable]
    for key in excluded[:SHOWN]:
        what = f"no value of {key} meets all of them and spec.labels, and so no node is launched"
        yield Problem("spec.requirements", what, "relax one")


def _limits(provisioner: Provisioner) -> Iterator[Problem]:
    if not provisioner.limits:
        remedy = "set spec.limits.resources.cpu, to bound what a mistake in a Deployment can buy"
        yield Problem("spec.limits", "is missing", remedy)
    for name, amount in (provisioner.limits or {}).items():
        if amount < 0:
            yield Problem(
                step("spec.limits.resources", name), "is negative, and so no node is launched", "write 0 or more"
            )


def _zone_aims(provisioner: Provisioner) -> Iterator[Problem]:
    """Annotations of zone balance that cannot be read and so count as missing, or have no effect."""
    for key, (name, read) in AIMS.items():
        value = provisioner.object_annotations.get(key)
        if value is not None and read(value) is None:
            what = f"{_shown(value)} cannot be read and counts as missing"
            yield Problem(step("metadata.annotations", key), what, REMEDIES[name])
    interval = read_interval(provisioner.object_annotations.get(INTERVAL_ANNOTATION, ""))
    if interval and not provisioner.disruption.consolidation:
        what = "moves no node while consolidation is off"
        yield Problem(step("metadata.annotations", INTERVAL_ANNOTATION), what, "set spec.consolidation.enabled: true")


def _unreadable(provisioner: Provisioner) -> Iterator[Problem]:
    """Annotations on limits and removals that cannot be read."""
    for key, (effect, remedy) in UNREADABLE.items():
        value = provisioner.object_annotations.get(key)
        if value is not None and not _reads(provisioner, key, value):
            what = f"{_shown(value)} cannot be read, and {effect}"
            yield Problem(step("metadata.annotations", key), what, remedy)


def _reads(provisioner: Provisioner, key: str, value: str) -> bool:
    """Return whether the annotation can be read by those that obey it."""
    policy = provisioner.disruption
    if key in MOST:
        return readable(key, value)
    if key == V1ALPHA5.keys.disruption_budgets:
        return not policy.budgets_problem
    if key == V1ALPHA5.keys.consolidation_threshold:
        return policy.consolidation_threshold is not None
    if key == V1ALPHA5.keys.grace_period:
        return policy.drain_seconds != math.inf
    try:
        price_limit(provisioner) if key == PRICE_LIMIT_ANNOTATION else parse_headroom(value)
    except ValueError:
        return False
    return True


def _unknown_annotations(provisioner: Provisioner) -> Iterator[Problem]:
    """Yield annotations that look like one of the controller's, and are none."""
    known = (*AIMS, *UNREADABLE, V1ALPHA5.keys.rebalance_recommendation)
    for key in provisioner.object_annotations:
        near = difflib.get_close_matches(key, known, n=1, cutoff=labels.ALIKE)
        if near and key not in known:
            path = step("metadata.annotations", key)
            yield Problem(path, "nothing reads this annotation", f"did you mean {near[0]!r}?")


def _shown(value: str) -> str:
    return repr(value if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]}...")
