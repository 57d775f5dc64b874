"""The controller's settings: the ConfigMap `karpenter-global-settings`.

Names, defaults and meaning are Karpenter v0.27's; where it takes a wrong value in silence (an unknown
`aws.nodeNameConvention`, an environment variable that cannot be read, an unknown key), we refuse it with a remedy.
Keys that it does not have are off, or harmless, by default: `aws.enablePrefixDelegation`, `aws.instanceStorePolicy`,
`aws.enableZoneBalance`, `aws.alternativePriceTolerance`, `aws.priceRules`, `weightPremium`, `preferencePremium`,
`disruptionBudgets`, `terminationGracePeriod`, `surgeSingleReplicas`.
Nothing here reads files, the environment or the network: mappings come in, frozen values go out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from controller.core.api.duration import duration_seconds
from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import protected_tag
from controller.core.api.strict import Report, did_you_mean
from controller.core.deprovisioning.budgets import Budget, parse_budgets
from controller.core.guards.spending import LaunchLimits, parse_launch_limits
from controller.core.price_rules import PriceRule, parse_price_rules
from controller.core.provisioning.plan import SolveOptions
from controller.errors import ValidationError

T = TypeVar("T")

CONFIG_MAP: Final = "karpenter-global-settings"
NODE_NAME_CONVENTIONS: Final = ("ip-name", "resource-name")
INSTANCE_STORE_POLICIES: Final = ("", "RAID0")

LIVE: Final = (
    "batch_max_duration_seconds",
    "batch_idle_duration_seconds",
    "weight_premium",
    "preference_premium",
    "disruption_budgets",
    "termination_grace_period_seconds",
    "launch_limits",
)
"""Fields of Settings that decide what is done next, and nothing about what is there already."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


@dataclass(frozen=True, slots=True)
class Settings:
    """`karpenter-global-settings`. Those of LIVE change while the controller runs, the others by a restart."""

    cluster_name: str
    """`aws.clusterName`, required: tags, discovery and the endpoint's look-up go by it."""
    batch_max_duration_seconds: float = 10.0
    """`batchMaxDuration`: a batch of pending pods closes at the latest this long after its first pod."""
    batch_idle_duration_seconds: float = 1.0
    """`batchIdleDuration`: a batch closes when no further pod came for this long."""
    drift_enabled: bool = False
    """`featureGates.driftEnabled`: replace nodes whose AMI no longer is what their template asks for."""
    cluster_endpoint: str = ""
    """`aws.clusterEndpoint`: the API server's URL that nodes join; empty: asked of eks:DescribeCluster."""
    default_instance_profile: str = ""
    """`aws.defaultInstanceProfile`: for node templates that name none."""
    enable_pod_eni: bool = False
    """`aws.enablePodENI`: offer `vpc.amazonaws.com/pod-eni` where the instance type has branch interfaces."""
    enable_eni_limited_pod_density: bool = True
    """`aws.enableENILimitedPodDensity`: pods per node follow the type's network interfaces; else 110."""
    isolated_vpc: bool = False
    """`aws.isolatedVPC`: there is no way out to the Pricing API; the built-in prices hold."""
    node_name_convention: str = "ip-name"
    """`aws.nodeNameConvention`: `ip-name` (private DNS name) or `resource-name` (instance id)."""
    vm_memory_overhead_percent: float = 0.075
    """`aws.vmMemoryOverheadPercent`: the hypervisor's share of a type's memory; a fraction, 0.075 is 7.5 %."""
    interruption_queue_name: str = ""
    """`aws.interruptionQueueName`: the SQS queue of interruption events; empty: they are not handled."""
    tags: FrozenMap[str, str] = EMPTY
    """`aws.tags`: a JSON object; tags on everything that the controller makes in AWS."""
    enable_prefix_delegation: bool = False
    """`aws.enablePrefixDelegation`: the VPC CNI has ENABLE_PREFIX_DELEGATION, so that an interface's addresses are
    prefixes of 16. Nodes of Nitro types take that many more pods, up to 110 (250 from 30 vCPUs on: AWS's advice)."""
    instance_store_policy: str = ""
    """`aws.instanceStorePolicy`: `RAID0` makes the NVMe disks of types that have some the node's data device, as one
    array (AL2, AL2023); empty: the block device mappings'."""
    enable_zone_balance: bool = False
    """`aws.enableZoneBalance`: of zones that cost about the same, launch where the Provisioner has fewest instances."""
    alternative_price_tolerance: float = 0.25
    """`aws.alternativePriceTolerance`: alternatives that cost more than the cheapest offering left by over this share
    are not sent along, lest EC2 undo what the plan saves; 0.25 is 25 %. Each lack of capacity doubles it."""
    spot_offerings: int = 5
    """`aws.spotOfferings`: a spot node asks for so many offerings where that many would do, even if the last of them
    cost up to twice the tolerance; 1 leaves it to the tolerance."""
    spot_pool_share: float = 0.5
    """`aws.spotPoolShare`: the part of a workload's replicas that one spot pool (type and zone) may carry, where others
    cost about the same; 1 lets a pool carry all."""
    weight_premium: float | None = None
    """`weightPremium`: what a Provisioner's weight is worth, as a share of the price: 0.05 takes a heavier Provisioner
    unless it costs over 5 % more. Unset: weight always decides, as in the peer."""
    preference_premium: float = 2.0
    """`preferencePremium`: what a preference may cost, as a share of the pod's price without it: 2 honours it unless
    it more than triples the price, 0 only where it is free."""
    disruption_budgets: tuple[Budget, ...] = ()
    """`disruptionBudgets`: a JSON list of budgets (core.deprovisioning.budgets) for Provisioners without the annotation
    karpenter.sh/disruption-budgets; unset: 10 % of a Provisioner's nodes at once, empty ones uncounted."""
    termination_grace_period_seconds: float | None = None
    """`terminationGracePeriod`: how long a node may drain; then its pods and instance go whatever PodDisruptionBudgets
    say. The annotation karpenter.sh/termination-grace-period on a Provisioner wins. Unset: as long as it takes."""
    surge_single_replicas: bool = False
    """`surgeSingleReplicas`: before a node goes of our own will, the only pod of a Deployment on it starts elsewhere,
    by a rollout. Needs the right to patch Deployments, which the stack gives along with the setting."""
    price_rules: tuple[PriceRule, ...] = ()
    """`aws.priceRules`: a JSON list of discounts and commitments, so that prices are what you pay (core.pricerules)."""
    launch_limits: LaunchLimits | None = None
    """`launchLimits`: a JSON object that bounds what all Provisioners together launch, such as `{"pricePerHour": 50,
    "nodesPerMinute": 20, "resources": {"cpu": "1000"}}`; each member is optional (core.guards.spending)."""

    @classmethod
    def parse(cls, data: Mapping[str, str]) -> Settings:
        """From the ConfigMap's data. A missing key has its default. Raises ValidationError with all problems."""
        report = Report()
        known = {key: name for name, (key, _) in _SETTINGS.items()}
        for key in data:
            if key not in known:
                report.add(key, "unknown key", did_you_mean(key, known))
        values = {
            name: value
            for name, (key, read) in _SETTINGS.items()
            if key in data and (value := read_key(report, key, data[key], read)) is not None
        }
        if "aws.clusterName" not in data:
            report.add("aws.clusterName", "is missing", "set it to the name of the EKS cluster")
        if report.problems:
            raise ValidationError(f"ConfigMap {CONFIG_MAP}", report.problems)
        return cls(**values)

    def with_live_part_of(self, other: Settings) -> Settings:
        """These settings, with what of `other` can change while the controller runs."""
        return replace(self, **{name: getattr(other, name) for name in LIVE})

    def keys_that_differ(self, other: Settings) -> list[str]:
        """The ConfigMap's keys of what is not the same in both."""
        return [key for name, (key, _) in _SETTINGS.items() if getattr(self, name) != getattr(other, name)]

    def solve_options(self) -> SolveOptions:
        """How plans are made under these settings."""
        return SolveOptions(
            weight_premium=self.weight_premium,
            preference_premium=self.preference_premium,
            price_spread=self.alternative_price_tolerance,
            spot_offerings=self.spot_offerings,
            spot_pool_share=self.spot_pool_share,
        )


def read_key(report: Report, key: str, text: str, read: Callable[[str], T]) -> T | None:
    """What `read` makes of a key's text; None, with the problem and its remedy reported, where it raises ValueError."""
    if not isinstance(text, str):
        report.add(key, f"must be a string, not {text!r}", "quote it")
        return None
    try:
        return read(text)
    except ValueError as error:
        message, _, remedy = str(error).partition(": ")
        report.add(key, message, remedy)
        return None


def _text(text: str) -> str:
    return text


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty: write a name")
    return text


def boolean(text: str) -> bool:
    """Go's words for true and false. Raises ValueError."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"{text!r} is not a boolean: write true or false")


def _duration(text: str) -> float:
    seconds = duration_seconds(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is not above zero: write a positive duration, such as 1s")
    return seconds


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise ValueError(f"{text!r} is not a fraction from 0 to below 1: write 0.075 for 7.5 %")
    return value


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} is not a share of 0 or more: write 0.25 for 25 %")
    return value


def _part(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not a part above 0 and up to 1: write 0.5 for one half")
    return value


def _store_policy(text: str) -> str:
    if text not in INSTANCE_STORE_POLICIES:
        raise ValueError(f"{text!r} is not an instance store policy: write RAID0, or leave it empty")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        whole = bool(parts.scheme and parts.hostname)
    except ValueError:
        whole = False
    if text and not whole:
        raise ValueError(f"{text!r} is not an absolute URL: write scheme and host, such as https://example.com")
    return text


def _convention(text: str) -> str:
    if text not in NODE_NAME_CONVENTIONS:
        raise ValueError(f"{text!r} is not a node name convention: use {' or '.join(NODE_NAME_CONVENTIONS)}")
    return text


def _tags(text: str) -> FrozenMap[str, str]:
    example = 'write a JSON object of strings, such as {"team": "web"}'
    try:
        tags = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise ValueError(f"is not JSON: {example}") from None
    if tags is None:
        return EMPTY
    if not isinstance(tags, dict) or not all(isinstance(value, str) for value in tags.values()):
        raise ValueError(f"is not a map of strings: {example}")
    if not all(tags):
        raise ValueError(f"has an empty key: {example}")
    if reserved := sorted(filter(protected_tag, tags)):
        raise ValueError(f"has keys that only the controller or AWS may set ({', '.join(reserved)}): take them out")
    return FrozenMap(tags)


def positive(text: str) -> int:
    """An integer of 1 or more. Raises ValueError."""
    number = integer(text)
    if number < 1:
        raise ValueError(f"{text!r} is not above zero: write a positive integer")
    return number


def integer(text: str) -> int:
    """Digits, perhaps with a sign. Raises ValueError."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise ValueError(f"{text!r} is not an integer: write digits alone")
    return int(text)


_SETTINGS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "batch_max_duration_seconds": ("batchMaxDuration", _duration),
    "batch_idle_duration_seconds": ("batchIdleDuration", _duration),
    "drift_enabled": ("featureGates.driftEnabled", boolean),
    "cluster_name": ("aws.clusterName", _name),
    "cluster_endpoint": ("aws.clusterEndpoint", _url),
    "default_instance_profile": ("aws.defaultInstanceProfile", _text),
    "enable_pod_eni": ("aws.enablePodENI", boolean),
    "enable_eni_limited_pod_density": ("aws.enableENILimitedPodDensity", boolean),
    "isolated_vpc": ("aws.isolatedVPC", boolean),
    "node_name_convention": ("aws.nodeNameConvention", _convention),
    "vm_memory_overhead_percent": ("aws.vmMemoryOverheadPercent", _fraction),
    "interruption_queue_name": ("aws.interruptionQueueName", _text),
    "tags": ("aws.tags", _tags),
    "enable_prefix_delegation": ("aws.enablePrefixDelegation", boolean),
    "instance_store_policy": ("aws.instanceStorePolicy", _store_policy),
    "enable_zone_balance": ("aws.enableZoneBalance", boolean),
    "alternative_price_tolerance": ("aws.alternativePriceTolerance", _share),
    "spot_offerings": ("aws.spotOfferings", positive),
    "spot_pool_share": ("aws.spotPoolShare", _part),
    "weight_premium": ("weightPremium", _share),
    "preference_premium": ("preferencePremium", _share),
    "disruption_budgets": ("disruptionBudgets", parse_budgets),
    "termination_grace_period_seconds": ("terminationGracePeriod", _duration),
    "surge_single_replicas": ("surgeSingleReplicas", boolean),
    "price_rules": ("aws.priceRules", parse_price_rules),
    "launch_limits": ("launchLimits", parse_launch_limits),
}
"""Key and reader of each field."""


def setting_keys() -> tuple[str, ...]:
    """Every key that the ConfigMap may have, in the order of the fields of Settings."""
    return tuple(_SETTINGS[each.name][0] for each in fields(Settings))
