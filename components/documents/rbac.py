"""What the controller may do in Kubernetes: the verbs that its code uses, and no other.

Where we differ from Karpenter v0.27's chart: no Machines; one Secret, and that by name, as ConfigMaps, Leases and
webhook configurations are.
"""

from __future__ import annotations

from typing import Any

from components.documents.labels import NAME, labels
from components.documents.webhook import MUTATING, SECRET, VALIDATING
from controller.core.api.settings.settings_table import CONFIG_MAP

Rule = dict[str, Any]

LEASE = "karpenter-leader-election"
LOGGING = "config-logging"
MEMORY = "karpenter-learned-memory"
"""What nodes taught about their types' memory: the controller makes it, and adds to it."""
PRICES = "karpenter-prices"
"""The price book, for the command line: the controller makes it, and writes it anew."""
DECISIONS = "karpenter-decisions"
"""The decision ledger: the controller makes it, and adds to it."""
ADMISSION = "admissionregistration.k8s.io"
READ = ("get", "list", "watch")


def _rule(groups: str, resources: tuple[str, ...], verbs: tuple[str, ...], names: tuple[str, ...] = ()) -> Rule:
    rule: Rule = {"apiGroups": [groups], "resources": list(resources), "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule


CLUSTER_RULES: tuple[Rule, ...] = (
    _rule("karpenter.sh", ("provisioners",), READ),
    _rule("karpenter.sh", ("provisioners/status",), ("patch",)),
    _rule("karpenter.k8s.aws", ("awsnodetemplates",), READ),
    _rule("karpenter.k8s.aws", ("awsnodetemplates/status",), ("patch",)),
    _rule("", ("namespaces", "persistentvolumeclaims", "persistentvolumes"), ("list", "watch")),
    # "patch" for pod deletion costs; guards.py leaves of it two annotations.
    _rule("", ("pods",), ("list", "watch", "delete", "patch")),
    # For pods of new nodes that are still cordoned (the setting placeAsPlanned).
    _rule("", ("pods/binding",), ("create",)),
    _rule("", ("nodes",), (*READ, "create", "patch", "delete")),
    _rule("", ("pods/eviction",), ("create",)),
    _rule("", ("events",), ("create", "patch")),
    _rule("apps", ("daemonsets",), ("list", "watch")),
    _rule("crd.k8s.amazonaws.com", ("eniconfigs",), ("list",)),
    _rule("policy", ("poddisruptionbudgets",), ("list", "watch")),
    _rule("storage.k8s.io", ("csinodes", "storageclasses"), ("list", "watch")),
    _rule("storage.k8s.io", ("volumeattachments",), ("list",)),
    _rule(
        "resource.k8s.io",
        ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
        ("list", "watch"),
    ),
    _rule(ADMISSION, ("mutatingwebhookconfigurations",), ("get", "patch"), MUTATING),
    _rule(ADMISSION, ("validatingwebhookconfigurations",), ("get", "patch"), VALIDATING),
)

NAMESPACE_RULES: tuple[Rule, ...] = (
    # "create" cannot be bound to a name: the name is in the body.
    _rule("coordination.k8s.io", ("leases",), ("create",)),
    _rule("coordination.k8s.io", ("leases",), ("get", "update"), (LEASE,)),
    _rule("", ("configmaps",), ("get",), (CONFIG_MAP, LOGGING, MEMORY, PRICES, DECISIONS)),
    _rule("", ("configmaps",), ("patch",), (MEMORY, PRICES, DECISIONS)),
    _rule("", ("configmaps",), ("create",)),
    _rule("", ("secrets",), ("get", "patch"), (SECRET,)),
)

DNS_RULES: tuple[Rule, ...] = (_rule("", ("services",), ("get",), ("kube-dns",)),)
"""In kube-system: nodes are told the address of the cluster's DNS."""

SURGE_RULES: tuple[Rule, ...] = (
    _rule("apps", ("deployments",), ("get", "patch")),
    _rule("apps", ("replicasets",), ("get",)),
)
"""With the setting surgeSingleReplicas alone: whoever may patch Deployments may run any pod."""

OWNER_RULES: tuple[Rule, ...] = (
    _rule("apps", ("replicasets", "statefulsets"), ("list", "watch")),
    _rule("batch", ("jobs",), ("list", "watch")),
    _rule("", ("resourcequotas",), ("list", "watch")),
)
"""With the setting planAheadOwners alone."""

ADMIN_RULES: tuple[Rule, ...] = (
    _rule("karpenter.sh", ("provisioners", "provisioners/status"), (*READ, "create", "update", "patch", "delete")),
    _rule(
        "karpenter.k8s.aws",
        ("awsnodetemplates", "awsnodetemplates/status"),
        (*READ, "create", "update", "patch", "delete"),
    ),
)
"""Aggregated to the cluster's `admin` role: who administers the cluster administers these too."""

READER_RULES: tuple[Rule, ...] = (
    _rule("karpenter.sh", ("provisioners",), ("get", "list", "watch")),
    _rule("karpenter.k8s.aws", ("awsnodetemplates",), ("get", "list", "watch")),
    _rule("", ("nodes", "pods"), ("get", "list", "watch")),
    _rule("", ("namespaces", "persistentvolumeclaims", "persistentvolumes"), ("list", "watch")),
    _rule("", ("events", "services"), ("list",)),
    # A list by metadata.name is allowed to whoever may read that name.
    _rule("", ("configmaps",), ("list",), (CONFIG_MAP, PRICES, DECISIONS)),
    _rule("apps", ("daemonsets",), ("list", "watch")),
    _rule("crd.k8s.amazonaws.com", ("eniconfigs",), ("list",)),
    _rule("policy", ("poddisruptionbudgets",), ("list", "watch")),
    _rule("discovery.k8s.io", ("endpointslices",), ("list",)),
    _rule("storage.k8s.io", ("csinodes", "storageclasses"), ("list", "watch")),
    _rule(
        "resource.k8s.io",
        ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"),
        ("list", "watch"),
    ),
)
"""What `nodeless view`, `explain`, `cost`, `simulate --live` and `dump` read, and `kubectl describe` of what they are
about: bind it to whoever may see."""

GROUP = "rbac.authorization.k8s.io"


def rbac(namespace: str, *, surge: bool = False, owners: bool = False) -> dict[str, dict[str, Any]]:
    """Every RBAC object, by a key that is unique among them. `surge`: single replicas start elsewhere first. `owners`:
    pods are planned for before their owners make them."""
    objects = {
        "cluster-role": _role("ClusterRole", NAME, "", CLUSTER_RULES),
        "cluster-role-binding": _binding("ClusterRole", NAME, "", namespace),
        "admin-cluster-role": _admin(),
        "reader-cluster-role": _role("ClusterRole", f"{NAME}-reader", "", READER_RULES),
        "role": _role("Role", NAME, namespace, NAMESPACE_RULES),
        "role-binding": _binding("Role", NAME, namespace, namespace),
        "dns-role": _role("Role", f"{NAME}-dns", "kube-system", DNS_RULES),
        "dns-role-binding": _binding("Role", f"{NAME}-dns", "kube-system", namespace),
    }
    for wanted, name, rules in ((surge, "surge", SURGE_RULES), (owners, "owners", OWNER_RULES)):
        if wanted:
            objects[f"{name}-cluster-role"] = _role("ClusterRole", f"{NAME}-{name}", "", rules)
            objects[f"{name}-cluster-role-binding"] = _binding("ClusterRole", f"{NAME}-{name}", "", namespace)
    return objects


def _role(kind: str, name: str, namespace: str, rules: tuple[Rule, ...]) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels()},
        "rules": list(rules),
    }


def _admin() -> dict[str, Any]:
    role = _role("ClusterRole", f"{NAME}-admin", "", ADMIN_RULES)
    role["metadata"]["labels"] = {**labels(), f"{GROUP}/aggregate-to-admin": "true"}
    return role


def _binding(role_kind: str, name: str, namespace: str, account_namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{role_kind}Binding",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels()},
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": account_namespace}],
    }
