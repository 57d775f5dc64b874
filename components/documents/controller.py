"""The controller's objects: ServiceAccount, Service, PodDisruptionBudget, NetworkPolicy, Deployment.

Source: Karpenter v0.27's chart. Where we differ: the container meets the `restricted` Pod Security Standard, the rule
to stay off our own nodes binds together with the node group (the guides' two terms are alternatives, of which the
first always holds), and two replicas prefer different hosts instead of demanding them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.config.controller import ControllerConfig
from components.documents.labels import NAME, SELECTOR, Later, labels
from components.documents.webhook import SERVICE_PORT

METRICS_PORT = 8080
HEALTH_PORT = 8081
WEBHOOK_PORT = 8443
PROMETHEUS = {"app.kubernetes.io/name": "prometheus"}
"""Label of the server's pods in the charts of prometheus-community, kube-prometheus-stack among them."""
USER_ID = 65_532
"""The image's user; distroless calls it nonroot."""
GRACE_SECONDS = 30
"""The controller ends its loops and gives the lease back in 25."""
PROBES: dict[str, Any] = {
    "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "initialDelaySeconds": 30, "timeoutSeconds": 30},
    "readinessProbe": {"httpGet": {"path": "/readyz", "port": "http"}, "initialDelaySeconds": 5, "timeoutSeconds": 30},
}
PROVISIONER_LABEL = "karpenter.sh/provisioner-name"
NODE_GROUP_LABEL = "eks.amazonaws.com/nodegroup"


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """What the Deployment says beyond what never changes."""

    config: ControllerConfig
    image: Later
    region: str
    env: Mapping[str, Later]
    """More variables of the container."""
    checksum: Later
    """Of the settings, which are read once at start: another one rolls the pods."""


def namespace(name: str) -> dict[str, Any]:
    """Pods in it must meet the restricted standard."""
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {**labels(), **enforced}}}


def service_account(namespace: str, role_arn: Later, name: str = NAME) -> dict[str, Any]:
    """By its annotation EKS gives its pods the role (IRSA)."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels(),
        "annotations": {"eks.amazonaws.com/role-arn": role_arn},
    }
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def service(namespace: str) -> dict[str, Any]:
    """The guides' scrape job looks for the port's name `http-metrics`; the API server calls `https-webhook`."""
    ports = [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
        for name, port in (("http-metrics", METRICS_PORT), ("https-webhook", SERVICE_PORT))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME, "namespace": namespace, "labels": labels()},
        "spec": {"type": "ClusterIP", "selector": dict(SELECTOR), "ports": ports},
    }


def disruption_budget(namespace: str) -> dict[str, Any]:
    """One replica at a time: Fargate patches its hosts by eviction."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": NAME, "namespace": namespace, "labels": labels()},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": dict(SELECTOR)}},
    }


def network_policy(namespace: str) -> dict[str, Any]:
    """Who may connect: everybody to webhook and probes, pods of Prometheus alone to the metrics.

    The API server and the kubelets call from addresses that a policy cannot name. Policies add up: one more admits
    others. Clusters whose network plugin knows no policies ignore it, as do pods on Fargate.
    """
    everywhere: dict[str, Any] = {}
    prometheus = {"namespaceSelector": everywhere, "podSelector": {"matchLabels": dict(PROMETHEUS)}}
    open_ports = [{"port": port, "protocol": "TCP"} for port in (WEBHOOK_PORT, HEALTH_PORT)]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": NAME, "namespace": namespace, "labels": labels()},
        "spec": {
            "podSelector": {"matchLabels": dict(SELECTOR)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": open_ports},
                {"from": [prometheus], "ports": [{"port": METRICS_PORT, "protocol": "TCP"}]},
            ],
        },
    }


def checksum(settings: Mapping[str, str]) -> str:
    """Of the ConfigMap's data."""
    return hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).hexdigest()


def deployment(spec: ControllerSpec) -> dict[str, Any]:
    """The Deployment; its pod template carries the checksum of the settings."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": spec.config.namespace, "labels": labels()},
        "spec": {
            "replicas": spec.config.replicas,
            "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "selector": {"matchLabels": dict(SELECTOR)},
            "template": {
                "metadata": {"labels": labels(), "annotations": {"checksum/settings": spec.checksum}},
                "spec": _pod(spec),
            },
        },
    }


def _pod(spec: ControllerSpec) -> dict[str, Any]:
    return {
        "serviceAccountName": NAME,
        "priorityClassName": "system-cluster-critical",
        # Not the cluster's DNS: CoreDNS may wait for a node that only we can make.
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "affinity": _affinity(spec.config),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(SELECTOR)},
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(spec)],
    }


def _affinity(config: ControllerConfig) -> dict[str, Any]:
    """Never on a node of our own: ending it would end the controller, and nobody would make another."""
    expressions: list[dict[str, Any]] = [{"key": PROVISIONER_LABEL, "operator": "DoesNotExist"}]
    if config.placement == "nodeGroup":
        expressions.append({"key": NODE_GROUP_LABEL, "operator": "In", "values": [config.node_group]})
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(SELECTOR)}}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]
        },
    }


def _container(spec: ControllerSpec) -> dict[str, Any]:
    resources = {"cpu": spec.config.cpu, "memory": spec.config.memory}
    return {
        "name": "controller",
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["run", "--log-format=json"],
        "env": _environment(spec),
        "ports": [
            {"name": "http-metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": "http", "containerPort": HEALTH_PORT, "protocol": "TCP"},
            {"name": "https-webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
        ],
        **PROBES,
        "resources": {"requests": resources, "limits": dict(resources)},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _environment(spec: ControllerSpec) -> list[dict[str, Any]]:
    """Fargate has no instance metadata, so that the region must be said."""
    fixed: dict[str, Later] = {
        "AWS_REGION": spec.region,
        "KARPENTER_SERVICE": NAME,
        "METRICS_PORT": str(METRICS_PORT),
        "HEALTH_PROBE_PORT": str(HEALTH_PORT),
        "WEBHOOK_PORT": str(WEBHOOK_PORT),
        "DISABLE_WEBHOOK": "false" if spec.config.webhook else "true",
    }
    fields = {"SYSTEM_NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"}
    limit = {"containerName": "controller", "divisor": "0", "resource": "limits.memory"}
    return [
        *({"name": name, "value": value} for name, value in {**fixed, **spec.env}.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": "MEMORY_LIMIT", "valueFrom": {"resourceFieldRef": limit}},
    ]
