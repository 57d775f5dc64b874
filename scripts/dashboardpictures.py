"""Draw docs/captures/dashboard-*.png: both dashboards over a run of the sandbox, with a real Prometheus.

uv run python scripts/dashboardpictures.py [--minutes 12]

Prometheus (built once by Go) scrapes the controller while a fleet comes, grows, shrinks, is interrupted and
consolidated; then each panel's own queries are asked of it, and drawn with the panel's titles, units, legends and
places. The alerts are loaded too: what is wrong with a rule, or fires, is printed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from panels import Drawn, picture

from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import DAEMON_SETS, DEPLOYMENTS, NAMESPACES, PODS, PROVISIONERS
from sandbox.demo.story import connected, install
from sandbox.environment import Environment, EnvironmentSettings, start
from sandbox.prometheus import Prometheus, Series, find_or_build
from sandbox.prometheus import start as start_prometheus

ROOT = Path(__file__).parent.parent
DASHBOARDS = ROOT / "dashboards"
CAPTURES = ROOT / "docs" / "captures"
EVERY_SECONDS = 5
RATE_INTERVAL = f"{EVERY_SECONDS * 4}s"
"""What Grafana makes of $__rate_interval: four scrapes."""
FLEET: dict[str, Any] = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {
        "name": "general",
        "annotations": {
            "karpenter.sh/on-demand-base": "1",
            "karpenter.sh/price-limit": "0.6",
            "karpenter.sh/headroom": '[{"cpu": "1", "memory": "2Gi", "count": 2}]',
        },
    },
    "spec": {
        "providerRef": {"name": "default"},
        "weight": 10,
        "consolidation": {"enabled": True},
        "limits": {"resources": {"cpu": "200", "memory": "800Gi"}},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]},
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Load:
    """The changes that this script makes in the cluster."""

    kube: KubeClient
    environment: Environment

    def begin(self) -> None:
        """A Provisioner with limits, mix and headroom; two Deployments, a DaemonSet; a pod that nothing can hold."""
        self.kube.create(PROVISIONERS, FLEET)
        self.kube.create(NAMESPACES, {"metadata": {"name": "shop"}})
        for name, cpu, memory in (("web", "500m", "1Gi"), ("cache", "1", "6Gi")):
            self.kube.create(DEPLOYMENTS, _deployment(name, cpu, memory), "shop")
        self.kube.create(DAEMON_SETS, _daemon_set(), "kube-system")
        gpu = {"name": "c", "image": "registry.k8s.io/pause", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
        self.kube.create(PODS, {"metadata": {"name": "stuck"}, "spec": {"containers": [gpu]}}, "default")

    def scale(self, name: str, replicas: int, namespace: str = "shop") -> Callable[[], None]:
        """A change that scales a Deployment."""
        return lambda: _patched(self.kube, name, namespace, replicas)

    def interrupt(self) -> None:
        """EC2 takes a spot instance back, with two minutes' notice."""
        running = [each for each in self.environment.instances() if each["state"] == "running"]
        spot = [each for each in running if each["capacityType"] == "spot"]
        for each in spot[:1]:
            self.environment.ask_aws("POST", "interrupt", {"instanceId": each["instanceId"], "kind": "spot"})

    def sell_out(self) -> None:
        """A zone has no spot for two minutes."""
        zone = self.environment.instances()[0]["zone"]
        self.environment.ask_aws("POST", "shortages", {"zone": zone, "capacityType": "spot", "forSeconds": 120})


def _patched(kube: KubeClient, name: str, namespace: str, replicas: int) -> None:
    kube.patch(DEPLOYMENTS, name, {"spec": {"replicas": replicas}}, namespace=namespace)


def _deployment(name: str, cpu: str, memory: str) -> dict[str, Any]:
    labels = {"app": name}
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": name, "image": "registry.k8s.io/pause", "resources": {"requests": requests}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


def _daemon_set() -> dict[str, Any]:
    labels, container = {"app": "agent"}, {"name": "agent", "image": "registry.k8s.io/pause"}
    spec = {"containers": [{**container, "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}]}
    template = {"metadata": {"labels": labels}, "spec": {**spec, "tolerations": [{"operator": "Exists"}]}}
    return {"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


@click.command(help=__doc__)
@click.option("--minutes", default=12.0, show_default=True)
def main(minutes: float) -> None:
    """Build, run, ask, draw."""
    binaries = find_or_build(click.echo)
    subprocess.run([binaries / "promtool", "check", "rules", DASHBOARDS / "alerts.yaml"], check=True)
    with (
        tempfile.TemporaryDirectory(prefix="nodeless-dashboards-") as temporary,
        start(EnvironmentSettings(Path(temporary) / "sandbox")) as environment,
    ):
        port = _free_port()
        asyncio.run(_install(environment, port))
        prometheus = start_prometheus(
            environment.processes, Path(temporary), f"127.0.0.1:{port}", port=_free_port(), every_seconds=EVERY_SECONDS,
            rules=DASHBOARDS / "alerts.yaml", binaries=binaries,
        )  # fmt: skip
        began = time.time()
        _play(Load(KubeClient(connect(str(environment.kubeconfig))), environment), minutes * 60)
        _draw(prometheus, began, time.time())
        _say_rules(prometheus)


async def _install(environment: Environment, port: int) -> None:
    async with connected(environment) as client:
        await install(client, environment, lambda container: environment.start_controller(container, metrics_port=port))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _play(load: Load, seconds: float) -> None:
    """Make the changes, each at its share of the time."""
    acts: Sequence[tuple[float, Callable[[], None]]] = (
        (0.02, load.begin),
        (0.06, load.scale("web", 24)),
        (0.16, load.scale("cache", 5)),
        (0.26, load.scale("inflate", 6, "default")),
        (0.34, load.interrupt),
        (0.40, load.scale("web", 8)),
        (0.42, load.scale("inflate", 1, "default")),
        (0.68, load.sell_out),
        (0.70, load.scale("web", 60)),
        (0.84, load.scale("web", 36)),
    )
    began = time.monotonic()
    for share, act in acts:
        time.sleep(max(0.0, began + share * seconds - time.monotonic()))
        act()
    time.sleep(max(0.0, began + seconds - time.monotonic()))


def _draw(prometheus: Prometheus, began: float, ended: float) -> None:
    day = datetime.fromtimestamp(ended, UTC).date().isoformat()
    note = f"{(ended - began) / 60:.0f} minutes of the sandbox, {day}; drawn by scripts/dashboardpictures.py"
    for path in sorted(DASHBOARDS.glob("*.json")):
        dashboard = json.loads(path.read_text())
        chosen = _choices(dashboard)
        drawn = {panel["id"]: list(_series(prometheus, panel, chosen, began, ended)) for panel in _drawn(dashboard)}
        for panel in dashboard["panels"]:
            panel["title"] = _filled(panel["title"], chosen)
        target = CAPTURES / f"dashboard-{path.stem.removeprefix('nodeless-')}.png"
        picture(target, dashboard, drawn, note)
        empty = [panel["title"] for panel in _drawn(dashboard) if not any(each.pairs for each in drawn[panel["id"]])]
        click.echo(
            f"{target.relative_to(ROOT)}: {len(_drawn(dashboard))} panels; without data: {', '.join(empty) or 'none'}"
        )


def _drawn(dashboard: Mapping[str, Any]) -> list[Any]:
    """The panels without the titles of rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def _choices(dashboard: Mapping[str, Any]) -> dict[str, str]:
    """What each variable stands for at its default: all values, or the one that is chosen."""
    choices = {"__rate_interval": RATE_INTERVAL}
    for variable in dashboard["templating"]["list"]:
        value = variable.get("current", {}).get("value", "")
        choices[variable["name"]] = variable["allValue"] if value == "$__all" else value
    return choices


def _filled(text: str, chosen: Mapping[str, str]) -> str:
    for name in sorted(chosen, key=len, reverse=True):
        text = text.replace(f"${name}", chosen[name])
    return text


def _series(
    prometheus: Prometheus, panel: Mapping[str, Any], chosen: Mapping[str, str], began: float, ended: float
) -> Iterator[Drawn]:
    for target in panel["targets"]:
        query = _filled(target["expr"], chosen)
        instant = target.get("instant", False)
        answer = prometheus.instant(query, ended) if instant else prometheus.over(query, began, ended, EVERY_SECONDS)
        for each in answer:
            yield Drawn(_legend(target["legendFormat"], each, chosen), each[1], each[0], target["refId"])


def _legend(form: str, series: Series, chosen: Mapping[str, str]) -> str:
    labels = series[0]
    if form == "__auto":
        return ", ".join(f"{name}={value}" for name, value in labels.items()) or "value"
    text = _filled(form, chosen)
    for name, value in labels.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _say_rules(prometheus: Prometheus) -> None:
    rules = prometheus.rules()
    for rule in rules:
        if rule["health"] != "ok" or rule["state"] != "inactive":
            click.echo(f"{rule['name']}: {rule['health']} {rule['state']} {rule.get('lastError', '')}")
    click.echo(f"{len(rules)} alerts loaded, {sum(rule['health'] == 'ok' for rule in rules)} evaluated without error")


if __name__ == "__main__":
    main()
