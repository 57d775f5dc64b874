"""Annotations of a Provisioner become its disruption policy; one that cannot be read never removes more."""

from __future__ import annotations

import math

import pytest

from controller.core.api.disruption import DisruptionPolicy, parse_budgets
from controller.core.api.v1alpha5 import V1ALPHA5
from tests import factories


def policy(**annotations: str) -> DisruptionPolicy:
    """Of a Provisioner with these annotations; `_` in their names stands for `-`."""
    keys = {f"karpenter.sh/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return V1ALPHA5.pool.parse(factories.provisioner_object(annotations=keys)).disruption


def test_a_provisioner_that_says_nothing_leaves_all_to_settings_and_defaults() -> None:
    assert policy() == DisruptionPolicy()


def test_the_annotations_are_read() -> None:
    budgets = '[{"nodes": "10%"}]'
    stated = policy(
        disruption_budgets=budgets,
        consolidation_threshold="0.5",
        termination_grace_period="2h",
        rebalance_recommendation="replace",
    )
    assert stated == DisruptionPolicy(
        consolidation_threshold=0.5, budgets=parse_budgets(budgets), drain_seconds=7200.0, replace_at_risk=True
    )


@pytest.mark.parametrize("text", ["", "much", "-1", "nan", "inf"])
def test_a_threshold_that_cannot_be_read_is_the_default(text: str) -> None:
    assert policy(consolidation_threshold=text).consolidation_threshold is None


@pytest.mark.parametrize("text", ["", "soon", "0s", "-1h"])
def test_a_node_drains_as_long_as_it_takes_where_the_grace_period_cannot_be_read(text: str) -> None:
    assert policy(termination_grace_period=text).drain_seconds == math.inf


@pytest.mark.parametrize("text", ["", "{}", '[{"nodes": "half"}]', pytest.param("[" * 100_000, id="too deep")])
def test_budgets_that_cannot_be_read_are_a_problem_of_the_policy_and_not_of_the_provisioner(text: str) -> None:
    stated = policy(disruption_budgets=text)
    assert stated.budgets is None
    assert stated.budgets_problem


def test_only_the_word_replace_asks_for_a_replacement_of_nodes_at_risk() -> None:
    assert not policy(rebalance_recommendation="true").replace_at_risk
