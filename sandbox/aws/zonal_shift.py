"""ARC's zonal shifts, as GetManagedResource tells them; moto lacks the service.

Scenarios write `resources`: nothing is registered at first. Source: ARC zonal shift API reference.
"""

from __future__ import annotations

from sandbox.aws.wire import AwsError, Params


class ManagedResources:
    """By ARN, what is registered with ARC: the members `zonalShifts` and `autoshifts` of its description."""

    def __init__(self) -> None:
        self.resources: dict[str, Params] = {}

    def get(self, params: Params) -> Params:
        """GetManagedResource."""
        arn = params["resourceIdentifier"]
        if arn not in self.resources:
            raise AwsError("ResourceNotFoundException", f"The resource {arn} is not registered", 404)
        return {"arn": arn, "appliedWeights": {}, "zonalShifts": [], "autoshifts": []} | self.resources[arn]
