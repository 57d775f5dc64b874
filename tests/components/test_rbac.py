"""The controller's roles allow what its code does in Kubernetes, and nothing else."""

from __future__ import annotations

from typing import Any

from components.documents import rbac, webhook
from components.documents.settings import LOGGING
from controller.core.api.settings.settings_table import CONFIG_MAP
from controller.kube.resources import (
    CLUSTER_STATE,
    CONFIG_MAPS,
    LEASES,
    MUTATING_WEBHOOKS,
    POD_OWNERS,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    device_resources,
)
from controller.operator import options
from tests.components.source import KubeCall, command_calls, kube_calls
from tests.source_trees import READS_SOURCES

pytestmark = READS_SOURCES
BY_NAME = {
    LEASES.plural: (rbac.NAMESPACE_RULES, (rbac.LEASE,)),
    CONFIG_MAPS.plural: (rbac.NAMESPACE_RULES, (CONFIG_MAP, rbac.LOGGING, rbac.MEMORY, rbac.PRICES, rbac.DECISIONS)),
    SERVICES.plural: (rbac.DNS_RULES, ("kube-dns",)),
    SECRETS.plural: (rbac.NAMESPACE_RULES, (webhook.SECRET,)),
    MUTATING_WEBHOOKS.plural: (rbac.CLUSTER_RULES, webhook.MUTATING),
    VALIDATING_WEBHOOKS.plural: (rbac.CLUSTER_RULES, webhook.VALIDATING),
}
"""Resources that the controller touches by name."""


def allows(rules: tuple[rbac.Rule, ...], call: KubeCall, name: str = "") -> bool:
    return any(
        call.group in rule["apiGroups"]
        and call.resource in rule["resources"]
        and call.verb in rule["verbs"]
        and ("resourceNames" not in rule or name in rule["resourceNames"])
        for rule in rules
    )


def test_every_call_of_the_code_is_allowed() -> None:
    calls = kube_calls()
    assert len(calls) > 30, "the reader of the source finds too little"
    for call in calls:
        everywhere = (*rbac.CLUSTER_RULES, *rbac.SURGE_RULES)
        rules, names = BY_NAME.get(call.resource, (everywhere, ("",)))
        assert any(allows(rules, call, name) for name in names), f"{call}: add it to components/documents/rbac.py"


def test_commands_for_people_read_and_write_nothing_but_the_approval_of_a_rebalance() -> None:
    """It is written on Nodes with the user's own rights, which the readers' role does not give."""
    calls = command_calls()
    assert calls, "the reader of the source finds too little"
    written = {call for call in calls if call.verb not in ("get", "list", "watch")}
    assert written == {KubeCall("", "nodes", "patch")}
    assert not any(allows(rbac.READER_RULES, call) for call in written)


def test_readers_may_read_what_the_commands_do_and_nothing_else() -> None:
    """`check` reads more, for whoever installs: webhooks, CRDs, Deployments, the Lease."""
    watched = {KubeCall(r.group, r.plural, verb) for r in CLUSTER_STATE for verb in ("list", "watch")}
    devices = {KubeCall(r.group, r.plural, verb) for r in device_resources("v1") for verb in ("list", "watch")}
    installers = {
        "customresourcedefinitions",
        "deployments",
        "leases",
        MUTATING_WEBHOOKS.plural,
        VALIDATING_WEBHOOKS.plural,
    }
    asked = {call for call in command_calls() if call.resource not in installers and call.verb == "list"}
    granted = {
        KubeCall(rule["apiGroups"][0], resource, verb)
        for rule in rbac.READER_RULES
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    described = {
        KubeCall(group, plural, "get")
        for group, plural in (
            ("", "nodes"), ("", "pods"), ("karpenter.sh", "provisioners"), ("karpenter.k8s.aws", "awsnodetemplates"),
        )
    }  # fmt: skip
    assert granted == asked | watched | devices | described
    (config_maps,) = [rule for rule in rbac.READER_RULES if rule["resources"] == ["configmaps"]]
    assert config_maps["resourceNames"] == [CONFIG_MAP, rbac.PRICES, rbac.DECISIONS]
    role = rbac.rbac("karpenter")["reader-cluster-role"]
    assert (role["metadata"]["name"], role["rules"]) == ("karpenter-reader", list(rbac.READER_RULES))


def test_every_verb_is_used_by_the_code() -> None:
    used = kube_calls()
    for rules in (rbac.CLUSTER_RULES, rbac.NAMESPACE_RULES, rbac.DNS_RULES, rbac.SURGE_RULES):
        for rule in rules:
            for resource in rule["resources"]:
                unused = [v for v in rule["verbs"] if KubeCall(rule["apiGroups"][0], resource, v) not in used]
                assert not unused, f"nobody needs {unused} on {resource}"


def test_leases_config_maps_services_secrets_and_webhooks_are_allowed_by_name_alone() -> None:
    for resource, (rules, _) in BY_NAME.items():
        group = next(rule["apiGroups"][0] for rule in rules if resource in rule["resources"])
        for verb in ("get", "list", "watch", "update", "patch", "delete"):
            assert not allows(rules, KubeCall(group, resource, verb), "other")
            assert not allows(rbac.CLUSTER_RULES, KubeCall(group, resource, verb))
    assert options.Options("karpenter").config_logging_name == LOGGING == rbac.LOGGING
    assert not allows(rbac.NAMESPACE_RULES, KubeCall("", "configmaps", "patch"), CONFIG_MAP), "the stack's to write"


def test_no_rule_has_a_wildcard_and_one_secret_alone_is_read() -> None:
    for rule in (
        *rbac.CLUSTER_RULES,
        *rbac.NAMESPACE_RULES,
        *rbac.DNS_RULES,
        *rbac.SURGE_RULES,
        *rbac.ADMIN_RULES,
        *rbac.READER_RULES,
    ):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        if "secrets" in rule["resources"]:
            assert rule["resourceNames"] == ["karpenter-cert"]
            assert rule in rbac.NAMESPACE_RULES


def test_roles_are_bound_to_the_controllers_service_account() -> None:
    objects = rbac.rbac("karpenter")
    bindings = [each for each in objects.values() if each["kind"].endswith("Binding")]
    assert len(bindings) == 3
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "karpenter", "namespace": "karpenter"}]
        reference = binding["roleRef"]
        bound = [
            e for e in objects.values() if (e["kind"], e["metadata"]["name"]) == (reference["kind"], reference["name"])
        ]
        assert len(bound) == 1
        assert bound[0]["metadata"].get("namespace") == binding["metadata"].get("namespace")
    labels = objects["admin-cluster-role"]["metadata"]["labels"]
    assert labels["rbac.authorization.k8s.io/aggregate-to-admin"] == "true"


def test_deployments_may_be_patched_only_where_single_replicas_are_to_start_elsewhere_first() -> None:
    """Whoever may patch Deployments may run any pod."""
    patch = KubeCall("apps", "deployments", "patch")

    def allowed(objects: dict[str, dict[str, Any]]) -> bool:
        return any(allows(tuple(each["rules"]), patch) for each in objects.values() if "rules" in each)

    assert not allowed(rbac.rbac("karpenter"))
    asked = rbac.rbac("karpenter", surge=True)
    assert allowed(asked)
    assert asked["surge-cluster-role-binding"]["roleRef"]["name"] == asked["surge-cluster-role"]["metadata"]["name"]


def test_owners_of_pods_are_watched_only_where_plans_count_on_pods_to_come() -> None:
    watches = [KubeCall(each.group, each.plural, verb) for each in POD_OWNERS for verb in ("list", "watch")]
    for asked in (False, True):
        objects = rbac.rbac("karpenter", owners=asked).values()
        allowed = [any(allows(tuple(each["rules"]), call) for each in objects if "rules" in each) for call in watches]
        assert set(allowed) == {asked}
    (binding,) = (each for each in objects if each["metadata"]["name"] == "karpenter-owners" and "roleRef" in each)
    assert binding["roleRef"]["name"] == "karpenter-owners"
