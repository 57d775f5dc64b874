"""subnetSelector and securityGroupSelector as EC2 filters.

As in Karpenter v0.27, `aws-ids` is a comma list of ids; the value `*` means that the tag exists; any other value is a
comma list of values, EC2's wildcards allowed, of which the tag must have one. All entries must hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from controller.core.api.nodetemplate import ID_KEYS, comma_list

if TYPE_CHECKING:
    from mypy_boto3_ec2.type_defs import FilterTypeDef


def filters(selector: Mapping[str, str], id_filter: str) -> list[FilterTypeDef]:
    """Return the filters of a selector; `id_filter` is the API's name for ids (`subnet-id`, `group-id`)."""
    wanted: list[FilterTypeDef] = []
    for key, value in sorted(selector.items()):
        if key in ID_KEYS:
            wanted.append({"Name": id_filter, "Values": comma_list(value)})
        elif value == "*":
            wanted.append({"Name": "tag-key", "Values": [key]})
        else:
            wanted.append({"Name": f"tag:{key}", "Values": comma_list(value)})
    return wanted


def shown(selector: Mapping[str, str]) -> str:
    """Return a selector as text, for messages."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in sorted(selector.items())) + "}"
