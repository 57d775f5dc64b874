"""`nodeless check`: what is wrong with the installation, and how to fix it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from controller.cli import output
from controller.cli.check import findings
from controller.cli.check.findings import Check, Finding, Level, unknown
from controller.cli.output import Command, cluster_options, output_option
from controller.core.api.document import mapping, text
from controller.core.state.snapshot import Snapshot
from controller.errors import CloudError, ValidationError
from controller.kube.client import KubeClient
from controller.settings import Settings


@click.command(cls=Command)
@cluster_options
@click.option("--namespace", default="karpenter", show_default=True, help="The controller's namespace.")
@click.option("--skip-aws", is_flag=True, help="Check the cluster alone.")
@output_option()
def check(kubeconfig: str, context: str, namespace: str, skip_aws: bool, form: str) -> None:
    """What is wrong with the installation, and how to fix it.

    The cluster: version, CRDs, settings, Provisioners and templates, leader, webhooks and their certificate, other
    autoscalers, budgets. AWS, by the caller's permissions (in the controller's pod: its role): permissions, subnets,
    security groups, images, queue, spot role, quotas.

    Exit code: 0 no problem (warnings don't count), 3 a problem, 1 the cluster does not answer.
    """
    from controller.cli.inputs.sources import kube_client

    with output.progress("Checking"):
        results = tuple(run_checks(kube_client(kubeconfig, context), namespace, aws=not skip_aws))
    if form == "table":
        findings.show(results, output.console())
    else:
        output.structured(findings.document(results), form)
    if any(each.level is Level.PROBLEM for each in results):
        click.get_current_context().exit(output.FOUND)


def run_checks(kube: KubeClient, namespace: str, *, aws: bool) -> Iterator[Finding]:
    """All findings. Raises KubeError when the cluster does not answer."""
    from controller.cli.check.check_cluster import ClusterCheck
    from controller.cli.inputs.scenario import state_of
    from controller.cli.inputs.sources import read_cluster

    objects = read_cluster(kube).located
    plain = [each for each in objects if each.kind != "ConfigMap"]
    snapshot, _ = state_of(plain)
    of_cluster = ClusterCheck(kube, snapshot, namespace, time.time())
    settings, finding = _settings(kube, namespace)
    yield from findings.collect([*of_cluster.checks()])
    yield finding
    if not aws:
        return
    if settings is None:
        yield unknown("AWS", "not checked: the settings are needed for it")
        return
    yield from findings.collect(_aws(settings, snapshot))


def _aws(settings: Settings, snapshot: Snapshot) -> tuple[tuple[str, Check], ...]:
    from controller.aws.api.clients import make_clients
    from controller.cli.check.check_aws import AwsCheck
    from controller.cli.inputs.sources import live_provider

    try:
        clients = make_clients()
        provider = live_provider(settings)
    except CloudError as error:
        message = str(error)
        return (("AWS", lambda: [unknown("AWS", message)]),)
    return AwsCheck(clients, provider, settings, snapshot).checks()


def _settings(kube: KubeClient, namespace: str) -> tuple[Settings | None, Finding]:
    from controller.cli.inputs.sources import read_settings

    config_map = read_settings(kube)
    if config_map is None:
        remedy = f"create it in {namespace}, with aws.clusterName at least"
        return None, findings.problem("Settings", "there is no ConfigMap karpenter-global-settings", remedy)
    where = f"{text(mapping(config_map.get('metadata')).get('namespace'))}/karpenter-global-settings"
    try:
        settings = Settings.parse({str(key): str(value) for key, value in mapping(config_map.get("data")).items()})
    except ValidationError as error:
        return None, findings.problem("Settings", "\n".join(map(str, error.problems)), f"correct ConfigMap {where}")
    return settings, findings.ok("Settings", f"ConfigMap {where} is valid, cluster {settings.cluster_name}")
