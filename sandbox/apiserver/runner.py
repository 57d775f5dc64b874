"""Starting and stopping: a server in a thread of this process (`serve`), and the kubeconfig that leads to it."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml

from sandbox.apiserver.api import API
from sandbox.apiserver.server import Server


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers: its URL, the bearer token that it knows, the kubeconfig that says both.

    `certificate` is what to trust when the URL is https (the real control plane).
    """

    url: str
    token: str
    kubeconfig: Path | None = None
    certificate: Path | None = None


@contextmanager
def serve(
    *,
    port: int = 0,
    kubeconfig: Path | None = None,
    state: Path | None = None,
    api: API | None = None,
    token: str | None = None,
) -> Iterator[Running]:
    """Runs a server on its own thread until the block ends. Raises OSError when the port is taken.

    `state` names a file from which objects are loaded (when it exists) and to which they are saved at the end.
    """
    token = secrets.token_hex(16) if token is None else token
    server = Server(prepared(api or API(), state), port=port, token=token)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="sandbox-apiserver", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(timeout=30)
        if kubeconfig is not None:
            write_kubeconfig(kubeconfig, server.url, token)
        yield Running(server.url, token, kubeconfig)
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=30)
        loop.close()
        save(server.api, state)


def prepared(api: API, state: Path | None) -> API:
    """Loads the saved objects, if there are any."""
    if state is not None and state.exists():
        api.store.load(orjson.loads(state.read_bytes()))
    return api


def save(api: API, state: Path | None) -> None:
    """Saves all objects in one step, so that a crash leaves the old file or the new one."""
    if state is None:
        return
    state.parent.mkdir(parents=True, exist_ok=True)
    fresh = state.with_suffix(state.suffix + ".tmp")
    fresh.write_bytes(orjson.dumps(api.store.dump()))
    fresh.replace(state)


def write_kubeconfig(path: Path, url: str, token: str, *, certificate_authority: str = "") -> None:
    """Writes a kubeconfig that only its owner can read."""
    cluster: dict[str, Any] = {"server": url}
    if certificate_authority:
        cluster["certificate-authority"] = certificate_authority
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": "sandbox", "user": {"token": token}}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        yaml.safe_dump(document, file, sort_keys=False)
