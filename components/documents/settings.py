"""The ConfigMap `karpenter-global-settings`: the stack's settings under the names that the controller reads."""

from __future__ import annotations

import json
from typing import Any

from components.config.controller import BudgetConfig, LaunchLimitsConfig, PriceRuleConfig, SettingsConfig
from components.config.keys import key_fields
from components.documents.labels import labels

CONFIG_MAP = "karpenter-global-settings"
LOGGING = "config-logging"
"""Levels by component, which change while the controller runs."""

KEYS = {
    "batch_max_duration": "batchMaxDuration",
    "batch_idle_duration": "batchIdleDuration",
    "drift_enabled": "featureGates.driftEnabled",
    "cluster_endpoint": "aws.clusterEndpoint",
    "enable_pod_eni": "aws.enablePodENI",
    "enable_eni_limited_pod_density": "aws.enableENILimitedPodDensity",
    "isolated_vpc": "aws.isolatedVPC",
    "node_name_convention": "aws.nodeNameConvention",
    "vm_memory_overhead_percent": "aws.vmMemoryOverheadPercent",
    "tags": "aws.tags",
    "enable_prefix_delegation": "aws.enablePrefixDelegation",
    "instance_store_policy": "aws.instanceStorePolicy",
    "enable_zone_balance": "aws.enableZoneBalance",
    "alternative_price_tolerance": "aws.alternativePriceTolerance",
    "spot_offerings": "aws.spotOfferings",
    "spot_pool_share": "aws.spotPoolShare",
    "weight_premium": "weightPremium",
    "preference_premium": "preferencePremium",
    "disruption_budgets": "disruptionBudgets",
    "termination_grace_period": "terminationGracePeriod",
    "surge_single_replicas": "surgeSingleReplicas",
    "price_rules": "aws.priceRules",
    "launch_limits": "launchLimits",
}
"""Field of SettingsConfig → key of the ConfigMap."""

OF_THE_STACK = ("aws.clusterName", "aws.defaultInstanceProfile", "aws.interruptionQueueName")
"""The ConfigMap's other keys: their values follow from the stack itself."""


def settings_data(settings: SettingsConfig, cluster: str, instance_profile: str, queue: str) -> dict[str, str]:
    """The ConfigMap's data; what is left at its default is left out, except what tells where the cluster is."""
    data = dict(zip(OF_THE_STACK, (cluster, instance_profile, queue), strict=True))
    defaults = SettingsConfig()
    for attribute, name in KEYS.items():
        value = getattr(settings, attribute)
        if value != getattr(defaults, attribute):
            data[name] = _text(value)
    return dict(sorted((name, value) for name, value in data.items() if value != ""))


def settings_map(namespace: str, data: dict[str, str]) -> dict[str, Any]:
    """The object."""
    metadata = {"name": CONFIG_MAP, "namespace": namespace, "labels": labels()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def logging_map(namespace: str, level: str) -> dict[str, Any]:
    """The level of all that is logged; `loglevel.COMPONENT` beside it sets one component's."""
    metadata = {"name": LOGGING, "namespace": namespace, "labels": labels()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"loglevel.controller": level}}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=_given)


def _given(entry: PriceRuleConfig | BudgetConfig | LaunchLimitsConfig) -> dict[str, Any]:
    """The keys of an entry that are not at their default."""
    given = {each.name: (each, getattr(entry, each.attribute)) for each in key_fields(type(entry))}
    return {name: value for name, (each, value) in given.items() if each.required or value != each.default}
