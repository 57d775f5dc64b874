"""One door to both control planes: the embedded API server, or the real one behind KUBEBUILDER_ASSETS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sandbox import apiserver, realkube
from sandbox.apiserver import Running

Kind = Literal["embedded", "real"]


@contextmanager
def start(kind: Kind, *, state: Path, components: Sequence[str] = ()) -> Iterator[Running]:
    """Runs a control plane until the block ends and writes `state`/kubeconfig.

    `components` (of `realkube.COMPONENTS`) are for the real one; beside the embedded server `sandbox.world` plays them.
    Raises `realkube.AssetsMissingError` when the real one is asked for and is not there.
    """
    if kind == "embedded":
        with apiserver.serve(kubeconfig=state / "kubeconfig") as running:
            yield running
        return
    with realkube.serve(state=state, components=components) as plane:
        yield realkube.running(plane)
