"""Every rule of a Provisioner refuses what breaks it, accepts what does not, and says where and what to do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core.api import labels
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import SelectorRequirement
from controller.core.api.provisioner import Provisioner
from controller.core.api.v1alpha5.provisioner_rules import (
    SPEC_FIELDS,
    inline_template,
    parse_provisioner,
    validate_provisioner,
)
from controller.errors import ValidationError
from tests.core.api.test_parse_pod import JSON
from tests.factories import provisioner_object

Spec = dict[str, Any]


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
    ("R3", {"ttlSecondsUntilExpired": -1}, "spec.ttlSecondsUntilExpired"),
    ("R3 an integer", {"ttlSecondsUntilExpired": "30"}, "spec.ttlSecondsUntilExpired"),
    ("R4", {"ttlSecondsAfterEmpty": -1}, "spec.ttlSecondsAfterEmpty"),
    ("R5", {"ttlSecondsAfterEmpty": 0, "consolidation": {"enabled": True}}, "spec.ttlSecondsAfterEmpty"),
    ("R6", {"provider": INLINE}, "spec.provider"),
    ("R7", {"providerRef": None}, "spec.providerRef"),
    ("R8", {"labels": {labels.PROVISIONER_NAME: "x"}}, 'spec.labels["karpenter.sh/provisioner-name"]'),
    ("R9", {"labels": {"spaces are bad": "x"}}, 'spec.labels["spaces are bad"]'),
    ("R9 prefix", {"labels": {"Upper.Case/x": "x"}}, 'spec.labels["Upper.Case/x"]'),
    ("R9 length", {"labels": {LONG: "x"}}, f"spec.labels.{LONG}"),
    ("R10", {"labels": {"a": "/ bad"}}, "spec.labels.a"),
    ("R10 length", {"labels": {"a": LONG}}, "spec.labels.a"),
    ("R10 type", {"labels": {"a": 1}}, "spec.labels.a"),
    ("R11", {"labels": {"foo.kubernetes.io/x": "y"}}, 'spec.labels["foo.kubernetes.io/x"]'),
    ("R11", {"labels": {"k8s.io/x": "y"}}, 'spec.labels["k8s.io/x"]'),
    ("R11", {"labels": {"karpenter.sh/x": "y"}}, 'spec.labels["karpenter.sh/x"]'),
    ("R11", {"labels": {"karpenter.k8s.aws/instance-ami-id": "y"}}, 'spec.labels["karpenter.k8s.aws/instance-ami-id"]'),
    ("R11", {"labels": {labels.HOSTNAME: "y"}}, 'spec.labels["kubernetes.io/hostname"]'),
    ("R11", {"labels": {labels.EMPTINESS_TIMESTAMP: "y"}}, 'spec.labels["karpenter.sh/emptiness-timestamp"]'),
    ("R11 old names", {"labels": {"beta.kubernetes.io/arch": "arm64"}}, 'spec.labels["beta.kubernetes.io/arch"]'),
    ("R12", {"taints": [taint("")]}, "spec.taints[0].key"),
    ("R12", {"startupTaints": [{"effect": "NoSchedule"}]}, "spec.startupTaints[0].key"),
    ("R13", {"taints": [taint("??")]}, "spec.taints[0].key"),
    ("R14", {"taints": [taint(value="???")]}, "spec.taints[0].value"),
    ("R14 a Node refuses it too", {"taints": [taint(value="a/b")]}, "spec.taints[0].value"),
    ("R15", {"taints": [taint(effect="NoSchedul")]}, "spec.taints[0].effect"),
    ("R15 a Node refuses it too", {"taints": [taint(effect="")]}, "spec.taints[0].effect"),
    ("R16 within", {"taints": [taint(), taint(value="other")]}, "spec.taints[1]"),
    ("R16 across", {"taints": [taint()], "startupTaints": [taint()]}, "spec.startupTaints[0]"),
    ("R17", {"requirements": [req(labels.PROVISIONER_NAME, "In", "x")]}, "spec.requirements[0].key"),
    ("R18", {"requirements": [req(ZONE, "unknown", "x")]}, "spec.requirements[0].operator"),
    ("R18 case", {"requirements": [req(ZONE, "in", "x")]}, "spec.requirements[0].operator"),
    ("R19", {"requirements": [req("foo.karpenter.sh/x", "Exists")]}, "spec.requirements[0].key"),
    ("R19", {"requirements": [req(labels.HOSTNAME, "Exists")]}, "spec.requirements[0].key"),
    ("R20", {"requirements": [req("a b", "Exists")]}, "spec.requirements[0].key"),
    ("R21", {"requirements": [req(ZONE, "In", "ok", "/ bad")]}, "spec.requirements[0].values[1]"),
    ("R21 type", {"requirements": [req(ZONE, "In", 1)]}, "spec.requirements[0].values[0]"),
    ("R22", {"requirements": [req(ZONE, "In")]}, "spec.requirements[0].values"),
    ("R22", {"requirements": [{"key": ZONE, "operator": "In"}]}, "spec.requirements[0].values"),
    ("R23 none", {"requirements": [req("a", "Gt")]}, "spec.requirements[0].values"),
    ("R23 two", {"requirements": [req("a", "Lt", "1", "2")]}, "spec.requirements[0].values"),
    ("R23 negative", {"requirements": [req("a", "Gt", "-1")]}, "spec.requirements[0].values[0]"),
    ("R23 text", {"requirements": [req("a", "Lt", "a")]}, "spec.requirements[0].values[0]"),
    ("R23 decimal", {"requirements": [req("a", "Lt", "1.5")]}, "spec.requirements[0].values[0]"),
    ("R24", kubelet(evictionHard={"memory": "5%"}), "spec.kubeletConfiguration.evictionHard.memory"),
    (
        "R24",
        kubelet(evictionSoft={"x": "5%"}, evictionSoftGracePeriod={"x": "1m"}),
        "spec.kubeletConfiguration.evictionSoft.x",
    ),
    (
        "R25",
        kubelet(evictionHard={"memory.available": "5%3"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "R25",
        kubelet(evictionHard={"memory.available": "x%"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "R25",
        kubelet(evictionHard={"memory.available": "-1%"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "R25",
        kubelet(evictionHard={"memory.available": "101%"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    ("R25", kubelet(evictionHard={"pid.available": "nan%"}), 'spec.kubeletConfiguration.evictionHard["pid.available"]'),
    (
        "R26",
        kubelet(evictionHard={"memory.available": "5GiB"}),
        'spec.kubeletConfiguration.evictionHard["memory.available"]',
    ),
    (
        "R26 a bare number",
        kubelet(evictionHard={"pid.available": 5}),
        'spec.kubeletConfiguration.evictionHard["pid.available"]',
    ),
    ("R27", kubelet(kubeReserved={"gpu": "1"}), "spec.kubeletConfiguration.kubeReserved.gpu"),
    ("R27", kubelet(systemReserved={"pods": "1"}), "spec.kubeletConfiguration.systemReserved.pods"),
    ("R28", kubelet(systemReserved={"cpu": "-1"}), "spec.kubeletConfiguration.systemReserved.cpu"),
    ("R28 malformed", kubelet(systemReserved={"cpu": "1 x"}), "spec.kubeletConfiguration.systemReserved.cpu"),
    (
        "R29",
        kubelet(evictionSoft={"x.y": "5%"}, evictionSoftGracePeriod={"x.y": "1m"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["x.y"]',
    ),
    (
        "R29 a duration",
        kubelet(evictionSoft={"pid.available": "5%"}, evictionSoftGracePeriod={"pid.available": "1"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "R29 a string",
        kubelet(evictionSoft={"pid.available": "5%"}, evictionSoftGracePeriod={"pid.available": 60}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "R29 not negative",
        kubelet(evictionSoft={"pid.available": "5%"}, evictionSoftGracePeriod={"pid.available": "-1m"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    ("R30", kubelet(evictionSoft={"pid.available": "5%"}), 'spec.kubeletConfiguration.evictionSoft["pid.available"]'),
    (
        "R31",
        kubelet(evictionSoftGracePeriod={"pid.available": "1m"}),
        'spec.kubeletConfiguration.evictionSoftGracePeriod["pid.available"]',
    ),
    (
        "R32 high",
        kubelet(imageGCHighThresholdPercent=10, imageGCLowThresholdPercent=60),
        "spec.kubeletConfiguration.imageGCHighThresholdPercent",
    ),
    (
        "R32 low",
        kubelet(imageGCHighThresholdPercent=10, imageGCLowThresholdPercent=60),
        "spec.kubeletConfiguration.imageGCLowThresholdPercent",
    ),
    ("R33", {"weight": 0}, "spec.weight"),
    ("R33", {"weight": 101}, "spec.weight"),
    ("R33 a boolean is no integer", {"weight": True}, "spec.weight"),
    ("R34", kubelet(maxPods=-1), "spec.kubeletConfiguration.maxPods"),
    ("R34", kubelet(podsPerCore=-1), "spec.kubeletConfiguration.podsPerCore"),
    ("R35", kubelet(imageGCHighThresholdPercent=101), "spec.kubeletConfiguration.imageGCHighThresholdPercent"),
    ("R35", kubelet(imageGCLowThresholdPercent=-1), "spec.kubeletConfiguration.imageGCLowThresholdPercent"),
    ("R36 name", {"providerRef": {}}, "spec.providerRef.name"),
    ("R36 effect", {"taints": [{"key": "k"}]}, "spec.taints[0].effect"),
    ("R36 operator", {"requirements": [{"key": "a"}]}, "spec.requirements[0].operator"),
    ("R36 key", {"requirements": [{"operator": "Exists"}]}, "spec.requirements[0].key"),
    ("limits are quantities", {"limits": {"resources": {"cpu": "1 core"}}}, "spec.limits.resources.cpu"),
    ("unknown field", {"ttlSecondsAfterEmty": 30}, "spec.ttlSecondsAfterEmty"),
    ("unknown nested field", {"consolidation": {"enable": True}}, "spec.consolidation.enable"),
    ("wrong type", {"requirements": {"key": "a"}}, "spec.requirements"),
    ("wrong type", {"labels": ["a"]}, "spec.labels"),
    ("wrong type", {"taints": ["a"]}, "spec.taints[0]"),
    ("wrong type", {"requirements": [req("a", "Exists"), None]}, "spec.requirements[1]"),
    ("R40 to R52 hold for the inline provider", {"providerRef": None, "provider": {}}, "spec.provider.subnetSelector"),
    (
        "the inline provider is decoded strictly",
        {"providerRef": None, "provider": {**INLINE, "userData": "x"}},
        "spec.provider.userData",
    ),
]

ACCEPTED: list[tuple[str, Spec]] = [
    ("R3", {"ttlSecondsUntilExpired": 0}),
    ("R4", {"ttlSecondsAfterEmpty": 0}),
    ("R5", {"ttlSecondsAfterEmpty": 30, "consolidation": {"enabled": False}}),
    ("R5", {"ttlSecondsUntilExpired": 30, "consolidation": {"enabled": True}}),
    ("R6", {"provider": INLINE, "providerRef": None}),
    ("R7", {"providerRef": {"name": "x", "kind": "AWSNodeTemplate", "apiVersion": "karpenter.k8s.aws/v1alpha1"}}),
    ("R9, R10", {"labels": {"team": "a", "example.com/x": "", "a.b-c.d/E_f.g-H": "G.h"}}),
    ("R11 exceptions", {"labels": {"kops.k8s.io/x": "y", "node.kubernetes.io/x": "y", "testing.karpenter.sh/x": "y"}}),
    ("R11 well-known", {"labels": dict.fromkeys(labels.WELL_KNOWN - {labels.PROVISIONER_NAME}, "x")}),
    ("R11 a domain that only ends alike", {"labels": {"fookubernetes.io/x": "y"}}),
    ("R12 to R15", {"taints": [taint(), taint("e.com/k", "NoExecute", value="v"), taint("c", "PreferNoSchedule")]}),
    ("R16 other effect", {"taints": [taint()], "startupTaints": [taint(effect="NoExecute")]}),
    ("R18", {"requirements": [req("a", "NotIn"), req("b", "Exists"), req("c", "DoesNotExist"), req("d", "Gt", "0")]}),
    ("R18", {"requirements": [req("a", "In", "x"), req("a", "NotIn", "x"), req("a", "Exists", "y")]}),
    ("R19 old names", {"requirements": [req("failure-domain.beta.kubernetes.io/zone", "In", "a")]}),
    ("R19 well-known", {"requirements": [req(k, "Exists") for k in labels.WELL_KNOWN - {labels.PROVISIONER_NAME}]}),
    ("R19 exceptions", {"requirements": [req("kops.k8s.io/x", "Exists")]}),
    ("R21", {"requirements": [req(ZONE, "In", "", "a.b_c-d")]}),
    ("R22", {"requirements": []}),
    ("R23", {"requirements": [req("a", "Gt", "0"), req("b", "Lt", "100")]}),
    ("R24 to R31", kubelet(
        evictionHard={"memory.available": "5%", "nodefs.available": "10%", "nodefs.inodesFree": "0%"},
        evictionSoft={"imagefs.available": "5.5%", "imagefs.inodesFree": "100%", "pid.available": "5"},
        evictionSoftGracePeriod={"imagefs.available": "1m", "imagefs.inodesFree": "1m30s", "pid.available": "0s"},
    )),
    ("R26", kubelet(evictionHard={"memory.available": "500Mi"})),
    ("R27, R28", kubelet(systemReserved={"cpu": "100m", "memory": "0"})),
    ("R27, R28", kubelet(kubeReserved={"ephemeral-storage": "1Gi", "pid": 7})),
    ("R32 equal", kubelet(imageGCHighThresholdPercent=60, imageGCLowThresholdPercent=60)),
    ("R32 one alone", kubelet(imageGCHighThresholdPercent=1)),
    ("R33", {"weight": 1}),
    ("R33", {"weight": 100}),
    ("R34, R35", kubelet(maxPods=0, podsPerCore=0, imageGCHighThresholdPercent=100, imageGCLowThresholdPercent=0)),
    ("limits", {"limits": {"resources": {"cpu": 1000, "memory": "1000Gi", "example.com/x": "1e3"}}}),
    ("no limits", {"limits": {}}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "spec", "path"), REJECTED)
def test_refused_at_its_path_with_a_remedy(rule: str, spec: Spec, path: str) -> None:
    problems = validate_provisioner(provisioner_object(spec=spec))
    assert path in [problem.path for problem in problems], (rule, problems)
    assert all(problem.message for problem in problems)
    with pytest.raises(ValidationError) as caught:
        parse_provisioner(provisioner_object(spec=spec))
    assert caught.value.problems == problems


@pytest.mark.parametrize(("rule", "spec"), ACCEPTED)
def test_accepted(rule: str, spec: Spec) -> None:
    assert validate_provisioner(provisioner_object(spec=spec)) == (), rule


@pytest.mark.parametrize(
    ("rule", "metadata", "path"),
    [
        ("R1", {"name": "Upper"}, "metadata.name"),
        ("R1 no dots", {"name": "a.b"}, "metadata.name"),
        ("R1 letter first", {"name": "1a"}, "metadata.name"),
        ("R1 length", {"name": "a" * 64}, "metadata.name"),
        ("R1", {"generateName": "Upper-"}, "metadata.generateName"),
        ("R2", {}, "metadata.name"),
    ],
)
def test_names_are_refused(rule: str, metadata: dict[str, str], path: str) -> None:
    problems = validate_provisioner({**provisioner_object(), "metadata": metadata})
    assert [problem.path for problem in problems] == [path], rule


@pytest.mark.parametrize("metadata", [{"name": "a-1"}, {"name": "a" * 63}, {"generateName": "pool-"}])
def test_r1_r2_names_are_accepted(metadata: dict[str, str]) -> None:
    assert validate_provisioner({**provisioner_object(), "metadata": metadata}) == ()


def test_all_problems_are_told_at_once() -> None:
    spec = {"weight": 0, "labels": {"a b": "c"}, "requirements": [req(ZONE, "In")], "ttlSecondsAfterEmty": 3}
    with pytest.raises(ValidationError) as caught:
        parse_provisioner(provisioner_object(name="pool", spec=spec))
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
    assert hint in " ".join(problem.remedy for problem in validate_provisioner(provisioner_object(spec=spec)))


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
    provisioner = parse_provisioner({**document, "status": {"resources": {"cpu": "4"}}})
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
    assert (provisioner.provider_ref, provisioner.provider, provisioner.weight) == ("template", None, 10)
    assert (provisioner.ttl_seconds_after_empty, provisioner.ttl_seconds_until_expired) == (30, 3600)
    assert provisioner.limits == {"cpu": 1_000_000, "memory": 10 * 2**30}
    assert (provisioner.object_annotations, provisioner.status_resources) == ({"karpenter.sh/x": "y"}, {"cpu": 4000})
    assert (provisioner.generation, provisioner.deleted_at, provisioner.resource_version) == (1, 1767323045.0, "1")
    assert {**spec, "provider": None, "consolidation": None}.keys() == set(SPEC_FIELDS)


def test_inline_provider_becomes_a_template_named_after_its_provisioner() -> None:
    devices = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}]
    inline = {**INLINE, "tags": {"team": "x"}, "blockDeviceMappings": devices, "kind": "AWS", "apiVersion": "x/v1"}
    provisioner = parse_provisioner(provisioner_object(name="pool", spec={"providerRef": None, "provider": inline}))
    hash(provisioner)
    template = inline_template(provisioner)
    assert (template.name, template.subnet_selector, template.tags) == ("pool", {"a": "b"}, {"team": "x"})
    assert template.block_device_mappings is not None
    assert template.block_device_mappings[0].ebs.volume_size_bytes == 20 * 2**30


def test_a_provisioner_without_inline_provider_has_no_inline_template() -> None:
    with pytest.raises(ValueError, match="no inline provider"):
        inline_template(parse_provisioner(provisioner_object()))


def test_a_broken_inline_provider_names_its_provisioner() -> None:
    provisioner = Provisioner(name="pool", provider=FrozenMap({"subnetSelector": FrozenMap({"a": "b"})}))
    with pytest.raises(ValidationError, match=r"Provisioner pool: spec\.provider\.securityGroupSelector: is missing"):
        inline_template(provisioner)


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
    provisioner = parse_provisioner(provisioner_object(spec=spec, labels={"app": "karpenter", "version": "v0.25.0"}))
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
    problems = validate_provisioner(document)
    if problems:
        with pytest.raises(ValidationError) as caught:
            parse_provisioner(document)
        assert caught.value.problems == problems
    else:
        assert hash(parse_provisioner(document)) == hash(parse_provisioner(document))
