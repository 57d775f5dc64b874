"""The requirements that admission adds to a Provisioner.

The webhook writes them into the object, and reading adds them too, so that a Provisioner means the same whether or not
the webhook saw it. Defaults are those of Karpenter v0.27's AWS webhook, with one difference: a label in spec.labels
counts as presence, where v0.27 adds a requirement that contradicts the label.
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
    """Return the requirements that a spec lacks.

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
    """Return the document with the defaults appended to spec.requirements; existing ones stay. Idempotent."""
    added = _missing(obj)
    if not added:
        return dict(obj)
    spec = mapping(obj.get("spec"))
    return {**obj, "spec": {**spec, "requirements": [*(spec.get("requirements") or ()), *added]}}


def default_patch(obj: Document) -> list[dict[str, Any]]:
    """Return the same as operations of a JSON patch (RFC 6902)."""
    added, spec = _missing(obj), obj.get("spec")
    if added and spec is None:
        return [{"op": "add", "path": "/spec", "value": {"requirements": added}}]
    if added and mapping(spec).get("requirements") is None:
        return [{"op": "add", "path": "/spec/requirements", "value": added}]
    return [{"op": "add", "path": "/spec/requirements/-", "value": each} for each in added]


def _missing(obj: Document) -> list[dict[str, Any]]:
    """Return the missing defaults; none if spec or requirements have a wrong type, which validation reports."""
    spec = obj.get("spec")
    held = spec.get("requirements") if isinstance(spec, dict) else None
    readable = (spec is None or isinstance(spec, dict)) and (held is None or isinstance(held, list))
    return default_requirements(mapping(spec)) if readable else []
