"""CPU credits: the share of its vCPUs that a burstable or flex type has, and what more of them costs.

Sources: "Key concepts for burstable performance instances" (EC2 User Guide: baseline utilization per vCPU), the EC2
on-demand pricing page (surplus credits of T2, T3 and T3a $0.05, of T4g $0.04 a vCPU-hour, Linux, the same for spot),
and the pages of the flex families (a baseline of 40 %); November 2026.

T3, T3a and T4g run in unlimited mode unless an account's default says otherwise, T2 in standard mode. In standard mode
and on flex types CPU beyond the baseline is not billed, but pods go without it: it is worth as much there.
"""

from __future__ import annotations

from controller.aws.api.type_info import TypeInfo
from controller.core.cloud import CpuCredits

BASELINES = {
    "t2": {"nano": 0.05, "micro": 0.1, "small": 0.2, "medium": 0.2, "large": 0.3, "xlarge": 0.225, "2xlarge": 0.17},
    "t3": {"nano": 0.05, "micro": 0.1, "small": 0.2, "medium": 0.2, "large": 0.3, "xlarge": 0.4, "2xlarge": 0.4},
}
"""By family and size: the part of each vCPU. T3a and T4g have those of T3."""
SAME_AS_T3 = ("t3a", "t4g")
SURPLUS_PRICES = {"t4g": 0.04}
SURPLUS_PRICE = 0.05
"""$ for a vCPU-hour beyond the baseline."""
FLEX_BASELINE = 0.4


def cpu_credits(info: TypeInfo) -> CpuCredits | None:
    """Return the type's credits; None: all of its CPU is its own, or its baseline is not known."""
    family = info.family
    if family.endswith("-flex"):
        return CpuCredits(FLEX_BASELINE * info.vcpus, SURPLUS_PRICE)
    share = BASELINES.get("t3" if family in SAME_AS_T3 else family, {}).get(info.size)
    if share is None:
        return None
    return CpuCredits(share * info.vcpus, SURPLUS_PRICES.get(family, SURPLUS_PRICE))
