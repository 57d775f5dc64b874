"""From a planned node to a launch: the token that makes it idempotent, and offerings that stay within the limits."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from controller.core.api.frozen import EMPTY
from controller.core.api.labels import CAPACITY_TYPE, ON_DEMAND, SPOT
from controller.core.api.node import Taint
from controller.core.api.nodetemplate import AWSNodeTemplate
from controller.core.api.pod import Pod, PodKey, PodSpec, Resources
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType, LaunchRequest, PricedOffering
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.machines.provisioner_limits import exceeded_by, total
from controller.core.provisioning.plan import PlannedNode
from controller.core.provisioning.pods.relaxation import required_choices
from controller.core.scheduling.requirements import Requirements
from controller.core.scheduling.taints import ON_DEMAND_TAINT
from controller.core.state.snapshot import Snapshot


def launch_token(
    provisioner: Provisioner, template: AWSNodeTemplate, pod_uids: Iterable[str], taken: Collection[str] = frozenset()
) -> str:
    """32 hex digits that name a plan item: this Provisioner, this generation of the template, these pods.

    A controller that restarts and plans the same item gets the same token, so that the cloud returns the instance that
    was launched already. `taken` are the tokens of nodes that exist: an item that is planned although
    its node is there (the pods turned out not to fit) is another item, and gets the next token.
    """
    parts = [
        provisioner.name,
        provisioner.uid,
        template.name,
        template.uid,
        str(template.generation),
        *sorted(pod_uids),
    ]
    tokens = (hashlib.sha256("\n".join([*parts, str(number)]).encode()).hexdigest()[:32] for number in count())
    return next(token for token in tokens if token not in taken)


def tokens_in_use(snapshot: Snapshot) -> frozenset[str]:
    """Launch tokens of all nodes, leaving ones included."""
    tokens = (node.node.annotations.get(LAUNCH_TOKEN, "") for node in snapshot.nodes.values())
    return frozenset(token for token in tokens if token)


@dataclass(frozen=True, slots=True)
class LaunchPolicy:
    """How launches for a removal command differ from those for pending pods."""

    leaving: frozenset[str] = frozenset()
    """Nodes that are removed once the launched ones run: limits and on-demand mix do not count them, so that both may
    exceed them together for a while."""
    own_tokens: frozenset[str] = frozenset()
    """Launch tokens that the command has on record: a planned node whose token is among them and whose node exists is
    not launched again."""
    on_record: bool = False
    """See LaunchRequest."""
    on_demand_taint: bool = False
    """The setting `onDemandTaint`."""
    open_together: bool = False
    """Whether nodes may be opened to pods together (`opening`)."""


@dataclass(frozen=True, slots=True)
class Allotment:
    """The offerings that one planned node may be launched as, the planned one first; or none, with the reason."""

    planned: PlannedNode
    offerings: tuple[PricedOffering, ...] = ()
    refusal: str = ""


def allot(
    planned: Sequence[PlannedNode], provisioner: Provisioner, types: Mapping[str, InstanceType], used: Resources
) -> tuple[Allotment, ...]:
    """Share out what the Provisioner's limits still allow on top of `used` among its planned nodes.

    The plan kept the limits of its snapshot, which may be some seconds old; this checks them again. Planned types are
    granted first, in the order of the plan. The rest is shared evenly: an alternative may exceed the planned type by
    that share at most, so that no limit is exceeded whichever offering the cloud picks.
    """
    granted: list[PlannedNode] = []
    refused: dict[int, str] = {}
    for index, node in enumerate(planned):
        if (entry := types.get(node.offering.instance_type)) is None:
            refused[index] = f"{node.offering.instance_type} is not in the catalog any more"
            continue
        refused[index] = exceeded_by(provisioner, used, entry.capacity)
        if not refused[index]:
            granted.append(node)
            used = total((used, entry.capacity))
    spare = {
        name: max(0, limit - used.get(name, 0)) // max(1, len(granted))
        for name, limit in (provisioner.limits or EMPTY).items()
    }
    return tuple(
        Allotment(node, refusal=refused[index]) if refused[index] else Allotment(node, _offerings(node, types, spare))
        for index, node in enumerate(planned)
    )


def _offerings(
    node: PlannedNode, types: Mapping[str, InstanceType], spare: Mapping[str, int]
) -> tuple[PricedOffering, ...]:
    base = types[node.offering.instance_type].capacity

    def fits(offering: PricedOffering) -> bool:
        if (entry := types.get(offering.instance_type)) is None:
            return False
        return all(entry.capacity.get(name, 0) - base.get(name, 0) <= extra for name, extra in spare.items())

    return tuple(dict.fromkeys((node.offering, *filter(fits, node.alternatives))))


def launch_request(
    allotment: Allotment,
    provisioner: Provisioner,
    template: AWSNodeTemplate,
    types: Mapping[str, InstanceType],
    token: str,
    on_record: bool = False,
    node_taints: tuple[Taint, ...] = (),
    opens_with: str = "",
) -> LaunchRequest:
    """Build the request for one planned node.

    types: all of its Provisioner, by name. The cloud may launch an offering that was not requested; its fit and price
    are then checked by its entry.
    """
    planned = allotment.planned
    return LaunchRequest(
        token=token,
        provisioner=provisioner,
        template=template,
        offerings=allotment.offerings,
        instance_types=types,
        labels=planned.labels,
        taints=planned.taints,
        startup_taints=planned.startup_taints,
        requests=planned.requests,
        on_record=on_record,
        first_choice=tuple(each for each in allotment.offerings if each in planned.first_choice),
        node_taints=node_taints,
        opens_with=opens_with,
    )


def node_taints(planned: PlannedNode, pods: Mapping[PodKey, Pod]) -> tuple[Taint, ...]:
    """Return the taint, if the node is on demand because some of its pods must be; `pods`: those of the plan.

    kube-scheduler prefers the emptiest node: without the taint, pods that may run on spot would take the room that was
    planned for pods which may not, and these would then need another on-demand node (ADR 79).
    """
    if planned.offering.capacity_type != ON_DEMAND or _allow_spot(planned.requirements):
        return ()
    specs = {id(spec): spec for spec in (pods[key].spec for key in planned.pods if key in pods)}
    return (ON_DEMAND_TAINT,) if any(map(_must_be_on_demand, specs.values())) else ()


def _must_be_on_demand(spec: PodSpec) -> bool:
    """Return whether a pod's node selector or required node affinity excludes spot."""
    return any(not any(map(_allow_spot, terms)) for terms in required_choices(spec))


def _allow_spot(requirements: Requirements) -> bool:
    return CAPACITY_TYPE not in requirements or requirements[CAPACITY_TYPE].accepts(SPOT)
