"""Keys on the controller's settings. Default, meaning and rule of each come from the controller's settings table."""

from __future__ import annotations

import json
from typing import Any

from components.config.keys import key, key_fields, section
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.settings.settings_table import SETTINGS


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


def text_of(value: Any) -> str:
    """A value as the ConfigMap has it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_given)


def _given(entry: PriceRuleConfig | BudgetConfig | LaunchLimitsConfig) -> dict[str, Any]:
    """The keys of an entry that are not at their default."""
    given = {each.name: (each, getattr(entry, each.attribute)) for each in key_fields(type(entry))}
    return {name: value for name, (each, value) in given.items() if each.required or value != each.default}


def _json_value(text: str | None) -> Any:
    """The default of a key of a stack: the ConfigMap's text as the YAML value that a stack has for it."""
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else FrozenMap(value) if isinstance(value, dict) else value


def setting(name: str) -> Any:
    """A key of the stack for this key of the ConfigMap, checked as the controller will read it."""
    row = SETTINGS[name]
    read = row.read

    def check(value: Any) -> None:
        if read is not None and value != "":
            read(text_of(value))

    return key(row.doc, default=_json_value(row.default), check=check, source=name)


@section
class SettingsConfig:
    """`karpenter-global-settings`. What is left out has its default."""

    batch_max_duration: str = setting("batchMaxDuration")
    batch_idle_duration: str = setting("batchIdleDuration")
    drift_enabled: bool = setting("featureGates.driftEnabled")
    cluster_endpoint: str = setting("aws.clusterEndpoint")
    enable_pod_eni: bool = setting("aws.enablePodENI")
    enable_eni_limited_pod_density: bool = setting("aws.enableENILimitedPodDensity")
    isolated_vpc: bool = setting("aws.isolatedVPC")
    node_name_convention: str = setting("aws.nodeNameConvention")
    vm_memory_overhead_percent: float = setting("aws.vmMemoryOverheadPercent")
    tags: FrozenMap[str, str] = setting("aws.tags")
    enable_prefix_delegation: bool = setting("aws.enablePrefixDelegation")
    reserved_enis: int = setting("aws.reservedENIs")
    instance_store_policy: str = setting("aws.instanceStorePolicy")
    enable_zone_balance: bool = setting("aws.enableZoneBalance")
    zonal_shift: bool = setting("aws.zonalShift")
    alternative_price_tolerance: float = setting("aws.alternativePriceTolerance")
    spot_offerings: int = setting("aws.spotOfferings")
    spot_pool_share: float = setting("aws.spotPoolShare")
    spot_interruption_cost: float = setting("aws.spotInterruptionCost")
    weight_premium: float | None = setting("weightPremium")
    preference_premium: float = setting("preferencePremium")
    disruption_budgets: tuple[BudgetConfig, ...] = setting("disruptionBudgets")
    termination_grace_period: str | None = setting("terminationGracePeriod")
    surge_single_replicas: bool = setting("surgeSingleReplicas")
    plan_ahead_owners: bool = setting("planAheadOwners")
    pod_deletion_cost: bool = setting("podDeletionCost")
    on_demand_taint: bool = setting("onDemandTaint")
    place_as_planned: bool = setting("placeAsPlanned")
    node_repair: bool = setting("nodeRepair")
    node_repair_after: str = setting("nodeRepairAfter")
    initialization_deadline: str = setting("initializationDeadline")
    device_classes: FrozenMap[str, str] = setting("deviceClasses")
    price_rules: tuple[PriceRuleConfig, ...] = setting("aws.priceRules")
    create_fleet_bucket: str = setting("aws.createFleetBucket")
    launch_bucket: str = setting("aws.launchBucket")
    plan_ahead: str = setting("planAhead")
    node_cost_per_hour: float = setting("nodeCostPerHour")
    assumed_cpu_use: float = setting("assumedCpuUse")
    zone_max_share: float = setting("zoneMaxShare")
    zone_premium: float = setting("zonePremium")
    launch_limits: LaunchLimitsConfig | None = setting("launchLimits")
