"""Every rule of a Provisioner refuses what breaks it, accepts what does not, and says where and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api import labels
from controller.core.api.disruption import DisruptionPolicy
from controller.core.api.node import Taint
from controller.core.api.pod import SelectorRequirement
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.api.v1alpha5.provisioner_rules import (
    SPEC_FIELDS,
)
from controller.errors import ValidationError
from tests.core.api.test_parse_pod import JSON
from tests.factories import provisioner_object

Spec = dict[str, Any]

parse, validate = V1ALPHA5.pool.parse, V1ALPHA5.pool.validate


def req(key: str, operator: str, *values: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def taint(key: Any = "k", effect: Any = "NoSchedule", **fields: Any) -> dict[str, Any]:
    return {"key": key, "effect": effect, **fields}


def kubelet(**fields: Any) -> Spec:
    return {"kubeletConfiguration": fields}


INLINE = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
ZONE = labels.ZONE
LONG = "x" * 64

REJECTED: list[tuple[str, Spec, str]] = [
    ("ttlSecondsUntilExpired", {"ttlSecondsUntilExpired": -1}, "spec.ttlSecondsUntilExpired"),
    ("ttlSecondsUntilExpired: an integer", {"ttlSecondsUntilExpired": "30"}, "spec.ttlSecondsUntilExpired"),
    ("ttlSecondsAfterEmpty", {"ttlSecondsAfterEmpty": -1}, "spec.ttlSecondsAfterEmpty"),
    (
        "ttlSecondsAfterEmpty beside consolidation",
        {"ttlSecondsAfterEmpty": 0, "consolidation": {"enabled": True}},
        "spec.ttlSecondsAfterEmpty",
    ),
    ("provider beside providerRef", {"provider": INLINE}, "spec.provider"),
    ("neither provider nor providerRef", {"providerRef": None}, "spec.providerRef"),
    (
        "label of the controller",
        {"labels": {labels.PROVISIONER_NAME: "x"}},
        'spec.labels["karpenter.sh/provisioner-name"]',
    ),
    ("label key", {"labels": {"spaces are bad": "x"}}, 'spec.labels["spaces are bad"]'),
    ("label key: prefix", {"labels": {"Upper.Case/x": "x"}}, 'spec.labels["Upper.Case/x"]'),
    ("label key: length", {"labels": {LONG: "x"}}, f"spec.labels.{LONG}"),
    ("label value", {"labels": {"a": "/ bad"}}, "spec.labels.a"),
    ("label value: length", {"labels": {"a": LONG}}, "spec.labels.a"),
    ("label value: type", {"labels": {"a": 1}}, "spec.labels.a"),
    ("reserved label", {"labels": {"foo.kubernetes.io/x": "y"}}, 'spec.labels["foo.kubernetes.io/x"]'),
    ("reserved label", {"labels": {"k8s.io/x": "y"}}, 'spec.labels["k8s.io/x"]'),
    ("reserved label", {"labels": {"karpenter.sh/x": "y"}}, 'spec.labels["karpenter.sh/x"]'),
    (
        "reserved label",
        {"labels": {"karpenter.k8s.aws/instance-ami-id": "y"}},
        'spec.labels["karpenter.k8s.aws/instance-ami-id"]',
    ),
    ("reserved label", {"labels": {labels.HOSTNAME: "y"}}, 'spec.labels["kubernetes.io/hostname"]'),
    (
        "reserved label",
        {"labels": {V1ALPHA5.keys.emptiness_timestamp: "y"}},
        'spec.labels["karpenter.sh/emptiness-timestamp"]',
    ),
    (
        "reserved label: old names",
        {"labels": {"beta.kubernetes.io/arch": "arm64"}},
        'spec.labels["beta.kubernetes.io/arch"]',
    ),
    ("taint without key", {"taints": [taint("")]}, "spec.taints[0].key"),
    ("taint without key", {"startupTaints": [{"effect": "NoSchedule"}]}, "spec.startupTaints[0].key"),
    ("taint key", {"taints": [taint("??")]}, "spec.taints[0].key"),
    ("taint value", {"taints": [taint(value="???")]}, "spec.taints[0].value"),
    ("taint value: a Node refuses it too", {"taints": [taint(value="a/b")]}, "spec.taints[0].value"),
    ("taint effect", {"taints": [taint(effect="NoSchedul")]}, "spec.taints[0].effect"),
    ("taint effect: a Node refuses it too", {"taints": [taint(effect="")]}, "spec.taints[0].effect"),
    ("taint twice: within", {"taints": [taint(), taint(value="other")]}, "spec.taints[1]"),
    ("taint twice: across", {"taints": [taint()], "startupTaints": [taint()]}, "spec.startupTaints[0]"),
    (
        "requirement on a label of the controller",
        {"requirements": [req(labels.PROVISIONER_NAME, "In", "x")]},
        "spec.requirements[0].key",
    ),
    ("operator", {"requirements": [req(ZONE, "unknown", "x")]}, "spec.requirements[0].operator"),
    ("operator: case", {"requirements": [req(ZONE, "in", "x")]}, "spec.requirements[0].operator"),
    (
        "requirement on a reserved label",
        {"requirements": [req("foo.karpenter.sh/x", "Exists")]},
        "spec.requirements[0].key",
    ),
    ("requirement on a reserved label", {"requirements": [req(labels.HOSTNAME, "Exists")]}, "spec.requirements[0].key"),
    ("requirement key", {"requirements": [req("a b", "Exists")]}, "spec.requirements[0].key"),
    ("requirement value", {"requirements": [req(ZONE, "In", "ok", "/ bad")]}, "spec.requirements[0].values[1]"),
    ("requirement value: type", {"requirements": [req(ZONE, "In", 1)]}, "spec.requirements[0].values[0]"),
    ("In without values", {"requirements": [req(ZONE, "In")]}, "spec.requirements[0].values"),
    ("In without values", {"requirements": [{"key": ZONE, "operator": "In"}]}, "spec.requirements[0].values"),
    ("Gt and Lt: none", {"requirements": [req("a", "Gt")]}, "spec.requirements[0].values"),
    ("Gt and Lt: two", {"requirements": [req("a", "Lt", "1", "2")]}, "spec.requirements[0].values"),
    ("Gt and Lt: negative", {"requirements": [req("a", "Gt", "-1")]}, "spec.requirements[0].values[0]"),
    ("Gt and Lt: text", {"requirements": [req("a", "Lt", "a")]}, "spec.requirements[0].values[0]"),
    ("Gt and Lt: decimal", {"requirements": [req("a", "Lt", "1.5")]}, "spec.requirements[0].values[0]"),
    ("Gt and Lt: no list", {"requirements": [req("a", "Gt") | {"values": 2}]}, "spec.requirements[0].values"),
    ("Gt and Lt: beyond 64 bits", {"requirements": [req("a", "Gt", "9" * 20)]}, "spec.requirements[0].values[0]"),
    ("eviction signal", kubelet(evictionHard={"memory": "5%"}), "spec.kubeletConfiguration.evictionHard.memory"),
    (
        "eviction signal",
        kubelet(evictionSoft={"x": "5%"}, evictionSoftGracePeriod={"x": "1m"}),
        "spec.kubeletConfiguration.evictionSoft.x",
    ),
    (
        "eviction percentage",
        kubelet(evictionHard={"memory.available": "5%3"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "eviction percentage",
        kubelet(evictionHard={"memory.available": "x%"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "eviction percentage",
        kubelet(evictionHard={"memory.available": "-1%"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "eviction percentage",
        kubelet(evictionHard={"memory.available": "101%"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "eviction percentage",
        kubelet(evictionHard={"pid.available": "nan%"}),
        'spec.kubeletConfiguration.evictionHard["pid.available"]',
    ),
    (
        "eviction quantity",
        kubelet(evictionHard={"memory.available": "5GiB"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "eviction quantity: a bare number",
        kubelet(evictionHard={"pid.available": 5}),
        'spec.kubeletConfiguration.evictionHard["pid.available"]',
    ),
    (
        "container runtime",
        kubelet(containerRuntime="containerd; reboot"),
        "spec.kubeletConfiguration.containerRuntime",
    ),
    ("resource to reserve", kubelet(kubeReserved={"gpu": "1"}), "spec.kubeletConfiguration.kubeReserved.gpu"),
    ("resource to reserve", kubelet(systemReserved={"pods": "1"}), "spec.kubeletConfiguration.systemReserved.pods"),
    ("amount to reserve", kubelet(systemReserved={"cpu": "-1"}), "spec.kubeletConfiguration.systemReserved.cpu"),
    (
        "amount to reserve: malformed",
        kubelet(systemReserved={"cpu": "1 x"}),
        "spec.kubeletConfiguration.systemReserved.cpu",
    ),
    (
        "grace period",
        kubelet(evictionSoft={"x.y": "5%"}, evictionSoftGracePeriod={"x.y": "1m"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["x.y"]',
    ),
    (
        "grace period: a duration",
        kubelet(evictionSoft={"pid.available": "5%"}, evictionSoftGracePeriod={"pid.available": "1"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "grace period: a string",
        kubelet(evictionSoft={"pid.available": "5%"}, evictionSoftGracePeriod={"pid.available": 60}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "grace period: not negative",
        kubelet(evictionSoft={"pid.available": "5%"}, evictionSoftGracePeriod={"pid.available": "-1m"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "soft threshold without grace period",
        kubelet(evictionSoft={"pid.available": "5%"}),
        'spec.kubeletConfiguration.evictionSoft["pid.available"]',
    ),
    (
        "grace period without soft threshold",
        kubelet(evictionSoftGracePeriod={"pid.available": "1m"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "image GC thresholds: high",
        kubelet(imageGCHighThresholdPercent=10, imageGCLowThresholdPercent=60),
        "spec.kubeletConfiguration.imageGCHighThresholdPercent",
    ),
    (
        "image GC thresholds: low",
        kubelet(imageGCHighThresholdPercent=10, imageGCLowThresholdPercent=60),
        "spec.kubeletConfiguration.imageGCLowThresholdPercent",
    ),
    ("weight", {"weight": 0}, "spec.weight"),
    ("weight", {"weight": 101}, "spec.weight"),
    ("weight: a boolean is no integer", {"weight": True}, "spec.weight"),
    ("pod counts", kubelet(maxPods=-1), "spec.kubeletConfiguration.maxPods"),
    ("pod counts", kubelet(podsPerCore=-1), "spec.kubeletConfiguration.podsPerCore"),
    (
        "image GC percentage",
        kubelet(imageGCHighThresholdPercent=101),
        "spec.kubeletConfiguration.imageGCHighThresholdPercent",
    ),
    (
        "image GC percentage",
        kubelet(imageGCLowThresholdPercent=-1),
        "spec.kubeletConfiguration.imageGCLowThresholdPercent",
    ),
    ("missing: name", {"providerRef": {}}, "spec.providerRef.name"),
    ("missing: effect", {"taints": [{"key": "k"}]}, "spec.taints[0].effect"),
    ("missing: operator", {"requirements": [{"key": "a"}]}, "spec.requirements[0].operator"),
    ("missing: key", {"requirements": [{"operator": "Exists"}]}, "spec.requirements[0].key"),
    ("limits are quantities", {"limits": {"resources": {"cpu": "1 core"}}}, "spec.limits.resources.cpu"),
    ("unknown field", {"ttlSecondsAfterEmty": 30}, "spec.ttlSecondsAfterEmty"),
    ("unknown nested field", {"consolidation": {"enable": True}}, "spec.consolidation.enable"),
    ("wrong type", {"requirements": {"key": "a"}}, "spec.requirements"),
    ("wrong type", {"labels": ["a"]}, "spec.labels"),
    ("wrong type", {"taints": ["a"]}, "spec.taints[0]"),
    ("wrong type", {"requirements": [req("a", "Exists"), None]}, "spec.requirements[1]"),
    (
        "the inline provider obeys the rules of templates",
        {"providerRef": None, "provider": {}},
        "spec.provider.subnetSelector",
    ),
    (
        "the inline provider is decoded strictly",
        {"providerRef": None, "provider": {**INLINE, "userData": "x"}},
        "spec.provider.userData",
    ),
]

ACCEPTED: list[tuple[str, Spec]] = [
    ("ttlSecondsUntilExpired", {"ttlSecondsUntilExpired": 0}),
    ("ttlSecondsAfterEmpty", {"ttlSecondsAfterEmpty": 0}),
    ("ttlSecondsAfterEmpty beside consolidation", {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": False}}),
    ("ttlSecondsAfterEmpty beside consolidation", {"ttlSecondsUntilExpired": 30, "consolidation": {"enabled": True}}),
    ("provider alone", {"provider": INLINE, "providerRef": None}),
    (
        "providerRef with kind and version",
        {"providerRef": {"name": "x", "kind": "AWSNodeTemplate", "apiVersion": "karpenter.k8s.aws/v1alpha1"}},
    ),
    ("label keys and values", {"labels": {"team": "a", "example.com/x": "", "a.b-c.d/E_f.g-H": "G.h"}}),
    (
        "reserved label: exceptions",
        {"labels": {"kops.k8s.io/x": "y", "node.kubernetes.io/x": "y", "testing.karpenter.sh/x": "y"}},
    ),
    ("reserved label: well-known", {"labels": dict.fromkeys(labels.WELL_KNOWN - {labels.PROVISIONER_NAME}, "x")}),
    ("reserved label: a domain that only ends alike", {"labels": {"fookubernetes.io/x": "y"}}),
    ("taints", {"taints": [taint(), taint("e.com/k", "NoExecute", value="v"), taint("c", "PreferNoSchedule")]}),
    ("taint twice: other effect", {"taints": [taint()], "startupTaints": [taint(effect="NoExecute")]}),
    (
        "operator",
        {"requirements": [req("a", "NotIn"), req("b", "Exists"), req("c", "DoesNotExist"), req("d", "Gt", "0")]},
    ),
    ("operator", {"requirements": [req("a", "In", "x"), req("a", "NotIn", "x"), req("a", "Exists", "y")]}),
    (
        "requirement on a reserved label: old names",
        {"requirements": [req("failure-domain.beta.kubernetes.io/zone", "In", "a")]},
    ),
    (
        "requirement on a reserved label: well-known",
        {"requirements": [req(k, "Exists") for k in labels.WELL_KNOWN - {labels.PROVISIONER_NAME}]},
    ),
    ("requirement on a reserved label: exceptions", {"requirements": [req("kops.k8s.io/x", "Exists")]}),
    ("requirement value", {"requirements": [req(ZONE, "In", "", "a.b_c-d")]}),
    ("no requirements", {"requirements": []}),
    ("Gt and Lt", {"requirements": [req("a", "Gt", "0"), req("b", "Lt", "100")]}),
    (
        "eviction",
        kubelet(
            evictionHard={"memory.available": "5%", "nodefs.available": "10%", "nodefs.inodesFree": "0%"},
            evictionSoft={"imagefs.available": "5.5%", "imagefs.inodesFree": "100%", "pid.available": "5"},
            evictionSoftGracePeriod={"imagefs.available": "1m", "imagefs.inodesFree": "1m30s", "pid.available": "0s"},
        ),
    ),
    ("eviction quantity", kubelet(evictionHard={"memory.available": "500Mi"})),
    ("reserved amounts", kubelet(systemReserved={"cpu": "100m", "memory": "0"})),
    ("reserved amounts", kubelet(kubeReserved={"ephemeral-storage": "1Gi", "pid": 7})),
    ("image GC thresholds: equal", kubelet(imageGCHighThresholdPercent=60, imageGCLowThresholdPercent=60)),
    ("image GC thresholds: one alone", kubelet(imageGCHighThresholdPercent=1)),
    ("weight", {"weight": 1}),
    ("weight", {"weight": 100}),
    (
        "kubelet numbers",
        kubelet(maxPods=0, podsPerCore=0, imageGCHighThresholdPercent=100, imageGCLowThresholdPercent=0),
    ),
    ("limits", {"limits": {"resources": {"cpu": 1000, "memory": "1000Gi", "example.com/x": "1e3"}}}),
    ("no limits", {"limits": {}}),
]


@pytest.mark.parametrize(("rule", "spec", "path"), REJECTED)
def test_refused_at_its_path_with_a_remedy(rule: str, spec: Spec, path: str) -> None:
    problems = validate(provisioner_object(spec=spec))
    assert path in [problem.path for problem in problems], (rule, problems)
    assert all(problem.message for problem in problems)
    with pytest.raises(ValidationError) as caught:
        parse(provisioner_object(spec=spec))
    assert caught.value.problems == problems


@pytest.mark.parametrize(("rule", "spec"), ACCEPTED)
def test_accepted(rule: str, spec: Spec) -> None:
    assert validate(provisioner_object(spec=spec)) == (), rule


@pytest.mark.parametrize(
    ("rule", "metadata", "path"),
    [
        ("name", {"name": "Upper"}, "metadata.name"),
        ("name: no dots", {"name": "a.b"}, "metadata.name"),
        ("name: letter first", {"name": "1a"}, "metadata.name"),
        ("name: length", {"name": "a" * 64}, "metadata.name"),
        ("name", {"generateName": "Upper-"}, "metadata.generateName"),
        ("no name", {}, "metadata.name"),
    ],
)
def test_names_are_refused(rule: str, metadata: dict[str, str], path: str) -> None:
    problems = validate({**provisioner_object(), "metadata": metadata})
    assert [problem.path for problem in problems] == [path], rule


@pytest.mark.parametrize("metadata", [{"name": "a-1"}, {"name": "a" * 63}, {"generateName": "pool-"}])
def test_names_are_accepted(metadata: dict[str, str]) -> None:
    assert validate({**provisioner_object(), "metadata": metadata}) == ()


def test_all_problems_are_told_at_once() -> None:
    spec = {"weight": 0, "labels": {"a b": "c"}, "requirements": [req(ZONE, "In")], "ttlSecondsAfterEmty": 3}
    with pytest.raises(ValidationError) as caught:
        parse(provisioner_object(name="pool", spec=spec))
    assert {problem.path for problem in caught.value.problems} == {
        *("spec.weight", 'spec.labels["a b"]', "spec.requirements[0].values", "spec.ttlSecondsAfterEmty")
    }
    assert "Provisioner pool" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ({"ttlSecondsAfterEmty": 3}, "did you mean 'ttlSecondsAfterEmpty'?"),
        ({"Requirements": []}, "did you mean 'requirements'?"),
        ({"requirements": [req(ZONE, "in", "x")]}, "did you mean 'In'?"),
        ({"requirements": [req("karpenter.sh/capacity-typ", "Exists")]}, "did you mean 'karpenter.sh/capacity-type'?"),
        ({"labels": {"beta.kubernetes.io/arch": "x"}}, "use kubernetes.io/arch"),
        ({"requirements": [req("a", "Gt", 2)]}, 'quote it: "2"'),
        (kubelet(kubeReserved={"memry": "1Gi"}), "did you mean 'memory'?"),
        ({"xyz": 1}, "known: annotations"),
    ],
)
def test_remedies_name_what_was_meant(spec: Spec, hint: str) -> None:
    assert hint in " ".join(problem.remedy for problem in validate(provisioner_object(spec=spec)))


def test_every_field_is_read() -> None:
    spec = {
        "annotations": {"a": "b"},
        "labels": {"team": "x"},
        "taints": [taint(value="v")],
        "startupTaints": [taint("s", "NoExecute")],
        "requirements": [req("team-size", "Gt", "2")],
        "kubeletConfiguration": {
            "clusterDNS": ["10.0.0.10"],
            "containerRuntime": "containerd",
            "maxPods": 20,
            "podsPerCore": 2,
            "systemReserved": {"cpu": "100m"},
            "kubeReserved": {"pid": 100},
            "evictionHard": {"memory.available": "5%"},
            "evictionSoft": {"memory.available": "500Mi"},
            "evictionSoftGracePeriod": {"memory.available": "1m"},
            "evictionMaxPodGracePeriod": 60,
            "imageGCHighThresholdPercent": 85,
            "imageGCLowThresholdPercent": 80,
            "cpuCFSQuota": True,
        },
        "providerRef": {"name": "template"},
        "ttlSecondsAfterEmpty": 30,
        "ttlSecondsUntilExpired": 3600,
        "limits": {"resources": {"cpu": 1000, "memory": "10Gi"}},
        "weight": 10,
    }
    document = provisioner_object(
        spec=spec, annotations={"karpenter.sh/x": "y"}, deletionTimestamp="2026-01-02T03:04:05Z"
    )
    provisioner = parse({**document, "status": {"resources": {"cpu": "4"}}})
    assert (provisioner.annotations, provisioner.labels) == ({"a": "b"}, {"team": "x"})
    assert provisioner.taints == (Taint("k", "v"),)
    assert provisioner.startup_taints == (Taint("s", "", "NoExecute"),)
    assert provisioner.requirements[0] == SelectorRequirement("team-size", "Gt", ("2",))
    kubelet_read = provisioner.kubelet
    assert kubelet_read.cluster_dns == ("10.0.0.10",)
    assert (kubelet_read.container_runtime, kubelet_read.max_pods, kubelet_read.pods_per_core) == ("containerd", 20, 2)
    assert (kubelet_read.system_reserved, kubelet_read.kube_reserved) == ({"cpu": "100m"}, {"pid": "100"})
    assert (kubelet_read.eviction_hard, kubelet_read.eviction_soft) == (
        {"memory.available": "5%"},
        {"memory.available": "500Mi"},
    )
    assert kubelet_read.eviction_soft_grace_period == {"memory.available": "1m"}
    assert (kubelet_read.eviction_max_pod_grace_period, kubelet_read.cpu_cfs_quota) == (60, True)
    assert (kubelet_read.image_gc_high_threshold_percent, kubelet_read.image_gc_low_threshold_percent) == (85, 80)
    assert (provisioner.provider_ref, provisioner.inline_template, provisioner.weight) == ("template", None, 10)
    assert provisioner.disruption == DisruptionPolicy(empty_after_seconds=30, expire_after_seconds=3600)
    assert provisioner.limits == {"cpu": 1_000_000, "memory": 10 * 2**30}
    assert (provisioner.object_annotations, provisioner.status_resources) == ({"karpenter.sh/x": "y"}, {"cpu": 4000})
    assert (provisioner.generation, provisioner.deleted_at, provisioner.resource_version) == (1, 1767323045.0, "1")
    assert {**spec, "provider": None, "consolidation": None}.keys() == set(SPEC_FIELDS)


def test_inline_provider_becomes_a_template_named_after_its_provisioner() -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}]
    inline = {**INLINE, "tags": {"team": "x"}, "blockDeviceMappings": devices, "kind": "AWS", "apiVersion": "x/v1"}
    provisioner = parse(provisioner_object(name="pool", spec={"providerRef": None, "provider": inline}))
    hash(provisioner)
    template = provisioner.inline_template
    assert template is not None
    assert (template.name, template.subnet_selector, template.tags) == ("pool", {"a": "b"}, {"team": "x"})
    assert template.block_device_mappings is not None
    assert template.block_device_mappings[0].ebs.volume_size_bytes == 20 * 2**30


GUIDES: list[Spec] = [
    {
        "requirements": [
            req("karpenter.k8s.aws/instance-category", "In", "c", "m", "r"),
            req("karpenter.k8s.aws/instance-generation", "Gt", "2"),
        ]
    },
    {
        "requirements": [req("karpenter.sh/capacity-type", "In", "spot")],
        "limits": {"resources": {"cpu": 1000}},
        "ttlSecondsAfterEmpty": 30,
    },
    {
        "requirements": [
            req("karpenter.sh/capacity-type", "In", "spot"),
            req("node.kubernetes.io/instance-type", "In", "p2.xlarge", "p3.2xlarge", "p3.8xlarge", "p3.16xlarge"),
            req("kubernetes.io/arch", "In", "nvidia", "amd64"),
        ],
        "limits": {"resources": {"cpu": 1000, "memory": "1000Gi", "nvidia.com/gpu": 10}},
        "ttlSecondsAfterEmpty": 30,
    },
]


@pytest.mark.parametrize("spec", GUIDES, ids=["A and B", "C", "D"])
def test_the_guides_manifests_are_accepted_unchanged(spec: Spec) -> None:
    provisioner = parse(provisioner_object(spec=spec, labels={"app": "karpenter", "version": "v0.25.0"}))
    written = tuple(SelectorRequirement(r["key"], r["operator"], tuple(r["values"])) for r in spec["requirements"])
    assert provisioner.requirements[: len(written)] == written
    limit = None if provisioner.limits is None else provisioner.limits["cpu"]
    assert limit == (1_000_000 if "limits" in spec else None)


FIELD_VALUES = st.fixed_dictionaries(
    {},
    optional={
        name: JSON
        | st.lists(st.dictionaries(st.sampled_from(["key", "effect", "operator", "values", "value"]), JSON), max_size=2)
        | st.dictionaries(st.sampled_from(["enabled", "resources", "name", "maxPods", "evictionSoft", "tags"]), JSON)
        for name in SPEC_FIELDS
    },
)


@settings(max_examples=150, deadline=None)
@given(JSON | FIELD_VALUES, JSON)
def test_any_document_is_parsed_or_refused_with_problems(spec: object, metadata: object) -> None:
    document = {"metadata": metadata, "spec": spec}
    problems = validate(document)
    if problems:
        with pytest.raises(ValidationError) as caught:
            parse(document)
        assert caught.value.problems == problems
    else:
        assert hash(parse(document)) == hash(parse(document))
