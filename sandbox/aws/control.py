"""The sandbox's own door, /sandbox/...: scripts what breaks, shows what was called and what runs. JSON both ways.

    GET    calls[?action=A]      counts, errors and the last calls with their arguments; DELETE forgets them
    GET    instances[?state=S,T] every instance with state, tags, user data (base64), volumes
    GET    faults                the rules in force; DELETE faults[?id=N] removes one or all
    POST   faults                {"service": "ec2", "action": "CreateFleet", "code": "RequestLimitExceeded", "times": 3}
    POST   shortages             {"instanceType": "c5.*", "zone": "ap-northeast-2a", "capacityType": "spot"}
    POST   delays                {"pending_seconds": 1, "unseen_seconds": 10}
    POST   prices                {"instanceType": "c5.large", "zone": Z, "capacityType": "spot", "price": 0.03}
    POST   parameters            {"name": "/aws/service/eks/...", "value": "ami-..."}: a newly published image
    POST   cluster               {"endpoint": "https://...", "certificateAuthorityData": "..."}
    POST   interrupt             {"instanceId": "i-...", "kind": "spot" | "rebalance" | "state-change" | "health"}

Fields and their meaning: faults.Fault, faults.Shortage, instances.Delays, interruption.KINDS.
"""

from __future__ import annotations

import dataclasses
import json
import urllib.parse
from collections.abc import Callable
from typing import Any

from sandbox.aws.calls import Call, CallLog
from sandbox.aws.ec2.instances import Instance
from sandbox.aws.eks import KubernetesEndpoint
from sandbox.aws.faults import Fault, ScenarioError, Shortage, parse
from sandbox.aws.market.market import Pool
from sandbox.aws.wire import Reply
from sandbox.aws.world import World

_JSON = "application/json"


class Control:
    """Routes of one sandbox."""

    def __init__(self, world: World, calls: CallLog) -> None:
        self._world = world
        self._calls = calls
        self._routes: dict[tuple[str, str], Callable[[dict[str, str], Any], Any]] = {
            ("GET", "health"): lambda _query, _body: {"status": "ok", "region": world.settings.region},
            ("GET", "calls"): self._get_calls,
            ("DELETE", "calls"): lambda _query, _body: calls.clear(),
            ("GET", "instances"): self._get_instances,
            ("GET", "faults"): lambda _query, _body: world.faults.listed(),
            ("POST", "faults"): lambda _query, body: {"id": world.faults.add(parse(Fault, body))},
            ("POST", "shortages"): lambda _query, body: {"id": world.faults.add_shortage(parse(Shortage, body))},
            ("DELETE", "faults"): self._delete_faults,
            ("POST", "delays"): self._post_delays,
            ("POST", "prices"): self._post_price,
            ("POST", "parameters"): self._post_parameter,
            ("POST", "cluster"): self._post_cluster,
            ("POST", "interrupt"): self._post_interrupt,
        }

    def answer(self, method: str, path: str, query: str, body: bytes) -> Reply:
        """Carry out one request; a bad one gets 400 with the reason."""
        route = self._routes.get((method, path.removeprefix("/sandbox/").rstrip("/")))
        if route is None:
            known = ", ".join(f"{verb} /sandbox/{name}" for verb, name in self._routes)
            return _reply(404, {"error": f"no {method} {path}; known: {known}"})
        try:
            document = json.loads(body) if body else {}
            answer = route(dict(urllib.parse.parse_qsl(query)), document)
        except (ValueError, KeyError, TypeError) as error:
            reason = f"missing key {error}" if isinstance(error, KeyError) else str(error)
            return _reply(400, {"error": reason})
        return _reply(200, {} if answer is None else answer)

    def _get_calls(self, query: dict[str, str], _body: Any) -> dict[str, Any]:
        calls = [_call_view(call) for call in self._calls.calls(query.get("action"))]
        return {"counts": self._calls.counts(), "errors": self._calls.errors(), "calls": calls}

    def _get_instances(self, query: dict[str, str], _body: Any) -> dict[str, Any]:
        """?state=pending,running shows those only."""
        states = set(query.get("state", "").split(",")) - {""}
        shown = [i for i in self._world.instances.all() if not states or self._world.state(i) in states]
        return {"instances": [view(self._world, instance) for instance in shown]}

    def _delete_faults(self, query: dict[str, str], _body: Any) -> dict[str, Any]:
        if "id" not in query:
            self._world.faults.clear()
            return {}
        if not self._world.faults.remove(int(query["id"])):
            raise ScenarioError(f"no rule has the id {query['id']}")
        return {}

    def _post_delays(self, _query: dict[str, str], body: Any) -> dict[str, Any]:
        self._world.instances.delays = dataclasses.replace(self._world.instances.delays, **body)
        return dataclasses.asdict(self._world.instances.delays)

    def _post_price(self, _query: dict[str, str], body: Any) -> None:
        pool = Pool(body["instanceType"], body.get("zone", ""), body["capacityType"])
        if pool.instance_type not in self._world.catalog.types:
            raise ScenarioError(f"{pool.instance_type} is not offered in this region")
        self._world.market.set_price(pool, float(body["price"]))

    def _post_parameter(self, _query: dict[str, str], body: Any) -> None:
        self._world.parameters.publish(body["name"], body["value"])

    def _post_cluster(self, _query: dict[str, str], body: Any) -> None:
        endpoint = KubernetesEndpoint(body["endpoint"], body.get("certificateAuthorityData", ""))
        self._world.clusters.set_endpoint(body.get("name", self._world.settings.cluster), endpoint)

    def _post_interrupt(self, _query: dict[str, str], body: Any) -> None:
        instance = self._world.instances.get(body["instanceId"])
        if instance is None:
            raise ScenarioError(f"no instance {body['instanceId']}")
        state = body.get("state", "stopping")
        self._world.interruptions.interrupt(instance, body["kind"], self._world.now(), state)


def view(world: World, instance: Instance) -> dict[str, Any]:
    """An instance as kubelets and tests want it: flat, with its state now, user data (base64) and volumes."""
    entry = instance.entry
    return {
        "instanceId": instance.id,
        "state": world.state(instance),
        "instanceType": entry["InstanceType"],
        "zone": entry["Placement"]["AvailabilityZone"],
        "capacityType": "spot" if instance.spot else "on-demand",
        "pricePerHour": world.market.price(_pool(instance), instance.launched_at),
        "imageId": entry["ImageId"],
        "architecture": entry["Architecture"],
        "privateDnsName": entry["PrivateDnsName"],
        "privateIpAddress": entry["PrivateIpAddress"],
        "subnetId": entry["SubnetId"],
        "launchedAt": instance.launched_at,
        "tags": dict(instance.tags),
        "userData": instance.user_data,
        "volumes": [
            {"volumeId": v["VolumeId"], "device": v["Attachments"][0]["Device"], "sizeGiB": v["Size"]}
            for v in instance.volumes
        ],
        "reason": instance.reason,
    }


def _pool(instance: Instance) -> Pool:
    entry = instance.entry
    capacity_type = "spot" if instance.spot else "on-demand"
    return Pool(entry["InstanceType"], entry["Placement"]["AvailabilityZone"], capacity_type)


def _call_view(call: Call) -> dict[str, Any]:
    return dataclasses.asdict(call)


def _reply(status: int, document: Any) -> Reply:
    return Reply(status, json.dumps(document, default=str).encode(), _JSON)
