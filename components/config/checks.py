"""Rules that hold between keys, as far as they can be known without asking AWS."""

from __future__ import annotations

from collections.abc import Callable

from components.config.addons import RUNBOOKS
from components.config.schema import StackConfig
from components.documents.addons import CHARTS
from components.documents.fargate import LOG_NAMESPACE
from components.documents.names import MAX_NAME
from controller.core.api.strict import Report

MAX_PROFILE_NAME = 128
"""IAM and STS quotas: instance profile names and policy names."""
MAX_SELECTORS = 5
"""EKS quota: selectors of a Fargate profile."""
SHARED_NAMESPACES = frozenset(
    {"default", "kube-node-lease", "kube-public", "kube-system", LOG_NAMESPACE, *(c.namespace for c in CHARTS.values())}
)
"""Namespaces of Kubernetes itself, of Fargate's log router and of the add-ons' charts."""


def check(config: StackConfig, report: Report) -> None:
    """Every broken rule becomes a problem of `report`."""
    for rule in _RULES:
        rule(config, report)


def warnings(config: StackConfig) -> list[str]:
    """What is allowed, and reaches further than most people want."""
    return [*_adopting(config), *_terminating(config), *_linking(config)]


def _adopting(config: StackConfig) -> list[str]:
    if not config.adopt:
        return []
    return ["adopt: what exists under the stack's names becomes the stack's, and goes with it; take `adopt` out after"]


def _linking(config: StackConfig) -> list[str]:
    if not config.addons.prometheus or config.addons.runbooks != RUNBOOKS:
        return []
    return [
        "addons.runbooks: is unset, and this release knows no public repository of its own: links of alerts and "
        "dashboards lead nowhere; set it to where docs/runbooks.md can be read (meanwhile: `nodeless help runbooks`)"
    ]


def _terminating(config: StackConfig) -> list[str]:
    scope, pattern = config.identity.terminate_scope, config.identity.terminate_name_pattern
    reach = {
        "any": "every instance of the account in the region",
        "name": f"every instance of the account in the region whose Name matches {pattern!r}, whoever made it",
    }
    if scope not in reach:
        return []
    return [f"identity.terminateScope: {scope!r} lets the controller's role terminate {reach[scope]}; use `owned`"]


def _names(config: StackConfig, report: Report) -> None:
    names = {
        "identity.nodeRoleName": (config.node_role_name, MAX_NAME),
        "identity.controllerRoleName": (config.controller_role_name, MAX_NAME),
        "fargate.podExecutionRoleName": (config.pod_execution_role_name, MAX_NAME),
        "identity.instanceProfileName": (config.instance_profile_name, MAX_PROFILE_NAME),
    }
    for path, (name, limit) in names.items():
        if len(name) > limit:
            report.add(path, f"{name!r} has {len(name)} characters, IAM allows {limit}", "set a shorter one here")
    if len(config.queue_name) > 80:
        report.add(
            "interruption.queueName",
            f"{config.queue_name!r} is longer than SQS's 80 characters",
            "set a shorter one here",
        )


def _new_cluster(config: StackConfig, report: Report) -> None:
    created = config.cluster.create
    if created is None:
        return
    if len(created.subnet_ids) < 2:
        report.add("cluster.create.subnetIds", "names fewer than two subnets", "EKS wants two zones at least")
    if config.discovery.node_groups:
        report.add("discovery.nodeGroups", "a new cluster has no node groups", "use subnetIds")
    if config.discovery.security_group.startswith("nodeGroup/"):
        report.add("discovery.securityGroup", "a new cluster has no node groups", "use `cluster`")
    if config.controller.placement == "nodeGroup":
        report.add("controller.placement", "a new cluster has no node groups", "use `fargate`")
    if config.identity.node_join == "awsAuth":
        report.add("identity.nodeJoin", "a new cluster authenticates by access entries", "use `auto` or `accessEntry`")


def _discovery(config: StackConfig, report: Report) -> None:
    sources = {
        "discovery.subnetIds": config.discovery.subnet_ids,
        "discovery.vpcName" if config.discovery.vpc_name else "discovery.subnetTags": (
            config.discovery.vpc_name or config.discovery.subnet_tags
        ),
        "discovery.nodeGroups": config.discovery.node_groups,
    }
    given = [path for path, value in sources.items() if value]
    if len(given) > 1:
        report.add(given[1], f"is given beside {given[0]}", "say in one way which subnets get the discovery tag")


def _controller(config: StackConfig, report: Report) -> None:
    controller = config.controller
    if controller.namespace in SHARED_NAMESPACES:
        message = f"{controller.namespace!r} has other pods: it would get pod security `restricted`, and go on destroy"
        report.add("controller.namespace", message, "choose one of its own, such as `karpenter`")
    if bool(controller.image) == (controller.build is not None):
        message = "is given beside controller.build" if controller.image else "is missing"
        report.add("controller.image", message, "give an image reference, or `build: {}` to have one built")
    if (controller.placement == "nodeGroup") != bool(controller.node_group):
        report.add("controller.nodeGroup", "goes with placement `nodeGroup`, and only with it", "set both or neither")
    if controller.placement == "fargate" and not config.fargate.enabled:
        report.add("controller.placement", "is `fargate`, but fargate is off", "set fargate.enabled, or use nodeGroup")


def _fargate(config: StackConfig, report: Report) -> None:
    seen = {"karpenter", "kube-system"}
    for index, profile in enumerate(config.fargate.profiles):
        path = f"fargate.profiles[{index}]"
        if profile.name in seen:
            report.add(f"{path}.name", f"{profile.name!r} is taken", "every profile has its own name")
        seen.add(profile.name)
        if profile.name.startswith("eks-"):
            report.add(f"{path}.name", "begins with eks-", "EKS keeps that prefix for itself")
        if not 1 <= len(profile.selectors) <= MAX_SELECTORS:
            report.add(f"{path}.selectors", f"are {len(profile.selectors)}", f"a profile has 1 to {MAX_SELECTORS}")
    if config.fargate.profiles and not config.fargate.enabled:
        report.add("fargate.profiles", "are given, but fargate is off", "set fargate.enabled")


def _addons(config: StackConfig, report: Report) -> None:
    addons = config.addons
    if addons.grafana is not None and addons.prometheus is None:
        report.add("addons.grafana", "shows what Prometheus collects", "add `prometheus: {}`")
    if addons.overprovisioning is not None and addons.keda is None:
        report.add("addons.overprovisioning", "is scaled by KEDA", "add `keda: {}`")


def _name_tags(config: StackConfig, report: Report) -> None:
    if config.identity.terminate_scope != "name":
        return
    for index, template in enumerate(config.node_templates):
        tags = template.spec.get("tags")
        if isinstance(tags, dict) and "Name" in tags:
            report.add(
                f"nodeTemplates[{index}].spec.tags.Name",
                "replaces the Name by which the controller may terminate its instances",
                "use identity.terminateScope `owned`",
            )


def _price_rules(config: StackConfig, report: Report) -> None:
    for index, rule in enumerate(config.settings.price_rules):
        if (rule.discount_percent is None) == (rule.price_per_hour is None):
            both = "has discountPercent and pricePerHour" if rule.price_per_hour else "changes no price"
            report.add(f"settings.priceRules[{index}]", both, "give it one of discountPercent and pricePerHour")


_RULES: tuple[Callable[[StackConfig, Report], None], ...] = (
    _names,
    _new_cluster,
    _discovery,
    _controller,
    _fargate,
    _addons,
    _name_tags,
    _price_rules,
)
