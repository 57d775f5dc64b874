"""The committed stack files, as Pulumi would hand them to the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from components.config.load import Stack, parse, values

ROOT = Path(__file__).parents[2]
STACKS = ("dev", "prod", "local")


def raw_config(name: str) -> dict[str, str]:
    """The keys of stacks/Pulumi.NAME.yaml; structured values as JSON, as the engine passes them."""
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{name}.yaml").read_text())
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in document["config"].items()}


def stack(name: str) -> Stack:
    """A committed stack."""
    return parse(values(raw_config(name)), ROOT)


def minimal(**keys: Any) -> dict[str, Any]:
    """The least that a stack must say, and more."""
    return {"cluster": {"name": "myeks"}, "controller": {"image": "registry.example/nodeless:1"}, **keys}
