"""Launch planned nodes: build the requests, launch concurrently, report the outcomes.

Provisioning and removal commands share this pipeline. They differ in their `LaunchPolicy` and guards, and in how they
handle refusals, outcomes and failures.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.cloud.catalogs import template_of
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import Catalog, LaunchRequest, PricedOffering
from controller.core.decisions.launch_outcome import LaunchOutcome, launch_outcome
from controller.core.guards.spending import Guards, within_limits
from controller.core.machines.launching import LaunchPolicy, launch_request, launch_token, node_taints, tokens_in_use
from controller.core.machines.opening import opens_together
from controller.core.provisioning.plan import PlannedNode
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, StoppingError, ValidationError
from controller.machines.launcher import Launched, Launcher
from controller.runtime.executors import INLINE, Executor, Flag, Job


@dataclass(frozen=True, slots=True)
class Launch:
    """A planned node, and the request that launches it."""

    planned: PlannedNode
    request: LaunchRequest


@dataclass(frozen=True, slots=True)
class Refusal:
    """Pods whose planned nodes are not launched, and why."""

    pods: tuple[PodKey, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """Launches, refusals, and by Provisioner its nodes before and after the on-demand mix, in the same order."""

    launches: tuple[Launch, ...]
    refused: tuple[Refusal, ...]
    mixed: tuple[tuple[Provisioner, Sequence[PlannedNode], Sequence[PlannedNode]], ...]


def prepare(
    planned: Sequence[PlannedNode],
    snapshot: Snapshot,
    catalog: Catalog,
    pods: Mapping[PodKey, Pod],
    policy: LaunchPolicy,
    guards: Guards | None = None,
) -> Prepared:
    """Build the launches of planned nodes against the newest `snapshot`; `pods`: those that the plan was made for."""
    in_use = tokens_in_use(snapshot)
    taken = in_use - policy.own_tokens
    launches: list[Launch] = []
    refused: list[Refusal] = []
    mixed: list[tuple[Provisioner, Sequence[PlannedNode], Sequence[PlannedNode]]] = []
    together, group = policy.open_together and opens_together(planned, pods), ""
    for name in sorted({node.provisioner for node in planned}):
        nodes = [node for node in planned if node.provisioner == name]
        launchable = _launchable(name, snapshot)
        if isinstance(launchable, str):
            refused.append(Refusal(tuple(key for node in nodes for key in node.pods), launchable))
            continue
        provisioner, template = launchable
        types = {entry.name: entry for entry in catalog.get(name, ())}
        uids = ([pods[key].uid for key in node.pods if key in pods] for node in nodes)
        tokens = [launch_token(provisioner, template, each, taken) for each in uids]
        missing = [(node, token) for node, token in zip(nodes, tokens, strict=True) if token not in in_use]
        nodes = [node for node, _ in missing]
        allotments = within_limits(nodes, provisioner, types, snapshot, policy.leaving, guards)
        mixed.append((provisioner, nodes, [allotment.planned for allotment in allotments]))
        for (_, token), allotment in zip(missing, allotments, strict=True):
            node = allotment.planned
            if allotment.refusal:
                refused.append(Refusal(tuple(node.pods), allotment.refusal))
                continue
            taints = node_taints(node, pods) if policy.on_demand_taint else ()
            if together and not group:
                group = token
            request = launch_request(allotment, provisioner, template, types, token, policy.on_record, taints, group)
            launches.append(Launch(node, request))
    return Prepared(alike_together(launches), tuple(refused), tuple(mixed))


def alike_together(launches: Iterable[Launch]) -> tuple[Launch, ...]:
    """Launches that the cloud may merge, one after the other: not all of a burst are under way at once."""
    groups: defaultdict[tuple[PricedOffering, ...], list[Launch]] = defaultdict(list)
    for launch in launches:
        groups[launch.request.offerings].append(launch)
    return tuple(launch for group in groups.values() for launch in group)


def _launchable(name: str, snapshot: Snapshot) -> tuple[Provisioner, AWSNodeTemplate] | str:
    """Return the Provisioner and its template, or why nothing may be launched for it."""
    provisioner = snapshot.provisioners.get(name)
    if provisioner is None or provisioner.deleted_at is not None:
        return f"Provisioner {name} went away before the launch"
    try:
        return provisioner, template_of(snapshot, provisioner)
    except (CloudError, ValidationError) as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class LaunchPipeline:
    """Launches of one loop, as many concurrently as `executor` has workers."""

    launcher: Launcher
    executor: Executor
    stop: Flag
    registrations: Executor | None = None
    """Creates the Nodes, so that no launch waits for writes to the API server; None: the launch's own worker does."""

    def begin(
        self, launches: Iterable[Launch], launched: Callable[[Launch, LaunchOutcome], None]
    ) -> tuple[Job[None], ...]:
        """Start all launches; the worker calls `launched` once a launch's Node is created.

        A job raises what `Launcher.create`, `Launcher.register` or `launched` raised, and StoppingError if the process
        stops before it.
        """
        return tuple(_Chained(self.executor.submit(self._launch, launch, launched)) for launch in launches)

    def _launch(self, launch: Launch, launched: Callable[[Launch, LaunchOutcome], None]) -> Job[None]:
        if self.stop.is_set():
            raise StoppingError("the process stops; nothing is launched any more")
        made = self.launcher.create(launch.request, launch.planned.pods)
        executor = INLINE if self.registrations is None or self.stop.is_set() else self.registrations
        return executor.submit(self._register, launch, made, launched)

    def _register(self, launch: Launch, made: Launched, launched: Callable[[Launch, LaunchOutcome], None]) -> None:
        self.launcher.register(made, lambda instance: launched(launch, launch_outcome(launch.request, instance)))


@dataclass(frozen=True, slots=True)
class _Chained:
    """A job that ends with the job that it begins."""

    first: Job[Job[None]]

    def done(self) -> bool:
        return self.first.done() and (self.first.exception() is not None or self.first.result().done())

    def result(self, timeout: float | None = None) -> None:
        self.first.result(timeout).result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        error = self.first.exception(timeout)
        return self.first.result().exception(timeout) if error is None else error
