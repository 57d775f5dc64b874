"""The keys of the ConfigMap `karpenter-global-settings`: one row each.

From the rows follow the controller's parser (`controller.settings`), a stack's keys (`components.config.settings`),
both reference pages, and the test that every setting is read. A new setting is a row here, a field of `Settings`
and, unless the stack itself knows the value, a field of `SettingsConfig`.

Keys up to `aws.tags` have Karpenter v0.27's name, default and meaning; those after it are our own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.core.api.settings import readers
from controller.core.api.settings.readers import Reader

CONFIG_MAP: Final = "karpenter-global-settings"
NODE_NAME_CONVENTIONS: Final = ("ip-name", "resource-name")


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    read: Reader | None
    """From the ConfigMap's text to the value. None: `Settings` names the reader, whose type is none of core.api's."""
    default: str | None
    """The text that an absent key stands for; None: the value is None (or the key is required)."""
    doc: str
    live: bool = False
    """A change takes effect while the controller runs: it decides what is done next, and nothing about what is there.
    Other changes restart the controller."""
    required: bool = False
    from_stack: bool = False
    """A stack has no key for it: the value follows from the stack itself."""


_CONVENTION: Final = readers.one_of(
    NODE_NAME_CONVENTIONS, f"a node name convention: use {' or '.join(NODE_NAME_CONVENTIONS)}"
)
PLAN_AHEAD: Final = ("none", "class")
_PLAN_AHEAD: Final = readers.one_of(PLAN_AHEAD, f"a way to plan ahead: use {' or '.join(PLAN_AHEAD)}")
_STORE_POLICY: Final = readers.one_of(("", "RAID0"), "an instance store policy: write RAID0, or leave it empty")

# One row: key, reader, default, and when a change takes effect; then the meaning.
# fmt: off
_ROWS: Final = (
    Setting("aws.clusterName", readers.name, None, required=True, from_stack=True,
            doc="Name of the EKS cluster, for tags, discovery and looking up the endpoint."),
    Setting("batchMaxDuration", readers.duration, "10s", live=True,
            doc="A batch of pending pods closes at the latest this long after its first pod."),
    Setting("batchIdleDuration", readers.duration, "1s", live=True,
            doc="A batch of pending pods closes when no further pod came for this long. With 1,000 pods, 100 or more a "
                "workload on the mean, it closes this long after its first pod."),
    Setting("featureGates.driftEnabled", readers.boolean, "false",
            doc="Replace nodes whose AMI is no longer what their template asks for."),
    Setting("aws.clusterEndpoint", readers.url, "",
            doc="URL of the API server that nodes join; empty: looked up by eks:DescribeCluster."),
    Setting("aws.defaultInstanceProfile", str, "", from_stack=True,
            doc="Instance profile of node templates that name none."),
    Setting("aws.enablePodENI", readers.boolean, "false",
            doc="Offer `vpc.amazonaws.com/pod-eni` where the instance type has branch interfaces."),
    Setting("aws.enableENILimitedPodDensity", readers.boolean, "true",
            doc="Pods per node are limited by the instance type's network interfaces; off: by 110."),
    Setting("aws.isolatedVPC", readers.boolean, "false",
            doc="The Pricing API cannot be reached: use the prices that the controller ships with."),
    Setting("aws.nodeNameConvention", _CONVENTION, "ip-name",
            doc="Nodes are named `ip-name` (by private DNS name) or `resource-name` (by instance id)."),
    Setting("aws.vmMemoryOverheadPercent", readers.fraction, "0.075",
            doc="The hypervisor's share of an instance type's memory, as a fraction: 0.075 is 7.5 %."),
    Setting("aws.interruptionQueueName", str, "", from_stack=True,
            doc="SQS queue of interruption events; empty: they are not handled."),
    Setting("aws.tags", readers.tags, "{}",
            doc='Tags on everything that the controller creates in AWS (in the ConfigMap: JSON, such as `{"team": '
                '"web"}`).'),
    Setting("aws.enablePrefixDelegation", readers.boolean, "false",
            doc="The VPC CNI has ENABLE_PREFIX_DELEGATION, so that an interface's addresses are prefixes of 16: nodes "
                "of Nitro types take that many more pods, up to 110 (250 from 30 vCPUs on, as AWS advises)."),
    Setting("aws.reservedENIs", readers.count, "0",
            doc="Network interfaces of a node that pods take no addresses of: 1 with the VPC CNI's custom networking "
                "(ENIConfig), whose first interface has none. Fewer pods fit on a node, and its kubelet is told."),
    Setting("aws.instanceStorePolicy", _STORE_POLICY, "",
            doc="`RAID0`: the NVMe disks of types that have some become one array, the node's data device (AL2, "
                "AL2023); empty: the block device mappings decide."),
    Setting("aws.enableZoneBalance", readers.boolean, "false",
            doc="Of zones that cost about the same, launch where the Provisioner has the fewest instances."),
    Setting("aws.zonalShift", readers.boolean, "true",
            doc="A zone that a zonal shift or autoshift of the cluster (ARC) leaves gets no nodes, and loses none "
                "voluntarily, until the shift ends. Without the permission, or for a cluster that is not registered "
                "with ARC, nothing changes."),
    Setting("aws.alternativePriceTolerance", readers.share, "0.25",
            doc="Offerings that cost more than the cheapest by over this share are not sent to EC2 as alternatives, "
                "which could undo what the plan saves; 0.25 is 25 %. Each lack of capacity doubles it."),
    Setting("aws.spotOfferings", readers.positive, "3",
            doc="A spot node asks for this many offerings at least, where that many are within the price tolerance; "
                "for more only where they save more interruptions than they cost. If none of them has capacity, the "
                "same launch asks for all others."),
    Setting("aws.spotPoolShare", readers.part, "0.5",
            doc="The part of a workload's replicas that a spot pool (type in a zone), a family or a zone may carry on "
                "spot nodes, as far as that adds no more than 3 % to what a plan's spot nodes cost: such a node asks "
                "for fewer offerings first, one at least. 1: all of them."),
    Setting("aws.spotInterruptionCost", readers.dollars, "1",
            doc="What the interruption of a spot node costs you in $: lost work, pods that start again. More names "
                "more offerings to EC2, which then finds one with more spare capacity, at a higher price."),
    Setting("weightPremium", readers.share, None, live=True,
            doc="What a Provisioner's weight is worth, as a share of the price: 0.05 takes a heavier Provisioner "
                "unless it costs over 5 % more. Absent: the heaviest always wins, as in Karpenter v0.27."),
    Setting("preferencePremium", readers.share, "2.0", live=True,
            doc="What a pod's preference may cost, as a share of the pod's price without it: 2 honours it up to three "
                "times the price, 0 only where it is free."),
    Setting("disruptionBudgets", None, "[]", live=True,
            doc="How many nodes of a Provisioner may leave at once, as a list of budgets (in the ConfigMap: JSON); "
                "the Provisioner's annotation karpenter.sh/disruption-budgets wins. Without budgets: 10 % of its "
                "nodes, and empty nodes without limit."),
    Setting("terminationGracePeriod", readers.duration, None, live=True,
            doc="How long a node may drain; then its pods and its instance go whatever PodDisruptionBudgets say. The "
                "annotation karpenter.sh/termination-grace-period on a Provisioner wins. Absent: as long as it takes."),
    Setting("surgeSingleReplicas", readers.boolean, "false",
            doc="Before the controller removes a node of its own accord, the only pod of a Deployment on it starts "
                "elsewhere, by a rollout. Needs the right to patch Deployments, which the stack gives along with the "
                "the setting."),
    Setting("podDeletionCost", readers.boolean, "true", live=True,
            doc="Tell ReplicaSets which pods to delete first when they are scaled in: those on the nodes that "
                "consolidation would empty (annotation controller.kubernetes.io/pod-deletion-cost, never where "
                "somebody else sets it). Off: what was written is taken off."),
    Setting("onDemandTaint", readers.boolean, "true", live=True,
            doc="Nodes that are launched on demand because pods ask for it have the taint "
                "karpenter.sh/on-demand:PreferNoSchedule: kube-scheduler places pods that do not tolerate it elsewhere "
                "while there is room, so that they take none from pods which must be on demand. No pod waits for it."),
    Setting("placeAsPlanned", readers.boolean, "true", live=True,
            doc="Nodes of one plan whose pods differ in their requests are created cordoned. The controller binds "
                "their pods to the nodes that they were planned for, as these are Ready, if all of "
                "kube-scheduler's rules hold there. Once all are Ready, at the latest 10 s after the first, the "
                "nodes are uncordoned together. Replacements of removed nodes stay cordoned until the pods of "
                "these have moved, a minute at most. kube-scheduler places all other pods. Without it "
                "kube-scheduler fills the first nodes with pods planned for others, and then lacks room for some. "
                "Pods of DaemonSets run meanwhile."),
    Setting("nodeRepair", readers.boolean, "true",
            doc="Remove nodes that stay unhealthy: not Ready for `nodeRepairAfter`, or with a failing condition of the "
                "EKS node monitoring agent (accelerated hardware 10 min, others 30 min). Never while over 20 % of a "
                "Provisioner's nodes, or of the cluster's, are unhealthy at once."),
    Setting("nodeRepairAfter", readers.duration, "30m",
            doc="How long a node may be not Ready before `nodeRepair` removes it."),
    Setting("initializationDeadline", readers.duration, "15m",
            doc="A node that is not initialized (Ready, without startup taints, with all resources) this long after "
                "its launch takes no more pods in plans. It is removed, and its pods are planned for again, unless it "
                "is Ready and pods run on it."),
    Setting("deviceClasses", readers.device_classes, "{}",
            doc="The extended resource of instance types that the devices of a DeviceClass are, so that pods with "
                "resource claims (DRA) get nodes (in the ConfigMap: JSON, such as "
                '`{"gpu.nvidia.com": "nvidia.com/gpu"}`). Pods with claims of other DeviceClasses get none.'),
    Setting("aws.priceRules", None, "[]",
            doc="Discounts and commitments, so that prices are what you pay, as a list of rules (in the ConfigMap: "
                "JSON); the first that matches an offering counts."),
    Setting("aws.clusterArn", str, "", from_stack=True,
            doc="ARN of the EKS cluster. Where AWS answers another one (another account, region or cluster), nothing "
                "is removed or launched. Empty: removals wait for a registered node whose instance AWS knows."),
    Setting("aws.createFleetBucket", readers.bucket, "50/5",
            doc="The account's token bucket of CreateFleet requests, its size and tokens a second: calls wait for a "
                "token rather than being throttled. EC2's default for actions that change something; Service Quotas "
                "shows the account's. Give less where others in the account call CreateFleet too; empty: no limit."),
    Setting("aws.launchBucket", readers.bucket, "",
            doc="The account's token bucket of launched instances, such as `1000/2` (EC2's default for RunInstances): "
                "launches wait for it. Empty: no limit; then EC2 throttles, and launches are tried again."),
    Setting("planAhead", _PLAN_AHEAD, "class", live=True,
            doc="`class`: a pod that kube-scheduler has marked unschedulable speaks for all pending pods that its "
                "filters treat alike, and pods of other classes that no node has room for are planned for with them, "
                "so that a burst is one plan. `none`: only marked pods are planned for, as in Karpenter v0.27."),
    Setting("planAheadOwners", readers.boolean, "false",
            doc="Plan too for the pods that a ReplicaSet, Job or StatefulSet (of policy `Parallel`) has not made yet, "
                "once kube-scheduler has marked one of its pods: the batch window does not wait for them. Not for what "
                "a ResourceQuota refuses. Needs the right to watch these four kinds, which the stack gives along with "
                "the setting."),
    Setting("nodeCostPerHour", readers.dollars, "0.02", live=True,
            doc="What a node costs you in $ an hour beside all that AWS charges for it (which is counted from facts): "
                "agents that are billed by host, image pulls, upkeep. More gives fewer and larger nodes."),
    Setting("assumedCpuUse", readers.any_part, "0.5", live=True,
            doc="The part of their CPU requests that pods use, on the mean: surplus CPU credits of T2, T3, T3a and T4g "
                "and CPU beyond the baseline of flex types are priced by it. 0: baselines are ignored."),
    Setting("zoneMaxShare", readers.any_part, "0.6", live=True,
            doc="Of a Provisioner's allocatable CPU no zone shall have more than this part, from six nodes on; 1: "
                "zones are left to prices. A Provisioner's annotation `karpenter.sh/zone-max-share` overrides it."),
    Setting("zonePremium", readers.any_part, "0.02", live=True,
            doc="What a node may cost more to even out zones: 0.02 is 2 %. A Provisioner's annotation "
                "`karpenter.sh/zone-premium` overrides it."),
    Setting("launchLimits", None, None, live=True,
            doc="What all Provisioners together may launch: price an hour, nodes a minute and resources (in the "
                'ConfigMap: JSON, such as `{"pricePerHour": 50, "nodesPerMinute": 20, "resources": {"cpu": '
                '"1000"}}`); each member is optional.'),
)
# fmt: on

SETTINGS: Final = {row.key: row for row in _ROWS}
"""By key of the ConfigMap."""
