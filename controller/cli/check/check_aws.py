"""Checks of AWS: permissions, what templates select, the queue, quotas, the spot role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import controller
from controller.aws.account_check import SPOT_ROLE, caller, has_spot_role, quotas
from controller.aws.api.aws_errors import translated
from controller.aws.api.clients import Clients, make_clients
from controller.aws.catalog.capacity import interfaces
from controller.aws.catalog.shipped_tables import shipped_types
from controller.aws.network.node_addresses import node_addresses
from controller.aws.permissions import check_permissions
from controller.aws.provider import AWSProvider
from controller.cli.check.findings import Check, Finding, ok, problem, warning
from controller.cli.formatting import count, percent
from controller.cli.inputs.sources import live_provider
from controller.core.api.labels import CAPACITY_TYPE, INSTANCE_TYPE, PROVISIONER_NAME, REGION, SPOT
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import TemplateStatus
from controller.core.scheduling.requirements import Requirements
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, CloudUnauthorizedError
from controller.settings import Settings

FEW_ADDRESSES = 32
"""Free addresses of a subnet below which it is named: two or three nodes take as many."""
FEW_NODES = 3
NEAR_QUOTA = 0.8
ADVISED = {
    "ec2:CreateFleet": "expected where the policy allows it for this cluster's launch templates alone; if launches are "
    "refused too, allow it for those",
    "pricing:GetProducts": "allow it, or set aws.isolatedVPC: the prices of the release hold until then",
}
"""Remedy for each action whose refusal is only a warning."""


@dataclass(frozen=True, slots=True)
class AwsCheck:
    clients: Clients
    provider: AWSProvider
    settings: Settings
    snapshot: Snapshot

    def checks(self) -> tuple[tuple[str, Check], ...]:
        """Return (subject, check), in the order to show; they are worth asking once `identity` has an answer."""
        return (
            ("Permissions", self.permissions),
            ("Zonal shift", self.zonal_shift),
            ("Templates", self.templates),
            ("Queue", self.queue),
            ("Spot", self.spot),
            ("Quotas", self.quotas),
        )

    def identity(self) -> Finding:
        """Return whose permissions are checked, and whether the region is the cluster's. Raises CloudError."""
        region, elsewhere = self.clients.region, regions(self.snapshot) - {self.clients.region}
        who = caller(region)
        if elsewhere:
            text = f"the region here is {region}, and the cluster's nodes are in {', '.join(sorted(elsewhere))}"
            return problem("AWS", text, "name the cluster's: --region, AWS_REGION, or the region of AWS_PROFILE")
        return ok("AWS", f"{who}, region {region}: the checks below use its permissions")

    def permissions(self) -> Iterator[Finding]:
        """Check the controller's permissions by dry runs."""
        try:
            refused = check_permissions(self.clients, self.settings)
        except CloudUnauthorizedError as error:
            yield problem("Permissions", str(error), "run this in the controller's pod to check its own role")
            return
        for action in refused:
            yield warning("Permissions", f"{action} is refused, or does not support dry runs", ADVISED[action])
        if not refused:
            yield ok("Permissions", "everything that the controller calls is allowed")

    def zonal_shift(self) -> Iterator[Finding]:
        if not self.settings.zonal_shift:
            return
        left, failed = self.provider.zonal_shifts()
        if failed:
            remedy = "allow it in the policy of the controller's role, or set aws.zonalShift to false"
            yield warning("Zonal shift", failed, remedy)
            return
        for zone in sorted(left):
            text = f"a zonal shift leaves {zone}: no node is launched there, and none is removed voluntarily"
            yield warning("Zonal shift", text, "cancel it in ARC when the zone is well, or let it expire")
        if not left:
            yield ok("Zonal shift", "none leaves a zone")

    def templates(self) -> Iterator[Finding]:
        """Check the subnets, security groups and images that each template selects."""
        for name, template in self.snapshot.node_templates.items():
            subject = f"AWSNodeTemplate {name}"
            status = self.provider.template_status(template)
            subnets, groups = status.subnets or (), len(status.security_groups or ())
            for each in (*status.problems, *status.unanswered):
                yield problem(subject, each.removeprefix(f"{subject}: "))
            try:
                images = self.provider.image_ids(template)
            except CloudError as error:
                images = ()
                yield problem(subject, str(error).removeprefix(f"{subject}: "))
            zones = sorted({zone for _, zone in subnets})
            if subnets and len(zones) < 2:
                yield warning(subject, f"its subnets are all in {zones[0]}", "tag subnets of another zone too")
            for subnet, zone in subnets:
                if subnet in status.closed_subnets:
                    text = f"subnet {subnet} in {zone} is closed: nothing is launched in it"
                    remedy = "wait for the end of the zonal shift, or take its tag karpenter.sh/do-not-launch off"
                    yield warning(subject, text, f"{remedy} when the zone is well")
            yield from self.addresses(subject, status)
            if not status.problems and not status.unanswered and images:
                text = f"{count(len(subnets), 'subnet')} in {', '.join(zones)}, "
                text += f"{count(groups, 'security group')}, {count(len(images), 'image')}"
                yield ok(subject, text)

    def addresses(self, subject: str, status: TemplateStatus) -> Iterator[Finding]:
        """Check for subnets in which few more nodes fit, of the mean size of the cluster's nodes."""
        taken = mean_addresses(self.snapshot, self.settings, self.clients.region)
        for_pods = {zone for _, zone in status.pod_subnets}
        for subnet, zone in (*(status.subnets or ()), *status.pod_subnets):
            free, of_pods = status.free_addresses.get(subnet), (subnet, zone) in status.pod_subnets
            a_node = 1.0 if zone in for_pods and not of_pods else taken
            if free is None or (free >= FEW_ADDRESSES and free >= FEW_NODES * a_node):
                continue
            text = f"subnet {subnet} in {zone}{' (of pods)' if of_pods else ''} has {free} free addresses"
            if a_node:
                text += f": room for {count(int(free / a_node), 'node')} like the existing ones ({a_node:.0f} each)"
            remedy = "select further subnets, or free addresses: see docs/runbooks.md, NodelessSubnetFull"
            yield warning(subject, text, remedy)

    def queue(self) -> Iterator[Finding]:
        name = self.settings.interruption_queue_name
        if not name:
            remedy = "set aws.interruptionQueueName; without it spot nodes are not drained in their two minutes"
            yield warning("Queue", "interruptions are not handled", remedy)
            return
        try:
            with translated("sqs:GetQueueUrl", f"queue {name}"):
                self.clients.sqs.get_queue_url(QueueName=name)
        except CloudError as error:
            yield problem("Queue", str(error), "create it (nodeless:interruption in the stack), or correct the setting")
            return
        yield ok("Queue", name)

    def spot(self) -> Iterator[Finding]:
        """Check the service-linked role, where a Provisioner may buy spot."""
        if not any(_buys(each, SPOT) for each in self.snapshot.provisioners.values()):
            return
        if has_spot_role(self.clients.region):
            yield ok("Spot", f"role {SPOT_ROLE} exists")
        else:
            remedy = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
            text = f"role {SPOT_ROLE} is missing: the first spot launch fails unless AWS may create it then"
            yield warning("Spot", text, remedy)

    def quotas(self) -> Iterator[Finding]:
        for quota in quotas(self.clients):
            subject = f"Quota {quota.family} {quota.capacity_type}"
            limit = quota.limit_vcpus
            text = f"{quota.used_vcpus} of {limit:.0f} vCPUs run"
            if quota.used_vcpus > NEAR_QUOTA * limit and (limit or quota.used_vcpus):
                share = percent(quota.used_vcpus / limit) if limit else "all"
                yield warning(subject, f"{text} ({share})", "ask for more in Service Quotas before launches fail")
            else:
                yield ok(subject, text)


def regions(snapshot: Snapshot) -> frozenset[str]:
    """Return the regions that the cluster's nodes are in, by their labels."""
    return frozenset(each.node.labels[REGION] for each in snapshot.nodes.values() if REGION in each.node.labels)


def mean_addresses(snapshot: Snapshot, settings: Settings, region: str) -> float:
    """Return how many addresses a Provisioner's node takes on the mean, by its type and its pods; 0 without such nodes.

    Types are those that the release knows of the region.
    """
    shipped = shipped_types(region)
    known = {} if shipped is None else shipped.types
    taken = []
    for node in snapshot.nodes.values():
        info = known.get(node.node.labels.get(INSTANCE_TYPE, ""))
        if info is not None and PROVISIONER_NAME in node.node.labels:
            limits = interfaces(info, settings.reserved_enis, settings.enable_prefix_delegation)
            taken.append(node_addresses(limits, sum(not pod.terminal for pod in node.pods)))
    return fmean(taken) if taken else 0.0


def connected(settings: Settings, snapshot: Snapshot, region: str) -> AwsCheck:
    """Return the checks with the caller's credentials. Raises CloudUnauthorizedError without a region."""
    clients = make_clients(version=controller.__version__, region=region)
    return AwsCheck(clients, live_provider(settings, clients), settings, snapshot)


def _buys(provisioner: Provisioner, capacity_type: str) -> bool:
    requirements = Requirements.of(provisioner.requirements)
    return CAPACITY_TYPE not in requirements or requirements[CAPACITY_TYPE].has(capacity_type)
