"""The CSINode of a machine: which volume drivers run there, and how many volumes they may attach."""

from __future__ import annotations

from sandbox.world.machines.ebs import DRIVER, ZONE
from sandbox.world.machines.nodedocument import Machine
from sandbox.world.resources import Obj

NITRO_ATTACHMENTS, XEN_ATTACHMENTS = 28, 39
"""EBS attachments: Nitro instances share 28 among network interfaces and volumes; Xen ones take 39 volumes besides the
root (AWS page "Amazon EBS volume limits for Amazon EC2 instances", and the EBS CSI driver's own rule)."""
TAKEN_AT_BOOT = 2
"""The root volume and the first network interface."""


def volume_limit(machine: Machine) -> int:
    """How many volumes the EBS CSI driver would offer on this machine."""
    return NITRO_ATTACHMENTS - TAKEN_AT_BOOT if machine.shape.nitro else XEN_ATTACHMENTS


def csi_node(machine: Machine, node_uid: str) -> Obj:
    """The CSINode with the EBS driver, owned by the Node so that it goes with it."""
    name = machine.node_name
    driver = {
        "name": DRIVER,
        "nodeID": machine.instance.instance_id,
        "topologyKeys": [ZONE],
        "allocatable": {"count": volume_limit(machine)},
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": {"drivers": [driver]}}
