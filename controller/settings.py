"""The controller's settings: the ConfigMap `karpenter-global-settings` as a typed value.

Each key's meaning, default and reader are in `core.api.settings.settings_table`. Where Karpenter v0.27 accepts a wrong
value in silence (an unknown `aws.nodeNameConvention`, an unknown key), it is refused with a remedy; unknown keys alone
do not keep the controller from starting (`operator.startup`). Nothing here
reads files, the environment or the network: mappings come in, frozen values go out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, Final

from controller.core.api.disruption import Budget, parse_budgets
from controller.core.api.frozen import FrozenMap
from controller.core.api.settings import readers
from controller.core.api.settings.readers import Reader
from controller.core.api.settings.settings_table import CONFIG_MAP as CONFIG_MAP
from controller.core.api.settings.settings_table import SETTINGS, Setting
from controller.core.api.strict import Report, did_you_mean
from controller.core.guards.spending import LaunchLimits, parse_launch_limits
from controller.core.price_rules import PriceRule, parse_price_rules
from controller.core.provisioning.flexibility import Flexibility
from controller.core.provisioning.plan import SolveOptions
from controller.core.zones.balance import ZoneBalance
from controller.errors import ValidationError


def _setting(key: str, parse: Reader | None = None) -> Any:
    """A field of Settings: the row of this key, with `parse` as reader where the table names none."""
    row = SETTINGS[key]
    read = parse or row.read
    assert read is not None, f"{key} has no reader"
    default = None if row.default is None else read(row.default)
    return field(default=default, metadata={"setting": row, "read": read})


@dataclass(frozen=True, slots=True)
class Settings:
    """The values; field by field documented in `settings_table`."""

    cluster_name: str = field(metadata={"setting": SETTINGS["aws.clusterName"], "read": readers.name})
    batch_max_duration_seconds: float = _setting("batchMaxDuration")
    batch_idle_duration_seconds: float = _setting("batchIdleDuration")
    drift_enabled: bool = _setting("featureGates.driftEnabled")
    cluster_endpoint: str = _setting("aws.clusterEndpoint")
    default_instance_profile: str = _setting("aws.defaultInstanceProfile")
    enable_pod_eni: bool = _setting("aws.enablePodENI")
    enable_eni_limited_pod_density: bool = _setting("aws.enableENILimitedPodDensity")
    isolated_vpc: bool = _setting("aws.isolatedVPC")
    node_name_convention: str = _setting("aws.nodeNameConvention")
    vm_memory_overhead_percent: float = _setting("aws.vmMemoryOverheadPercent")
    interruption_queue_name: str = _setting("aws.interruptionQueueName")
    tags: FrozenMap[str, str] = _setting("aws.tags")  # noqa: RUF009 - a dataclasses.field
    enable_prefix_delegation: bool = _setting("aws.enablePrefixDelegation")
    reserved_enis: int = _setting("aws.reservedENIs")
    instance_store_policy: str = _setting("aws.instanceStorePolicy")
    enable_zone_balance: bool = _setting("aws.enableZoneBalance")
    zonal_shift: bool = _setting("aws.zonalShift")
    alternative_price_tolerance: float = _setting("aws.alternativePriceTolerance")
    spot_offerings: int = _setting("aws.spotOfferings")
    spot_pool_share: float = _setting("aws.spotPoolShare")
    spot_interruption_cost: float = _setting("aws.spotInterruptionCost")
    weight_premium: float | None = _setting("weightPremium")
    preference_premium: float = _setting("preferencePremium")
    disruption_budgets: tuple[Budget, ...] = _setting("disruptionBudgets", parse_budgets)
    termination_grace_period_seconds: float | None = _setting("terminationGracePeriod")
    surge_single_replicas: bool = _setting("surgeSingleReplicas")
    pod_deletion_cost: bool = _setting("podDeletionCost")
    on_demand_taint: bool = _setting("onDemandTaint")
    place_as_planned: bool = _setting("placeAsPlanned")
    node_repair: bool = _setting("nodeRepair")
    node_repair_after_seconds: float = _setting("nodeRepairAfter")
    initialization_deadline_seconds: float = _setting("initializationDeadline")
    device_classes: FrozenMap[str, str] = _setting("deviceClasses")  # noqa: RUF009 - a dataclasses.field
    price_rules: tuple[PriceRule, ...] = _setting("aws.priceRules", parse_price_rules)
    cluster_arn: str = _setting("aws.clusterArn")
    create_fleet_bucket: tuple[int, float] | None = _setting("aws.createFleetBucket")
    launch_bucket: tuple[int, float] | None = _setting("aws.launchBucket")
    plan_ahead: str = _setting("planAhead")
    plan_ahead_owners: bool = _setting("planAheadOwners")
    node_cost_per_hour: float = _setting("nodeCostPerHour")
    assumed_cpu_use: float = _setting("assumedCpuUse")
    zone_max_share: float = _setting("zoneMaxShare")
    zone_premium: float = _setting("zonePremium")
    launch_limits: LaunchLimits | None = _setting("launchLimits", parse_launch_limits)  # noqa: RUF009

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> Settings:
        """From the ConfigMap's data. A missing key has its default. Raises ValidationError with all problems."""
        report = Report()
        for key in data:
            if key not in SETTINGS:
                report.add(key, "unknown key", did_you_mean(key, SETTINGS))
        values = {
            each.name: value
            for each in fields(cls)
            if (key := _row(each).key) in data
            and (value := report.read(key, data[key], each.metadata["read"])) is not None
        }
        if "aws.clusterName" not in data:
            report.add("aws.clusterName", "is missing", "set it to the name of the EKS cluster")
        if report.problems:
            raise ValidationError(f"ConfigMap {CONFIG_MAP}", report.problems)
        return cls(**values)

    def with_live_part_of(self, other: Settings) -> Settings:
        """These settings, with what of `other` can change while the controller runs."""
        return replace(self, **{name: getattr(other, name) for name in LIVE})

    def keys_that_differ(self, other: Settings) -> list[str]:
        """The ConfigMap's keys of what is not the same in both."""
        return [_row(each).key for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]

    def solve_options(self) -> SolveOptions:
        """How plans are made under these settings."""
        return SolveOptions(
            weight_premium=self.weight_premium,
            preference_premium=self.preference_premium,
            node_cost_per_hour=self.node_cost_per_hour,
            cpu_use=self.assumed_cpu_use,
            flexibility=Flexibility(self.alternative_price_tolerance, self.spot_offerings, self.spot_interruption_cost),
            spot_pool_share=self.spot_pool_share,
            zone_balance=ZoneBalance(self.zone_max_share, self.zone_premium),
        )


def _row(each: Field[Any]) -> Setting:
    row: Setting = each.metadata["setting"]
    return row


LIVE: Final = tuple(each.name for each in fields(Settings) if _row(each).live)
"""Fields whose changes take effect while the controller runs."""
