"""Write, as JSON, the records that the controller at hand leaves in a cluster: run it at a commit, and keep the file.

    uv run python scripts/kept_records.py > tests/upgrade/records/COMMIT.json

`tests/upgrade` has every later controller read these files. It uses nothing that is younger than the oldest of them:
PYTHONPATH names the folder of another commit's sources.
"""

from __future__ import annotations

import base64
import json
import sys

from controller.aws.catalog.learned_memory import LearnedMemory
from controller.core.api.frozen import FrozenMap
from controller.core.api.parse import parse_node
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.decisions.decision import Decision
from controller.core.deprovisioning.backoff import Failure, write_failure, write_resting
from controller.core.deprovisioning.drift import hashes
from controller.core.deprovisioning.records import Record, write_record
from controller.core.state.snapshot import StateNode
from controller.runtime.clock import SystemClock
from controller.telemetry.decision_ledger import Ledger

AT = 1_800_000_000.0
"""Unix seconds of all records."""
PROVISIONER = {
    "metadata": {"name": "default", "uid": "p-1", "generation": 3},
    "spec": {
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "taints": [{"key": "dedicated", "value": "a", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cilium", "effect": "NoExecute"}],
        "kubeletConfiguration": {"maxPods": 58, "systemReserved": {"cpu": "100m"}},
        "providerRef": {"name": "default"},
    },
}
TEMPLATE = {
    "metadata": {"name": "default", "uid": "t-1", "generation": 2},
    "spec": {
        "amiFamily": "AL2023",
        "subnetSelector": {"karpenter.sh/discovery": "demo"},
        "securityGroupSelector": {"karpenter.sh/discovery": "demo"},
        "tags": {"team": "a"},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "50Gi", "volumeType": "gp3"}}],
    },
}


class FixedClock(SystemClock):
    """Always the same time."""

    def now(self) -> float:
        return AT


def empty_node(name: str) -> StateNode:
    """A node that has nothing."""
    node = parse_node({"metadata": {"name": name, "uid": f"uid-{name}"}})
    return StateNode(node=node, pods=(), capacity=node.capacity, allocatable=node.allocatable, taints=())


def records() -> dict[str, object]:
    """Every record by the name of its annotation or ConfigMap; the ledger as base64, as in the ConfigMap."""
    command = Record("c-1", "consolidation", "cheaper nodes", ("a", "b"), ("token-1",), AT, cordoned=True)
    ledger, memory = Ledger(FixedClock()), LearnedMemory()
    details = FrozenMap({"instance": "i-1", "instance_type": "m5.large"})
    ledger.record(Decision("launch", "provisioning", "Node/a", "pods wait", "default", "d1", 1.0, 1.5, details=details))
    ledger.record(Decision("skip", "provisioning", "Pod/default/web", "no room", pods=("default/web",), pod_count=1))
    ledger.record(Decision("skip", "provisioning", "Pod/default/web", "no room", pods=("default/web",), pod_count=1))
    ledger.record(Decision("remove", "consolidation", "Node/b", "cheaper", "default", "d2", 1.5, 1.0, action="replace"))
    memory.restore({"m5.large_ami-1": str(7900 * 2**20)})
    pool, template = V1ALPHA5.pool.parse(PROVISIONER), V1ALPHA5.node_template.parse(TEMPLATE)
    return {
        "karpenter.sh/deprovisioning-command": write_record(command),
        "karpenter.sh/deprovisioning-failure": write_failure(Failure("drift", 3, AT, 2)),
        "karpenter.sh/resting-workloads": write_resting(empty_node("a"), ["rs-1", "rs-2"], AT, AT + 600),
        "karpenter-decisions": base64.b64encode(ledger.compact()).decode(),
        "karpenter-learned-memory": memory.document(),
        "hashes": hashes(pool, template),
    }


if __name__ == "__main__":
    json.dump(records(), sys.stdout, indent=2, sort_keys=True)
    sys.stdout.write("\n")
