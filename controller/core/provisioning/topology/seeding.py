"""What stands already is counted into the groups: running pods by domain, and by row."""

from __future__ import annotations

from collections.abc import Mapping

from controller.core.api import labels
from controller.core.provisioning.offerings.snapshot_index import RunningPod
from controller.core.provisioning.topology.domains import Domains
from controller.core.provisioning.topology.groups import Group, Kind, Topology
from controller.core.provisioning.topology.host_counts import HostCounts


def seed(topology: Topology, domains: Domains, hosts: HostCounts, rows: Mapping[str, int]) -> None:
    """Count running pods into every group. `rows`: the row of each node that may take pods, by name."""
    nodes = topology.world.nodes
    for group in topology.groups.values():
        counted = [one for one in topology.world.matching(group.key.selectors) if _counts(group, one)]
        if group.key.key == labels.HOSTNAME:
            for one in counted:
                group.most[nodes[one.node].name] += 1
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


def _counts(group: Group, one: RunningPod) -> bool:
    """Pods on their way out repel until they are gone; no rule should lean on them."""
    return group.key.kind is Kind.ANTI_AFFINITY or not one.pod.terminating


def _seed_domains(group: Group, running: list[RunningPod], domains: Domains) -> None:
    codes, cells = domains.standing.columns.column(group.key.key)
    eligible = domains.eligible(group) if group.key.kind is Kind.SPREAD else None
    for one in running:
        if eligible is not None and not eligible[one.node]:
            continue
        value = cells[codes[one.node]]
        if value is not None:
            group.most[str(value)] += 1
            group.least[str(value)] += 1
