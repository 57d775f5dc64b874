"""The requirement algebra end to end. Its laws are in tests/core/scheduling.

The hints for misspelt labels, are in test_labels.
"""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import SelectorRequirement
from controller.core.audit.matching import expression_holds
from controller.core.cloud import InstanceType
from controller.core.scheduling.requirements import Requirement, Requirements
from tests.conformance.fixtures import SMALL, Cluster, fake_type, six_types, terms
from tests.core.provisioning.plans import BRIEFLY
from tests.factories import pending_pod, provisioner, requirement

KEY = "example.com/key"
OPERATORS: dict[str, SelectorRequirement] = {
    "exists": requirement(KEY, "Exists"),
    "absent": requirement(KEY, "DoesNotExist"),
    "in-a": requirement(KEY, "In", "A"),
    "in-b": requirement(KEY, "In", "B"),
    "in-a-b": requirement(KEY, "In", "A", "B"),
    "not-a": requirement(KEY, "NotIn", "A"),
    "in-1": requirement(KEY, "In", "1"),
    "in-9": requirement(KEY, "In", "9"),
    "in-1-9": requirement(KEY, "In", "1", "9"),
    "not-1-2": requirement(KEY, "NotIn", "1", "2"),
    "gt-1": requirement(KEY, "Gt", "1"),
    "gt-9": requirement(KEY, "Gt", "9"),
    "lt-1": requirement(KEY, "Lt", "1"),
    "lt-9": requirement(KEY, "Lt", "9"),
}
VALUES = (None, "A", "B", "other", "-1", "0", "1", "2", "5", "9", "10")


@pytest.mark.parametrize("alias", sorted(keys.NORMALIZED))
def test_older_names_are_read_as_the_present_ones(alias: str) -> None:
    assert Requirement.of(alias, "In", ("x",)) == Requirement.of(keys.NORMALIZED[alias], "In", ("x",))
    both = Requirements([Requirement.of(alias, "In", ("x", "y")), Requirement.of(keys.NORMALIZED[alias], "In", ("y",))])
    assert both[keys.NORMALIZED[alias]].values == {"y"}


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "absent"])
def test_a_node_gets_a_value_that_its_requirement_accepts(name: str) -> None:
    """NotIn alone may also leave the label out, as kube-scheduler reads it."""
    demand = OPERATORS[name]
    value = Cluster([provisioner(requirements=[demand])], catalog()).provision(pending_pod()).only.labels.get(KEY)
    assert expression_holds(demand, value)


def catalog() -> list[InstanceType]:
    """One type."""
    return [each for each in six_types() if each.name == SMALL]


@pytest.mark.parametrize("of_pool", [*OPERATORS, "undefined"])
def test_a_pod_is_placed_if_some_value_suits_it_and_the_provisioner(of_pool: str) -> None:
    """Every operator of a pod against every operator of a Provisioner, for a key that it defines or does not."""
    own = [OPERATORS[of_pool]] if of_pool in OPERATORS else []
    pods = {name: pending_pod(name=name, required_node_affinity=terms([demand])) for name, demand in OPERATORS.items()}
    done = Cluster([provisioner(requirements=own)], catalog(), options=BRIEFLY).provision(*pods.values())
    possible = [v for v in VALUES if all(expression_holds(e, v) for e in own)] if own else [None]
    expected = {name for name, e in OPERATORS.items() if any(expression_holds(e, value) for value in possible)}
    assert set(pods) - done.left == expected


@pytest.mark.parametrize("of_type", ["1", "9", None])
def test_a_pod_is_placed_if_the_type_s_own_label_suits_it(of_type: str | None) -> None:
    """For a well-known key: the value is the type's, or the type has none."""
    key = keys.INSTANCE_GPU_COUNT
    kind = fake_type("typed", labels={key: of_type} if of_type else {})
    pods = {
        name: pending_pod(name=name, required_node_affinity=terms([SelectorRequirement(key, e.operator, e.values)]))
        for name, e in OPERATORS.items()
    }
    done = Cluster(catalog=[kind]).provision(*pods.values())
    assert set(pods) - done.left == {name for name, e in OPERATORS.items() if expression_holds(e, of_type)}
