"""A burst whose nodes are launched with its first pod, by no controller, beside the controller's and the limit.

After a run of the controller its nodes are removed and it is taken away. Then the same pods are asked for, and at the
same moment CreateFleet launches as many instances as the controller did, of its launch template, and their Nodes are
created as the controller creates them, so that nothing waits for a plan and no processor time goes into one. The limit
follows on these nodes: the same pods, the nodes there beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import boto3

from bench.control_plane.scale import WAIT_SECONDS, ScaleRun, once_more, remove_pods, scale_cluster
from bench.control_plane.side_by_side import over_limit, programs_over_limit
from controller.core.api.labels import ATTACH_DETACH, HOSTNAME, INITIALIZED, TTL
from e2e.cluster import Cluster, labels
from sandbox.world.clock import timestamp
from sandbox.world.resources import NODES, Obj

MOST_AT_ONCE: Final = 250
"""Instances that one call launches or terminates."""
NAMES_AT_ONCE: Final = 50
"""Nodes that one call of kubectl deletes: each takes about a tenth of a second, and the call may take a minute."""
WRITERS: Final = 8
"""Nodes that are created at once."""
HEAD = """# A burst whose nodes are launched with its first pod

`python -m bench foresight`: the pods of [scale.md](scale.md) three times on one control plane. First the controller
launches their nodes. Then it is taken away, and a script launches as many with the first pod and creates their Nodes as
the controller does (foresight): no controller launches earlier, or spends less. Last is the limit, with these nodes
there beforehand. What foresight takes beyond the limit is the joining of the nodes, and what kube-scheduler does with
pods that it cannot place before these are Ready. Each cell has the controller's figure, then that of foresight: seconds
until the last node is Ready, and the last pod bound; the latter over the limit's; and the processor time of all
programs but controller and bench, over the limit's.

"""


@dataclass(frozen=True, slots=True)
class Foresight:
    """Three runs of the same pods: by the controller, with all nodes launched at once, and with the nodes there."""

    controller: ScaleRun
    foreseen: ScaleRun
    limit: ScaleRun


def run(nodes: int) -> Foresight:
    """Measure all three. Raises AssertionError after an hour."""
    with scale_cluster() as cluster:
        controller = once_more(cluster, nodes)
        (replica,) = cluster.replicas.by_name.values()
        cluster.replicas.take_away(replica.name)
        remove_pods(cluster)
        fleet = _Fleet.of(cluster)
        _remove_nodes(cluster, fleet.ec2)
        with _in_background(fleet, nodes):
            foreseen = once_more(cluster, nodes)
        remove_pods(cluster)
        return Foresight(controller, foreseen, once_more(cluster, nodes))


def table(rounds: Sequence[Foresight]) -> str:
    """Return a Markdown table, a row for each round."""
    lines = ["| round | Ready, s | bound, s | over limit | programs over limit | limit, s |"]
    lines.append("|---|---|---|---|---|---|")
    for number, each in enumerate(rounds, 1):
        both = (each.controller, each.foreseen)
        cells = (
            ", ".join(f"{one.ready[-1]:.0f}" for one in both),
            ", ".join(f"{one.bound[-1]:.0f}" for one in both),
            ", ".join(f"{over_limit((one, each.limit)):.2f}" for one in both),
            ", ".join(f"{programs_over_limit((one, each.limit)):.2f}" for one in both),
        )
        lines.append(f"| {number} | {' | '.join(cells)} | {each.limit.bound[-1]:.0f} |")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Fleet:
    """What the controller's instances are launched from, and the metadata that their Nodes share."""

    cluster: Cluster
    ec2: Any
    template: str
    instance_type: str
    subnet: str
    tags: tuple[Any, ...]
    metadata: Obj

    @classmethod
    def of(cls, cluster: Cluster) -> _Fleet:
        """Read it from an instance and its Node: all instances are of one launch template and one type."""
        access = {name.lower(): value for name, value in cluster.environment.aws_environment.items()}
        ec2 = boto3.client(
            "ec2",
            endpoint_url=cluster.environment.aws_endpoint,
            region_name=access["aws_region"],
            aws_access_key_id=access["aws_access_key_id"],
            aws_secret_access_key=access["aws_secret_access_key"],
        )
        first = cluster.instances()[0]
        (reservation,) = ec2.describe_instances(InstanceIds=[first["instanceId"]])["Reservations"]
        (instance,) = reservation["Instances"]
        template = ec2.describe_launch_templates()["LaunchTemplates"][0]["LaunchTemplateName"]
        tags = tuple(tag for tag in instance["Tags"] if not tag["Key"].startswith("aws:"))
        node = cluster.get(NODES, first["privateDnsName"])
        assert node is not None, "the controller has created it"
        return cls(cluster, ec2, template, instance["InstanceType"], instance["SubnetId"], tags, _shared(node))

    def launch(self, count: int) -> None:
        """Launch so many instances, and create their Nodes."""
        for start in range(0, count, MOST_AT_ONCE):
            self.ec2.create_fleet(
                Type="instant",
                LaunchTemplateConfigs=[
                    {
                        "LaunchTemplateSpecification": {"LaunchTemplateName": self.template, "Version": "$Latest"},
                        "Overrides": [{"InstanceType": self.instance_type, "SubnetId": self.subnet}],
                    }
                ],
                TargetCapacitySpecification={
                    "TotalTargetCapacity": min(MOST_AT_ONCE, count - start),
                    "DefaultTargetCapacityType": "on-demand",
                },
                TagSpecifications=[{"ResourceType": "instance", "Tags": list(self.tags)}],
            )
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._create_node, self.cluster.instances()))

    def _create_node(self, instance: Obj) -> None:
        """Create the instance's Node, not Ready. One that is there already is left."""
        name = instance["privateDnsName"]
        unready = {"type": "Ready", "status": "False", "reason": "KubeletNotRegistered"}
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {**self.metadata, "name": name, "labels": {**self.metadata["labels"], HOSTNAME: name}},
            "spec": {"providerID": f"aws:///{instance['zone']}/{instance['instanceId']}"},
            "status": {"conditions": [{**unready, "lastTransitionTime": timestamp(datetime.now(UTC))}]},
        }
        reply = self.cluster.http.post(NODES.path(), document)
        assert reply.code in (201, 409), reply


def _shared(node: Obj) -> Obj:
    """Return the labels that the controller's Nodes of one shape share, and the annotations that spare others a write.

    The finalizer and the owner are left out: no controller is there.
    """
    annotations = node["metadata"]["annotations"]
    return {
        "labels": {key: value for key, value in labels(node).items() if key not in (HOSTNAME, INITIALIZED)},
        "annotations": {key: annotations[key] for key in (TTL, ATTACH_DETACH)},
    }


@contextmanager
def _in_background(fleet: _Fleet, count: int) -> Iterator[None]:
    with ThreadPoolExecutor(1, thread_name_prefix="fleet") as pool:
        launched = pool.submit(fleet.launch, count)
        yield
        launched.result()


def _remove_nodes(cluster: Cluster, ec2: Any) -> None:
    """Terminate all instances and delete their Nodes; no controller is there to take its finalizer off."""
    ids = [each["instanceId"] for each in cluster.instances()]
    for start in range(0, len(ids), MOST_AT_ONCE):
        ec2.terminate_instances(InstanceIds=ids[start : start + MOST_AT_ONCE])
    names = [f"node/{node['metadata']['name']}" for node in cluster.nodes()]
    for start in range(0, len(names), NAMES_AT_ONCE):
        some = names[start : start + NAMES_AT_ONCE]
        cluster.kubectl("delete", "--wait=false", "--ignore-not-found", *some)
        cluster.kubectl("patch", *some, "--type=merge", "--patch", '{"metadata": {"finalizers": null}}')
    cluster.until(lambda: not cluster.nodes(), "the nodes are gone", WAIT_SECONDS, every_seconds=2.0)
