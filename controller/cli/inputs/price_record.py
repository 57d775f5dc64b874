"""The price book of a cluster: the list prices that its controller publishes in a ConfigMap."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from controller.cli.inputs.sources import RegionCatalog, read_catalog
from controller.core.api.document import Document
from controller.core.untrusted_json import MOST_BYTES, read_object, unpacked
from controller.errors import KubeError
from controller.kube.client import KubeClient
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.price_store import CONFIG_MAP, KEY


def price_book(kube: KubeClient) -> RegionCatalog | None:
    """Return the cluster's price book; None where there is none, or without the right to read it."""
    try:
        return published(kube.list(CONFIG_MAPS, field_selector=f"metadata.name={CONFIG_MAP}"))
    except KubeError:
        return None


def published(config_maps: Iterable[Document]) -> RegionCatalog | None:
    """Return the price book in the first of these ConfigMaps that can be read."""
    for each in config_maps:
        try:
            packed = base64.b64decode(str((each.get("binaryData") or {}).get(KEY, "")), validate=True)
            return read_catalog(read_object(unpacked(packed, MOST_BYTES)))
        except ValueError:  # of base64, gzip, JSON, or of another form
            continue
    return None
