"""A real Prometheus beside the sandbox: built once by Go, it scrapes the controller and answers what dashboards ask.

`promtool` comes with it. Both are kept in `~/.cache/nodeless/prometheus` (`XDG_CACHE_HOME` is honoured).
"""

from __future__ import annotations

import json
import math
import os
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sandbox.kubebinaries import Module, Say, build, cache_folder, missing
from sandbox.processes import Child, Processes, ProcessFailedError

_PATH = "github.com/prometheus/prometheus"
MODULE = Module(
    _PATH,
    "v0.305.2",  # Prometheus 3.5
    {name: f"{_PATH}/cmd/{name}" for name in ("prometheus", "promtool")},
)
READY_SECONDS = 60.0

Series = tuple[Mapping[str, str], tuple[tuple[float, float], ...]]
"""Labels, and (Unix seconds, value) pairs in order; values that are no number are left out."""


def find_or_build(say: Say) -> Path:
    """The folder with both binaries. Raises AssetsMissingError when Go cannot build them."""
    folder = cache_folder().with_name("prometheus")
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing(folder, tuple(MODULE.binaries)):
        say(f"building {name} {MODULE.version} into {folder}: some minutes, once")
        build(MODULE, name, folder)
    return folder


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that scrapes, and its HTTP API."""

    child: Child
    url: str

    def instant(self, query: str, at: float) -> list[Series]:
        """The query's value at a moment (Unix seconds), of each series. Raises HTTPError for a query that is wrong."""
        found = self._ask("query", {"query": query, "time": str(at)})["result"]
        return [(each["metric"], _pairs([each["value"]])) for each in found]

    def over(self, query: str, start: float, end: float, step_seconds: float) -> list[Series]:
        """Its values between two moments."""
        asked = {"query": query, "start": str(start), "end": str(end), "step": str(step_seconds)}
        return [(each["metric"], _pairs(each["values"])) for each in self._ask("query_range", asked)["result"]]

    def rules(self) -> list[dict[str, Any]]:
        """Every rule with its `health` and `state`."""
        return [rule for group in self._ask("rules", {})["groups"] for rule in group["rules"]]

    def _ask(self, what: str, parameters: Mapping[str, str]) -> Any:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own loopback endpoint
            return json.load(answer)["data"]


def _pairs(values: list[list[Any]]) -> tuple[tuple[float, float], ...]:
    numbers = ((float(at), float(value)) for at, value in values)
    return tuple((at, value) for at, value in numbers if math.isfinite(value))


def start(
    processes: Processes, folder: Path, target: str, *, port: int, every_seconds: int, rules: Path, binaries: Path
) -> Prometheus:
    """Start one that scrapes `target` (HOST:PORT) and has the rules of a file; `folder` takes its data.

    Raises ProcessFailedError when it does not come up.
    """
    data = folder / "prometheus"
    data.mkdir(parents=True)
    config = {
        "global": {"scrape_interval": f"{every_seconds}s", "evaluation_interval": f"{every_seconds}s"},
        "rule_files": [str(rules.resolve())],
        "scrape_configs": [{"job_name": "karpenter", "static_configs": [{"targets": [target]}]}],
    }
    path = data / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    command = [
        str(binaries / "prometheus"),
        f"--config.file={path}",
        f"--storage.tsdb.path={data / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    child = processes.start("prometheus", command, dict(os.environ), python=False)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and child.alive:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):  # noqa: S310 - our own loopback endpoint
                return Prometheus(child, url)
        except OSError:
            time.sleep(0.2)
    raise ProcessFailedError(f"Prometheus did not come up:\n{child.tail()}")
