"""Pseudonyms by a keyed hash: equal text gives an equal pseudonym, and nobody without the salt can guess it."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from controller.core.api import labels

PUBLIC_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws", "amazonaws.com")
"""Label and taint keys of these domains are public."""
CHOSEN_NAMES = ("node-role.kubernetes.io", "node-restriction.kubernetes.io")
"""Public domains whose keys end in a name that users choose, but for the roles that kubeadm gives."""
KNOWN_ROLES = ("control-plane", "master")
OWNER_KINDS = frozenset(
    {
        ("v1", "Node"), ("v1", "ReplicationController"), ("apps/v1", "DaemonSet"), ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("batch/v1", "CronJob"), ("batch/v1", "Job"),
    }
)  # fmt: skip
"""Owners of every cluster; other kinds tell what is installed."""
PUBLIC_RESOURCES = ("nvidia.com", "amd.com", "habana.ai", "aws.amazon.com", "vpc.amazonaws.com")
NATIVE_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "storage")
NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-")
EKS_VALUES = ("eks.amazonaws.com/compute-type", "eks.amazonaws.com/capacityType")
PUBLIC_VALUES = frozenset({*labels.WELL_KNOWN, labels.INITIALIZED, *labels.NORMALIZED, *EKS_VALUES}) - {
    labels.PROVISIONER_NAME,
    labels.INSTANCE_AMI_ID,
    labels.HOSTNAME,
}
"""Keys whose values are public: types, zones, architectures."""
KNOWN_DRIVERS = ("ebs.csi.aws.com", "efs.csi.aws.com", "fsx.csi.aws.com", "s3.csi.aws.com")
LONGEST_NUMBER = 6
"""Digits of a value that is kept as a number, which Gt and Lt need."""


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Dumps with the same salt can be compared."""

    salt: bytes

    def alias(self, text: str) -> str:
        """Return x and ten hex digits, valid as any Kubernetes name; empty stays empty."""
        return "x" + hmac.new(self.salt, text.encode(), hashlib.sha256).hexdigest()[:10] if text else ""

    def key(self, key: str) -> str:
        """Return a label's or taint's key; public ones stay."""
        domain, slash, name = key.rpartition("/")
        if domain in CHOSEN_NAMES:
            return key if name in KNOWN_ROLES else f"{domain}/{self.alias(name)}"
        if any(domain.endswith(f".{each}") for each in CHOSEN_NAMES):
            return self.alias(key)
        public = slash and any(domain == each or domain.endswith(f".{each}") for each in PUBLIC_DOMAINS)
        return key if public or domain in PUBLIC_RESOURCES else self.alias(key)

    def value(self, key: str, value: str) -> str:
        """Return a label's value; public ones, true, false and small numbers stay."""
        plain = value in ("", "true", "false") or (value.isdecimal() and len(value) <= LONGEST_NUMBER)
        return value if plain or key in PUBLIC_VALUES else self.alias(value)

    def resource(self, name: str) -> str:
        """Return a resource's name; native and public ones stay."""
        domain, slash, _ = name.partition("/")
        native = not slash and (name in NATIVE_RESOURCES or name.startswith(NATIVE_PREFIXES))
        return name if native or domain in PUBLIC_RESOURCES else f"dumped.example/{self.alias(name)}"

    def owner_type(self, api_version: str, kind: str) -> tuple[str, str]:
        """Return apiVersion and kind of an owner; those of Kubernetes' own workloads stay."""
        if (api_version, kind) in OWNER_KINDS:
            return api_version, kind
        return f"{self.alias(api_version)}.example/v1", self.alias(kind)

    def driver(self, name: str) -> str:
        """Return a CSI driver's name; known ones stay."""
        return name if name in KNOWN_DRIVERS or name.startswith("kubernetes.io/") else self.alias(name)
