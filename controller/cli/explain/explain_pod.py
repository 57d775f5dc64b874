"""Explain a pod: why it is pending and what would help, or where it runs and at which price."""

from __future__ import annotations

from collections.abc import Iterator

from controller.cli.cluster.cluster_view import ClusterView
from controller.cli.cluster.decision_log import decisions
from controller.cli.cluster.dry_run import DryRun, dry_run
from controller.cli.cluster.node_facts import price_of
from controller.cli.explain import on_demand_nodes
from controller.cli.explain.answer import Answer, Section
from controller.cli.explain.history import decisions_section, events_section
from controller.cli.explain.subjects import not_found
from controller.cli.formatting import age, count, money
from controller.core.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, ZONE
from controller.core.api.pod import Pod
from controller.core.api.quantity import in_words
from controller.core.provisioning import PlannedNode, SchedulingPlan
from controller.core.provisioning.problem import opted_out, preempting, provisionable
from controller.core.state.snapshot import Snapshot

MOST_NODES = 10
"""The most nodes that an answer names."""


def explain_pod(cluster: ClusterView, namespace: str, name: str, now: float) -> Answer:
    """Explain a pod. Raises NotFoundError."""
    pod = cluster.snapshot.pods.get((namespace, name))
    if pod is None:
        known = (f"{key[0]}/{key[1]}" for key in cluster.snapshot.pods)
        raise not_found("pod", f"{namespace}/{name}", known, "-n NAMESPACE looks in another namespace")
    verdict, sections = _bound(cluster, pod) if pod.node_name else _waiting(cluster, pod, now)
    preference = Section("Preference of on-demand nodes", tuple(on_demand_nodes.of_pod(cluster, pod)))
    on_record = decisions(cluster.kube, f"{namespace}/{name}")
    decided = decisions_section(
        (each for each in on_record if each.decision.kind != "skip"), now
    )  # those are its events
    events = events_section(cluster.kube, "Pod", name, namespace, now)
    sections = (*sections, preference, decided, events)
    return Answer(f"Pod {namespace}/{name}", verdict, _facts(pod, now), sections, cluster.price_notes)


def _facts(pod: Pod, now: float) -> dict[str, str]:
    spec = pod.spec
    owner = next(iter(pod.owners), None)
    return {
        "phase": pod.phase,
        "age": age(now - pod.created) if pod.created else "",
        "owner": f"{owner.kind} {owner.name}" if owner else "",
        "asks for": ", ".join(in_words(key, amount) for key, amount in sorted(spec.requests.items()) if key != "pods"),
        "node selector": ", ".join(f"{key}={value}" for key, value in sorted(spec.node_selector.items())),
        "spread over": ", ".join(f"{c.topology_key} (maxSkew {c.max_skew})" for c in spec.topology_spread),
        "claims of devices": ", ".join(_claims(pod)),
        "volumes": ", ".join(volume.claim_name for volume in pod.volumes),
        "priority class": spec.priority_class_name,
    }


def _claims(pod: Pod) -> Iterator[str]:
    for each in pod.spec.resource_claims:
        made = each.claim_name or pod.claim_names.get(each.name, "")
        yield f"{each.name} ({f'ResourceClaim {made}' if made else f'ResourceClaimTemplate {each.template_name}'})"


def _bound(cluster: ClusterView, pod: Pod) -> tuple[str, tuple[Section, ...]]:
    node = cluster.snapshot.nodes.get(pod.node_name)
    if node is None:
        return f"is bound to node {pod.node_name}, which does not exist any more", ()
    labels = node.node.labels
    kind = " ".join(filter(None, (labels.get(INSTANCE_TYPE), labels.get(CAPACITY_TYPE), labels.get(ZONE))))
    price = price_of(node, cluster.prices)
    cost = f", {money(price)}/h" if price is not None else ""
    verdict = f"runs on {node.name} ({kind or 'type unknown'}{cost})"
    if node.no_room:
        verdict += f", which takes no more pods: {node.no_room}"
    return verdict, (Section("More", (f"nodeless explain node {node.name}",)),)


def _waiting(cluster: ClusterView, pod: Pod, now: float) -> tuple[str, tuple[Section, ...]]:
    """Explain a pending pod by the controller's own predicate and plan."""
    if not provisionable(pod, cluster.snapshot):
        return f"gets no node: {_not_served(pod, cluster.snapshot)}", ()
    if opted_out(pod):
        return "gets no node: its affinity asks for nodes that no Provisioner makes (karpenter.sh/provisioner-name)", ()
    plan = cluster.plan()
    verdict, sections = _served(cluster, plan, pod, now)
    return verdict, (*sections, Section("Nodes that count as no room", tuple(_no_room(cluster))))


def _no_room(cluster: ClusterView) -> Iterator[str]:
    """Yield the nodes that no pod is planned onto because they are not well."""
    unwell = [node for node in cluster.snapshot.nodes.values() if node.no_room and not node.leaving]
    for node in unwell[:MOST_NODES]:
        yield f"{node.name}: {node.no_room}"
    if len(unwell) > MOST_NODES:
        yield f"and {len(unwell) - MOST_NODES} more"


def _served(cluster: ClusterView, plan: SchedulingPlan, pod: Pod, now: float) -> tuple[str, tuple[Section, ...]]:
    """Return what the plan does with the pod."""
    for left in plan.unplaced:
        if left.pod == pod.key:
            reasons = tuple(f"{each.rstrip('.')}" for each in left.reason.split(". "))
            return "cannot be placed", (Section("Why, and what would help", reasons),)
    outcome = dry_run(cluster, plan, now)
    if refusal := outcome.refused.get(pod.key):
        return "is pending because a limit binds", (Section("Why", (f"not launched: {refusal}",)),)
    return _planned(outcome, pod, cluster.options.preference_premium)


def _not_served(pod: Pod, snapshot: Snapshot) -> str:
    if pod.terminating:
        return "it is being deleted"
    if pod.terminal:
        return f"it has ended ({pod.phase})"
    if pod.daemon:
        return "DaemonSet pods never cause a launch"
    if pod.static:
        return "it is a static pod"
    if preempting(pod, snapshot):
        return f"kube-scheduler is preempting pods for it on {pod.nominated_node_name}"
    if pod.spec.gated:
        return "it has scheduling gates (spec.schedulingGates); whoever set them must remove them"
    if pod.spec.scheduler_name != "default-scheduler":
        return f"its scheduler {pod.spec.scheduler_name!r} has not marked it Unschedulable; is it running?"
    return "kube-scheduler has not marked it Unschedulable yet (condition PodScheduled); wait a moment, or see its log"


def _planned(outcome: DryRun, pod: Pod, premium: float | None) -> tuple[str, tuple[Section, ...]]:
    for each in outcome.plan.existing:
        if pod.key in each.pods:
            return f"fits on node {each.node}; kube-scheduler will bind it", (Section("Why", (each.reason,)),)
    for node in outcome.launched:
        if pod.key in node.pods:
            offering = node.offering
            where = f"{offering.instance_type} {offering.capacity_type} in {offering.zone} at {offering.in_words}"
            why = (
                *_node_reasons(node),
                *([f"the plan for all pending pods is {outcome.plan.proof}"] if outcome.plan.proof else ()),
                *(dear.said(premium) for dear in outcome.plan.too_dear if pod.key in dear.pods),
            )
            return f"would get a new node: {where}", (Section("Why", why),)
    return "is in no plan: this is a bug", ()


def _node_reasons(node: PlannedNode) -> Iterator[str]:
    yield f"Provisioner {node.provisioner}: {node.reason}"
    if node.runner_up is not None:
        second = node.runner_up
        more = second.cost - node.offering.cost
        yield f"runner-up: {second.instance_type} {second.capacity_type} in {second.zone}, {money(more)}/h more"
    yield f"shares the node with {count(len(node.pods) - 1, 'other pod')}"
