"""One sandbox AWS for the session, on a clock that only waits advance; every test finds it without faults or instances.

The controller's own boto3 clients talk to it over HTTP, pointed there by AWS_ENDPOINT_URL as anybody's would be.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import moto.backends
import moto.core.responses
import moto.core.utils
import pytest
import structlog
from structlog.testing import LogCapture

from controller.aws.api.clients import Clients, make_clients
from controller.aws.catalog.market_data import MarketData
from controller.aws.provider import AWSProvider
from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, LaunchRequest, PricedOffering
from controller.runtime.clock import Clock
from controller.settings import Settings
from sandbox.aws import Aws, AwsSettings, Delays, serve
from tests.manual_clock import ManualClock

CLUSTER = "demo"
PROFILE = f"KarpenterNodeInstanceProfile-{CLUSTER}"
SELECTOR = FrozenMap({"karpenter.sh/discovery": CLUSTER})
SETTINGS = Settings(cluster_name=CLUSTER, default_instance_profile=PROFILE)
DELAYS = Delays(pending_seconds=5, shutting_down_seconds=10, stopping_seconds=10, forgotten_after_seconds=3600)

_tokens = itertools.count(1)

moto.backends.list_of_moto_modules = cache(lambda look=moto.backends.list_of_moto_modules: tuple(look()))
moto.core.responses.method_names_from_class = cache(moto.core.utils.method_names_from_class)  # type: ignore[attr-defined]
"""Moto looks for its services among its files, and for their actions among their methods, at every call."""


Types = tuple[InstanceType, ...]


def by_name(types: Types) -> dict[str, InstanceType]:
    """The types by name."""
    return {item.name: item for item in types}


def available(provider: AWSProvider, name: str, capacity_type: str) -> dict[str, bool]:
    """By zone: whether the offering of a type and capacity type is available."""
    offerings = by_name(provider.instance_types(provisioner(), template()))[name].offerings
    return {offering.zone: offering.available for offering in offerings if offering.capacity_type == capacity_type}


def template(**fields: Any) -> AWSNodeTemplate:
    """A node template that finds the seeded subnets and group."""
    return AWSNodeTemplate(
        **{"name": "default", "subnet_selector": SELECTOR, "security_group_selector": SELECTOR} | fields
    )


def al2_template(**fields: Any) -> AWSNodeTemplate:
    """A template of AL2, by the images of the last version that has some."""
    return template(ami_family="AL2", ami_selector=FrozenMap({"aws::name": "amazon-eks-node-1.32-v*"}), **fields)


def provisioner(**fields: Any) -> Provisioner:
    """A Provisioner with a label of its own."""
    return Provisioner(**{"name": "default", "labels": FrozenMap({"team": "a"})} | fields)


@dataclass
class Cloud:
    """The sandbox, and a controller's view of it."""

    aws: Aws
    clock: ManualClock
    clients: Clients
    logs: LogCapture

    def provider(self, settings: Settings = SETTINGS, clock: Clock | None = None, **options: Any) -> AWSProvider:
        """A provider that knows nothing yet: what a process has that was just started."""
        return AWSProvider(settings, self.clients, clock or self.clock, self.logger(), **options)

    def logger(self) -> structlog.typing.FilteringBoundLogger:
        """A logger that keeps its entries in `logs`."""
        bound: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
            None, processors=[self.logs], wrapper_class=structlog.make_filtering_bound_logger(0)
        )
        return bound

    def restarted(self, provider: AWSProvider, settings: Settings = SETTINGS, **options: Any) -> AWSProvider:
        """A new process's provider that has read the catalog already (it is the slow part, and no part of the test)."""
        return copy_catalog(provider, self.provider(settings, **options))

    def calls(self, action: str) -> int:
        """How often an action was called."""
        return len(self.aws.calls.calls(action))

    def alive(self) -> list[dict[str, Any]]:
        """The sandbox's instances that run or are about to."""
        return [i for i in self.aws.instances() if i["state"] in ("pending", "running")]

    def user_data(self) -> list[str]:
        """The user data of the instances that run or are about to."""
        return [base64.b64decode(instance["userData"]).decode() for instance in self.alive()]

    def sent_types(self) -> list[set[str]]:
        """The instance types of each CreateFleet call."""
        return [
            {each["InstanceType"] for config in call.params["LaunchTemplateConfigs"] for each in config["Overrides"]}
            for call in self.aws.calls.calls("CreateFleet")
        ]

    def events(self, level: str) -> list[str]:
        """Log messages of a level."""
        return [str(entry["event"]) for entry in self.logs.entries if entry["log_level"] == level]


# The functions below are the only ones of these tests that reach inside a provider: reading the catalog anew for every
# test would take a second each.


def copy_catalog(loaded: AWSProvider, fresh: AWSProvider) -> AWSProvider:
    """Give `fresh` the types and prices that `loaded` has read; nothing is due to be read again."""
    catalog, known = market(fresh)._catalog, market(loaded)._catalog
    catalog._sold = known.sold
    catalog._answers.update(known._answers)
    pricing, prices = market(fresh)._pricing, market(loaded)._pricing.prices
    book = pricing.prices.book
    pricing._prices = prices if book == prices.book else replace(prices, book=book, version=prices.version + 1)
    fresh._schedule._due_at = dict.fromkeys(fresh._schedule._reads, float("inf"))
    return fresh


def market(provider: AWSProvider) -> MarketData:
    """What the provider knows of types, prices and shortages."""
    return provider._market


def make_due(provider: AWSProvider, what: str) -> None:
    """Let the next refresh read it."""
    provider._schedule._due_at[what] = 0.0


def set_prices(provider: AWSProvider, prices: Mapping[str, float]) -> None:
    """On-demand prices by instance type."""
    market(provider)._pricing._publish(lambda held: replace(held, on_demand=prices, listed=True))


def request(
    types: Iterable[InstanceType],
    *,
    names: Iterable[str] = (),
    capacity_types: Iterable[str] = (keys.SPOT,),
    zones: Iterable[str] = (),
    **fields: Any,
) -> LaunchRequest:
    """A launch of the named types, cheapest first, as a plan would ask for it."""
    wanted, kinds, places = set(names), set(capacity_types), set(zones)
    chosen = {item.name: item for item in types if item.name in wanted}
    assert set(chosen) == wanted
    offerings = sorted(
        PricedOffering(offering.price, item.name, offering.zone, offering.capacity_type)
        for item in chosen.values()
        for offering in item.offerings
        if offering.available and offering.capacity_type in kinds and (not places or offering.zone in places)
    )
    made = LaunchRequest(
        token=f"token-{next(_tokens)}",
        provisioner=provisioner(),
        template=template(),
        offerings=tuple(offerings),
        instance_types=chosen,
        labels=FrozenMap({"team": "a"}),
    )
    return replace(made, **fields)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all of this folder: what is read once a session then is read once."""
    for item in items:
        if item.nodeid.startswith("tests/aws/"):
            item.add_marker(pytest.mark.xdist_group("aws"))


@pytest.fixture(scope="session")
def running() -> Iterator[Cloud]:
    clock = ManualClock()
    with (
        serve(AwsSettings(cluster=CLUSTER, delays=DELAYS), now=clock.now) as aws,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        yield Cloud(aws, clock, make_clients(version="test"), LogCapture())


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore's own retries take no real time."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _seconds: None))


@pytest.fixture
def cloud(running: Cloud) -> Iterator[Cloud]:
    running.logs.entries.clear()
    running.aws.calls.clear()
    yield running
    running.aws.faults.clear()
    running.aws.world.instances.delays = DELAYS
    ec2 = running.aws.client("ec2")
    running.clock.advance(120)
    if alive := [instance["instanceId"] for instance in running.alive()]:
        ec2.terminate_instances(InstanceIds=alive)
    running.clock.advance(7200)
    ec2.describe_instances()


@pytest.fixture(scope="session")
def loaded(running: Cloud) -> AWSProvider:
    """A provider that has read the catalog; tests that change a provider's state take `restarted(loaded)`."""
    provider = running.provider()
    provider.instance_types(provisioner(), template())
    return provider


@pytest.fixture
def provider(cloud: Cloud, loaded: AWSProvider) -> AWSProvider:
    """A new process's provider."""
    fresh = cloud.restarted(loaded)
    fresh.instance_types(provisioner(), template())
    cloud.aws.calls.clear()
    return fresh


@pytest.fixture
def types(provider: AWSProvider) -> tuple[InstanceType, ...]:
    return provider.instance_types(provisioner(), template())
