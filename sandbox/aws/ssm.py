"""SSM's public parameters for node images, which moto lacks. All other parameters are moto's.

Sources: SSM API reference (GetParameter, GetParameters, GetParametersByPath); the EKS, Bottlerocket and Canonical pages
named in images.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.aws.paging import page
from sandbox.aws.wire import AwsError, Params

PREFIXES = ("/aws/service/eks/", "/aws/service/bottlerocket/", "/aws/service/canonical/ubuntu/eks/")
_PUBLISHED_AT = 1_762_905_600.0


class PublicParameters:
    """Name -> value; scenarios may publish newer values with `publish`."""

    def __init__(self, region: str, values: Mapping[str, str]) -> None:
        self._region = region
        self._values = dict(values)
        self._versions: dict[str, int] = {}

    def publish(self, name: str, value: str) -> None:
        """Add a parameter or give it its next version. Raises ValueError for a name that is not public."""
        if not name.startswith(PREFIXES):
            raise ValueError(f"{name} is not under {', '.join(PREFIXES)}")
        self._values[name] = value
        self._versions[name] = self._versions.get(name, 1) + 1

    def get_parameter(self, params: Params) -> Params | None:
        """GetParameter; None when the name is moto's."""
        name = params.get("Name", "")
        if not name.startswith(PREFIXES):
            return None
        if name not in self._values:
            raise AwsError("ParameterNotFound", f"Parameter {name} not found.")
        return {"Parameter": self._entry(name)}

    def get_parameters(self, params: Params) -> Params | None:
        """GetParameters; None when no name is ours. Names of both kinds in one call are not supported."""
        names = params.get("Names", [])
        ours = [name for name in names if name.startswith(PREFIXES)]
        if not ours:
            return None
        if len(ours) < len(names):
            raise AwsError("ValidationException", "The sandbox serves public and own parameters in separate calls")
        known = [name for name in names if name in self._values]
        return {
            "Parameters": [self._entry(n) for n in known],
            "InvalidParameters": [n for n in names if n not in self._values],
        }

    def get_parameters_by_path(self, params: Params) -> Params | None:
        """GetParametersByPath with Recursive, MaxResults (10) and NextToken; None when the path is moto's."""
        path = params.get("Path", "").rstrip("/") + "/"
        if not path.startswith(PREFIXES):
            return None
        rest = {name: name.removeprefix(path) for name in self._values if name.startswith(path)}
        names = sorted(name for name, tail in rest.items() if params.get("Recursive") or "/" not in tail)
        some, token = page(names, params, default_size=10, largest=10, error_code="InvalidNextToken")
        answer: Params = {"Parameters": [self._entry(name) for name in some]}
        return answer | ({"NextToken": token} if token else {})

    def _entry(self, name: str) -> dict[str, Any]:
        return {
            "Name": name, "Type": "String", "Value": self._values[name], "Version": self._versions.get(name, 1),
            "LastModifiedDate": _PUBLISHED_AT, "ARN": f"arn:aws:ssm:{self._region}::parameter{name}",
            "DataType": "text",
        }  # fmt: skip
