"""What a stack has made, in a file: the engine's state, as far as the sandbox needs one.

A resource that is in it is changed, one that is not is created: then something of the same name is in the way, unless
the program imports it. Secrets are left out of the file.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from pulumi.runtime import rpc

HIDDEN = "[secret]"


class State:
    """Thread-safe: the program's resources are made at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._resources: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def has(self, type_: str, name: str) -> bool:
        """Whether the stack has made it."""
        return f"{type_}::{name}" in self._resources

    def keep(self, type_: str, name: str, identity: str, inputs: dict[str, Any]) -> None:
        """Keep it, and write the file: whatever fails later, this is there."""
        shown = {key: HIDDEN if rpc.is_rpc_secret(value) else value for key, value in inputs.items()}
        with self._lock:
            self._resources[f"{type_}::{name}"] = {"id": identity, "inputs": shown}
            self._path.write_text(json.dumps(self._resources, indent=1))
