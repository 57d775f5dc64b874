"""The price book is published in a ConfigMap: at once, and then only when it changed, a quarter of an hour apart."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from typing import Any

from controller.core.state.snapshot import Snapshot
from controller.errors import NotFoundError
from controller.kube.resources import CONFIG_MAPS
from controller.reconcilers.bookkeeping.price_store import (
    CONFIG_MAP,
    FIRST_SECONDS,
    KEY,
    PAUSE_SECONDS,
    PricesReconciler,
)
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import World


def kept(world: World) -> Any:
    try:
        data = world.kube.get(CONFIG_MAPS, CONFIG_MAP, "kube-system")["binaryData"]
    except NotFoundError:
        return None
    return json.loads(gzip.decompress(base64.b64decode(data[KEY])))


def test_prices_are_published_when_known_and_when_they_changed(world: World) -> None:
    cloud = MemoryCloud()
    loop = PricesReconciler(replace(world.context, cloud=cloud))
    assert (loop.reconcile(Snapshot()), kept(world)) == (FIRST_SECONDS, None), "no prices yet"
    cloud.prices = {"generated": "1", "on_demand": {"m5.large": 0.1}}
    assert loop.reconcile(Snapshot()) == PAUSE_SECONDS
    assert kept(world) == cloud.prices
    cloud.prices = {"generated": "2", "on_demand": {"m5.large": 0.2}}
    assert 0 < loop.reconcile(Snapshot()) <= PAUSE_SECONDS, "not due"
    assert kept(world)["generated"] == "1"
    world.clock.ahead_seconds += PAUSE_SECONDS
    loop.reconcile(Snapshot())
    assert kept(world) == cloud.prices
    cloud.prices = {**cloud.prices, "generated": "3"}
    world.clock.ahead_seconds += PAUSE_SECONDS
    loop.reconcile(Snapshot())
    assert kept(world)["generated"] == "2", "read again, and the same: nothing is written"
