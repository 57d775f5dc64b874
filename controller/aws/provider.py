"""AWSProvider: the CloudProvider over EC2, EKS, SSM, SQS and the Pricing API.

Composition alone: each member delegates to the part that answers it. Endpoints come from botocore's configuration.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog

from controller.aws.amifamily import family_of
from controller.aws.amifamily.images import Image, Images
from controller.aws.api.batcher import Window
from controller.aws.api.clients import Clients
from controller.aws.api.cluster_facts import ClusterFacts, describe_cluster
from controller.aws.api.interruption_queue import SqsQueue
from controller.aws.api.refresh_schedule import RefreshSchedule
from controller.aws.api.ttl_cache import Cache
from controller.aws.catalog.instance_catalog import SubnetZones
from controller.aws.catalog.learned_memory import measured
from controller.aws.catalog.market_data import MarketData
from controller.aws.catalog.offline_catalog import RegionCatalog
from controller.aws.launch.fleet_calls import FleetCalls
from controller.aws.launch.fleet_merging import FLEET_WINDOW
from controller.aws.launch.instance_launch import InstanceLauncher
from controller.aws.launch.instances import LEAVING_STATES, Instances, instance_id
from controller.aws.launch.launch_pace import LaunchPace
from controller.aws.launch.launch_templates import LaunchTemplates
from controller.aws.launch.node_parameters import NodeParameters
from controller.aws.launch.offering_choice import OfferingChoice
from controller.aws.launch.zone_balance import ZoneBalance
from controller.aws.network.security_groups import SecurityGroups
from controller.aws.network.subnets import Subnets
from controller.aws.network.zonal_shifts import READ_SECONDS, ZonalShifts
from controller.aws.permissions import check_permissions
from controller.aws.provisioner_advice import advice
from controller.aws.template_status import resolve_status
from controller.core.api.labels import SPOT
from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate, default_ami_family
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import (
    CloudIdentity,
    CloudInstance,
    EmptyQueue,
    InstanceType,
    InterruptionQueue,
    LaunchRequest,
    TemplateStatus,
)
from controller.errors import CloudError, InsufficientCapacityError
from controller.runtime.clock import Clock
from controller.runtime.metrics import SILENT, Recorder
from controller.settings import Settings

LAUNCH_TEMPLATE_SECONDS = 600.0
COMMITMENT_SECONDS = 30.0
CLUSTER_SECONDS = 300.0


class AWSProvider:
    """Implements controller.core.cloud.CloudProvider. Safe for many threads."""

    def __init__(
        self,
        settings: Settings,
        clients: Clients,
        clock: Clock,
        logger: structlog.typing.FilteringBoundLogger,
        *,
        dns_ip: str = "",
        stop: threading.Event | None = None,
        recorder: Recorder = SILENT,
        fleet_window: Window = FLEET_WINDOW,
    ) -> None:
        """`dns_ip` is the ClusterIP of kube-dns, if known; `stop` ends waits when the process stops.

        `fleet_window`: how long equal CreateFleet requests are gathered into one call.
        """
        ec2, ended = clients.ec2, stop or threading.Event()
        self._settings = settings
        self._clients = clients
        self._log = logger
        self._dns_ip = dns_ip
        self._queue: InterruptionQueue = EmptyQueue()
        if settings.interruption_queue_name:
            self._queue = SqsQueue(clients.sqs, settings.interruption_queue_name)
        self._market = MarketData(settings, clients, clock, logger)
        self._shifts = ZonalShifts(clients.arc_zonal_shift, clock, logger)
        self._subnets = Subnets(ec2, clock, left=self._shifts.zones)
        self._security_groups = SecurityGroups(ec2, settings.cluster_name, clock, logger)
        self._images = Images(ec2, clients.ssm, clock)
        self._cluster: Cache[str, ClusterFacts] = Cache(clock, CLUSTER_SECONDS)
        self._instances = Instances(
            ec2, settings.cluster_name, settings.node_name_convention, self._type_labels, clock, recorder
        )
        launch_templates = LaunchTemplates(ec2, settings.cluster_name, clock)
        parameters = NodeParameters(settings, self._images, self._security_groups, launch_templates)
        balance = ZoneBalance(self._instances.launched, clock) if settings.enable_zone_balance else None
        self._launcher = InstanceLauncher(
            self._instances,
            OfferingChoice(settings, self._subnets, self._market.unavailable, balance, logger),
            FleetCalls(ec2, clock, logger, parameters, self._subnets, fleet_window, LaunchPace(settings, clock, ended)),
            clock,
            logger,
            ended,
        )
        reads = self._market.reads
        reads["launch templates"] = (launch_templates.collect, LAUNCH_TEMPLATE_SECONDS)
        if settings.zonal_shift:
            reads["zonal shifts"] = (self._read_shifts, READ_SECONDS)
        if self._market.has_commitments:
            reads["commitments"] = (self._count_running, COMMITMENT_SECONDS)
        self._schedule = RefreshSchedule(clock, logger, reads)

    def refresh(self) -> None:
        """See CloudProvider. Unused launch templates are deleted by the same schedule."""
        self._schedule.run_due()
        self._market.log_unpriced()

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        """See CloudProvider. The same tuple as before while nothing changed."""
        zones = self._subnets.all_zones(template)
        full = zones - self._subnets.zones(template)
        if full == zones:
            raise InsufficientCapacityError(
                f"AWSNodeTemplate {template.name}: none of its subnets is open and has a free address; add subnets to "
                "the selector, take the tag karpenter.sh/do-not-launch off, or wait for the end of the zonal shift"
            )
        self._read_types()
        self._market.sold_types()
        images = None if template.launch_template else self._images_of(template)
        public = self._subnets.public_zones(template)
        return self._market.instance_types(provisioner, template, SubnetZones(zones, full, public), images)

    def identity(self) -> CloudIdentity:
        """See CloudProvider. EKS describes clusters of the caller's own account and region alone."""
        return CloudIdentity(self._clients.region, self._cluster_facts().arn)

    def create(self, request: LaunchRequest) -> CloudInstance:
        return self._launcher.launch(request, self._cluster_facts())

    def get(self, provider_id: str) -> CloudInstance:
        return self._instances.get(instance_id(provider_id))

    def find(self, provider_id: str) -> CloudInstance | None:
        return self._instances.find(instance_id(provider_id))

    def known(self, provider_ids: Iterable[str]) -> frozenset[str]:
        return self._instances.known(provider_ids)

    def list(self) -> tuple[CloudInstance, ...]:
        return self._instances.launched()

    def delete(self, provider_id: str) -> None:
        self._instances.terminate(instance_id(provider_id))

    @property
    def interruptions(self) -> InterruptionQueue:
        return self._queue

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        self._market.unavailable.mark(SPOT, instance_type, zone, "a spot instance was interrupted")

    def region_catalog(self) -> RegionCatalog:
        """Return what the region sells at list prices. Raises CloudError before the types were read."""
        return self._market.region_catalog()

    def zones_left(self) -> frozenset[str]:
        return self._subnets.zones_left()

    def zonal_shifts(self) -> tuple[frozenset[str], str]:
        """Read the ids of the zones that zonal shifts leave, and why they cannot be read. Raises CloudErrors of EKS."""
        problem = self._shifts.read(self._settings.cluster_arn or self._cluster_facts().arn)
        return self._shifts.zones(), problem

    def use_pod_subnets(self, by_zone: Mapping[str, str]) -> None:
        self._subnets.use_for_pods(by_zone)

    def price_book(self) -> Mapping[str, Any]:
        return self._market.price_book()

    @property
    def region(self) -> str:
        return self._clients.region

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        teaching = [node for node in nodes if self._market.memory.may_teach(node)]
        if teaching:
            shown = self._instances.shown(node.provider_id for node in teaching)
            self._market.learn_memory(
                measured(teaching, (item for item in shown if item.owned and item.provisioner_name))
            )
        return self._market.memory.document()

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        self._market.memory.restore(learned)

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        status = resolve_status(template, self._subnets, self._security_groups)
        return replace(status, ami_family=self._family_name(template))

    def _family_name(self, template: AWSNodeTemplate) -> str:
        """Return the AMI family of its nodes; empty with a launch template, or while the version is unknown."""
        if template.launch_template is not None or template.ami_family:
            return template.ami_family or ""
        try:
            return default_ami_family(self._cluster_facts().kubernetes_version)
        except CloudError:
            return ""

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        return tuple(sorted({image.id for image in self._images_of(template)}))

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        return advice(provisioner, template, family_of(template), self._settings)

    def check_permissions(self) -> None:
        """See CloudProvider. Actions that the controller can do without are logged."""
        for action in check_permissions(self._clients, self._settings):
            self._log.warning("Permission seems to be missing; the controller works without it", action=action)

    def _cluster_facts(self) -> ClusterFacts:
        return self._cluster.get(
            self._settings.cluster_name, lambda: describe_cluster(self._clients.eks, self._settings, self._dns_ip)
        )

    def _images_of(self, template: AWSNodeTemplate) -> tuple[Image, ...]:
        return self._images.of(template, self._cluster_facts().kubernetes_version)

    def _read_types(self) -> None:
        if not self._market.known:
            self.refresh()

    def _read_shifts(self) -> int:
        self.zonal_shifts()
        return len(self._shifts.zones())

    def _count_running(self) -> int:
        running = (one for one in self._instances.launched() if one.state not in LEAVING_STATES)
        return self._market.count_running(running)

    def _type_labels(self, instance_type: str, tags: Mapping[str, str]) -> Mapping[str, str]:
        self._read_types()
        return self._market.type_labels(instance_type, tags)
