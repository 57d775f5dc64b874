"""Flags and output of `nodeless check`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import click

from controller.cli import output
from controller.cli.check import findings
from controller.cli.check.findings import Finding, Level, unknown
from controller.cli.output import Command, cluster_options, output_option
from controller.core.api.document import mapping, text
from controller.errors import CloudError, ValidationError
from controller.kube.client import KubeClient
from controller.settings import Settings


@click.command(cls=Command)
@cluster_options
@click.option("--namespace", default="karpenter", show_default=True, help="The controller's namespace.")
@click.option("--region", default="", metavar="REGION", help="Region. [default: AWS_REGION, else the profile's]")
@click.option("--skip-aws", is_flag=True, help="Check the cluster alone.")
@output_option()
def check(kubeconfig: str, context: str, namespace: str, region: str, skip_aws: bool, form: str) -> None:
    """What is wrong with the installation, and how to fix it.

    The cluster: version, CRDs, settings, Provisioners and templates, leader, webhooks and their certificate, other
    autoscalers, budgets, Services that ask for topology hints. AWS, by the caller's permissions (in the controller's
    pod: its role): permissions, subnets, security groups, images, queue, spot role, quotas.

    Exit code: 0 no problem (warnings don't count), 3 a problem (AWS that cannot be asked is one), 1 the cluster does
    not answer.
    """
    from controller.cli.inputs.objects import kube_client

    with output.progress("Checking"):
        results = tuple(run_checks(kube_client(kubeconfig, context), namespace, None if skip_aws else region))
    if form == "table":
        findings.show(results, output.console())
    else:
        output.structured(findings.document(results), form)
    if any(each.level is Level.PROBLEM for each in results):
        click.get_current_context().exit(output.FOUND)


def run_checks(kube: KubeClient, namespace: str, region: str | None) -> Iterator[Finding]:
    """Yield all findings; `region`: empty for the caller's own, None to leave AWS out.
    Raises KubeError when the cluster does not answer."""
    from controller.cli.check.check_cluster import ClusterCheck
    from controller.cli.check.check_pod_network import SUBJECT, check_pod_network
    from controller.cli.inputs.objects import read_cluster
    from controller.cli.inputs.scenario import cluster_of
    from controller.cli.inputs.sources import shipped_type_names

    read = read_cluster(kube)
    cluster, _ = cluster_of([each for each in read.located if each.kind != "ConfigMap"])
    snapshot = cluster.snapshot()
    of_cluster = ClusterCheck(kube, snapshot, namespace, time.time(), read.services, shipped_type_names())
    settings, finding = _settings(kube, namespace)
    yield from findings.collect([*of_cluster.checks()])
    yield finding
    if settings is not None:
        yield from findings.collect([(SUBJECT, partial(check_pod_network, kube, settings))])
    if region is None:
        return
    if settings is None:
        yield unknown("AWS", "not checked: the settings are needed for it")
        return
    from controller.cli.check.check_aws import connected  # boto3 is slow to import

    try:
        of_aws = connected(settings, snapshot, region)
        who = of_aws.identity()
    except CloudError as error:
        remedy = "name another region with --region, or check the cluster alone with --skip-aws"
        yield findings.problem("AWS", f"nothing of it was checked: {error}", remedy)
        return
    yield who
    if who.level is Level.OK:
        yield from findings.collect(of_aws.checks())


def _settings(kube: KubeClient, namespace: str) -> tuple[Settings | None, Finding]:
    from controller.cli.inputs.objects import parse_settings, read_settings

    config_map = read_settings(kube)
    if config_map is None:
        remedy = f"create it in {namespace}, with aws.clusterName at least"
        return None, findings.problem("Settings", "there is no ConfigMap karpenter-global-settings", remedy)
    where = f"{text(mapping(config_map.get('metadata')).get('namespace'))}/karpenter-global-settings"
    try:
        settings = parse_settings(config_map)
    except ValidationError as error:
        return None, findings.problem("Settings", "\n".join(map(str, error.problems)), f"correct ConfigMap {where}")
    return settings, findings.ok("Settings", f"ConfigMap {where} is valid, cluster {settings.cluster_name}")
