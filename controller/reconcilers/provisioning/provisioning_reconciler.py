"""Provisioning: batch pending pods, solve, and launch nodes for them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from controller.cloud.catalogs import CatalogView
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod, PodKey
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.decisions.launch_outcome import LaunchOutcome
from controller.core.guards.headroom import headroom_pods, is_unit
from controller.core.guards.spending import Guards, LaunchLimits
from controller.core.machines.cluster_proof import NOT_YET, Standing
from controller.core.machines.disk_pressure import with_learned_storage
from controller.core.machines.launching import LaunchPolicy
from controller.core.machines.on_their_way import stand_in_name
from controller.core.provisioning import solve
from controller.core.provisioning.batch_window import BatchTimes, BatchWindow
from controller.core.provisioning.offerings.snapshot_index import SnapshotIndex
from controller.core.provisioning.plan import PlannedNode, SchedulingPlan, SchedulingProblem
from controller.core.provisioning.planned_ahead import NONE_UNTRIED, room_problem, untried, wanted, with_bound
from controller.core.provisioning.pods_to_come import is_to_come, numbers_to_come, pods_to_come, still_to_come
from controller.core.provisioning.problem import build, opted_out, waiting
from controller.core.provisioning.solver.isolation import solve_around
from controller.core.state.cluster import Cluster
from controller.core.state.snapshot import Snapshot
from controller.errors import (
    CloudError,
    InsufficientCapacityError,
    InvalidObjectError,
    KubeError,
    NodelessError,
)
from controller.kube.events import ObjectRef
from controller.machines.launch_pipeline import Launch, LaunchPipeline, prepare
from controller.machines.launches_under_way import LaunchesUnderWay
from controller.machines.plan_judge import PlanJudge
from controller.reconcilers.context import ContextReconciler, ReconcilerContext
from controller.reconcilers.provisioning.expectations import Expectations
from controller.reconcilers.provisioning.guard_events import GuardEvents
from controller.reconcilers.provisioning.moving_pods import MovingPods
from controller.reconcilers.provisioning.plan_log import PlanLog, by_reason
from controller.reconcilers.provisioning.plan_record import PlanRecord
from controller.reconcilers.provisioning.preference_events import PreferenceEvents
from controller.runtime.failure_log import FailureLog, Words
from controller.runtime.loops import BackoffTimes, ItemBackoff
from controller.runtime.metrics import HEADROOM_UNITS, SCHEDULING_DURATION
from controller.telemetry.structured_logging import pod_names

LAUNCH_WORKERS = 300
"""Concurrent launches, which mostly wait: the cloud provider merges equal requests into one call."""
REGISTRATION_WORKERS = 30
"""Nodes that are created concurrently."""
UNDER_WAY_SECONDS = 0.1
"""Between two passes during launches: a failed launch changes no object, and so does not wake the loop."""
NOT_READY_SECONDS = 0.5
HEADROOM_SECONDS = 10.0
"""Between two checks of the headroom while no pod waits."""
STATE_TIMEOUT_SECONDS = 10.0
UNTRIED_SECONDS = 5.0
"""A pod of another class than the marked ones that kube-scheduler has not tried after this time opens a window."""
OUTDATED_SHARE = 0.1
"""A plan is computed again if more than this share of its pods on new nodes stopped waiting meanwhile."""
LAUNCH_WORDS = Words("Launch failed", "Launches work again")
TRIED_AGAIN = "it is tried again in a while, or when it changes"


@dataclass(frozen=True, slots=True)
class ProvisioningTimes:
    """`retrigger_seconds`: a pod still pending after this long opens the batch window again.
    `hold_back`: back-off of a Provisioner whose launch failed for another reason than a lack of capacity."""

    retrigger_seconds: float = 10.0
    hold_back: BackoffTimes = field(default_factory=lambda: BackoffTimes(5.0, 300.0))


class ProvisioningReconciler(ContextReconciler):
    """Plan once the caches are synced and `adopted` is set.

    A plan counts on the nodes of launches under way; it waits only for an instance whose Node could not be created.
    """

    name = "provisioning"

    def __init__(self, context: ReconcilerContext, times: ProvisioningTimes | None = None) -> None:
        super().__init__(context)
        self._launcher, self._planning, self._open_waits = context.launcher, context.planning, context.waits
        self._adopted, self._planned = context.adopted, context.planned
        self._times = times or ProvisioningTimes()
        self._window = BatchWindow()
        self._known_types: dict[str, tuple[InstanceType, ...]] = {}
        self._held_back = ItemBackoff(self._clock, self.name, self._times.hold_back)
        self._failures: dict[tuple[str, int], str] = {}
        """Why the last launch of a Provisioner failed, while it is held back."""
        self._to_come = dict[str, range]()
        """Numbers of the pods that owners still have to make, by the owner's uid."""
        self._most_unplanned, self._grew_at = 0, -math.inf
        """The most pods to plan for in the open window, those to come included; when there were fewer last."""
        self._expected, self._moving = Expectations(), MovingPods()
        self._plans = PlanLog(self.name)
        self._guards = GuardEvents(self._events, self._recorder)
        self._headroom_at = self._clock.monotonic()
        self._scheduled = False
        self._preferences = PreferenceEvents(self._events, self.name)
        self._launch_failures = FailureLog(self._clock, self.name)
        launches = context.executors.executor("launch", LAUNCH_WORKERS)
        registrations = context.executors.executor("register", REGISTRATION_WORKERS)
        self._pipeline = LaunchPipeline(context.launcher, launches, context.stop, registrations)
        self._under_way = LaunchesUnderWay(context.launcher)
        self._judge = PlanJudge(self.name, self._recorder)

    def reconcile(self, snapshot: Snapshot) -> float:
        """Observe pending pods; when their batch window has closed, schedule them."""
        self._under_way.settle()
        self._planning.launching = self._under_way.tokens
        if not snapshot.synced or not self._adopted.is_set() or self._waits(snapshot):
            return NOT_READY_SECONDS
        seconds = self._observe(snapshot)
        self._planning.launching = self._under_way.tokens
        return min(seconds, UNDER_WAY_SECONDS) if self._under_way.tokens else seconds

    def _observe(self, snapshot: Snapshot) -> float:
        snapshot = _without(self._launcher.held_back(), snapshot)
        now, times = self._clock.monotonic(), self._batch_times()
        self._expect_arrivals(snapshot)
        self._expect_moved(snapshot)
        triggers = self._triggers(snapshot)
        not_any_more = self._expected.observe(snapshot, len(triggers), self._under_way.names, now)
        self._renew_nominations(snapshot, now)
        self._window = self._window.forget(not_any_more & triggers.keys())
        self._window = self._window.observe(now, triggers, times, self._expected.on_the_way)
        closes_at = self._closes_at(triggers, times, now)
        self._planning.unplanned = closes_at is not None
        first = (
            self._scheduled and not self._planned.is_set()
        )  # other loops wait for `planned`: do not wait until no pod is pending
        settled = self._planned.is_set() or not self._under_way.tokens
        if (closes_at is None or first) and now >= self._headroom_at and settled:
            self._headroom_at = now + HEADROOM_SECONDS
            self._keep_headroom(snapshot)
            self._planned.set()
        if closes_at is None or closes_at > now:
            seconds = self._window.wait_seconds(now, times) if closes_at is None else closes_at - now
            return max(0.0, min(seconds, HEADROOM_SECONDS, self._expected.seconds_left(now)))
        view = self._without_held_back(self._catalogs.view(snapshot), snapshot)
        self._window = self._window.closed()
        self._schedule(self._teach_state(snapshot, view), view)
        self._expected.planned(self._clock.monotonic())
        self._planning.unplanned, self._planning.launching = False, self._under_way.tokens
        self._scheduled = True
        return 0.0

    def _waits(self, snapshot: Snapshot) -> bool:
        """Return whether nothing may be planned now: it may be another cluster, or launches are unsettled."""
        proof = self._removals.proof
        wrong = proof.standing is Standing.DISPROVED or proof is NOT_YET
        self._open_waits.note("cluster", f"not the controller's own: {proof.because}" if wrong else "")
        blocking = () if wrong else self._launcher.settle(snapshot, self._under_way.tokens)
        self._open_waits.note("launches", f"Nodes of {', '.join(blocking[:5])}" if blocking else "")
        return wrong or bool(blocking)

    def _plans_ahead(self) -> bool:
        return self._settings.current.plan_ahead != "none"

    def _plans_ahead_of_owners(self) -> bool:
        return self._plans_ahead() and self._settings.current.plan_ahead_owners

    def _expect_arrivals(self, snapshot: Snapshot) -> None:
        """Expect pods that have come since the plan on the nodes that they were planned for before they came."""
        before = self._to_come
        self._to_come = numbers_to_come(snapshot) if self._plans_ahead_of_owners() else {}
        if before or self._to_come:
            self._expected.arrive(snapshot.unbound, self._to_come)
            self._planning.expected = dict(self._expected.pods)

    def _expect_moved(self, snapshot: Snapshot) -> None:
        """Expect pods that were made for evicted ones where the removal's plan has these.

        New moves are followed from the next pass on: this one's snapshot may be older than their places.
        """
        moved = list(self._moving.follow(snapshot, self._expected.pods, self._clock.monotonic()))
        begun = tuple(self._planning.moves)
        for moves in begun:
            self._moving.begin(moves)
        for pod, node in moved:
            self._expected.expect(node, [pod])
        if moved:
            self._planning.expected = dict(self._expected.pods)
        self._planning.moving_to = self._moving.nodes
        for _ in begun:
            self._planning.moves.popleft()

    def _closes_at(self, triggers: Mapping[str, Pod], times: BatchTimes, now: float) -> float | None:
        """Return when the window closes: earlier where pods to come are known, and no others join them.

        triggers: the pods to plan for that are there, by uid.
        """
        closes_at = self._window.closes_at(times)
        if self._window.count >= times.enough:
            closes_at = self._window.closes_at(times, self._workloads(triggers))
        if closes_at is None or not self._to_come:
            self._most_unplanned = 0
            return closes_at
        unplanned = len(triggers) + sum(map(len, self._to_come.values()))
        if unplanned > self._most_unplanned:
            self._most_unplanned, self._grew_at = unplanned, now
        return min(closes_at, self._grew_at + times.idle_seconds)

    def _workloads(self, triggers: Mapping[str, Pod]) -> int:
        """Return how many workloads the pods belong to that no node is on its way for."""
        pods = (pod for uid, pod in triggers.items() if uid not in self._expected.on_the_way)
        return len({pod.owners[0].uid if pod.owners else pod.uid for pod in pods})

    def _triggers(self, snapshot: Snapshot) -> dict[str, Pod]:
        """Return the pods to plan for, by uid.

        Pods of classes that kube-scheduler has not marked count in an open window, once they are planned for, and when
        it has not tried them for a while: it is behind, and would come to them only after it has bound the others.
        """
        moving = self._moving.uids
        pods = {pod.uid: pod for pod in waiting(snapshot) if pod.uid not in moving and not opted_out(pod)}
        if not pods or not self._plans_ahead():
            return pods
        pending, is_open = untried(snapshot), self._window.opened_at is not None
        pods.update((pod.uid, pod) for pod in pending.ahead)
        before = self._clock.now() - UNTRIED_SECONDS
        counted = (p for p in pending.others if is_open or p.uid in self._expected.pods or p.created <= before)
        pods.update((pod.uid, pod) for pod in counted)
        return pods

    def _renew_nominations(self, snapshot: Snapshot, now: float) -> None:
        """Let the nodes of the last plan stay nominated while kube-scheduler binds."""
        names, waiting = self._expected.nominations(snapshot, now)
        if names:
            until = self._clock.now() + self._nomination_seconds()
            self._informers.submit(partial(_nominate_nodes, names=names, until=until, pods=waiting[:1]))

    def _nomination_seconds(self) -> float:
        return max(10.0, 2 * self._settings.current.batch_max_duration_seconds)  # Karpenter v0.27's nomination window

    def _batch_times(self) -> BatchTimes:
        settings, retrigger_seconds = self._settings.current, self._times.retrigger_seconds
        return BatchTimes(settings.batch_idle_duration_seconds, settings.batch_max_duration_seconds, retrigger_seconds)

    def _keep_headroom(self, snapshot: Snapshot) -> None:
        """Keep the headroom that Provisioners ask for: launch missing nodes, nominate the nodes that have room."""
        units: dict[PodKey, Pod] = {}
        for provisioner in snapshot.provisioners.values():
            try:
                units.update((pod.key, pod) for pod in headroom_pods(provisioner, snapshot, self._clock.now()))
            except ValueError as error:
                self._guards.unreadable_headroom(provisioner, error)
        if not units:
            self._recorder.replace(HEADROOM_UNITS, {})
            return
        view = self._without_held_back(self._catalogs.view(snapshot), snapshot)
        known = self._under_way.counted_in(self._teach_state(snapshot, view))
        stage = replace(known, pods=FrozenMap({**known.pods, **units}))
        problem = build(stage, view.types, pods=units.values(), skipped=view.briefly())
        plan, _ = self._solve(problem, view)
        plan = self._judge.permitted(plan, problem)
        until = self._clock.now() + 3 * HEADROOM_SECONDS
        for placement in plan.existing:
            self._informers.submit(partial(_nominate_nodes, names=[placement.node], until=until))
        self._guards.headroom(units, plan, snapshot)
        if plan.new_nodes:
            self._plans.computed(tuple(units.values()), plan, self._clock.now())
            self._launch_all(stage, view, plan.new_nodes, PlanRecord(self._ledger, problem))

    def _without_held_back(self, view: CatalogView, snapshot: Snapshot) -> CatalogView:
        """Leave out Provisioners in back-off after a failed launch, so that others get their pods."""
        keys = {name: _version(provisioner) for name, provisioner in snapshot.provisioners.items()}
        self._held_back.keep(set(keys.values()))
        self._failures = {key: why for key, why in self._failures.items() if key in keys.values()}
        held = {name for name in view.types if name in keys and not self._held_back.ready(keys[name])}
        if not held:
            return view
        why = {name: self._failures.get(keys[name], "its last launch failed") for name in sorted(held)}
        types = {name: types for name, types in view.types.items() if name not in held}
        problems = {**view.problems, **{name: f"{text}; {TRIED_AGAIN}" for name, text in why.items()}}
        return replace(view, types=types, problems=problems)

    def _teach_state(self, snapshot: Snapshot, view: CatalogView) -> Snapshot:
        """Set new instance types in the cluster state, for nodes not yet registered; return the updated snapshot."""
        for name, types in view.types.items():
            if self._known_types.get(name) != types:
                teach = partial(_set_instance_types, name=name, types=types)
                snapshot = self._informers.submit(teach).result(STATE_TIMEOUT_SECONDS)
                self._known_types[name] = types
        return snapshot

    def _schedule(self, snapshot: Snapshot, view: CatalogView, again: bool = True) -> None:
        """Solve, and begin the launches. `again`: the plan may be made once more."""
        problem, ahead = self._posed(snapshot, view)
        if not problem.pending:
            return
        self._preferences.hindering(problem)
        began = self._clock.monotonic()
        plan, error = self._solve(problem, view)
        self._recorder.observe(SCHEDULING_DURATION, self._clock.monotonic() - began)
        if error is not None:
            self._log.error("Solver failed; the plan is not optimised, or lacks the pods to blame", exc_info=error)
        plan = self._permitted(plan, problem, view)
        record = PlanRecord(self._ledger, problem, ahead, plan.proof)
        gone = self._gone(plan, problem)
        if again and len(gone) > OUTDATED_SHARE * sum(len(node.pods) for node in plan.new_nodes):
            self._take_back(record, sorted(gone))
            self._schedule(_without(self._launcher.held_back(), self._informers.snapshot()), view, again=False)
            return
        self._plans.computed(problem.pending, plan, self._clock.now(), len(ahead))
        self._guards.limited(plan, snapshot)
        self._preferences.too_dear(snapshot, plan, self._settings.current.preference_premium)
        for reason, pods in by_reason(each for each in plan.unplaced if each.pod not in ahead).items():
            self._skip(record, pods, reason)
        self._expected.plan_anew(problem.pending, problem.snapshot)
        for each in plan.existing:
            self._expect(problem.snapshot, each.node, each.pods)
        for placement in plan.existing:
            self._plans.have_room(placement.node, placement.pods)
            if placement.node in snapshot.nodes:  # else it is a stand-in, which is nominated once it is a Node
                self._nominate(snapshot, placement.node, placement.pods)
        needed = []
        for node in plan.new_nodes:
            if gone.issuperset(node.pods):
                self._take_back(record, node.pods, node.provisioner)
            else:
                needed.append(node)
        self._launch_all(problem.snapshot, view, needed, record)

    def _permitted(self, plan: SchedulingPlan, problem: SchedulingProblem, view: CatalogView) -> SchedulingPlan:
        """Return the plan without the nodes that break a rule; the first plan, if that leaves fewer pods out then."""
        permitted = self._judge.permitted(plan, problem)
        if len(permitted.unplaced) <= len(plan.unplaced):
            return permitted
        first_plan, _ = self._solve(problem, view, budget_seconds=0.0)
        return min(permitted, self._judge.permitted(first_plan, problem), key=lambda each: len(each.unplaced))

    def _take_back(self, record: PlanRecord, pods: Sequence[PodKey], provisioner: str = "") -> None:
        record.taken_back(pods, provisioner)
        self._plans.taken_back(pods)

    def _posed(self, snapshot: Snapshot, view: CatalogView) -> tuple[SchedulingProblem, frozenset[PodKey]]:
        """Build the problem of all pods to plan for; return it with the keys of those that are planned ahead."""
        staged, skipped = with_learned_storage(self._under_way.counted_in(snapshot)), view.briefly()
        to_come = {pod.key: pod for pod in pods_to_come(staged)} if self._plans_ahead_of_owners() else {}
        placed = self._expected.forget_displaced(staged, to_come)
        pods = untried(staged).without(placed.values()) if self._plans_ahead() else NONE_UNTRIED
        come_later = {key: to_come.pop(key) for key in chain.from_iterable(placed.values()) if key in to_come}
        staged = with_bound(replace(staged, pods=FrozenMap({**staged.pods, **come_later})), placed)
        staged = with_bound(staged, self._moving.placed(staged))
        ahead = (*pods.ahead, *to_come.values())
        if pods.others or (ahead and pods.apart):
            room, _ = self._solve(room_problem(staged, (*pods.others, *pods.apart)), view, budget_seconds=0.0)
            staged = with_bound(staged, {placement.node: placement.pods for placement in room.existing})
            have_room = {key for placement in room.existing for key in placement.pods}
            ahead = (*ahead, *(pod for pod in pods.others if pod.key not in have_room))
        if not ahead:
            return build(staged, view.types, skipped=skipped), frozenset()
        wanted_now = [*waiting(staged), *ahead]
        if to_come:
            staged = replace(staged, pods=FrozenMap({**staged.pods, **to_come}))
        return build(staged, view.types, pods=wanted_now, skipped=skipped), frozenset(pod.key for pod in ahead)

    def _gone(self, plan: SchedulingPlan, problem: SchedulingProblem) -> frozenset[PodKey]:
        """Return the pods on new nodes that stopped waiting while the plan was computed."""
        pods = [problem.snapshot.pods[key] for node in plan.new_nodes for key in node.pods]
        if not pods:
            return frozenset()
        now = self._informers.snapshot()
        return frozenset(pod.key for pod in pods) - wanted(now, pods, self._plans_ahead()) - still_to_come(now, pods)

    def _solve(
        self, problem: SchedulingProblem, view: CatalogView, **options: float
    ) -> tuple[SchedulingPlan, Exception | None]:
        """`options`: fields of SolveOptions in place of the settings'."""
        index = SnapshotIndex(problem.snapshot, view.tables)
        chosen = replace(self._settings.current.solve_options(), **options)  # type: ignore[arg-type]
        solver = partial(solve, snapshot_index=index)
        first_plan = partial(solver, options=replace(chosen, budget_seconds=0.0))
        return solve_around(problem, partial(solver, options=chosen), first_plan)

    def _launch_all(
        self, snapshot: Snapshot, view: CatalogView, planned: Sequence[PlannedNode], record: PlanRecord
    ) -> None:
        """Begin to launch planned nodes."""
        fresh, now = self._under_way.counted_in(self._informers.snapshot()), self._clock.now()
        settings = self._settings.current
        guards = Guards(settings.launch_limits or LaunchLimits(), fresh, view.types, now)
        policy = LaunchPolicy(on_demand_taint=settings.on_demand_taint, open_together=settings.place_as_planned)
        prepared = prepare(planned, fresh, view.types, snapshot.pods, policy, guards)
        for refusal in prepared.refused:
            self._skip(record, refusal.pods, f"Not launched: {refusal.reason}")
        for provisioner, before, mixed in prepared.mixed:
            self._guards.mixed(provisioner, before, mixed)
        self._guards.refused(guards, fresh)
        for launch in prepared.launches:
            self._expect(snapshot, stand_in_name(launch.request.token), launch.planned.pods)
        jobs = self._pipeline.begin(prepared.launches, partial(self._launched, snapshot, record))
        self._planning.expected = dict(self._expected.pods)
        self._under_way.add(prepared.launches, jobs, now, partial(self._launch_failed, record))
        self._under_way.settle()  # without threads, all have ended

    def _expect(self, snapshot: Snapshot, node: str, pods: Sequence[PodKey]) -> None:
        self._expected.expect(node, (snapshot.pods[key] for key in pods if key in snapshot.pods and not is_unit(key)))

    def _launched(self, snapshot: Snapshot, record: PlanRecord, launch: Launch, outcome: LaunchOutcome) -> None:
        planned, provisioner = launch.planned, launch.request.provisioner
        record.launched(planned, outcome)
        what = f"{outcome.in_words} for {len(planned.pods)} pod{'' if len(planned.pods) == 1 else 's'}"
        self._events.publish(ObjectRef.of_node(outcome.node_name), "Normal", "Launched", what, (outcome.instance_id,))
        self._plans.on_its_way(outcome.node_name, planned.pods)
        self._held_back.succeeded(_version(provisioner))
        for lacking in (True, False):
            self._launch_failures.recovered(_subject(planned, lacking), provisioner=provisioner.name)
        self._nominate(snapshot, outcome.node_name, planned.pods)

    def _launch_failed(self, record: PlanRecord, launch: Launch, error: BaseException) -> None:
        """Report the failure; where capacity was lacking, the pods that were to run there are retried at once."""
        planned, provisioner = launch.planned, launch.request.provisioner
        pods = self._expected.launch_failed(stand_in_name(launch.request.token))
        if not isinstance(error, NodelessError):
            self._log.error("Launch failed with an unexpected error", provisioner=provisioner.name, exc_info=error)
            self._skip(record, planned.pods, f"Launch failed: {type(error).__name__}: {error}")
            return
        no_capacity = isinstance(error, InsufficientCapacityError)
        subject = _subject(planned, no_capacity)
        self._launch_failures.failed(
            subject,
            (subject, type(error), error.code if isinstance(error, CloudError) else ""),
            LAUNCH_WORDS,
            error,
            provisioner=planned.provisioner,
            instance_type=planned.offering.instance_type,
            pods=pod_names(planned.pods),
            pod_count=len(planned.pods),
        )
        launched = isinstance(error, KubeError) and not isinstance(error, InvalidObjectError)
        what = "The Node of a launched instance is not made yet" if launched else "Launch failed"
        self._skip(record, planned.pods, f"{what}: {error}")
        if no_capacity:
            self._window = self._window.forget(pods)
            return
        self._failures[_version(provisioner)] = f"its last launch failed ({error})"
        self._held_back.postpone(_version(provisioner))  # the batch window opens again after retrigger_seconds

    def _nominate(self, snapshot: Snapshot, node_name: str, pods: Sequence[PodKey]) -> None:
        until = self._clock.now() + self._nomination_seconds()
        expected = _known(snapshot, pods)
        # Pods that still run on a node being removed arrive when they are evicted: only time ends that nomination.
        waiting = () if any(pod.node_name for pod in expected) else expected
        self._informers.submit(lambda cluster: cluster.nominate(node_name, until, waiting))
        for pod in expected:
            message = f"Pod should schedule on node: {node_name}"
            self._events.publish(ObjectRef.of(pod), "Normal", "Nominated", message, (pod.uid,))

    def _skip(self, record: PlanRecord, pods: Sequence[PodKey], reason: str) -> None:
        """Record, log and publish that these pods get no node now.

        Only pods that still wait get the event: others run on a leaving node, or were bound meanwhile.
        """
        record.skipped(pods, reason)
        self._plans.stay_pending(pods, reason)
        for pod in _known(self._informers.snapshot(), pods):
            if not pod.node_name:
                self._events.publish(ObjectRef.of(pod), "Warning", "FailedScheduling", reason, single=True)


def _subject(planned: PlannedNode, lacking: bool) -> tuple[str, str]:
    """Key of a launch failure: Provisioner, and the instance type if it lacks capacity."""
    return (planned.provisioner, planned.offering.instance_type if lacking else "")


def _without(held_back: Collection[PodKey], snapshot: Snapshot) -> Snapshot:
    """Return the snapshot without pods that have an instance already, whose Node cannot be created yet."""
    if not held_back:
        return snapshot
    pods = FrozenMap({key: pod for key, pod in snapshot.pods.items() if key not in held_back or pod.node_name})
    return replace(snapshot, pods=pods)


def made_up(key: PodKey) -> bool:
    """Return whether the pod exists in plans only: a unit of headroom, or a pod to come."""
    return is_unit(key) or is_to_come(key)


def _known(snapshot: Snapshot, keys: Iterable[PodKey]) -> list[Pod]:
    return [snapshot.pods[key] for key in keys if key in snapshot.pods and not made_up(key)]


def _version(provisioner: Provisioner) -> tuple[str, int]:
    """Key of a Provisioner's back-off: a changed Provisioner is retried at once."""
    return (provisioner.uid, provisioner.generation)


def _nominate_nodes(cluster: Cluster, names: Iterable[str], until: float, pods: Sequence[Pod] = ()) -> None:
    for name in names:
        cluster.nominate(name, until, pods)


def _set_instance_types(cluster: Cluster, name: str, types: tuple[InstanceType, ...]) -> None:
    cluster.set_instance_types(name, {entry.name: entry for entry in types})
