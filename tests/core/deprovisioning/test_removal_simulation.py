"""What the simulation of a removal comes to where the solver fails."""

from __future__ import annotations

from controller.core.deprovisioning.removal_simulation import Simulator
from tests import factories
from tests.core.deprovisioning.builders import owner, standing, types_of


def test_where_a_plan_cannot_be_optimised_the_pods_of_a_removed_node_get_the_first_plan() -> None:
    """No linear program can be solved with such a price, which is a valid setting."""
    market = types_of(("m5.large", "2", "8Gi", 0.1), ("m5.xlarge", "4", "16Gi", 0.2), ("m5.metal", "96", "384Gi", 1e20))
    pods = [{"cpu": "48"}, *[{"cpu": "700m"}] * 10, *[{"cpu": "1100m"}] * 20]
    removed = standing("metal", "m5.metal", *pods, types=market)
    view = factories.snapshot(nodes=[removed], provisioners=[owner()])
    outcome = Simulator(view, {"default": market}).simulate([removed])
    assert outcome.problem == ""
    assert sum(len(node.pods) for node in outcome.replacements) == len(pods)
