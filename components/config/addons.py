"""Keys on add-ons. One that is absent costs nothing; `{}` takes it with its defaults."""

from __future__ import annotations

from components.config.keys import Document, key, section
from controller.core.api.frozen import EMPTY

RUNBOOKS = "https://github.com/OWNER/REPOSITORY/blob/main/docs/runbooks.md"
"""Where alerts and dashboards of this repository say that the runbooks are."""


@section
class AddonConfig:
    """An add-on that EKS manages."""

    version: str = key("Version, such as v1.12.6-eksbuild.1; empty: EKS's default for the cluster.", default="")
    values: Document = key("Its configuration values, over ours.", default=EMPTY)


@section
class EbsCsiConfig:
    """The EBS CSI driver: controller on Fargate, node part where nodes are."""

    version: str = key("Version; empty: EKS's default for the cluster.", default="")
    values: Document = key("Its configuration values, over ours.", default=EMPTY)
    default_storage_class: str = key(
        "Name of a default StorageClass (gp3, encrypted, WaitForFirstConsumer); empty: none is made.", default="gp3"
    )


@section
class ChartConfig:
    """An add-on that a Helm chart installs."""

    version: str = key("Version of the chart; empty: the one that this release was written for.", default="")
    values: Document = key("Its values, over ours.", default=EMPTY)


@section
class ExternalDnsConfig:
    """DNS records for Services and Ingresses."""

    domain: str = key("Domain whose records it manages.")
    zone_id: str = key("Route 53 hosted zone.", pattern=r"Z[0-9A-Z]{1,31}", form="a hosted zone's id, such as Z0123ABC")
    version: str = key("Version of the chart; empty: the one that this release was written for.", default="")
    values: Document = key("Its values, over ours.", default=EMPTY)


@section
class OverprovisioningConfig:
    """Placeholder pods at set times, so that nodes are there before the load is. Needs keda."""

    timezone: str = key("Time zone of the schedule, such as Asia/Seoul.")
    start: str = key("Cron expression: when the placeholders come.")
    end: str = key("Cron expression: when they go.")
    replicas: int = key("Placeholders.", minimum=1, maximum=1000)
    cpu: str = key("CPU of each.", default="1")
    memory: str = key("Memory of each.", default="1Gi")


@section
class AddonsConfig:
    """What runs in the cluster besides the controller."""

    vpc_cni: AddonConfig | None = key(
        "Amazon VPC CNI, with an IAM role of its own; without it the nodes' role has the CNI's policy.", default=None
    )
    kube_proxy: AddonConfig | None = key("kube-proxy.", default=None)
    core_dns: AddonConfig | None = key("CoreDNS; on Fargate where fargate is enabled.", default=None)
    ebs_csi: EbsCsiConfig | None = key("EBS CSI driver.", default=None)
    load_balancer_controller: ChartConfig | None = key("AWS Load Balancer Controller.", default=None)
    external_dns: ExternalDnsConfig | None = key("ExternalDNS.", default=None)
    prometheus: ChartConfig | None = key("Prometheus with a scrape job for the controller.", default=None)
    grafana: ChartConfig | None = key("Grafana with our dashboards; needs prometheus.", default=None)
    runbooks: str = key(
        "Address of the page of runbooks, docs/runbooks.md, that alerts and dashboards link to.", default=RUNBOOKS,
        pattern=r"https?://[^\s#\"\\]+", form="an address such as https://git.example.com/nodeless/blob/main/docs/runbooks.md",
    )  # fmt: skip
    keda: ChartConfig | None = key("KEDA.", default=None)
    overprovisioning: OverprovisioningConfig | None = key("Scheduled placeholder pods.", default=None)
