"""Arguments of the component `NodeLess`: the keys of a stack, in Python's spelling.

Written by `uv run python scripts/stack_reference.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict


class NewClusterConfig(TypedDict):
    """A cluster that the stack creates: no node groups, an OIDC issuer, access entries."""

    version: str
    """Kubernetes version."""
    subnet_ids: Sequence[str]
    """Subnets of the control plane and the pods, in two zones at least; private ones with a way out (NAT or VPC
    endpoints for EC2, ECR, EKS, S3, SQS, SSM and STS).
    """
    public_access_cidrs: NotRequired[Sequence[str]]
    """Networks that may reach the public endpoint; empty: the endpoint is private."""
    log_types: NotRequired[Sequence[str]]
    """Control plane logs to send to CloudWatch."""
    admin_principal_arns: NotRequired[Sequence[str]]
    """IAM principals that get cluster-admin by an access entry, besides whoever runs the stack."""
    secrets_key_arn: NotRequired[str]
    """KMS key that Kubernetes Secrets are encrypted with."""
    deletion_protection: NotRequired[bool]
    """Refuse to delete the cluster."""


class ClusterConfig(TypedDict):
    """The EKS cluster: an existing one by name, or a new one."""

    name: str
    """Name of the EKS cluster; all other names derive from it."""
    create: NotRequired[NewClusterConfig]
    """Create the cluster; absent: it exists already and is looked up."""
    kubeconfig: NotRequired[str]
    """Path of a kubeconfig; empty: made from the cluster's endpoint, with a token by `aws eks get-token`."""


class DiscoveryConfig(TypedDict):
    """What gets the tag `karpenter.sh/discovery: CLUSTER`, by which node templates find subnets and groups."""

    subnet_ids: NotRequired[Sequence[str]]
    """Subnets, by id."""
    subnet_tags: NotRequired[Mapping[str, str]]
    """Subnets of the cluster's VPC that carry all of these tags; `*` stands for any value."""
    vpc_name: NotRequired[str]
    """Subnets of the VPC whose tag Name is this, which has to be the cluster's; subnetTags narrow them down."""
    node_groups: NotRequired[Sequence[str]]
    """The subnets of these managed node groups of the cluster."""
    public_subnets: NotRequired[bool]
    """Tag public subnets too (those that give public addresses). By default only private ones are."""
    security_group: NotRequired[str]
    """The one group to tag: `cluster` (the cluster's own, which Fargate pods carry), a group's id, `nodeGroup/NAME`
    (the group in that node group's launch template), or `none` (it is tagged already).
    """


class IdentityConfig(TypedDict):
    """IAM roles of the nodes and of the controller."""

    node_role_name: NotRequired[str]
    """Role of the nodes; empty: KarpenterNodeRole-CLUSTER."""
    instance_profile_name: NotRequired[str]
    """Instance profile of the nodes; empty: KarpenterNodeInstanceProfile-CLUSTER."""
    controller_role_name: NotRequired[str]
    """Role of the controller; empty: KarpenterControllerRole-CLUSTER."""
    path: NotRequired[str]
    """IAM path of roles, policies and the profile."""
    permissions_boundary_arn: NotRequired[str]
    """Policy that bounds every role of the stack."""
    node_policy_arns: NotRequired[Sequence[str]]
    """Policies of the nodes besides the four that EKS nodes need."""
    terminate_scope: NotRequired[str]
    """Instances that the controller may terminate: `owned` (tagged by this cluster's controller), `provisioner`
    (tagged with any Provisioner's name), `name` (by terminateNamePattern), or `any`.
    """
    terminate_name_pattern: NotRequired[str]
    """Name tags that terminateScope `name` allows."""
    node_join: NotRequired[str]
    """How nodes are let into the cluster: `accessEntry`, `awsAuth` (the role is merged into that ConfigMap), `auto`
    (the first where the cluster's authentication mode allows), or `none`.
    """
    spot_service_linked_role: NotRequired[bool]
    """See to AWSServiceRoleForEC2Spot, which an account needs once for spot instances; an existing one is fine."""


class SelectorConfig(TypedDict):
    """Pods that a Fargate profile takes."""

    namespace: str
    """Namespace; `*` and `?` are wildcards."""
    labels: NotRequired[Mapping[str, str]]
    """Labels that the pods must carry."""


class ProfileConfig(TypedDict):
    """One more Fargate profile."""

    name: str
    """Name of the profile."""
    selectors: Sequence[SelectorConfig]
    """One to five selectors."""


class FargateConfig(TypedDict):
    """Where system pods run without nodes."""

    enabled: NotRequired[bool]
    """Make the profiles `karpenter` and `kube-system`. Off: pods go to node groups."""
    subnet_ids: NotRequired[Sequence[str]]
    """Private subnets of the pods; empty: the cluster's own private ones."""
    pod_execution_role_name: NotRequired[str]
    """Role that pulls images and writes logs for the pods; empty: NodelessFargatePodExecutionRole-CLUSTER."""
    profiles: NotRequired[Sequence[ProfileConfig]]
    """Further profiles."""
    logging: NotRequired[bool]
    """Send the pods' logs to CloudWatch, log group /aws/eks/CLUSTER/fargate."""
    log_retention_days: NotRequired[int]
    """How long they are kept."""


class BuildConfig(TypedDict):
    """An image built from the Dockerfile and pushed to an ECR repository of the stack."""

    repository: NotRequired[str]
    """Name of the ECR repository; empty: nodeless/CLUSTER in lower case."""
    platforms: NotRequired[Sequence[str]]
    """Platforms; Fargate runs linux/amd64."""


class ControllerConfig(TypedDict):
    """The controller's Deployment."""

    image: NotRequired[str]
    """Image reference, best by digest; empty: see build."""
    build: NotRequired[BuildConfig]
    """Build the image instead."""
    replicas: NotRequired[int]
    """One leads, the others stand by."""
    cpu: NotRequired[str]
    """CPU request and limit."""
    memory: NotRequired[str]
    """Memory request and limit."""
    namespace: NotRequired[str]
    """Namespace of the controller."""
    placement: NotRequired[str]
    """`fargate` (by the profile `karpenter`), `nodeGroup` (on the managed node group nodeGroup alone), or `any` (on
    every node that is not our own).
    """
    node_group: NotRequired[str]
    """Managed node group that placement `nodeGroup` binds the pods to."""
    log_level: NotRequired[str]
    """What is logged; a change takes hold in seconds and rolls no pod."""
    webhook: NotRequired[bool]
    """Serve the admission webhooks; off: wrong objects are accepted, and say so in a condition."""
    env: NotRequired[Mapping[str, str]]
    """More environment variables."""
    manage_crds: NotRequired[bool]
    """Install the two CRDs; off: something else installs and upgrades them."""


class BudgetConfig(TypedDict):
    """How many nodes may leave at once and when: one budget of disruptionBudgets."""

    nodes: str
    """A count or a percentage."""
    reasons: NotRequired[Sequence[str]]
    """What it is for; empty: everything."""
    schedule: NotRequired[str]
    """When it begins to hold: five cron fields in UTC; empty: always."""
    duration: NotRequired[str]
    """How long it holds from then on, such as 8h."""


class PriceRuleConfig(TypedDict):
    """A discount or a commitment: what the offerings that it matches cost, one rule of aws.priceRules."""

    instance_types: NotRequired[Sequence[str]]
    """Instance types, with wildcards such as `m5.*`."""
    zones: NotRequired[Sequence[str]]
    """Availability zones, with wildcards."""
    capacity_types: NotRequired[Sequence[str]]
    """How they are bought."""
    discount_percent: NotRequired[float]
    """Off the list price; this or pricePerHour."""
    price_per_hour: NotRequired[float]
    """Dollars an hour, instead of the list price."""
    instances: NotRequired[int]
    """A commitment covers so many running instances; absent: all."""


class LaunchLimitsConfig(TypedDict):
    """What all Provisioners together may launch."""

    price_per_hour: NotRequired[float]
    """Dollars an hour of all nodes; absent: no limit."""
    nodes_per_minute: NotRequired[int]
    """Launches within a minute; absent: no limit."""
    resources: NotRequired[Mapping[str, str]]
    """Capacity of all nodes, as in spec.limits.resources."""


class SettingsConfig(TypedDict):
    """`karpenter-global-settings`. What is left out has its default."""

    batch_max_duration: NotRequired[str]
    """A batch of pending pods closes at the latest this long after its first pod."""
    batch_idle_duration: NotRequired[str]
    """A batch of pending pods closes when no further pod came for this long. With 1,000 pods, 100 or more a workload
    on the mean, it closes this long after its first pod.
    """
    drift_enabled: NotRequired[bool]
    """Replace nodes whose AMI is no longer what their template asks for."""
    cluster_endpoint: NotRequired[str]
    """URL of the API server that nodes join; empty: looked up by eks:DescribeCluster."""
    enable_pod_eni: NotRequired[bool]
    """Offer `vpc.amazonaws.com/pod-eni` where the instance type has branch interfaces."""
    enable_eni_limited_pod_density: NotRequired[bool]
    """Pods per node are limited by the instance type's network interfaces; off: by 110."""
    isolated_vpc: NotRequired[bool]
    """The Pricing API cannot be reached: use the prices that the controller ships with."""
    node_name_convention: NotRequired[str]
    """Nodes are named `ip-name` (by private DNS name) or `resource-name` (by instance id)."""
    vm_memory_overhead_percent: NotRequired[float]
    """The hypervisor's share of an instance type's memory, as a fraction: 0.075 is 7.5 %."""
    tags: NotRequired[Mapping[str, str]]
    """Tags on everything that the controller creates in AWS (in the ConfigMap: JSON, such as `{"team": "web"}`)."""
    enable_prefix_delegation: NotRequired[bool]
    """The VPC CNI has ENABLE_PREFIX_DELEGATION, so that an interface's addresses are prefixes of 16: nodes of Nitro
    types take that many more pods, up to 110 (250 from 30 vCPUs on, as AWS advises).
    """
    reserved_enis: NotRequired[int]
    """Network interfaces of a node that pods take no addresses of: 1 with the VPC CNI's custom networking
    (ENIConfig), whose first interface has none. Fewer pods fit on a node, and its kubelet is told.
    """
    instance_store_policy: NotRequired[str]
    """`RAID0`: the NVMe disks of types that have some become one array, the node's data device (AL2, AL2023); empty:
    the block device mappings decide.
    """
    enable_zone_balance: NotRequired[bool]
    """Of zones that cost about the same, launch where the Provisioner has the fewest instances."""
    zonal_shift: NotRequired[bool]
    """A zone that a zonal shift or autoshift of the cluster (ARC) leaves gets no nodes, and loses none voluntarily,
    until the shift ends. Without the permission, or for a cluster that is not registered with ARC, nothing
    changes.
    """
    alternative_price_tolerance: NotRequired[float]
    """Offerings that cost more than the cheapest by over this share are not sent to EC2 as alternatives, which could
    undo what the plan saves; 0.25 is 25 %. Each lack of capacity doubles it.
    """
    spot_offerings: NotRequired[int]
    """A spot node asks for this many offerings at least, where that many are within the price tolerance; for more
    only where they save more interruptions than they cost. If none of them has capacity, the same launch asks for
    all others.
    """
    spot_pool_share: NotRequired[float]
    """The part of a workload's replicas that a spot pool (type in a zone), a family or a zone may carry on spot
    nodes, as far as that adds no more than 3 % to what a plan's spot nodes cost: such a node asks for fewer
    offerings first, one at least. 1: all of them.
    """
    spot_interruption_cost: NotRequired[float]
    """What the interruption of a spot node costs you in $: lost work, pods that start again. More names more
    offerings to EC2, which then finds one with more spare capacity, at a higher price.
    """
    weight_premium: NotRequired[float]
    """What a Provisioner's weight is worth, as a share of the price: 0.05 takes a heavier Provisioner unless it
    costs over 5 % more. Absent: the heaviest always wins, as in Karpenter v0.27.
    """
    preference_premium: NotRequired[float]
    """What a pod's preference may cost, as a share of the pod's price without it: 2 honours it up to three times the
    price, 0 only where it is free.
    """
    disruption_budgets: NotRequired[Sequence[BudgetConfig]]
    """How many nodes of a Provisioner may leave at once, as a list of budgets (in the ConfigMap: JSON); the
    Provisioner's annotation karpenter.sh/disruption-budgets wins. Without budgets: 10 % of its nodes, and empty
    nodes without limit.
    """
    termination_grace_period: NotRequired[str]
    """How long a node may drain; then its pods and its instance go whatever PodDisruptionBudgets say. The annotation
    karpenter.sh/termination-grace-period on a Provisioner wins. Absent: as long as it takes.
    """
    surge_single_replicas: NotRequired[bool]
    """Before the controller removes a node of its own accord, the only pod of a Deployment on it starts elsewhere,
    by a rollout. Needs the right to patch Deployments, which the stack gives along with the the setting.
    """
    plan_ahead_owners: NotRequired[bool]
    """Plan too for the pods that a ReplicaSet, Job or StatefulSet (of policy `Parallel`) has not made yet, once
    kube-scheduler has marked one of its pods: the batch window does not wait for them. Not for what a
    ResourceQuota refuses. Needs the right to watch these four kinds, which the stack gives along with the
    setting.
    """
    pod_deletion_cost: NotRequired[bool]
    """Tell ReplicaSets which pods to delete first when they are scaled in: those on the nodes that consolidation
    would empty (annotation controller.kubernetes.io/pod-deletion-cost, never where somebody else sets it). Off:
    what was written is taken off.
    """
    on_demand_taint: NotRequired[bool]
    """Nodes that are launched on demand because pods ask for it have the taint
    karpenter.sh/on-demand:PreferNoSchedule: kube-scheduler places pods that do not tolerate it elsewhere while
    there is room, so that they take none from pods which must be on demand. No pod waits for it.
    """
    place_as_planned: NotRequired[bool]
    """Nodes of one plan whose pods differ in their requests are created cordoned. The controller binds their pods to
    the nodes that they were planned for, as these are Ready, if all of kube-scheduler's rules hold there. Once
    all are Ready, at the latest 10 s after the first, the nodes are uncordoned together. Replacements of removed
    nodes stay cordoned until the pods of these have moved, a minute at most. kube-scheduler places all other
    pods. Without it kube-scheduler fills the first nodes with pods planned for others, and then lacks room for
    some. Pods of DaemonSets run meanwhile.
    """
    node_repair: NotRequired[bool]
    """Remove nodes that stay unhealthy: not Ready for `nodeRepairAfter`, or with a failing condition of the EKS node
    monitoring agent (accelerated hardware 10 min, others 30 min). Never while over 20 % of a Provisioner's nodes,
    or of the cluster's, are unhealthy at once.
    """
    node_repair_after: NotRequired[str]
    """How long a node may be not Ready before `nodeRepair` removes it."""
    initialization_deadline: NotRequired[str]
    """A node that is not initialized (Ready, without startup taints, with all resources) this long after its launch
    takes no more pods in plans. It is removed, and its pods are planned for again, unless it is Ready and pods
    run on it.
    """
    device_classes: NotRequired[Mapping[str, str]]
    """The extended resource of instance types that the devices of a DeviceClass are, so that pods with resource
    claims (DRA) get nodes (in the ConfigMap: JSON, such as `{"gpu.nvidia.com": "nvidia.com/gpu"}`). Pods with
    claims of other DeviceClasses get none.
    """
    price_rules: NotRequired[Sequence[PriceRuleConfig]]
    """Discounts and commitments, so that prices are what you pay, as a list of rules (in the ConfigMap: JSON); the
    first that matches an offering counts.
    """
    create_fleet_bucket: NotRequired[str]
    """The account's token bucket of CreateFleet requests, its size and tokens a second: calls wait for a token
    rather than being throttled. EC2's default for actions that change something; Service Quotas shows the
    account's. Give less where others in the account call CreateFleet too; empty: no limit.
    """
    launch_bucket: NotRequired[str]
    """The account's token bucket of launched instances, such as `1000/2` (EC2's default for RunInstances): launches
    wait for it. Empty: no limit; then EC2 throttles, and launches are tried again.
    """
    plan_ahead: NotRequired[str]
    """`class`: a pod that kube-scheduler has marked unschedulable speaks for all pending pods that its filters treat
    alike, and pods of other classes that no node has room for are planned for with them, so that a burst is one
    plan. `none`: only marked pods are planned for, as in Karpenter v0.27.
    """
    node_cost_per_hour: NotRequired[float]
    """What a node costs you in $ an hour beside all that AWS charges for it (which is counted from facts): agents
    that are billed by host, image pulls, upkeep. More gives fewer and larger nodes.
    """
    assumed_cpu_use: NotRequired[float]
    """The part of their CPU requests that pods use, on the mean: surplus CPU credits of T2, T3, T3a and T4g and CPU
    beyond the baseline of flex types are priced by it. 0: baselines are ignored.
    """
    zone_max_share: NotRequired[float]
    """Of a Provisioner's allocatable CPU no zone shall have more than this part, from six nodes on; 1: zones are
    left to prices. A Provisioner's annotation `karpenter.sh/zone-max-share` overrides it.
    """
    zone_premium: NotRequired[float]
    """What a node may cost more to even out zones: 0.02 is 2 %. A Provisioner's annotation
    `karpenter.sh/zone-premium` overrides it.
    """
    launch_limits: NotRequired[LaunchLimitsConfig]
    """What all Provisioners together may launch: price an hour, nodes a minute and resources (in the ConfigMap:
    JSON, such as `{"pricePerHour": 50, "nodesPerMinute": 20, "resources": {"cpu": "1000"}}`); each member is
    optional.
    """


class InterruptionConfig(TypedDict):
    """The queue of spot interruptions, scheduled changes and state changes."""

    enabled: NotRequired[bool]
    """Make the queue and its rules, and have the controller read it."""
    queue_name: NotRequired[str]
    """Name of the queue; empty: the cluster's."""
    kms_key_arn: NotRequired[str]
    """KMS key of the queue, whose policy must let events.amazonaws.com use it; empty: SQS's own encryption."""


class ObjectConfig(TypedDict):
    """A Provisioner or an AWSNodeTemplate."""

    name: str
    """Its name."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of the object itself."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of the object itself."""
    spec: Mapping[str, Any]
    """Its spec, as in a manifest."""


class AddonConfig(TypedDict):
    """An add-on that EKS manages."""

    version: NotRequired[str]
    """Version, such as v1.12.6-eksbuild.1; empty: EKS's default for the cluster."""
    values: NotRequired[Mapping[str, Any]]
    """Its configuration values, over ours."""


class EbsCsiConfig(TypedDict):
    """The EBS CSI driver: controller on Fargate, node part where nodes are."""

    version: NotRequired[str]
    """Version; empty: EKS's default for the cluster."""
    values: NotRequired[Mapping[str, Any]]
    """Its configuration values, over ours."""
    default_storage_class: NotRequired[str]
    """Name of a default StorageClass (gp3, encrypted, WaitForFirstConsumer); empty: none is made."""


class ChartConfig(TypedDict):
    """An add-on that a Helm chart installs."""

    version: NotRequired[str]
    """Version of the chart; empty: the one that this release was written for."""
    values: NotRequired[Mapping[str, Any]]
    """Its values, over ours."""


class ExternalDnsConfig(TypedDict):
    """DNS records for Services and Ingresses."""

    domain: str
    """Domain whose records it manages."""
    zone_id: str
    """Route 53 hosted zone."""
    version: NotRequired[str]
    """Version of the chart; empty: the one that this release was written for."""
    values: NotRequired[Mapping[str, Any]]
    """Its values, over ours."""


class OverprovisioningConfig(TypedDict):
    """Placeholder pods at set times, so that nodes are there before the load is. Needs keda."""

    timezone: str
    """Time zone of the schedule, such as Asia/Seoul."""
    start: str
    """Cron expression: when the placeholders come."""
    end: str
    """Cron expression: when they go."""
    replicas: int
    """Placeholders."""
    cpu: NotRequired[str]
    """CPU of each."""
    memory: NotRequired[str]
    """Memory of each."""


class AddonsConfig(TypedDict):
    """What runs in the cluster besides the controller."""

    vpc_cni: NotRequired[AddonConfig]
    """Amazon VPC CNI, with an IAM role of its own; without it the nodes' role has the CNI's policy."""
    kube_proxy: NotRequired[AddonConfig]
    """kube-proxy."""
    core_dns: NotRequired[AddonConfig]
    """CoreDNS; on Fargate where fargate is enabled."""
    ebs_csi: NotRequired[EbsCsiConfig]
    """EBS CSI driver."""
    load_balancer_controller: NotRequired[ChartConfig]
    """AWS Load Balancer Controller."""
    external_dns: NotRequired[ExternalDnsConfig]
    """ExternalDNS."""
    prometheus: NotRequired[ChartConfig]
    """Prometheus with a scrape job for the controller."""
    grafana: NotRequired[ChartConfig]
    """Grafana with our dashboards; needs prometheus."""
    runbooks: NotRequired[str]
    """Address of the page of runbooks, docs/runbooks.md, that alerts and dashboards link to."""
    keda: NotRequired[ChartConfig]
    """KEDA."""
    overprovisioning: NotRequired[OverprovisioningConfig]
    """Scheduled placeholder pods."""


class NodeLessArgs(TypedDict):
    """One environment."""

    cluster: ClusterConfig
    """The EKS cluster."""
    adopt: NotRequired[bool]
    """Take over what exists already under the stack's names: import it, and make it what the stack says. For one
    `up`, after a guide, eksctl, Helm, CloudFormation or a lost state; take it out afterwards.
    """
    discovery: NotRequired[DiscoveryConfig]
    """Which subnets and which security group nodes get."""
    identity: NotRequired[IdentityConfig]
    """IAM roles of the nodes and of the controller."""
    fargate: NotRequired[FargateConfig]
    """Where system pods run without nodes."""
    controller: ControllerConfig
    """The controller's Deployment."""
    settings: NotRequired[SettingsConfig]
    """The controller's settings."""
    interruption: NotRequired[InterruptionConfig]
    """The interruption queue."""
    provisioners: NotRequired[Sequence[ObjectConfig]]
    """Provisioners (karpenter.sh/v1alpha5)."""
    node_templates: NotRequired[Sequence[ObjectConfig]]
    """AWSNodeTemplates (karpenter.k8s.aws/v1alpha1)."""
    manifests: NotRequired[Sequence[str]]
    """YAML files with more Provisioners and AWSNodeTemplates, by path from the project's folder."""
    addons: NotRequired[AddonsConfig]
    """What runs besides the controller."""
    secret_keys: NotRequired[Sequence[str]]
    """Keys of this level that hold a secret: the free text under them stays out of the state in plain."""
