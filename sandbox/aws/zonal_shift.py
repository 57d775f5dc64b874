"""ARC's zonal shifts: StartZonalShift, and what GetManagedResource tells; moto lacks the service.

A resource is registered with its first shift, or by scenarios, which write `resources`: nothing is at first. Source:
ARC zonal shift API reference.
"""

from __future__ import annotations

import uuid

from sandbox.aws.clock import utc
from sandbox.aws.wire import AwsError, Params

SECONDS = {"m": 60, "h": 3600}


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

    def start(self, params: Params, now: float) -> Params:
        """StartZonalShift: it takes the place of another one by hand."""
        arn, lasts = params["resourceIdentifier"], params["expiresIn"]
        shift = {
            "zonalShiftId": str(uuid.uuid4()),
            "resourceIdentifier": arn,
            "awayFrom": params["awayFrom"],
            "startTime": utc(now),
            "expiryTime": utc(now + int(lasts[:-1]) * SECONDS[lasts[-1]]),
            "comment": params["comment"],
        }
        self.resources.setdefault(arn, {})["zonalShifts"] = [shift | {"appliedStatus": "APPLIED"}]
        return shift | {"status": "ACTIVE"}
