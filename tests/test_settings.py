"""Settings and options: defaults, every key, and all problems at once."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from controller.core.api.disruption import Budget
from controller.core.api.settings.settings_table import SETTINGS
from controller.core.guards.spending import LaunchLimits
from controller.core.price_rules import PriceRule
from controller.errors import ValidationError
from controller.operator.options import Options
from controller.settings import Settings
from tests.source_trees import READS_SOURCES, syntax_trees

SOURCE = Path(inspect.getfile(Settings))
REQUIRED = {"aws.clusterName": "c"}


def problems(data: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Settings.parse(data)
    return {problem.path: str(problem) for problem in caught.value.problems}


def reads_of(word: str) -> set[str]:
    """Attributes that the controller's code takes of something called `word`, such as settings or self._settings."""
    return {
        node.attr
        for path, tree in syntax_trees("controller").items()
        if path != SOURCE and f"{word}." in path.read_text()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.search(rf"(^|[._]){word}(\.current)?$", ast.unparse(node.value))
    }


def passed_on_to_the_solver() -> set[str]:
    functions = [each for each in ast.walk(ast.parse(SOURCE.read_text())) if isinstance(each, ast.FunctionDef)]
    options = next(each for each in functions if each.name == "solve_options")
    return {node.attr for node in ast.walk(options) if isinstance(node, ast.Attribute)}


@READS_SOURCES
def test_every_row_of_the_table_is_a_field_and_somebody_reads_it() -> None:
    """A key that is parsed, documented and then forgotten is worse than none."""
    keys = {each.name: each.metadata["setting"].key for each in dataclasses.fields(Settings)}
    assert list(keys.values()) == list(SETTINGS)
    assert set(keys) - reads_of("settings") - passed_on_to_the_solver() == set()


def test_every_option_of_the_process_is_read() -> None:
    assert {each.name for each in dataclasses.fields(Options)} - reads_of("options") == set()


def test_the_defaults_of_the_table_can_be_written_into_the_config_map() -> None:
    written = {row.key: row.default for row in SETTINGS.values() if row.default is not None}
    assert Settings.parse({**written, **REQUIRED}) == Settings.parse(REQUIRED)


def test_missing_keys_have_the_defaults_of_karpenter() -> None:
    settings = Settings.parse(REQUIRED)
    assert (settings.batch_max_duration_seconds, settings.batch_idle_duration_seconds) == (10.0, 1.0)
    assert (settings.drift_enabled, settings.enable_pod_eni, settings.isolated_vpc) == (False, False, False)
    assert settings.enable_eni_limited_pod_density is True
    assert (settings.node_name_convention, settings.vm_memory_overhead_percent) == ("ip-name", 0.075)
    assert (settings.cluster_endpoint, settings.default_instance_profile, settings.interruption_queue_name) == ("",) * 3
    assert settings.tags == {}


def test_every_key_is_read() -> None:
    data = {
        "batchMaxDuration": "1m30s",
        "batchIdleDuration": "500ms",
        "featureGates.driftEnabled": "true",
        "aws.clusterName": "c",
        "aws.clusterArn": "arn:aws:eks:eu-west-1:123456789012:cluster/c",
        "aws.clusterEndpoint": "https://x.eks.amazonaws.com",
        "aws.defaultInstanceProfile": "profile",
        "aws.enablePodENI": "T",
        "aws.enableENILimitedPodDensity": "0",
        "aws.isolatedVPC": "True",
        "aws.nodeNameConvention": "resource-name",
        "aws.vmMemoryOverheadPercent": "0.1",
        "aws.interruptionQueueName": "queue",
        "aws.tags": '{"team": "web"}',
        "aws.enablePrefixDelegation": "true",
        "aws.reservedENIs": "1",
        "aws.instanceStorePolicy": "RAID0",
        "aws.enableZoneBalance": "true",
        "aws.zonalShift": "false",
        "aws.alternativePriceTolerance": "0.5",
        "aws.spotOfferings": "4",
        "aws.spotPoolShare": "0.25",
        "aws.spotInterruptionCost": "2.5",
        "weightPremium": "0.1",
        "preferencePremium": "0.5",
        "disruptionBudgets": '[{"nodes": "5%", "reasons": ["drifted"]}]',
        "terminationGracePeriod": "2h",
        "surgeSingleReplicas": "true",
        "podDeletionCost": "false",
        "onDemandTaint": "false",
        "placeAsPlanned": "false",
        "nodeRepair": "false",
        "nodeRepairAfter": "45m",
        "initializationDeadline": "20m",
        "deviceClasses": '{"gpu.nvidia.com": "nvidia.com/gpu"}',
        "aws.priceRules": '[{"instanceTypes": ["m5.*"], "discountPercent": 20}]',
        "aws.createFleetBucket": "100/10",
        "aws.launchBucket": "1000/2",
        "planAhead": "none",
        "planAheadOwners": "true",
        "nodeCostPerHour": "0.01",
        "assumedCpuUse": "1",
        "zoneMaxShare": "0.4",
        "zonePremium": "0.05",
        "launchLimits": '{"pricePerHour": 50}',
    }
    assert set(data) == set(SETTINGS)
    settings = Settings.parse(data)
    assert settings == Settings(
        cluster_name="c",
        batch_max_duration_seconds=90.0,
        batch_idle_duration_seconds=0.5,
        drift_enabled=True,
        cluster_endpoint="https://x.eks.amazonaws.com",
        cluster_arn="arn:aws:eks:eu-west-1:123456789012:cluster/c",
        default_instance_profile="profile",
        enable_pod_eni=True,
        enable_eni_limited_pod_density=False,
        isolated_vpc=True,
        node_name_convention="resource-name",
        vm_memory_overhead_percent=0.1,
        interruption_queue_name="queue",
        tags=settings.tags,
        device_classes=settings.device_classes,
        enable_prefix_delegation=True,
        reserved_enis=1,
        instance_store_policy="RAID0",
        enable_zone_balance=True,
        zonal_shift=False,
        alternative_price_tolerance=0.5,
        create_fleet_bucket=(100, 10.0),
        launch_bucket=(1000, 2.0),
        plan_ahead="none",
        plan_ahead_owners=True,
        node_cost_per_hour=0.01,
        assumed_cpu_use=1.0,
        zone_max_share=0.4,
        zone_premium=0.05,
        launch_limits=LaunchLimits(price_per_hour=50.0),
        spot_offerings=4,
        spot_pool_share=0.25,
        spot_interruption_cost=2.5,
        weight_premium=0.1,
        preference_premium=0.5,
        disruption_budgets=(Budget(None, 0.05, frozenset({"drifted"})),),
        termination_grace_period_seconds=7200.0,
        surge_single_replicas=True,
        pod_deletion_cost=False,
        on_demand_taint=False,
        place_as_planned=False,
        node_repair=False,
        node_repair_after_seconds=2700.0,
        initialization_deadline_seconds=1200.0,
        price_rules=(PriceRule(instance_types=("m5.*",), discount_percent=20.0),),
    )
    assert settings.tags == {"team": "web"}
    assert settings.device_classes == {"gpu.nvidia.com": "nvidia.com/gpu"}
    hash(settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("batchMaxDuration", ""),
        ("batchMaxDuration", "-10s"),
        ("batchMaxDuration", "0s"),
        ("batchIdleDuration", ""),
        ("batchIdleDuration", "-1s"),
        ("batchIdleDuration", "10"),
        ("featureGates.driftEnabled", "yes"),
        ("featureGates.driftEnabled", ""),
        ("aws.clusterName", ""),
        ("disruptionBudgets", '[{"nodes": "many"}]'),
        ("terminationGracePeriod", "0s"),
        ("aws.clusterEndpoint", "x.eks.amazonaws.com"),
        ("aws.clusterEndpoint", "https://"),
        ("aws.clusterEndpoint", "https://[x"),
        ("aws.enablePodENI", "on"),
        ("aws.enableENILimitedPodDensity", "2"),
        ("aws.isolatedVPC", "TrUe"),
        ("aws.nodeNameConvention", ""),
        ("aws.nodeNameConvention", "ip"),
        ("aws.vmMemoryOverheadPercent", "-0.1"),
        ("aws.vmMemoryOverheadPercent", "7.5"),
        ("aws.vmMemoryOverheadPercent", "nan"),
        ("aws.vmMemoryOverheadPercent", "x"),
        ("aws.enablePrefixDelegation", "yes"),
        ("aws.reservedENIs", "-1"),
        ("aws.instanceStorePolicy", "raid0"),
        ("aws.enableZoneBalance", "on"),
        ("aws.zonalShift", "on"),
        ("aws.alternativePriceTolerance", "-0.1"),
        ("aws.spotOfferings", "0"),
        ("aws.spotPoolShare", "0"),
        ("aws.spotPoolShare", "1.1"),
        ("aws.spotInterruptionCost", "-1"),
        ("aws.alternativePriceTolerance", "inf"),
        ("aws.alternativePriceTolerance", "x"),
        ("aws.priceRules", "20%"),
        ("deviceClasses", "gpu.nvidia.com=nvidia.com/gpu"),
        ("deviceClasses", '{"gpu.nvidia.com": "gpu"}'),
        ("deviceClasses", '{"gpu.nvidia.com": "requests.kubernetes.io/gpu"}'),
        ("aws.tags", "a=b"),
        ("aws.tags", "[]"),
        ("aws.tags", '{"a": 1}'),
        ("aws.tags", '{"": "x"}'),
        ("aws.tags", '{"kubernetes.io/cluster/c": "owned"}'),
    ],
)
def test_a_wrong_value_is_refused_at_its_key(key: str, value: str) -> None:
    assert key in problems({**REQUIRED, key: value})


def test_a_value_that_is_no_string_is_refused() -> None:
    unquoted: dict[str, Any] = {**REQUIRED, "aws.isolatedVPC": True}
    assert "quote it" in problems(unquoted)["aws.isolatedVPC"]


@pytest.mark.parametrize("text", ["null", "", "{}"])
def test_no_tags_can_be_said_in_three_ways(text: str) -> None:
    assert Settings.parse({**REQUIRED, "aws.tags": text}).tags == {}


def test_all_problems_are_told_at_once_and_a_near_key_is_named() -> None:
    said = problems({"aws.clustername": "c", "batchIdleDuration": "x", "aws.isolatedVPC": "x"})
    assert set(said) == {"aws.clustername", "aws.clusterName", "batchIdleDuration", "aws.isolatedVPC"}
    assert "did you mean 'aws.clusterName'?" in said["aws.clustername"]
    assert "write numbers with units" in said["batchIdleDuration"]


def test_settings_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings.parse(REQUIRED).cluster_name = "other"  # type: ignore[misc]
