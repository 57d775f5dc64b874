"""AWSProvider: the CloudProvider over EC2, EKS, SSM and the Pricing API.

Composition alone: each question is answered by the part that knows, and what those know is refreshed on schedule by
`refresh`, which a loop of the shell calls. Nothing here knows whether the endpoints are AWS's own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

import structlog

from controller.aws.amifamily import family_of
from controller.aws.amifamily.images import Image, Images
from controller.aws.api import tags as tagging
from controller.aws.api.clients import Clients
from controller.aws.api.cluster_facts import ClusterFacts, describe_cluster
from controller.aws.api.interruption_queue import SqsQueue
from controller.aws.api.ttl_cache import Cache
from controller.aws.catalog.capacity import CapacityRules, pod_capacity
from controller.aws.catalog.capacity_rules import capacity_rules
from controller.aws.catalog.instance_catalog import InstanceTypeCatalog, Market
from controller.aws.catalog.learned_memory import LearnedMemory
from controller.aws.catalog.offline_catalog import RegionCatalog
from controller.aws.catalog.price_book import Pricing
from controller.aws.catalog.shipped_tables import shipped_prices
from controller.aws.catalog.unavailable_offerings import UnavailableOfferings
from controller.aws.launch.instance_launch import InstanceLauncher
from controller.aws.launch.instances import Instances, instance_id
from controller.aws.launch.launch_templates import LaunchTemplates
from controller.aws.launch.node_parameters import NodeParameters
from controller.aws.launch.zone_balance import LEAVING_STATES, ZoneBalance
from controller.aws.network.security_groups import SecurityGroups
from controller.aws.network.subnets import Subnets
from controller.aws.permissions import check_permissions
from controller.aws.provisioner_advice import advice
from controller.aws.template_status import resolve_status
from controller.core.api.labels import SPOT
from controller.core.api.node import Node
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import (
    CloudInstance,
    EmptyQueue,
    InstanceType,
    InterruptionQueue,
    LaunchRequest,
    TemplateStatus,
)
from controller.errors import CloudError, InsufficientCapacityError, NodeTemplateError
from controller.runtime.clock import Clock
from controller.runtime.metrics import SILENT, Recorder
from controller.settings import Settings

CATALOG_SECONDS = 300.0
SPOT_PRICE_SECONDS = 300.0
ON_DEMAND_PRICE_SECONDS = 12 * 3600.0
LAUNCH_TEMPLATE_SECONDS = 600.0
COMMITMENT_SECONDS = 30.0
CLUSTER_SECONDS = 300.0
ON_DEMAND_PRICES = "on-demand prices"


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
    ) -> None:
        """`dns_ip` is the ClusterIP of kube-dns, if known; `stop` ends waits when the process stops."""
        ec2 = clients.ec2
        self._settings = settings
        self._clients = clients
        self._clock = clock
        self._log = logger
        self._dns_ip = dns_ip
        self._shipped = shipped_prices(clients.region)
        self._memory = LearnedMemory()
        self._unavailable = UnavailableOfferings(clock)
        self._catalog = InstanceTypeCatalog(ec2, clients.region, self._memory)
        self._pricing = Pricing(
            ec2, clients.pricing, clients.region, self._shipped.prices, clock.now, settings.price_rules
        )
        self._queue: InterruptionQueue = EmptyQueue()
        if settings.interruption_queue_name:
            self._queue = SqsQueue(clients.sqs, settings.interruption_queue_name)
        self._subnets = Subnets(ec2, clock)
        self._security_groups = SecurityGroups(ec2, settings.cluster_name, clock, logger)
        self._images = Images(ec2, clients.ssm, clock)
        self._cluster: Cache[str, ClusterFacts] = Cache(clock, CLUSTER_SECONDS)
        self._instances = Instances(
            ec2, settings.cluster_name, settings.node_name_convention, self._type_labels, clock, recorder
        )
        self._launch_templates = LaunchTemplates(ec2, settings.cluster_name, clock)
        self._launcher = InstanceLauncher(
            ec2=ec2,
            clock=clock,
            logger=logger,
            instances=self._instances,
            subnets=self._subnets,
            parameters=NodeParameters(
                settings,
                self._images,
                self._security_groups,
                self._launch_templates,
            ),
            unavailable=self._unavailable,
            stop=stop or threading.Event(),
            price_tolerance=settings.alternative_price_tolerance,
            spot_offerings=settings.spot_offerings,
            balance=ZoneBalance(self._instances.launched, clock) if settings.enable_zone_balance else None,
        )
        self._schedule = {
            "instance types": (self._catalog.refresh, CATALOG_SECONDS),
            "spot prices": (self._pricing.refresh_spot, SPOT_PRICE_SECONDS),
            ON_DEMAND_PRICES: (self._pricing.refresh_on_demand, ON_DEMAND_PRICE_SECONDS),
            "launch templates": (self._launch_templates.collect, LAUNCH_TEMPLATE_SECONDS),
        }
        if self._pricing.has_commitments:
            self._schedule["commitments"] = (self._count_running, COMMITMENT_SECONDS)
        if settings.isolated_vpc:
            del self._schedule[ON_DEMAND_PRICES]
            self._say_shipped_prices()
        self._unpriced: frozenset[str] = frozenset()
        self._due: dict[str, float] = {}
        self._failing: set[str] = set()
        self._refresh_lock = threading.Lock()

    def refresh(self) -> None:
        """Read again what is due: instance types and spot prices every 5 minutes, on-demand prices every 12 hours.

        Launch templates that are no longer used are deleted every 10 minutes. What fails keeps its earlier content, is
        said once, and is tried again at the next call.
        """
        with self._refresh_lock:
            for what, (read, every) in self._schedule.items():
                if self._clock.monotonic() >= self._due.get(what, 0.0):
                    self._refresh_one(what, read, every)
            self._say_unpriced()

    def instance_types(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[InstanceType, ...]:
        """See CloudProvider. The same tuple as before while nothing changed."""
        zones = self._subnets.zones(template)
        if not zones:
            raise InsufficientCapacityError(
                f"AWSNodeTemplate {template.name}: none of its subnets has a free address; add subnets to the selector"
            )
        if self._catalog.sold is None:
            self.refresh()
        if self._catalog.sold is None:
            raise CloudError("Instance types are not known yet; ec2:DescribeInstanceTypes is tried again")
        version, unavailable = self._unavailable.active()
        market = Market(zones, self._pricing.prices, version, unavailable)
        images = None if template.launch_template else self._images_of(template)
        try:
            return self._catalog.instance_types(capacity_rules(self._settings, provisioner, template), market, images)
        except ValueError as error:
            raise NodeTemplateError(
                f"Provisioner {provisioner.name}: spec.kubeletConfiguration: {error}; write 100Mi or 5%, say"
            ) from error

    def create(self, request: LaunchRequest) -> CloudInstance:
        """See CloudProvider."""
        return self._launcher.launch(request, self._cluster_facts())

    def get(self, provider_id: str) -> CloudInstance:
        """See CloudProvider."""
        return self._instances.get(instance_id(provider_id))

    def list(self) -> tuple[CloudInstance, ...]:
        """See CloudProvider."""
        return self._instances.launched()

    def delete(self, provider_id: str) -> None:
        """See CloudProvider."""
        self._instances.terminate(instance_id(provider_id))

    @property
    def interruptions(self) -> InterruptionQueue:
        """See CloudProvider."""
        return self._queue

    def spot_interrupted(self, instance_type: str, zone: str) -> None:
        """See CloudProvider."""
        self._unavailable.mark(SPOT, instance_type, zone, "a spot instance was interrupted")

    def region_catalog(self) -> RegionCatalog:
        """What the region sells, at list prices without the user's discounts: to plan with elsewhere.

        Raises CloudError before the types were read.
        """
        sold, prices = self._catalog.sold, self._pricing.prices
        if sold is None:
            raise CloudError("Instance types are not known yet; ec2:DescribeInstanceTypes is tried again")
        spot: dict[str, dict[str, float]] = {}
        for (name, zone), price in (prices.spot or {}).items():
            spot.setdefault(name, {})[zone] = price
        read_at = datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="seconds")
        return RegionCatalog(
            region=self.region,
            generated=read_at,
            source="EC2 and the Pricing API",
            types=sold.types,
            zones={name: zones for name, zones in sold.zones.items() if name in sold.types},
            on_demand=prices.on_demand,
            spot=spot if prices.spot is not None else None,
        )

    @property
    def region(self) -> str:
        """Where it launches."""
        return self._clients.region

    def learn_memory(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        """See CloudProvider."""
        self._memory.learn(nodes)
        return self._memory.document()

    def restore_memory(self, learned: Mapping[str, str]) -> None:
        """See CloudProvider."""
        self._memory.restore(learned)

    def template_status(self, template: AWSNodeTemplate) -> TemplateStatus:
        """See CloudProvider."""
        return resolve_status(template, self._subnets, self._security_groups)

    def image_ids(self, template: AWSNodeTemplate) -> tuple[str, ...]:
        """See CloudProvider."""
        return tuple(sorted({image.id for image in self._images_of(template)}))

    def advice(self, provisioner: Provisioner, template: AWSNodeTemplate) -> tuple[str, ...]:
        """See CloudProvider."""
        return advice(provisioner, template, family_of(template), self._settings)

    def check_permissions(self) -> None:
        """See CloudProvider. Actions that the controller can do without are logged."""
        for action in check_permissions(self._clients, self._settings):
            self._log.warning("Permission seems to be missing; carrying on without", action=action)

    def _cluster_facts(self) -> ClusterFacts:
        return self._cluster.get(
            self._settings.cluster_name, lambda: describe_cluster(self._clients.eks, self._settings, self._dns_ip)
        )

    def _images_of(self, template: AWSNodeTemplate) -> tuple[Image, ...]:
        return self._images.of(template, self._cluster_facts().kubernetes_version)

    def _refresh_one(self, what: str, read: Callable[[], int], every: float) -> None:
        try:
            count = read()
        except CloudError as error:
            if what not in self._failing:
                self._log.warning("Reading from AWS fails; the earlier content is used", what=what, error=str(error))
                if what == ON_DEMAND_PRICES and what not in self._due:
                    self._say_shipped_prices()
            self._failing.add(what)
            return
        self._due[what] = self._clock.monotonic() + every
        if what in self._failing:
            self._failing.discard(what)
            self._log.info("Reading from AWS works again", what=what, count=count)

    def _count_running(self) -> int:
        """Tell the prices how many instances use up commitments; returns how many run."""
        running = Counter(
            (one.capacity_type, one.instance_type, one.zone)
            for one in self._instances.launched()
            if one.state not in LEAVING_STATES
        )
        self._pricing.count_running(running)
        return running.total()

    def _say_unpriced(self) -> None:
        """Name the types that cannot be planned because nobody says what they cost, whenever the list changes."""
        sold = self._catalog.sold
        unpriced = frozenset(sold.types if sold else ()) - self._pricing.prices.on_demand.keys()
        if unpriced and unpriced != self._unpriced:
            self._log.info(
                "Instance types without an on-demand price are not used on demand",
                count=len(unpriced),
                instance_types=sorted(unpriced)[:10],
            )
        self._unpriced = unpriced

    def _say_shipped_prices(self) -> None:
        shipped = self._shipped
        self._log.info(
            "On-demand prices are those that ship with the controller",
            region=shipped.region,
            generated=shipped.generated,
            source=shipped.source,
        )

    def _type_labels(self, instance_type: str, tags: Mapping[str, str]) -> Mapping[str, str]:
        """Labels of an instance's type; none while the type is not known."""
        if self._catalog.sold is None:
            self.refresh()
        info = self._catalog.sold.types.get(instance_type) if self._catalog.sold else None
        if info is None:
            return {}
        rules = CapacityRules(
            eni_limited_pods=self._settings.enable_eni_limited_pod_density,
            prefix_delegation=self._settings.enable_prefix_delegation,
            kubelet=tagging.read_pod_density(tags),
        )
        return info.labels(self._clients.region, pod_capacity(info, rules))
