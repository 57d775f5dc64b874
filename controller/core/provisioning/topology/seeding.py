"""Count running pods into the topology groups, by domain and by node."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.api import labels
from controller.core.provisioning.offerings.snapshot_index import RunningPod
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import RuleKind, Topology, TopologyGroup
from controller.core.provisioning.topology.host_counts import HostCounts


def seed(topology: Topology, domains: Domains, hosts: HostCounts, rows: Mapping[str, int]) -> None:
    """Count running pods into every group. `rows`: by name, the row of each node that may take pods."""
    nodes = topology.running_pods.nodes
    for group in topology.groups.values():
        counted = [one for one in topology.running_pods.matching(group.key.selectors) if _counts(group, one)]
        if group.key.key == labels.HOSTNAME:
            for one in counted:
                group.max_matched[nodes[one.node].name] += 1
                row = rows.get(nodes[one.node].name)
                if row is not None:
                    hosts.seed(group.index, row, 1, 0)
        else:
            _seed_domains(group, counted, domains)
    for group, node in topology.repelling:
        if group.key.key == labels.HOSTNAME:
            row = rows.get(nodes[node].name)
            if row is not None:
                hosts.seed(group.index, row, 0, 1)
        else:
            value = nodes[node].node.labels.get(group.key.key)
            if value is not None:
                group.owners[value] += 1


def _counts(group: TopologyGroup, one: RunningPod) -> bool:
    """Return whether the group counts the pod: a terminating one still repels others, but nothing else relies on it."""
    return group.key.kind is RuleKind.ANTI_AFFINITY or not one.pod.terminating


def _seed_domains(group: TopologyGroup, running: list[RunningPod], domains: Domains) -> None:
    codes, cells = domains.cluster_nodes.columns.column(group.key.key)
    eligible = domains.eligible(group) if group.key.kind is RuleKind.SPREAD else None
    for one in running:
        if eligible is not None and not eligible[one.node]:
            continue
        value = cells[codes[one.node]]
        if value is not None:
            group.max_matched[str(value)] += 1
            group.min_matched[str(value)] += 1
