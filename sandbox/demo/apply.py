"""Put YAML files into the cluster, as `kubectl apply` would the first time: create, or merge into what is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from sandbox.world.client import ApiClient, ApiError
from sandbox.world.resources import Obj

Resources = dict[tuple[str, str], tuple[str, bool]]
"""(apiVersion, kind) → (plural, namespaced)."""


def load(paths: Iterable[Path]) -> list[Obj]:
    """Every document of the files, in order."""
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


async def apply(client: ApiClient, documents: Iterable[Obj]) -> None:
    """Create or replace each object. Raises ApiError when the server refuses one, KeyError for no such kind."""
    for document in documents:
        group_version, kind = document["apiVersion"], document["kind"]
        plural, namespaced = await address(client, group_version, kind)
        root = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
        meta = document["metadata"]
        scope = f"/namespaces/{meta.get('namespace', 'default')}" if namespaced else ""
        collection = f"{root}{scope}/{plural}"
        try:
            await client.request("POST", collection, body=document)
        except ApiError as error:
            if not (error.conflict and error.reason == "AlreadyExists"):
                raise
            held = await client.request("GET", f"{collection}/{meta['name']}")
            body = {**document, "metadata": {**held["metadata"], **meta}}
            await client.request("PUT", f"{collection}/{meta['name']}", body=body)


async def address(client: ApiClient, group_version: str, kind: str) -> tuple[str, bool]:
    """Where a kind lives, by discovery; a CRD that was just created may take a moment to be served."""
    root = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
    for _ in range(100):
        found = await _discover(client, root, kind)
        if found is not None:
            return str(found["name"]), bool(found["namespaced"])
        await asyncio.sleep(0.1)
    raise KeyError(f"the API server serves no {kind} in {group_version}")


async def _discover(client: ApiClient, root: str, kind: str) -> dict[str, Any] | None:
    try:
        listed = await client.request("GET", root)
    except ApiError as error:
        if error.not_found:
            return None
        raise
    return next((r for r in listed["resources"] if r["kind"] == kind and "/" not in r["name"]), None)
