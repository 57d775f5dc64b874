"""Check that some instance type meets a Provisioner's requirements, and say which requirement none meets."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.api.labels import CAPACITY_TYPE, ZONE
from controller.core.api.provisioner import Provisioner
from controller.core.cloud import InstanceType
from controller.core.scheduling.requirements import Requirement, Requirements


def unusable(provisioner: Provisioner, types: Iterable[InstanceType]) -> str:
    """Explain why no instance type meets the Provisioner's requirements; empty if one does.

    Offerings without capacity at the moment count, too.
    """
    requirements = Requirements.of(provisioner.requirements)
    if nothing := ", ".join(each.key for each in requirements.values() if not each.satisfiable):
        return f"spec.requirements on {nothing} exclude each other: no value meets all of them; relax one"
    types = tuple(types)
    if any(all(meets(requirement, each) for requirement in requirements.values()) for each in types):
        return ""
    alone = [str(r) for r in requirements.values() if not any(meets(r, each) for each in types)]
    if alone:
        return (
            f"no instance type on offer meets {' nor '.join(alone)} of spec.requirements; "
            "check the spelling, and what EC2 offers in the zones of the template's subnets"
        )
    return "spec.requirements exclude each other: each is met by some instance type, all at once by none; relax one"


def meets(requirement: Requirement, kind: InstanceType) -> bool:
    """Return whether some offering of the type meets one requirement, the others ignored."""
    if requirement.key == ZONE:
        return any(requirement.has(offering.zone) for offering in kind.offerings)
    if requirement.key == CAPACITY_TYPE:
        return any(requirement.has(offering.capacity_type) for offering in kind.offerings)
    own = kind.requirements.get(requirement.key)
    return own is None or own.intersection(requirement).satisfiable
