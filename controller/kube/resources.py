"""The Kubernetes resources that the controller reads or writes, and their paths on the API server."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from controller.core.api.v1alpha5 import V1ALPHA5


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API. `group` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Group and version as objects carry them: "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path. An empty namespace on a namespaced resource means all of them (list and watch alone).

        Raises ValueError when an object of a namespaced resource is named without its namespace.
        """
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs its namespace")
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


PODS = Resource("", "v1", "pods", "Pod", True)
NODES = Resource("", "v1", "nodes", "Node", False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True)
SECRETS = Resource("", "v1", "secrets", "Secret", True)
SERVICES = Resource("", "v1", "services", "Service", True)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
EVENTS = Resource("", "v1", "events", "Event", True)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
JOBS = Resource("batch", "v1", "jobs", "Job", True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
ENI_CONFIGS = Resource("crd.k8s.amazonaws.com", "v1alpha1", "eniconfigs", "ENIConfig", False)
"""The VPC CNI's custom networking."""
PROVISIONERS, AWS_NODE_TEMPLATES = (
    Resource(each.group, each.version, each.plural, each.name, False)
    for each in (V1ALPHA5.pool, V1ALPHA5.node_template)
)

CLUSTER_STATE = (
    PROVISIONERS, AWS_NODE_TEMPLATES, NODES, PODS, DAEMON_SETS, POD_DISRUPTION_BUDGETS, PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES, STORAGE_CLASSES, CSI_NODES, NAMESPACES,
)  # fmt: skip
"""The resources that the cluster state watches."""
POD_OWNERS = (REPLICA_SETS, STATEFUL_SETS, JOBS, RESOURCE_QUOTAS)
"""Those that it watches with the setting `planAheadOwners`."""

DEVICES = "resource.k8s.io"
"""The API group of dynamic resource allocation (DRA)."""
DEVICE_VERSIONS = ("v1", "v1beta2", "v1beta1")
"""Versions that are read, the best first."""


def device_resources(version: str) -> tuple[Resource, ...]:
    """The kinds of DRA in a version, which the cluster state watches where the API server serves them."""
    return (
        Resource(DEVICES, version, "resourceclaims", "ResourceClaim", True),
        Resource(DEVICES, version, "resourceclaimtemplates", "ResourceClaimTemplate", True),
        Resource(DEVICES, version, "deviceclasses", "DeviceClass", False),
        Resource(DEVICES, version, "resourceslices", "ResourceSlice", False),
    )
