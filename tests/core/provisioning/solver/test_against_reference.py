"""The solver against a slow, obvious scheduler, on clusters that hypothesis makes up."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import HostPort, NodeSelectorTerm, Pod, PodAffinityTerm, SelectorRequirement, Toleration
from controller.core.api.pod import TopologySpreadConstraint as Spread
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.provisioning import SchedulingPlan, solve
from controller.core.provisioning.plan import SchedulingProblem
from controller.core.state.snapshot import StateNode
from tests.core.provisioning.plans import BRIEFLY, solved
from tests.core.provisioning.reference import Reference
from tests.examples import examples
from tests.factories import ZONES, instance_type, node, pod, problem, provisioner, requirement, selector, state_node

CATALOG: tuple[InstanceType, ...] = (
    instance_type(name="c5.large", cpu=2, memory="4Gi", price=0.08, pods=4),
    instance_type(name="m5.xlarge", cpu=4, memory="16Gi", price=0.2, pods=8, zones=ZONES[:2]),
    instance_type(name="m6g.xlarge", cpu=4, memory="16Gi", price=0.15, pods=8, arch="arm64"),
)
APPS = ("a", "b", "c")
EXPRESSIONS = st.sampled_from(
    [
        requirement(keys.ZONE, "In", ZONES[0]),
        requirement(keys.ZONE, "NotIn", ZONES[0]),
        requirement(keys.ARCH, "In", "arm64"),
        requirement(keys.INSTANCE_CPU, "Gt", "3"),
        requirement(keys.INSTANCE_CPU, "Lt", "3"),
        requirement("team", "In", "red"),
        requirement("team", "Exists"),
        requirement("team", "DoesNotExist"),
        requirement("nothing", "NotIn", "x"),
        requirement("nothing", "Exists"),
        requirement(keys.CAPACITY_TYPE, "In", keys.SPOT),
    ]
)
TERMS = st.lists(EXPRESSIONS, max_size=2).map(lambda expressions: NodeSelectorTerm(tuple(expressions)))
NODE_AFFINITY = st.none() | st.lists(TERMS, min_size=1, max_size=2).map(tuple)
TAINTS = (Taint("dedicated", "x"), Taint("gpu", "", "NoExecute"))
TOPOLOGY = st.sampled_from([keys.ZONE, keys.HOSTNAME, keys.CAPACITY_TYPE])
AFFINITY = st.builds(lambda key, app: PodAffinityTerm(key, selector(app=app)), TOPOLOGY, st.sampled_from(APPS))


@st.composite
def pods(draw: st.DrawFn, name: str, *, topology: str) -> Pod:
    """A pod with a few of every rule; `topology`: which of spread and affinity, all of them, or none."""
    app = draw(st.sampled_from(APPS))
    some = st.lists(AFFINITY, max_size=1).map(tuple) if topology in ("affinity", "all") else st.just(())
    spread = st.builds(
        lambda key, skew, domains: Spread(skew, key, "DoNotSchedule", selector(app=app), domains),
        TOPOLOGY,
        st.integers(1, 2),
        st.sampled_from([None, None, 2, 4]),
    )
    return pod(
        name=name,
        labels={"app": app},
        requests={"cpu": draw(st.sampled_from(["200m", "1", "1900m", "3", "5"]))},
        required_node_affinity=None if topology == "spread" else draw(NODE_AFFINITY),
        tolerations=draw(
            st.sampled_from([(), (Toleration(operator="Exists"),), (Toleration("dedicated", "Equal", "x"),)])
        ),
        host_ports=draw(st.sampled_from([(), (), (HostPort(80),)])),
        required_pod_affinity=draw(some),
        required_pod_anti_affinity=draw(some),
        topology_spread=draw(st.lists(spread, max_size=1).map(tuple)) if topology in ("spread", "all") else (),
    )


@st.composite
def pools(draw: st.DrawFn) -> tuple[Provisioner, ...]:
    return tuple(
        provisioner(
            name=f"pool-{number}",
            weight=number,
            labels=draw(st.sampled_from([{}, {"team": "red"}])),
            taints=draw(st.sampled_from([(), TAINTS[:1], TAINTS])),
            requirements=draw(st.lists(EXPRESSIONS.filter(lambda e: "/" in e.key), max_size=1)),
        )
        for number in range(draw(st.integers(1, 2)))
    )


@st.composite
def nodes(draw: st.DrawFn, *, topology: str) -> tuple[StateNode, ...]:
    made = []
    for number in range(draw(st.integers(0, 3))):
        name = f"node-{number}"
        running = [draw(pods(f"{name}-{each}", topology=topology)) for each in range(draw(st.integers(0, 2)))]
        bound = [
            replace(p, node_name=name, spec=replace(p.spec, requests=FrozenMap({"cpu": 100, "pods": 1}), host_ports=()))
            for p in running
        ]
        made.append(state_node(node=node(name=name, zone=draw(st.sampled_from(ZONES))), pods=bound))
    return tuple(made)


@st.composite
def problems(draw: st.DrawFn, *, count: int, topology: str) -> SchedulingProblem:
    return problem(
        pending=[replace(draw(pods(f"p{n}", topology=topology)), unschedulable=True) for n in range(count)],
        nodes=draw(nodes(topology=topology)),
        provisioners=draw(pools()),
        catalog=CATALOG,
    )


SLOW = examples(30)


def left(plan: SchedulingPlan) -> set[str]:
    return {unplaced.pod[1] for unplaced in plan.unplaced}


@SLOW
@given(problems(count=1, topology="all"))
def test_a_pod_alone_is_placed_exactly_where_the_reference_places_it(posed: SchedulingProblem) -> None:
    plan = solved(posed)
    assert bool(plan.unplaced) is not bool(Reference(posed).placed())


@SLOW
@given(problems(count=6, topology="none"))
def test_without_topology_no_fewer_pods_are_placed(posed: SchedulingProblem) -> None:
    plan = solved(posed)
    assert len(posed.pending) - len(plan.unplaced) >= len(Reference(posed).placed())


@SLOW
@given(problems(count=6, topology="affinity") | problems(count=6, topology="spread"))
def test_no_pod_is_left_that_would_still_fit(posed: SchedulingProblem) -> None:
    """Greedy schedulers differ in what they place; none may stop while the cluster as planned takes one more."""
    plan = solved(posed)
    after = Reference(posed)
    after.adopt(plan)
    assert [pod.name for pod in posed.pending if pod.name in left(plan) and after.fits_anywhere(pod)] == []


@SLOW
@given(problems(count=5, topology="all"))
def test_the_order_of_objects_changes_nothing(posed: SchedulingProblem) -> None:
    shuffled = replace(
        posed,
        pending=tuple(reversed(posed.pending)),
        nodes=tuple(reversed(posed.nodes)),
        provisioners=tuple(reversed(posed.provisioners)),
    )
    assert solve(shuffled, BRIEFLY) == solve(posed, BRIEFLY)


def test_the_reference_refuses_what_it_should() -> None:
    """The reference itself: a taint, a selector and anti-affinity each keep a pod away."""
    fussy = pod(labels={"app": "a"}, required_pod_anti_affinity=(PodAffinityTerm(keys.ZONE, selector(app="a")),))
    posed = problem(pending=[replace(fussy, name=f"p{n}") for n in range(4)], catalog=CATALOG)
    assert len(Reference(posed).placed()) == 3
    tainted = problem(pending=[pod()], provisioners=[provisioner(taints=TAINTS)], catalog=CATALOG)
    assert Reference(tainted).placed() == set()
    selected = pod(required_node_affinity=(NodeSelectorTerm((SelectorRequirement("x", "Exists"),)),))
    assert Reference(problem(pending=[selected], catalog=CATALOG)).placed() == set()
