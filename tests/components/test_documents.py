"""Documents: what they say, and that they agree with the controller, the image and the services that read them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from components.config.controller import (
    ControllerConfig,
)
from components.config.keys import key_fields
from components.config.settings import BudgetConfig, LaunchLimitsConfig, PriceRuleConfig, SettingsConfig
from components.documents import addons, controller, fargate, interruption, webhook
from components.documents.account import Account
from components.documents.addon_policies import external_dns_policy, load_balancer_listener_policy, load_balancer_policy
from components.documents.nodes import USERNAME, with_node_role
from components.documents.policy import MAX_CHARACTERS, compact, fargate_trust, service_account_trust
from components.documents.settings import settings_data
from controller.core.api.frozen import FrozenMap
from controller.core.api.settings.settings_table import SETTINGS
from controller.core.guards.spending import LaunchLimits
from controller.core.price_rules import PriceRule
from controller.kube.resources import AWS_NODE_TEMPLATES, PROVISIONERS
from controller.operator.options import Options
from controller.settings import Settings
from controller.webhook.admission import PATHS
from controller.webhook.ca_bundle import CONFIGURATIONS
from controller.webhook.serving import Place
from tests.components.policies import Request, allowed
from tests.components.stacks import ROOT

ACCOUNT = Account("aws", "111122223333", "ap-northeast-2")
ROLE = ACCOUNT.iam_arn("role/KarpenterNodeRole-myeks")


def deployment(**keys: Any) -> dict[str, Any]:
    config = ControllerConfig(**{"image": "i", **keys})
    return controller.deployment(controller.ControllerSpec(config, "i:1", "ap-northeast-2", config.env, "c"))


def pod(**keys: Any) -> dict[str, Any]:
    spec: dict[str, Any] = deployment(**keys)["spec"]["template"]["spec"]
    return spec


def test_the_settings_are_the_ones_that_the_controller_reads() -> None:
    given = SettingsConfig(
        batch_max_duration="20s", batch_idle_duration="2s", drift_enabled=True, cluster_endpoint="https://a.example",
        enable_pod_eni=True, enable_eni_limited_pod_density=False, isolated_vpc=True,
        node_name_convention="resource-name", vm_memory_overhead_percent=0.1, tags=FrozenMap({"team": "a"}),
        enable_prefix_delegation=True, reserved_enis=1, instance_store_policy="RAID0", enable_zone_balance=True,
        zonal_shift=False,
        alternative_price_tolerance=0.5, spot_offerings=4, spot_pool_share=0.25, spot_interruption_cost=2.5,
        weight_premium=0.0,
        preference_premium=0.5,
        termination_grace_period="2h", surge_single_replicas=True, initialization_deadline="20m",
        plan_ahead_owners=True,
        pod_deletion_cost=False, on_demand_taint=False, place_as_planned=False, node_repair=False,
        node_repair_after="45m", plan_ahead="none",
        create_fleet_bucket="100/10", launch_bucket="1000/2",
        node_cost_per_hour=0.01, assumed_cpu_use=0.3, zone_max_share=0.4, zone_premium=0.05,
        device_classes=FrozenMap({"gpu.nvidia.com": "nvidia.com/gpu"}),
    )  # fmt: skip
    keys = {each.attribute: each.default for each in key_fields(SettingsConfig)}
    left_alone = {name for name, default in keys.items() if getattr(given, name) == default}
    assert left_alone == {"price_rules", "disruption_budgets", "launch_limits"}, "they have a test of their own"
    read = Settings.parse(settings_data(given, "myeks", "profile", "queue", ""))
    for name in keys:
        want = getattr(given, name)
        seconds = {"20s": 20.0, "2s": 2.0, "2h": 7200.0, "20m": 1200.0, "45m": 2700.0}
        field = (
            f"{name}_seconds" if name.startswith(("batch", "termination", "initialization", "node_repair_")) else name
        )
        assert getattr(read, field) == {**seconds, "100/10": (100, 10.0), "1000/2": (1000, 2.0)}.get(str(want), want)
    assert (read.cluster_name, read.default_instance_profile, read.interruption_queue_name) == (
        "myeks",
        "profile",
        "queue",
    )


def test_settings_left_alone_are_left_to_the_controllers_own_defaults() -> None:
    assert settings_data(SettingsConfig(), "myeks", "profile", "", "arn") == {
        "aws.clusterArn": "arn",
        "aws.clusterName": "myeks",
        "aws.defaultInstanceProfile": "profile",
    }
    assert Settings.parse({"aws.clusterName": "myeks"}) == Settings("myeks")


def test_every_key_that_the_controller_reads_can_be_set_in_the_stack_unless_the_stack_knows_it() -> None:
    """Under the ConfigMap's name without its prefix, but for the case of abbreviations (enablePodEni)."""
    keys = {each.rule.source: each.name for each in key_fields(SettingsConfig)}
    assert set(keys) == {row.key for row in SETTINGS.values() if not row.from_stack}
    for source, name in keys.items():
        assert name.lower() == source.rpartition(".")[2].lower()


def test_budgets_are_the_ones_that_the_controller_reads() -> None:
    nights = BudgetConfig(nodes="20%", reasons=("drifted",), schedule="0 22 * * mon-fri", duration="8h")
    given = SettingsConfig(disruption_budgets=(BudgetConfig(nodes="1"), nights))
    one, other = Settings.parse(settings_data(given, "myeks", "profile", "", "")).disruption_budgets
    assert (one.count, one.window, one.reasons) == (1, None, frozenset())
    assert (other.share, other.reasons) == (0.2, frozenset({"drifted"}))
    assert other.window is not None
    assert other.window.duration_seconds == 28_800.0


def test_price_rules_are_the_ones_that_the_controller_reads() -> None:
    discount = PriceRuleConfig(instance_types=("m5.*",), capacity_types=("spot", "on-demand"), discount_percent=27.5)
    commitment = PriceRuleConfig(instance_types=("c5.large",), zones=("*a",), price_per_hour=0.05, instances=3)
    data = settings_data(SettingsConfig(price_rules=(discount, commitment)), "myeks", "profile", "", "")
    assert Settings.parse(data).price_rules == (
        PriceRule(("m5.*",), capacity_types=("spot", "on-demand"), discount_percent=27.5),
        PriceRule(("c5.large",), ("*a",), price_per_hour=0.05, instances=3),
    )


def test_launch_limits_are_the_ones_that_the_controller_reads() -> None:
    limits = LaunchLimitsConfig(price_per_hour=50, nodes_per_minute=20, resources=FrozenMap({"cpu": "1000"}))
    data = settings_data(SettingsConfig(launch_limits=limits), "myeks", "profile", "", "")
    assert Settings.parse(data).launch_limits == LaunchLimits(50.0, 20, FrozenMap({"cpu": 1_000_000}))
    partly = settings_data(
        SettingsConfig(launch_limits=LaunchLimitsConfig(nodes_per_minute=5)), "myeks", "profile", "", ""
    )
    assert Settings.parse(partly).launch_limits == LaunchLimits(nodes_per_minute=5)


def test_the_containers_environment_is_what_the_controller_reads() -> None:
    container = pod(env=FrozenMap({"KUBE_CLIENT_QPS": "50"}))["containers"][0]
    sample = {"SYSTEM_NAMESPACE": "karpenter", "POD_NAME": "karpenter-0", "MEMORY_LIMIT": "1073741824"}
    environment = {each["name"]: each.get("value") or sample[each["name"]] for each in container["env"]}
    options = Options.parse(environment)
    assert options.system_namespace == "karpenter"
    assert options.kube_client_qps == 50
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {
        "http-metrics": options.metrics_port,
        "http": options.health_probe_port,
        "https-webhook": options.webhook_port,
    }
    assert not options.disable_webhook
    off = {each["name"]: each.get("value") for each in pod(webhook=False)["containers"][0]["env"]}
    assert off["DISABLE_WEBHOOK"] == "true"


def test_the_arguments_are_the_commands() -> None:
    from click.testing import CliRunner

    from controller.cli.main import main

    command, *options = pod()["containers"][0]["args"]
    told = CliRunner().invoke(main, [command, "--help"]).output
    assert all(option.split("=")[0] in told for option in options)
    bad = CliRunner().invoke(main, [command, *options, "--no-such-option"])
    assert "No such option" in bad.output, "the options before it were refused"


def test_pods_are_probed_where_the_controller_answers() -> None:
    from controller.telemetry.open_ports import Serving

    serving = Serving(metrics_port=0, health_probe_port=0)
    container, served = pod()["containers"][0], {"http": serving.probes.routes, "http-metrics": serving.pages.routes}
    serving.stop()
    for probe in ("livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in served[asked["port"]]
    assert container["livenessProbe"]["httpGet"]["path"] != container["readinessProbe"]["httpGet"]["path"]


def test_the_image_and_the_deployment_agree() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    user = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
    context = pod()["securityContext"]
    assert user == [(str(context["runAsUser"]), str(context["runAsGroup"]))]
    exposed = re.findall(r"^EXPOSE (.*)$", dockerfile, re.MULTILINE)[0].split()
    assert exposed == [str(each["containerPort"]) for each in pod()["containers"][0]["ports"]]
    entry = json.loads(re.findall(r"^ENTRYPOINT (.*)$", dockerfile, re.MULTILINE)[0])
    assert entry == ["/app/.venv/bin/nodeless"], "vector form: no shell between Kubernetes' SIGTERM and the controller"
    assert "--locked" in dockerfile
    assert "--no-default-groups" in dockerfile, "Pulumi and the sandbox have no business in the image"


def test_pods_meet_the_restricted_pod_security_standard() -> None:
    spec = pod()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["readOnlyRootFilesystem"] is True
        assert security["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes"} & set(spec)


@pytest.mark.parametrize("placement", ["fargate", "any"])
def test_the_controller_never_runs_on_its_own_nodes(placement: str) -> None:
    terms = _terms(pod(placement=placement))
    assert terms == [{"matchExpressions": [{"key": "karpenter.sh/provisioner-name", "operator": "DoesNotExist"}]}]


def test_a_node_group_binds_because_both_rules_are_in_one_term() -> None:
    (term,) = _terms(pod(placement="nodeGroup", node_group="ng-1"))
    assert {each["key"]: each.get("values") for each in term["matchExpressions"]} == {
        "karpenter.sh/provisioner-name": None,
        "eks.amazonaws.com/nodegroup": ["ng-1"],
    }


def _terms(spec: dict[str, Any]) -> list[dict[str, Any]]:
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms: list[dict[str, Any]] = required["nodeSelectorTerms"]
    return terms


def test_selectors_of_service_budget_and_deployment_meet_the_pods_labels() -> None:
    template = deployment()["spec"]["template"]["metadata"]["labels"]
    for selector in (
        deployment()["spec"]["selector"]["matchLabels"],
        controller.service("karpenter")["spec"]["selector"],
        controller.disruption_budget("karpenter")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= template.items()
    ports = controller.service("karpenter")["spec"]["ports"]
    assert [each["name"] for each in ports] == ["http-metrics", "https-webhook"], "a scrape job looks for the first"
    assert {each["targetPort"] for each in ports} <= {each["name"] for each in pod()["containers"][0]["ports"]}


def test_metrics_are_for_prometheus_and_the_other_ports_for_those_that_a_policy_cannot_name() -> None:
    spec = deployment()["spec"]["template"]
    policy = controller.network_policy("karpenter")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= spec["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Ingress"], "what the controller calls is not bounded here"
    admitted = {port["port"]: rule.get("from") for rule in policy["ingress"] for port in rule["ports"]}
    assert set(admitted) == {port["containerPort"] for port in spec["spec"]["containers"][0]["ports"]}
    assert [port for port, sources in admitted.items() if sources] == [controller.METRICS_PORT]
    (source,) = admitted[controller.METRICS_PORT]
    assert source["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}


def test_the_webhook_is_called_where_it_is_served_and_about_our_kinds_alone() -> None:
    documents = webhook.webhook_configurations("karpenter").values()
    known = {(resource.kind, name) for resource, name in CONFIGURATIONS}
    assert {(each["kind"], each["metadata"]["name"]) for each in documents} == known
    hooks = [hook for each in documents for hook in each["webhooks"]]
    assert {hook["clientConfig"]["service"]["path"] for hook in hooks} == set(PATHS)
    service = controller.service("karpenter")
    for hook in hooks:
        called = hook["clientConfig"]["service"]
        assert (called["name"], called["namespace"]) == (service["metadata"]["name"], "karpenter")
        assert called["port"] in [each["port"] for each in service["spec"]["ports"] if each["name"] == "https-webhook"]
        assert "caBundle" not in hook["clientConfig"], "the controller's to write"
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Fail", "None")
        asked = {(rule["apiGroups"][0], *rule["resources"]) for rule in hook["rules"]}
        assert asked <= {(each.group, each.plural) for each in (PROVISIONERS, AWS_NODE_TEMPLATES)}
    environment = {each["name"]: each.get("value") for each in pod()["containers"][0]["env"]}
    secret = webhook.webhook_secret("karpenter")
    assert secret["metadata"]["name"] == Place(str(environment["KARPENTER_SERVICE"]), "karpenter", 0).secret
    assert "data" not in secret


def test_changed_settings_roll_the_pods() -> None:
    def checksum(data: dict[str, str]) -> str:
        spec = controller.ControllerSpec(ControllerConfig(image="i"), "i", "r", {}, controller.checksum(data))
        made = controller.deployment(spec)
        return str(made["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])

    assert checksum({"a": "1", "b": "2"}) == checksum({"b": "2", "a": "1"}) != checksum({"a": "1"})


def test_the_service_account_alone_takes_the_controllers_role() -> None:
    issuer = "https://oidc.eks.ap-northeast-2.amazonaws.com/id/E"
    (statement,) = service_account_trust(ACCOUNT, issuer, "karpenter", "karpenter")["Statement"]
    host = "oidc.eks.ap-northeast-2.amazonaws.com/id/E"
    assert statement["Principal"] == {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{host}"}
    assert statement["Condition"] == {
        "StringEquals": {f"{host}:aud": "sts.amazonaws.com", f"{host}:sub": "system:serviceaccount:karpenter:karpenter"}
    }


def test_other_clusters_fargate_pods_do_not_take_the_execution_role() -> None:
    (statement,) = fargate_trust(ACCOUNT, "myeks")["Statement"]
    profiles = "arn:aws:eks:ap-northeast-2:111122223333:fargateprofile/myeks/*"
    assert statement["Condition"] == {"ArnLike": {"aws:SourceArn": profiles}}


GUIDE = """- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: arn:aws:iam::111122223333:role/dev-global-eks-node-iam-role
  username: system:node:{{EC2PrivateDNSName}}
"""


def test_the_node_role_is_appended_to_aws_auth_and_every_entry_stays() -> None:
    merged = with_node_role(GUIDE, ROLE)
    entries = yaml.safe_load(merged)
    assert entries[0] == yaml.safe_load(GUIDE)[0]
    assert entries[1] == {"groups": ["system:bootstrappers", "system:nodes"], "rolearn": ROLE, "username": USERNAME}
    assert "{{EC2PrivateDNSName}}" in merged, "the braces are the authenticator's"
    assert with_node_role(merged, ROLE) == merged, "a second run changes nothing"
    assert [each["rolearn"] for each in yaml.safe_load(with_node_role("", ROLE))] == [ROLE]


def test_an_entry_of_the_node_role_that_lacks_groups_is_completed() -> None:
    present = yaml.safe_dump([{"rolearn": ROLE, "username": "x", "groups": ["team"]}])
    assert yaml.safe_load(with_node_role(present, ROLE)) == [
        {"rolearn": ROLE, "username": USERNAME, "groups": ["team", "system:bootstrappers", "system:nodes"]}
    ]


@pytest.mark.parametrize("text", ["a: b", "- text", "[1]"])
def test_an_aws_auth_that_cannot_be_understood_is_not_replaced(text: str) -> None:
    with pytest.raises(ValueError, match="repair it by hand"):
        with_node_role(text, ROLE)


def test_only_the_rules_write_to_the_queue_and_only_over_tls() -> None:
    queue = ACCOUNT.arn("sqs", "myeks")
    rules = [ACCOUNT.arn("events", f"rule/{interruption.rule_name(kind, 'myeks')}") for kind in interruption.RULES]
    document = interruption.queue_policy(queue, rules)

    def may(source: str, secure: str) -> bool:
        context = {"aws:SourceArn": source, "aws:SecureTransport": secure}
        return allowed([document], Request("sqs:SendMessage", queue, context))

    assert all(may(rule, "true") for rule in rules)
    assert not may(rules[0], "false")
    assert not may(ACCOUNT.arn("events", "rule/other"), "true")
    assert not allowed([document], Request("sqs:ReceiveMessage", queue, {"aws:SourceArn": rules[0]}))


def test_rules_send_what_the_controller_acts_on_and_no_more() -> None:
    change = interruption.RULES["InstanceStateChange"]["detail"]["state"]
    assert change == ["stopping", "stopped", "shutting-down", "terminated"]
    health = interruption.RULES["ScheduledChange"]["detail"]
    assert health == {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]}
    long = [f"{'c' * 60}-{end}" for end in ("blue", "green")]
    names = {interruption.rule_name(kind, cluster) for kind in interruption.RULES for cluster in long}
    assert len(names) == 2 * len(interruption.RULES), "of clusters with a long common beginning as well"
    assert max(map(len, names)) <= 64


def test_the_log_router_stays_within_fargates_limit_and_writes_where_it_may() -> None:
    objects = fargate.logging_objects("ap-northeast-2", "c" * 100)
    assert sum(map(len, objects["config-map"]["data"].values())) < 5300
    assert set(objects["config-map"]["data"]) <= {"output.conf", "filters.conf", "parsers.conf"}
    assert objects["namespace"]["metadata"]["labels"] == {"aws-observability": "enabled"}
    stream = ACCOUNT.arn("logs", "log-group:/aws/eks/myeks/fargate:log-stream:a")
    document = fargate.logging_policy(ACCOUNT, "myeks")
    assert allowed([document], Request("logs:PutLogEvents", stream))
    assert not allowed([document], Request("logs:PutLogEvents", ACCOUNT.arn("logs", "log-group:/other:log-stream:a")))


def test_the_load_balancer_controller_changes_only_its_own_clusters() -> None:
    document = load_balancer_policy(ACCOUNT, "myeks")
    for make in (load_balancer_policy, load_balancer_listener_policy):
        longest = make(Account("aws-us-gov", "1" * 12, "us-gov-west-1"), "c" * 100)
        assert len(compact(longest)) <= MAX_CHARACTERS
    balancer = ACCOUNT.arn("elasticloadbalancing", "loadbalancer/app/a/1")
    for cluster, may in (("myeks", True), ("other", False)):
        tag = {"aws:ResourceTag/elbv2.k8s.aws/cluster": cluster}
        assert allowed([document], Request("elasticloadbalancing:DeleteLoadBalancer", balancer, tag)) is may
    assert not allowed([document], Request("elasticloadbalancing:CreateLoadBalancer", balancer))
    assert not allowed([document], Request("ec2:DeleteSecurityGroup", ACCOUNT.arn("ec2", "security-group/sg-1")))


@pytest.mark.parametrize("verb", ["DeleteListener", "ModifyListener", "DeleteRule", "ModifyRule", "RemoveTags"])
def test_listeners_and_rules_of_another_cluster_are_out_of_reach(verb: str) -> None:
    document, action = load_balancer_listener_policy(ACCOUNT, "myeks"), f"elasticloadbalancing:{verb}"
    for kind in ("listener/app/a/1/2", "listener-rule/net/a/1/2/3"):
        resource = ACCOUNT.arn("elasticloadbalancing", kind)
        for cluster, may in (("myeks", True), ("other", False)):
            context = {"aws:ResourceTag/elbv2.k8s.aws/cluster": cluster}
            assert allowed([document], Request(action, resource, context)) is may
        assert not allowed([document], Request(action, resource))


@pytest.mark.parametrize(
    ("verb", "on"), [("CreateListener", "loadbalancer/app/a/1"), ("CreateRule", "listener/app/a/1/2")]
)
def test_new_listeners_and_rules_are_tagged_and_stand_on_the_clusters_own(verb: str, on: str) -> None:
    document, key = load_balancer_listener_policy(ACCOUNT, "myeks"), "elbv2.k8s.aws/cluster"
    own, tagged = {f"aws:ResourceTag/{key}": "myeks"}, {f"aws:RequestTag/{key}": "myeks"}
    resource = ACCOUNT.arn("elasticloadbalancing", on)
    action = f"elasticloadbalancing:{verb}"
    assert allowed([document], Request(action, resource, {**own, **tagged}))
    assert not allowed([document], Request(action, resource, own))
    assert not allowed([document], Request(action, resource, {**tagged, f"aws:ResourceTag/{key}": "other"}))
    listener, create = (
        ACCOUNT.arn("elasticloadbalancing", "listener/app/a/1/2"),
        {"elasticloadbalancing:CreateAction": verb},
    )
    assert allowed([document], Request("elasticloadbalancing:AddTags", listener, {**tagged, **create}))
    assert not allowed([document], Request("elasticloadbalancing:AddTags", listener, tagged)), (
        "another's could be claimed"
    )


def test_external_dns_changes_one_zone() -> None:
    document = external_dns_policy(ACCOUNT, "Z1")
    assert allowed([document], Request("route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z1"))
    assert not allowed([document], Request("route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z2"))


def test_add_ons_are_told_what_fargate_has_no_metadata_for() -> None:
    values = addons.load_balancer_values("myeks", "ap-northeast-2", "vpc-1", ROLE, on_fargate=True)
    assert (values["region"], values["vpcId"]) == ("ap-northeast-2", "vpc-1")
    assert values["podAnnotations"] == {"eks.amazonaws.com/fargate-profile": "kube-system"}
    assert "podAnnotations" not in addons.load_balancer_values("myeks", "r", "v", ROLE, on_fargate=False)
    assert addons.core_dns_values(on_fargate=True)["computeType"] == "Fargate"


def test_the_scrape_job_is_yaml_that_keeps_the_controllers_metrics_port() -> None:
    (job,) = yaml.safe_load(addons.prometheus_values("karpenter", {})["extraScrapeConfigs"])
    assert job["kubernetes_sd_configs"] == [{"role": "endpoints", "namespaces": {"names": ["karpenter"]}}]
    assert job["relabel_configs"][0]["regex"] == "http-metrics"
