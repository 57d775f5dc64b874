"""Pods are read in full, share what they share, and never stop a loop."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api.parse import parse_pod
from controller.core.api.pod import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    OwnerReference,
    PodAffinityTerm,
    PodVolume,
    PreferredTerm,
    SelectorRequirement,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.factories import pod_object

WEB = {"matchLabels": {"tier": "front", "app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}
WEB_SELECTOR = LabelSelector(
    (
        SelectorRequirement("app", "In", ("web",)),
        SelectorRequirement("tier", "In", ("front",)),
        SelectorRequirement("x", "Exists"),
    )
)
POD_TERM = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": WEB,
    "namespaces": ["a"],
    "namespaceSelector": {},
    "matchLabelKeys": ["v"],
    "mismatchLabelKeys": ["w"],
}
PARSED_POD_TERM = PodAffinityTerm("kubernetes.io/hostname", WEB_SELECTOR, ("a",), LabelSelector(), ("v",), ("w",))
NODE_TERM = {
    "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}
PARSED_NODE_TERM = NodeSelectorTerm(
    (SelectorRequirement("zone", "In", ("a", "b")),), (SelectorRequirement("metadata.name", "In", ("n",)),)
)


def test_identity_state_and_times() -> None:
    pod = parse_pod(
        pod_object(
            name="p",
            namespace="ns",
            labels={"app": "web"},
            annotations={"a": "b"},
            deletionTimestamp="2026-01-02T03:04:06.5Z",
            ownerReferences=[
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
            ],
            spec={"nodeName": "n"},
            status={"nominatedNodeName": "m"},
        )
    )
    assert pod.key == ("ns", "p")
    assert (pod.uid, pod.resource_version, pod.labels, pod.annotations) == ("uid-p", "1", {"app": "web"}, {"a": "b"})
    assert (pod.created, pod.deleted_at) == (1767323045.0, 1767323046.5)
    assert pod.owners == (OwnerReference("apps/v1", "ReplicaSet", "r", "u"),)
    assert (pod.phase, pod.node_name, pod.nominated_node_name) == ("Pending", "n", "m")
    assert (pod.unschedulable, pod.ready, pod.terminating, pod.terminal) == (True, False, True, False)


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "ready"),
    [
        ([], False, False),
        ([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}], True, False),
        ([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}], False, False),
        ([{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}], False, True),
        ([{"type": "Ready", "status": "False"}], False, False),
    ],
)
def test_conditions(conditions: list[dict[str, str]], unschedulable: bool, ready: bool) -> None:
    pod = parse_pod(pod_object(status={"conditions": conditions}))
    assert (pod.unschedulable, pod.ready) == (unschedulable, ready)


def test_scheduling_constraints_in_full() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [NODE_TERM, {}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": NODE_TERM}],
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": POD_TERM}],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": POD_TERM}],
        },
    }
    spec = parse_pod(pod_object(spec={"affinity": affinity, "nodeSelector": {"disk": "ssd"}})).spec
    assert spec.node_selector == {"disk": "ssd"}
    assert spec.required_node_affinity == (PARSED_NODE_TERM, NodeSelectorTerm())
    assert spec.preferred_node_affinity == (PreferredTerm(7, PARSED_NODE_TERM),)
    assert spec.required_pod_affinity == (PARSED_POD_TERM,)
    assert spec.preferred_pod_affinity == (WeightedPodAffinityTerm(3, PARSED_POD_TERM),)
    assert spec.required_pod_anti_affinity == (PodAffinityTerm("zone", None),)
    assert spec.preferred_pod_anti_affinity == (WeightedPodAffinityTerm(1, PARSED_POD_TERM),)


def test_a_required_node_affinity_without_terms_is_kept_apart_from_none() -> None:
    required: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    assert parse_pod(pod_object(spec={"affinity": {"nodeAffinity": required}})).spec.required_node_affinity == ()
    assert parse_pod(pod_object()).spec.required_node_affinity is None


def test_spread_tolerations_priority_and_gates_with_the_api_servers_defaults() -> None:
    spread = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": WEB}
    full = {
        **spread,
        "minDomains": 3,
        "matchLabelKeys": ["pod-template-hash"],
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
    }
    spec = parse_pod(
        pod_object(
            spec={
                "topologySpreadConstraints": [spread, full],
                "tolerations": [
                    {"key": "k", "value": "v", "effect": "NoExecute", "tolerationSeconds": 300},
                    {"operator": "Exists"},
                ],
                "priority": 5,
                "priorityClassName": "high",
                "preemptionPolicy": "Never",
                "schedulerName": "other",
                "schedulingGates": [{"name": "g"}],
                "terminationGracePeriodSeconds": 0,
            }
        )
    ).spec
    assert spec.topology_spread == (
        TopologySpreadConstraint(2, "zone", "ScheduleAnyway", WEB_SELECTOR),
        TopologySpreadConstraint(
            2, "zone", "ScheduleAnyway", WEB_SELECTOR, 3, ("pod-template-hash",), "Ignore", "Honor"
        ),
    )
    assert spec.tolerations == (Toleration("k", "Equal", "v", "NoExecute"), Toleration("", "Exists"))
    assert (spec.priority, spec.priority_class_name, spec.preemption_policy) == (5, "high", "Never")
    assert (spec.scheduler_name, spec.gated, spec.termination_grace_period_seconds) == ("other", True, 0)
    plain = parse_pod(pod_object()).spec
    assert (plain.scheduler_name, plain.gated, plain.termination_grace_period_seconds) == (
        "default-scheduler",
        False,
        30,
    )


def test_host_ports_of_containers_and_sidecars_but_not_of_init_containers() -> None:
    spec = parse_pod(
        pod_object(
            spec={
                "containers": [
                    {"ports": [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}]},
                    {"ports": [{"hostPort": 80}, {"hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]},
                ],
                "initContainers": [
                    {"ports": [{"hostPort": 9}]},
                    {"restartPolicy": "Always", "ports": [{"hostPort": 10}]},
                ],
            }
        )
    ).spec
    assert spec.host_ports == (HostPort(80), HostPort(53, "UDP", "10.0.0.1"), HostPort(10))


def test_volumes_that_claims_back() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}},
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        {"name": "plain", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
        {"name": "kube-api-access-x", "projected": {}},
        {"name": "config", "configMap": {"name": "c"}},
    ]
    assert parse_pod(pod_object(name="web-0", spec={"volumes": volumes})).volumes == (
        PodVolume("data", "data-web-0"),
        PodVolume("scratch", "web-0-scratch", True, "fast"),
        PodVolume("plain", "web-0-plain", True, None),
    )


def replica(number: int) -> dict[str, Any]:
    mounts = [{"name": f"kube-api-access-{number}", "mountPath": "/var/run/secrets"}]
    container = {
        "name": "web",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": mounts,
        "env": [{"name": "ORDINAL", "value": str(number)}],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": f"kube-api-access-{number}", "projected": {"sources": []}}],
        "nodeName": f"node-{number}",
        "hostname": f"web-{number}",
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
    return pod_object(name=f"web-{number}", labels={"app": "web"}, spec=spec, ownerReferences=[owner])


def test_replicas_share_one_spec_labels_and_owners() -> None:
    one, two = parse_pod(replica(1)), parse_pod(replica(2))
    assert one.spec is two.spec
    assert one.labels is two.labels
    assert one.owners[0] is two.owners[0]
    assert one.node_name != two.node_name


def test_specs_that_say_the_same_in_other_words_are_one_object() -> None:
    one = parse_pod(pod_object(requests={"cpu": "1", "memory": "1Gi"}))
    two = parse_pod(pod_object(requests={"memory": "1024Mi", "cpu": "1000m"}))
    assert one.spec is two.spec


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"a": "b"}},
        {"tolerations": []},
        {"priority": 1},
        {"schedulingGates": [{"name": "g"}]},
        {"overhead": {"cpu": "1m"}},
        {"resources": {"requests": {"cpu": "7"}}},
        {"containers": [{"resources": {"requests": {"cpu": "2"}}}]},
        {"initContainers": [{"resources": {"requests": {"cpu": "9"}}}]},
        {"terminationGracePeriodSeconds": 1},
        {"schedulerName": "other"},
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [POD_TERM]}}},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_that_scheduling_reads_tells_specs_apart(change: dict[str, Any]) -> None:
    changed = replica(1)
    changed["spec"].update(change)
    assert parse_pod(changed).spec != parse_pod(replica(1)).spec


def test_parsing_leaves_the_document_as_it_was() -> None:
    document = replica(3)
    before = copy.deepcopy(document)
    parse_pod(document)
    assert document == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=6,
)
SPEC_KEYS = (
    *("affinity", "containers", "initContainers", "nodeSelector", "tolerations", "topologySpreadConstraints"),
    *("overhead", "resources", "priority", "schedulingGates", "volumes", "nodeName", "schedulerName"),
)
CONTAINER = st.fixed_dictionaries(
    {},
    optional={
        "resources": JSON
        | st.fixed_dictionaries({}, optional={"requests": JSON, "limits": st.dictionaries(st.text(max_size=4), JSON)}),
        "ports": JSON | st.lists(st.fixed_dictionaries({"hostPort": JSON, "hostIP": JSON}), max_size=2),
        "restartPolicy": JSON,
    },
)
TERMS = st.lists(st.fixed_dictionaries({}, optional={"matchExpressions": JSON, "labelSelector": JSON}), max_size=2)
AFFINITY = st.dictionaries(
    st.sampled_from(["nodeAffinity", "podAffinity", "podAntiAffinity"]),
    JSON
    | st.dictionaries(
        st.sampled_from(
            [
                "requiredDuringSchedulingIgnoredDuringExecution",
                "preferredDuringSchedulingIgnoredDuringExecution",
            ]
        ),
        JSON | TERMS | st.fixed_dictionaries({"nodeSelectorTerms": JSON | TERMS}),
    ),
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(SPEC_KEYS, JSON),
        "containers": JSON | st.lists(JSON | CONTAINER, max_size=2),
        "initContainers": JSON | st.lists(JSON | CONTAINER, max_size=2),
        "affinity": JSON | AFFINITY,
    },
)
META = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ["name", "namespace", "labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp"],
        JSON,
    ),
)


@settings(max_examples=150, deadline=None)
@given(JSON | META, JSON | SPECS, JSON | st.fixed_dictionaries({"conditions": JSON | st.lists(JSON)}))
def test_a_pod_of_any_shape_is_read_without_raising(metadata: object, spec: object, status: object) -> None:
    pod = parse_pod({"metadata": metadata, "spec": spec, "status": status})
    assert pod.spec.requests["pods"] == 1
    hash(pod)
    assert all(amount > 0 for amount in pod.spec.requests.values())


RESIZES = [
    ("no resize: spec and status agree", {"requests": {"cpu": "1"}}, {"cpu": "1"}, None, 1000),
    ("growing: what is asked for counts", {"requests": {"cpu": "500m"}}, {"cpu": "500m"}, None, 1000),
    ("shrinking: what it still has counts", {"requests": {"cpu": "2"}}, {"cpu": "1"}, None, 2000),
    ("allocated already, not yet actual", {"requests": {"cpu": "1"}}, {"cpu": "3"}, None, 3000),
    ("infeasible: the spec no longer counts", {"requests": {"cpu": "500m"}}, {"cpu": "500m"}, "Infeasible", 500),
    ("deferred: the spec still counts", {"requests": {"cpu": "500m"}}, {"cpu": "500m"}, "Deferred", 1000),
    ("a status without resources says nothing", None, {"cpu": "4"}, None, 1000),
]


@pytest.mark.parametrize(("rule", "actual", "allocated", "pending", "cpu"), RESIZES)
def test_in_place_resize_counts_as_in_kube_scheduler(
    rule: str, actual: dict[str, Any] | None, allocated: dict[str, Any], pending: str | None, cpu: int
) -> None:
    held = {"name": "main", "allocatedResources": allocated, **({"resources": actual} if actual else {})}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": pending}] if pending else []
    document = pod_object(
        requests={"cpu": "1"}, spec={"nodeName": "n"}, status={"conditions": conditions, "containerStatuses": [held]}
    )
    assert parse_pod(document).spec.requests["cpu"] == cpu, rule


def test_a_running_replica_shares_its_spec_with_a_pending_one() -> None:
    held = {"name": "web", "allocatedResources": {"cpu": "1", "memory": "1Gi"}}
    running = replica(1)
    running["status"] = {
        "containerStatuses": [{**held, "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "initContainerStatuses": [{"name": "gone"}],
    }
    assert parse_pod(running).spec is parse_pod(replica(2)).spec


@settings(max_examples=50, deadline=None)
@given(JSON, st.lists(st.fixed_dictionaries({"name": st.just("main"), "resources": JSON, "allocatedResources": JSON})))
def test_odd_container_statuses_never_raise(one: object, statuses: list[Any]) -> None:
    status = {"containerStatuses": statuses, "initContainerStatuses": one}
    assert parse_pod(pod_object(spec={"nodeName": "n"}, status=status)).spec.requests["pods"] == 1


def test_odd_labels_are_left_out_and_the_others_kept() -> None:
    odd: dict[str, Any] = {"a": "b", "c": 1, "d": ["e"]}
    assert parse_pod(pod_object(labels=odd)).labels == {"a": "b"}


def test_a_spec_nested_beyond_reason_is_still_read() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    assert parse_pod(pod_object(spec={"nodeSelector": {"a": "b", "c": nested}})).spec.node_selector == {"a": "b"}


def test_a_resizing_sidecar_counts_but_a_finished_init_container_does_not() -> None:
    def container(name: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "resources": {"requests": {"cpu": "1"}}, **fields}

    held = {"resources": {"requests": {"cpu": "2"}}}
    document = pod_object(
        spec={
            "nodeName": "n",
            "containers": [container("main"), "odd"],
            "initContainers": [container("sidecar", restartPolicy="Always"), container("once")],
        },
        status={"initContainerStatuses": [{"name": "sidecar", **held}, {"name": "once", **held}]},
    )
    assert parse_pod(document).spec.requests["cpu"] == 3000


def test_a_malformed_quantity_of_a_status_loses_against_one_that_can_be_read() -> None:
    held = {"name": "main", "resources": {"requests": {"cpu": "x"}}}
    document = pod_object(requests={"cpu": "1"}, spec={"nodeName": "n"}, status={"containerStatuses": [held]})
    assert parse_pod(document).spec.requests["cpu"] == 1000


@pytest.mark.parametrize(
    ("fields", "named", "remedy"),
    [
        ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}, "DRA", "nvidia.com/gpu"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "spec.schedulingGroup", "take it out"),
        ({"workloadRef": {"name": "w", "podGroup": "g"}}, "spec.workloadRef", "take it out"),
    ],
)
def test_what_plans_cannot_know_makes_a_pod_unsupported(fields: dict[str, Any], named: str, remedy: str) -> None:
    (reason,) = parse_pod(pod_object(spec=fields)).spec.unsupported
    assert named in reason
    assert remedy in reason
    assert parse_pod(pod_object(spec={key: [] for key in fields})).spec.unsupported == ()
