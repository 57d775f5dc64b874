"""Service Quotas' GetServiceQuota for EC2's vCPU quotas; moto knows those of VPC alone.

Source: Service Quotas API reference; codes and names: EC2 user guide "EC2 On-Demand Instance limits" and "Spot Instance
limits". The values are an established account's; the sandbox itself does not enforce them.
"""

from __future__ import annotations

from sandbox.aws.wire import AwsError, Params

VCPUS = 1152.0
NAMES = {
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-417A185B": "Running On-Demand P instances",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
}


class Quotas:
    """The quotas of one region."""

    def __init__(self, region: str, account: str) -> None:
        self._region = region
        self._account = account
        self.values: dict[str, float] = dict.fromkeys(NAMES, VCPUS)
        """vCPUs by code; scenarios change them."""

    def get(self, params: Params) -> Params:
        """GetServiceQuota. Raises NoSuchResourceException."""
        code = str(params.get("QuotaCode"))
        if params.get("ServiceCode") != "ec2" or code not in self.values:
            raise AwsError("NoSuchResourceException", f"The quota {params.get('ServiceCode')} {code} does not exist.")
        return {
            "Quota": {
                "ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
                "QuotaArn": f"arn:aws:servicequotas:{self._region}:{self._account}:ec2/{code}", "QuotaCode": code,
                "QuotaName": NAMES[code], "Value": self.values[code], "Unit": "None", "Adjustable": True,
                "GlobalQuota": False,
            }
        }  # fmt: skip
