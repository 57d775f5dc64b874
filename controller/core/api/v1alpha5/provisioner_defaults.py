"""The defaults that admission adds to a Provisioner, as a function from document to document.

The same function serves the mutating webhook and reading, so that a Provisioner means the same whether or not the
webhook saw it. Rules are the peer's (its AWS webhook), with one difference: a label in spec.labels counts as presence,
where the peer adds a requirement that contradicts the label.
"""

from __future__ import annotations

from typing import Any, Final

from controller.core.api import labels
from controller.core.api.document import Document, mapping, objects, text

_SELECTS_TYPES: Final = frozenset(
    {labels.INSTANCE_TYPE, labels.INSTANCE_FAMILY, labels.INSTANCE_CATEGORY, labels.INSTANCE_GENERATION}
)
_SINGLE_DEFAULTS: Final = ((labels.OS, "linux"), (labels.ARCH, "amd64"), (labels.CAPACITY_TYPE, labels.ON_DEMAND))
_DEFAULT_CATEGORIES: Final = ("c", "m", "r")
_DEFAULT_GENERATION_ABOVE: Final = "2"


def default_requirements(spec: Document) -> list[dict[str, Any]]:
    """The requirements that a spec lacks.

    They are os linux, arch amd64, capacity-type on-demand and, when nothing selects types, category c, m or r with a
    generation above 2. A requirement with any operator, and a label, count as presence.
    """
    present = {labels.normalize_label(text(each.get("key"))) for each in objects(spec.get("requirements"))}
    present |= {labels.normalize_label(key) for key in mapping(spec.get("labels")) if isinstance(key, str)}
    added = [{"key": key, "operator": "In", "values": [value]} for key, value in _SINGLE_DEFAULTS if key not in present]
    if not present & _SELECTS_TYPES:
        added.append({"key": labels.INSTANCE_CATEGORY, "operator": "In", "values": list(_DEFAULT_CATEGORIES)})
        added.append({"key": labels.INSTANCE_GENERATION, "operator": "Gt", "values": [_DEFAULT_GENERATION_ABOVE]})
    return added


def default_provisioner(obj: Document) -> dict[str, Any]:
    """The document with the defaults appended to spec.requirements; nothing that is there changes. Idempotent.

    A document whose spec or requirements have the wrong type comes back as it is: validation says what is wrong.
    """
    spec = obj.get("spec")
    held = spec.get("requirements") if isinstance(spec, dict) else None
    if not (spec is None or isinstance(spec, dict)) or not (held is None or isinstance(held, list)):
        return dict(obj)
    added = default_requirements(mapping(spec))
    if not added:
        return dict(obj)
    return {**obj, "spec": {**mapping(spec), "requirements": [*(held or ()), *added]}}
