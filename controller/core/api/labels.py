"""Label, annotation, taint, finalizer and tag keys, and the rules about them.

Keys and rules are Karpenter v0.27's (`karpenter.sh/v1alpha5`, `karpenter.k8s.aws/v1alpha1`) and Kubernetes' own.
"""

from __future__ import annotations

import difflib
from typing import Final

PROVISIONER_NAME = "karpenter.sh/provisioner-name"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
INITIALIZED = "karpenter.sh/initialized"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ARCH = "kubernetes.io/arch"
OS = "kubernetes.io/os"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
HOSTNAME = "kubernetes.io/hostname"
FIELD_NAME = "metadata.name"
"""The one node field that `matchFields` may name; handled as if it were a label."""
EXCLUDE_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
WRITTEN_ANNOTATION = "karpenter.sh/pod-deletion-cost"
"""The pod deletion cost that the controller wrote."""

SPOT = "spot"
ON_DEMAND = "on-demand"

OPENS_WITH = "karpenter.sh/opens-with"
"""Annotation of a Node that was created cordoned: a name that it shares with the nodes it is uncordoned with."""

TERMINATION_FINALIZER = "karpenter.sh/termination"

AWS_GROUP = "karpenter.k8s.aws"
INSTANCE_AMI_ID = f"{AWS_GROUP}/instance-ami-id"
INSTANCE_HYPERVISOR = f"{AWS_GROUP}/instance-hypervisor"
INSTANCE_ENCRYPTION = f"{AWS_GROUP}/instance-encryption-in-transit-supported"
INSTANCE_CATEGORY = f"{AWS_GROUP}/instance-category"
INSTANCE_FAMILY = f"{AWS_GROUP}/instance-family"
INSTANCE_GENERATION = f"{AWS_GROUP}/instance-generation"
INSTANCE_LOCAL_NVME = f"{AWS_GROUP}/instance-local-nvme"
INSTANCE_SIZE = f"{AWS_GROUP}/instance-size"
INSTANCE_CPU = f"{AWS_GROUP}/instance-cpu"
INSTANCE_MEMORY = f"{AWS_GROUP}/instance-memory"
INSTANCE_NETWORK_BANDWIDTH = f"{AWS_GROUP}/instance-network-bandwidth"
INSTANCE_PODS = f"{AWS_GROUP}/instance-pods"
INSTANCE_GPU_NAME = f"{AWS_GROUP}/instance-gpu-name"
INSTANCE_GPU_MANUFACTURER = f"{AWS_GROUP}/instance-gpu-manufacturer"
INSTANCE_GPU_COUNT = f"{AWS_GROUP}/instance-gpu-count"
INSTANCE_GPU_MEMORY = f"{AWS_GROUP}/instance-gpu-memory"
INSTANCE_ACCELERATOR_NAME = f"{AWS_GROUP}/instance-accelerator-name"
INSTANCE_ACCELERATOR_MANUFACTURER = f"{AWS_GROUP}/instance-accelerator-manufacturer"
INSTANCE_ACCELERATOR_COUNT = f"{AWS_GROUP}/instance-accelerator-count"
INSTANCE_ACCELERATOR_MEMORY = f"{AWS_GROUP}/instance-accelerator-memory"

WELL_KNOWN = frozenset({
    PROVISIONER_NAME, ZONE, REGION, INSTANCE_TYPE, ARCH, OS, CAPACITY_TYPE, INSTANCE_HYPERVISOR, INSTANCE_ENCRYPTION,
    INSTANCE_CATEGORY, INSTANCE_FAMILY, INSTANCE_GENERATION, INSTANCE_LOCAL_NVME, INSTANCE_SIZE, INSTANCE_CPU,
    INSTANCE_MEMORY, INSTANCE_NETWORK_BANDWIDTH, INSTANCE_PODS, INSTANCE_GPU_NAME, INSTANCE_GPU_MANUFACTURER,
    INSTANCE_GPU_COUNT, INSTANCE_GPU_MEMORY, INSTANCE_ACCELERATOR_NAME, INSTANCE_ACCELERATOR_MANUFACTURER,
    INSTANCE_ACCELERATOR_COUNT, INSTANCE_ACCELERATOR_MEMORY,
})  # fmt: skip
"""Labels whose values come from the cloud: a pod may ask for them although no Provisioner names them."""

ALIKE: Final = 0.85
"""From this ratio of difflib on, a key counts as misspelt."""
RESTRICTED_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", AWS_GROUP)
RESTRICTED_EXCEPTIONS = frozenset({"kops.k8s.io", "node.kubernetes.io", "testing.karpenter.sh"})

BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
"""Older names of labels. kube-controller-manager and the cloud controller copy the value to a Node that lacks them."""
NORMALIZED = {**BETA_LABELS, "topology.ebs.csi.aws.com/zone": ZONE}
"""Other names for the same label."""
ATTACH_DETACH = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation of a Node whose volumes kube-controller-manager attaches, not the kubelet: the kubelets' default."""
TTL = "node.alpha.kubernetes.io/ttl"
"""Annotation of a Node: for how many seconds its kubelet need not read Secrets and ConfigMaps again."""


def normalize_label(key: str) -> str:
    return NORMALIZED.get(key, key)


def restricted_label(key: str) -> bool:
    """Return whether users may not set this label: in a reserved domain and not well known.

    A domain is reserved with its subdomains (`foo.kubernetes.io`). Karpenter v0.27 tests a bare suffix, so that it also
    refuses `xkubernetes.io`, which is in no reserved domain; we accept it.
    """
    if key in WELL_KNOWN:
        return False
    domain = key.partition("/")[0] if "/" in key else ""
    if domain in RESTRICTED_EXCEPTIONS:
        return False
    return any(domain == reserved or domain.endswith("." + reserved) for reserved in RESTRICTED_DOMAINS)


def near_well_known(key: str) -> str:
    """Return the well-known label that a key is likely meant to be: of the same name, or spelt alike; empty for none.

    A key with a domain that users may set is theirs, whatever its name: such a one is compared as a whole.
    """
    known = sorted(WELL_KNOWN - {PROVISIONER_NAME})
    if "/" not in key or restricted_label(key):
        name = key.rpartition("/")[2].lower()
        if same := [each for each in known if each.partition("/")[2] == name]:
            return same[0]
    near = difflib.get_close_matches(key.lower(), known, n=1, cutoff=ALIKE) if "/" in key else []
    return near[0] if near else ""


OWNERSHIP_TAGS = frozenset({PROVISIONER_NAME, "karpenter.sh/managed-by", f"{AWS_GROUP}/cluster"})
"""Instance tags that only the controller sets: by them the next leader finds what was launched."""
OWNERSHIP_TAG_PREFIX = "kubernetes.io/cluster/"
RESERVED_TAG_PREFIX = "aws:"
"""AWS keeps this prefix to itself: https://docs.aws.amazon.com/tag-editor/latest/userguide/tagging.html"""


def protected_tag(key: str) -> bool:
    """Return whether users may not set this tag: one of ownership, or of AWS's own prefix."""
    return key in OWNERSHIP_TAGS or key.startswith(OWNERSHIP_TAG_PREFIX) or key.lower().startswith(RESERVED_TAG_PREFIX)
