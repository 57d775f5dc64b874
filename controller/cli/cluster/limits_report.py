"""Limits on launches, the on-demand mix and headroom: how far each is used, and whether it binds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.cluster.node_facts import price_of
from controller.cli.formatting import money
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import bare_words
from controller.core.decisions.fleet_cost import owned
from controller.core.guards.headroom import HEADROOM_ANNOTATION, headroom_pods
from controller.core.guards.mix import mix_of
from controller.core.guards.spending import RATE_SECONDS, LaunchLimits, price_limit
from controller.core.machines.provisioner_limits import total, usage
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import StateNode

ALL = "all Provisioners"
State = Literal["", "binds", "full", "short", "unreadable"]


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """A limit (`have` stays below `want`), or a minimum to keep (`have` should reach `want`)."""

    owner: str
    """A Provisioner's name, or ALL."""
    what: str
    have: str
    want: str
    share: float | None = None
    """have / want; at most 1 for a minimum."""
    state: State = ""
    """binds: it refuses a launch now. full: nothing is left. short: a minimum is not reached."""
    reason: str = ""
    """Why it is short or unreadable."""
    guard: str = ""
    """The name that `Guards` refuses by."""

    def document(self) -> dict[str, str | float | None]:
        return {
            "owner": self.owner,
            "what": self.what,
            "have": self.have,
            "want": self.want,
            "share": None if self.share is None else round(self.share, 4),
            "state": self.state or "ok",
            "reason": self.reason,
        }


def limit_statuses(
    cluster: ClusterView, now: float, refused: Collection[tuple[str, str]] = ()
) -> tuple[LimitStatus, ...]:
    """Return the cluster's limits, then each Provisioner's. `refused`: see `DryRun.guards`; `now` in Unix seconds."""
    statuses = list(_of_all(cluster, now))
    for name in sorted(cluster.snapshot.provisioners):
        statuses.extend(provisioner_limit_statuses(cluster, cluster.snapshot.provisioners[name], now))
    binding = {(guard, name if guard == "provisioner-price" else ALL) for guard, name in refused}
    return tuple(replace(each, state="binds") if (each.guard, each.owner) in binding else each for each in statuses)


def provisioner_limit_statuses(cluster: ClusterView, provisioner: Provisioner, now: float) -> Iterator[LimitStatus]:
    """Yield a Provisioner's spec.limits, price limit, on-demand mix and headroom."""
    used = usage(cluster.snapshot, provisioner.name)
    yield from _resources(provisioner.name, used, provisioner.limits or EMPTY)
    yield from _price(cluster, provisioner)
    yield from _on_demand(cluster, provisioner)
    yield from _headroom(cluster, provisioner, now)


def _limit(owner: str, what: str, have: str, want: str, amount: float, most: float, guard: str = "") -> LimitStatus:
    share = amount / most if most > 0 else 1.0
    return LimitStatus(owner, what, have, want, share, "full" if share >= 1 else "", guard=guard)


def _resources(
    owner: str, used: Mapping[str, int], limits: Mapping[str, int], guard: str = ""
) -> Iterator[LimitStatus]:
    for resource, most in sorted(limits.items()):
        have, want = (bare_words(resource, amount) for amount in (used.get(resource, 0), most))
        yield _limit(owner, resource, have, want, used.get(resource, 0), most, guard)


def _of_all(cluster: ClusterView, now: float) -> Iterator[LimitStatus]:
    limits, snapshot = cluster.settings.launch_limits or LaunchLimits(), cluster.snapshot
    if limits.price_per_hour is not None:
        spent, most = _spent(cluster, owned(snapshot)), limits.price_per_hour
        yield _limit(ALL, "$ an hour", money(spent), money(most), spent, most, "cluster-price")
    used = total(node.capacity for node in owned(snapshot) if not node.leaving)
    yield from _resources(ALL, used, limits.resources, "cluster-resources")
    if limits.nodes_per_minute is not None:
        recent = sum(node.node.created > now - RATE_SECONDS for node in owned(snapshot))
        rate = limits.nodes_per_minute
        yield _limit(ALL, "nodes a minute", str(recent), str(rate), recent, rate, "launch-rate")


def _price(cluster: ClusterView, provisioner: Provisioner) -> Iterator[LimitStatus]:
    try:
        most = price_limit(provisioner)
    except ValueError as error:
        yield LimitStatus(
            provisioner.name, "$ an hour", "", "", state="unreadable", reason=f"{error}; nothing is launched"
        )
        return
    if most is not None:
        own = (node for node in owned(cluster.snapshot) if node.provisioner_name == provisioner.name)
        spent = _spent(cluster, own)
        yield _limit(provisioner.name, "$ an hour", money(spent), money(most), spent, most, "provisioner-price")


def _spent(cluster: ClusterView, nodes: Iterable[StateNode]) -> float:
    """Return the $ an hour of nodes, leaving ones included, as the price guard counts them."""
    return sum(price_of(node, cluster.prices) or 0.0 for node in nodes)


def _on_demand(cluster: ClusterView, provisioner: Provisioner) -> Iterator[LimitStatus]:
    mix = mix_of(provisioner)
    if mix is None:
        return
    if mix.problem:
        yield LimitStatus(provisioner.name, "on demand", "", "", state="unreadable", reason=mix.problem)
        return
    own = cluster.snapshot.nodes_of(provisioner.name)
    have, want = sum(node.node.labels.get(CAPACITY_TYPE) == ON_DEMAND for node in own), mix.on_demand_of(len(own))
    yield _minimum(provisioner.name, "on demand", have, want, "the next launches make up for it")


def _headroom(cluster: ClusterView, provisioner: Provisioner, now: float) -> Iterator[LimitStatus]:
    try:
        units = headroom_pods(provisioner, cluster.snapshot, now)
    except ValueError as error:
        reason = f"annotation {HEADROOM_ANNOTATION}: {error}"
        yield LimitStatus(provisioner.name, "headroom", "", "", state="unreadable", reason=reason)
        return
    if not units:
        return
    with_units = replace(
        cluster.snapshot, pods=FrozenMap({**cluster.snapshot.pods, **{unit.key: unit for unit in units}})
    )
    problem = build(with_units, cluster.view.types, pods=units, skipped=cluster.view.problems)
    plan = cluster.first_plan(problem)
    kept = sum(len(placement.pods) for placement in plan.existing)
    reasons: Iterable[str] = (left.reason for left in plan.unplaced)
    yield _minimum(
        provisioner.name, "headroom", kept, len(units), next(iter(reasons), "nodes for it are not launched yet")
    )


def _minimum(owner: str, what: str, have: int, want: int, why: str) -> LimitStatus:
    short = have < want
    share = min(1.0, have / want) if want else None
    return LimitStatus(owner, what, str(have), str(want), share, "short" if short else "", why if short else "")
