"""Flags and output of `nodeless dump`."""

from __future__ import annotations

import gzip
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

import controller
from controller.cli import output
from controller.cli.output import Command, choice_option, cluster_options
from controller.core.api.document import mapping, text
from controller.errors import NodelessError, ValidationError
from controller.kube.client import KubeClient
from controller.settings import CONFIG_MAP, Settings

SETTINGS = (
    "featureGates.driftEnabled", "disruptionBudgets", "weightPremium", "preferencePremium", "launchLimits",
    "initializationDeadline", "aws.enablePodENI", "aws.enableENILimitedPodDensity", "aws.enablePrefixDelegation",
    "aws.reservedENIs", "aws.instanceStorePolicy", "aws.vmMemoryOverheadPercent", "aws.alternativePriceTolerance",
    "aws.spotOfferings", "aws.spotPoolShare", "aws.spotInterruptionCost", "nodeCostPerHour", "assumedCpuUse",
    "zoneMaxShare", "zonePremium",
)  # fmt: skip
"""Settings that a plan depends on; discounts are left out, as they are confidential."""


@click.command(cls=Command)
@cluster_options
@click.option("-f", "--file", "file", default="-", metavar="FILE", help="File to write; .gz compresses. [default: -]")
@choice_option("--catalog", "live", text="Include AWS's types and prices of now, so that plans use the same.")
@click.option(
    "--salt",
    default="",
    metavar="TEXT",
    help="Salt of the pseudonyms: dumps with the same one can be compared. [default: random]",
)
def dump(kubeconfig: str, context: str, file: str, catalog: str, salt: str) -> None:
    """An anonymised snapshot for a bug report, that `nodeless simulate FILE` can load.

    It has requests, constraints, sizes, types, zones, times, and the list prices that plans are made with. It has no
    names (but pseudonyms, others in every dump unless --salt is given), images, environment, commands, secrets,
    annotations, user data, tags, discounts, events.
    """
    from controller.cli.inputs.objects import kube_client

    with output.progress("Reading the cluster"):
        snapshot = document(kube_client(kubeconfig, context), salt, live_catalog=catalog == "live")
    body = json.dumps(snapshot, separators=(",", ":")).encode() + b"\n"
    if file == "-":
        click.echo(body, nl=False)
        return
    try:
        Path(file).write_bytes(gzip.compress(body, mtime=0) if file.endswith(".gz") else body)
    except OSError as error:
        raise NodelessError(f"{file} cannot be written: {error.strerror}") from error
    counted = Counter(each["kind"] for each in snapshot["objects"])
    listed = ", ".join(f"{number} {kind}" for kind, number in sorted(counted.items()))
    output.note(f"Written: {file} ({listed}). Read it before you share it.")


def document(kube: KubeClient, salt: str, *, live_catalog: bool = False) -> dict[str, Any]:
    """Return the dump as JSON values. Raises KubeError, and CloudError with a live catalog."""
    from controller.cli.dump.anonymize import anonymous
    from controller.cli.dump.pseudonyms import Pseudonyms
    from controller.cli.inputs.objects import read_cluster
    from controller.cli.inputs.sources import dumped_prices
    from controller.cli.inputs.sources import live_catalog as read_live_catalog

    cluster = read_cluster(kube)
    objects = [each.document for each in cluster.located]
    names = Pseudonyms(hashlib.sha256(salt.encode()).digest() if salt else secrets.token_bytes(32))
    settings = next((each for each in objects if each.get("kind") == "ConfigMap"), {})
    data = mapping(settings.get("data"))
    kept = {key: text(data[key]) for key in SETTINGS if key in data}
    of_settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": kept}
    snapshot: dict[str, Any] = {
        "apiVersion": "nodeless/v1",
        "kind": "ClusterDump",
        "version": controller.__version__,
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "objects": [*anonymous(objects, names), of_settings],
    }
    if live_catalog:
        snapshot["catalog"] = read_live_catalog(_valid(settings)).document()
    elif prices := dumped_prices(cluster.prices, cluster.region):
        snapshot["prices"] = prices
    return snapshot


def _valid(settings: Mapping[str, Any]) -> Settings:
    from controller.cli.inputs.objects import parse_settings

    try:
        return parse_settings(settings)
    except ValidationError:
        return Settings(cluster_name="dumped")
