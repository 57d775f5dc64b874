"""Configuration values of add-ons that EKS manages, values of charts, and the objects that we add to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.config.addons import RUNBOOKS, ExternalDnsConfig, OverprovisioningConfig
from components.documents.labels import Later

PAUSE_IMAGE = "public.ecr.aws/eks-distro/kubernetes/pause:3.7"


@dataclass(frozen=True, slots=True)
class Chart:
    """Where a chart is, and the version that this release was written for."""

    name: str
    repository: str
    version: str
    namespace: str


CHARTS = {
    "load-balancer-controller": Chart(
        "aws-load-balancer-controller", "https://aws.github.io/eks-charts", "1.8.1", "kube-system"
    ),
    "external-dns": Chart("external-dns", "https://kubernetes-sigs.github.io/external-dns/", "1.14.5", "kube-system"),
    "prometheus": Chart("prometheus", "https://prometheus-community.github.io/helm-charts", "25.21.0", "monitoring"),
    "grafana": Chart("grafana", "https://grafana.github.io/helm-charts", "8.0.0", "monitoring"),
    "keda": Chart("keda", "https://kedacore.github.io/charts", "2.14.2", "keda"),
}


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """`theirs` over `ours`, map by map, as Helm merges values; lists are replaced."""
    result = dict(ours)
    for name, value in theirs.items():
        present = result.get(name)
        both = isinstance(present, Mapping) and isinstance(value, Mapping)
        result[name] = merged(present, value) if both else value  # type: ignore[arg-type]
    return result


def core_dns_values(*, on_fargate: bool) -> dict[str, Any]:
    """CoreDNS on Fargate says so: by default it is scheduled to EC2 nodes, of which there are none yet."""
    return {"computeType": "Fargate", "replicaCount": 2} if on_fargate else {"replicaCount": 2}


def ebs_csi_values(region: str) -> dict[str, Any]:
    """The region is given because Fargate has no instance metadata; the node part tolerates all taints."""
    return {"controller": {"region": region}, "node": {"tolerateAllTaints": True}}


def default_storage_class(name: str) -> dict[str, Any]:
    """A default StorageClass that binds on first use, so that a volume is in its pod's zone."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com",
        "parameters": {"type": "gp3", "encrypted": "true"},
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": True,
    }


def load_balancer_values(
    cluster: str, region: str, vpc_id: Later, role_arn: Later, *, on_fargate: bool
) -> dict[str, Any]:
    """Region and VPC are given because Fargate has no instance metadata; targets there are pods, not nodes."""
    values: dict[str, Any] = {
        "clusterName": cluster,
        "region": region,
        "vpcId": vpc_id,
        "defaultTargetType": "ip",
        "serviceAccount": {
            "create": True,
            "name": "aws-load-balancer-controller",
            "annotations": {"eks.amazonaws.com/role-arn": role_arn},
        },
    }
    if on_fargate:
        values["podAnnotations"] = {"eks.amazonaws.com/fargate-profile": "kube-system"}
    return values


def external_dns_values(config: ExternalDnsConfig, cluster: str, region: str, role_arn: Later) -> dict[str, Any]:
    """It owns records by a TXT record with the cluster's name, and leaves all others alone."""
    return {
        "provider": {"name": "aws"},
        "domainFilters": [config.domain],
        "extraArgs": [f"--zone-id-filter={config.zone_id}"],
        "txtOwnerId": cluster,
        "policy": "sync",
        "env": [{"name": "AWS_DEFAULT_REGION", "value": region}],
        "serviceAccount": {"name": "external-dns", "annotations": {"eks.amazonaws.com/role-arn": role_arn}},
    }


SCRAPE_JOB = """- job_name: karpenter
  kubernetes_sd_configs:
  - role: endpoints
    namespaces:
      names: [{namespace}]
  relabel_configs:
  - source_labels: [__meta_kubernetes_endpoint_port_name]
    regex: http-metrics
    action: keep
"""


def linked(text: str, runbooks: str) -> str:
    """The text of an alerts file or a dashboard whose links lead to this page of runbooks."""
    return text.replace(RUNBOOKS, runbooks)


def prometheus_values(controller_namespace: str, alerts: Mapping[str, Any]) -> dict[str, Any]:
    """The guides' installation: no alert manager, nothing kept, a job for the controller, and its alert rules."""
    return {
        "alertmanager": {"enabled": False},
        "prometheus-pushgateway": {"enabled": False},
        "server": {"fullnameOverride": "prometheus-server", "persistentVolume": {"enabled": False}},
        "serverFiles": {"alerting_rules.yml": dict(alerts)},
        "extraScrapeConfigs": SCRAPE_JOB.replace("{namespace}", controller_namespace),
    }


def grafana_values(dashboards: Mapping[str, str]) -> dict[str, Any]:
    """`dashboards`: JSON by name."""
    provider = {
        "name": "default",
        "orgId": 1,
        "folder": "",
        "type": "file",
        "editable": True,
        "options": {"path": "/var/lib/grafana/dashboards/default"},
    }
    source = {"name": "Prometheus", "type": "prometheus", "access": "proxy", "url": "http://prometheus-server:80"}
    return {
        "datasources": {"datasources.yaml": {"apiVersion": 1, "datasources": [{**source, "isDefault": True}]}},
        "dashboardProviders": {"dashboardproviders.yaml": {"apiVersion": 1, "providers": [provider]}},
        "dashboards": {"default": {name: {"json": text} for name, text in sorted(dashboards.items())}},
    }


def overprovisioning_objects(config: OverprovisioningConfig, namespace: str) -> dict[str, dict[str, Any]]:
    """Placeholder pods that any pod preempts, scaled by a schedule.

    The ScaledObject is in its target's namespace: KEDA looks nowhere else.
    """
    name = "overprovisioning"
    resources = {"cpu": config.cpu, "memory": config.memory}
    pod = {
        "priorityClassName": name,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "pause", "image": PAUSE_IMAGE, "resources": {"requests": resources}}],
    }
    trigger = {
        "type": "cron",
        "metadata": {
            "timezone": config.timezone,
            "start": config.start,
            "end": config.end,
            "desiredReplicas": str(config.replicas),
        },
    }
    metadata = {"name": name, "namespace": namespace}
    return {
        "priority-class": {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": -10,
            "globalDefault": False,
            "description": "Placeholders: any other pod takes their place.",
        },
        "deployment": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
            },
        },
        "scaled-object": {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": metadata,
            "spec": {
                "scaleTargetRef": {"name": name},
                "minReplicaCount": 0,
                "maxReplicaCount": config.replicas,
                "triggers": [trigger],
            },
        },
    }
