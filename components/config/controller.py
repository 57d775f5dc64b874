"""Keys on the controller, its settings, its objects and its interruption queue."""

from __future__ import annotations

from components.config.cluster import ARN, ARN_FORM
from components.config.keys import Document, key, section
from controller.core.api.frozen import EMPTY, FrozenMap


@section
class BuildConfig:
    """An image built from the Dockerfile and pushed to an ECR repository of the stack."""

    repository: str = key(
        "Name of the ECR repository; empty: nodeless/CLUSTER in lower case.",
        default="",
        pattern=r"[a-z0-9]+(?:[._/-][a-z0-9]+)*",
        form="lower-case letters, digits, and . _ - / between them",
    )
    platforms: tuple[str, ...] = key(
        "Platforms; Fargate runs linux/amd64.", default=("linux/amd64",), allowed=("linux/amd64", "linux/arm64")
    )


@section
class ControllerConfig:
    """The controller's Deployment."""

    image: str = key("Image reference, best by digest; empty: see build.", default="")
    build: BuildConfig | None = key("Build the image instead.", default=None)
    replicas: int = key("One leads, the others stand by.", default=2, minimum=1, maximum=5)
    cpu: str = key(
        "CPU request and limit.", default="1", pattern=r"\d+m|\d+(\.\d+)?", form="a quantity such as 1 or 500m"
    )
    memory: str = key("Memory request and limit.", default="1Gi", pattern=r"\d+(Mi|Gi)", form="a quantity such as 1Gi")
    namespace: str = key(
        "Namespace of the controller.", default="karpenter", pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        form="a DNS label",
    )  # fmt: skip
    placement: str = key(
        "`fargate` (by the profile `karpenter`), `nodeGroup` (on the managed node group nodeGroup alone), or `any` "
        "(on every node that is not our own).",
        default="fargate",
        allowed=("fargate", "nodeGroup", "any"),
    )
    node_group: str = key("Managed node group that placement `nodeGroup` binds the pods to.", default="")
    log_level: str = key(
        "What is logged; a change takes hold in seconds and rolls no pod.",
        default="info",
        allowed=("debug", "info", "warning", "error"),
    )
    webhook: bool = key(
        "Serve the admission webhooks; off: wrong objects are accepted, and say so in a condition.", default=True
    )
    env: FrozenMap[str, str] = key("More environment variables.", default=EMPTY)
    manage_crds: bool = key("Install the two CRDs; off: something else installs and upgrades them.", default=True)


@section
class PriceRuleConfig:
    """A discount or a commitment: what the offerings that it matches cost, one rule of aws.priceRules."""

    instance_types: tuple[str, ...] = key("Instance types, with wildcards such as `m5.*`.", default=("*",))
    zones: tuple[str, ...] = key("Availability zones, with wildcards.", default=("*",))
    capacity_types: tuple[str, ...] = key("How they are bought.", default=("on-demand",), allowed=("on-demand", "spot"))
    discount_percent: float | None = key(
        "Off the list price; this or pricePerHour.", default=None, minimum=0, maximum=99.9
    )
    price_per_hour: float | None = key("Dollars an hour, instead of the list price.", default=None, minimum=0.000001)
    instances: int | None = key("A commitment covers so many running instances; absent: all.", default=None, minimum=1)


@section
class BudgetConfig:
    """How many nodes may leave at once and when: one budget of disruptionBudgets."""

    nodes: str = key("A count or a percentage.", pattern=r"[0-9]+|(100|[0-9]{1,2})%", form='"2" or "10%"')
    reasons: tuple[str, ...] = key(
        "What it is for; empty: everything.", default=(), allowed=("expired", "drifted", "empty", "underutilized")
    )
    schedule: str = key("When it begins to hold: five cron fields in UTC; empty: always.", default="")
    duration: str = key("How long it holds from then on, such as 8h.", default="")


@section
class LaunchLimitsConfig:
    """What all Provisioners together may launch."""

    price_per_hour: float | None = key("Dollars an hour of all nodes; absent: no limit.", default=None, minimum=0.001)
    nodes_per_minute: int | None = key("Launches within a minute; absent: no limit.", default=None, minimum=1)
    resources: FrozenMap[str, str] = key("Capacity of all nodes, as in spec.limits.resources.", default=EMPTY)


@section
class SettingsConfig:
    """`karpenter-global-settings`: names and meaning are Karpenter v0.27's, and from enablePrefixDelegation on our own.

    What is left out has its default.
    """

    batch_max_duration: str = key("A batch of pending pods closes at the latest after this.", default="")
    batch_idle_duration: str = key("A batch closes when no pod came for this long.", default="")
    drift_enabled: bool = key("Replace nodes whose AMI is not what their template asks for.", default=False)
    cluster_endpoint: str = key("The API server's URL that nodes join; empty: asked of EKS.", default="")
    enable_pod_eni: bool = key("Offer vpc.amazonaws.com/pod-eni.", default=False)
    enable_eni_limited_pod_density: bool = key("Pods a node follow its network interfaces; else 110.", default=True)
    isolated_vpc: bool = key("There is no way to the Pricing API; the built-in prices hold.", default=False)
    node_name_convention: str = key(
        "Nodes are called by private DNS name or by instance id.",
        default="ip-name",
        allowed=("ip-name", "resource-name"),
    )
    vm_memory_overhead_percent: float = key(
        "The hypervisor's share of memory, a fraction.", default=0.075, minimum=0, maximum=0.99
    )
    tags: FrozenMap[str, str] = key("Tags on everything that the controller makes in AWS.", default=EMPTY)
    enable_prefix_delegation: bool = key(
        "The VPC CNI has ENABLE_PREFIX_DELEGATION: nodes take that many more pods.", default=False
    )
    instance_store_policy: str = key(
        "`RAID0`: the NVMe disks of types that have some are the node's data device, as one array.",
        default="",
        allowed=("RAID0",),
    )
    enable_zone_balance: bool = key(
        "Of zones that cost about the same, launch where the Provisioner has fewest instances.", default=False
    )
    alternative_price_tolerance: float = key(
        "Alternatives dearer than the cheapest offering by over this share are not sent to EC2; 0.25 is 25 %.",
        default=0.25,
        minimum=0,
        maximum=100,
    )
    spot_offerings: int = key(
        "A spot node asks for so many offerings that would do, even beyond the tolerance; 1: the tolerance alone.",
        default=5,
        minimum=1,
    )
    spot_pool_share: float = key(
        "The part of a workload's replicas that one spot pool may carry where others cost about the same; 1: all.",
        default=0.5,
        minimum=0.01,
        maximum=1,
    )
    weight_premium: float | None = key(
        "A heavier Provisioner is taken unless it costs over this share more; absent: weight always decides.",
        default=None,
        minimum=0,
        maximum=100,
    )
    preference_premium: float = key(
        "A pod's preference is honoured unless it costs over this share more; 2 is three times the price.",
        default=2.0,
        minimum=0,
        maximum=1000000,
    )
    disruption_budgets: tuple[BudgetConfig, ...] = key(
        "How many nodes of a Provisioner may leave at once; its annotation karpenter.sh/disruption-budgets wins.",
        default=(),
    )
    termination_grace_period: str = key(
        "How long a node may drain; then it goes whatever PodDisruptionBudgets say. Empty: as long as it takes.",
        default="",
    )
    surge_single_replicas: bool = key(
        "Before a node goes, the only pod of a Deployment on it starts elsewhere, by a rollout; the controller may "
        "then patch Deployments.",
        default=False,
    )
    price_rules: tuple[PriceRuleConfig, ...] = key(
        "Discounts and commitments, so that prices are what you pay; the first that matches counts.", default=()
    )
    launch_limits: LaunchLimitsConfig | None = key(
        "What all Provisioners together may launch: $ an hour, resources, nodes a minute.", default=None
    )


@section
class InterruptionConfig:
    """The queue of spot interruptions, scheduled changes and state changes."""

    enabled: bool = key("Make the queue and its rules, and have the controller read it.", default=True)
    queue_name: str = key(
        "Name of the queue; empty: the cluster's.", default="", pattern=r"[0-9A-Za-z_-]{1,80}",
        form="letters, digits, - and _, at most 80",
    )  # fmt: skip
    kms_key_arn: str = key(
        "KMS key of the queue, whose policy must let events.amazonaws.com use it; empty: SQS's own encryption.",
        default="",
        pattern=ARN,
        form=ARN_FORM,
    )


@section
class ObjectConfig:
    """A Provisioner or an AWSNodeTemplate."""

    name: str = key("Its name.")
    labels: FrozenMap[str, str] = key("Labels of the object itself.", default=EMPTY)
    annotations: FrozenMap[str, str] = key("Annotations of the object itself.", default=EMPTY)
    spec: Document = key("Its spec, as in a manifest.")
