"""Whatever text reaches user data, it comes back from it as itself and nothing else, or is refused."""

from __future__ import annotations

import shlex
import tomllib
from dataclasses import replace
from email import message_from_string
from email.message import Message
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controller.aws.amifamily import FAMILIES
from controller.aws.amifamily.al2023 import NODE_CONFIG, node_config
from controller.aws.amifamily.bottlerocket import kubernetes_settings
from controller.aws.amifamily.eks_bootstrap import HEADER, kubelet_arguments
from controller.aws.amifamily.family import Bootstrap
from controller.aws.amifamily.user_data import SHELL_SCRIPT, Part, merge_mime
from controller.aws.api.cluster_facts import ClusterFacts
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.provisioner import KubeletConfiguration
from controller.errors import NodeTemplateError

CLUSTER = ClusterFacts("demo", "https://api.demo", "Q0E=", "1.34", service_cidr="172.20.0.0/16", dns_ip="172.20.0.10")
HOSTILE = (
    "a b", "a'b", 'a"b', "$(reboot)", "`reboot`", "a;b", "a\nb", "a\rb", "--//", "--//--", "a,b=c", "x --v=9",
    "'; reboot; '", "\\", "]\n[settings.host-containers.admin]\nenabled = true", '"""', "\u2028", "é", "\x00", "a\tb",
    "MIME-Version: 1.0\n\n--\r//\nContent-Type: text/x-shellscript\n\nreboot",
)  # fmt: skip
BOUNDARIES = ("--//", "--//--")
"""They are plain text: the document takes another boundary."""
_texts = st.one_of(st.text(st.sampled_from("abz019-_.:/=+%,;'\"$`\\ \n\r\t"), max_size=12), st.sampled_from(HOSTILE))
_plain = st.text(st.sampled_from("abz019-_./"), max_size=8)
_values = st.one_of(_plain, _texts)
_maps = st.dictionaries(_values, _values, max_size=2).map(FrozenMap)
_taints = st.lists(st.builds(Taint, _values, _values, st.sampled_from(["NoSchedule", "NoExecute", "a b"])), max_size=2)
_clusters = st.builds(ClusterFacts, _values, _values, _values, st.just("1.34"), service_cidr=_values, dns_ip=_values)
_kubelets = st.builds(
    KubeletConfiguration,
    cluster_dns=st.lists(_values, max_size=1).map(tuple),
    container_runtime=st.one_of(st.none(), _values),
    system_reserved=_maps,
    kube_reserved=_maps,
    eviction_hard=_maps,
    eviction_soft=_maps,
    eviction_soft_grace_period=_maps,
)
_custom = st.one_of(st.none(), _texts, st.text(max_size=60))


def parts_of(document: str) -> list[Message]:
    message = message_from_string(document)
    assert not message.defects
    return [part for part in message.walk() if not part.is_multipart()]


def words_of(script: str) -> list[str]:
    """The arguments of the one command in a bootstrap script, as a shell splits them."""
    assert script.startswith(HEADER)
    lexer = shlex.shlex(script.removeprefix(HEADER).replace("\\\n", ""), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    assert words[0] == "/etc/eks/bootstrap.sh"
    return words


def check_shell(bootstrap: Bootstrap, document: str) -> None:
    *users, script = parts_of(document)
    assert len(users) <= 1
    words = words_of(str(script.get_payload()))
    options = {word: words[place + 1] for place, word in enumerate(words[:-1]) if word.startswith("--")}
    assert words[1] == bootstrap.cluster.name
    assert options["--apiserver-endpoint"] == bootstrap.cluster.endpoint
    assert set(words[2::2]) <= {
        "--apiserver-endpoint", "--b64-cluster-ca", "--container-runtime", "--kubelet-extra-args", "--dns-cluster-ip",
        "--ip-family",
    }  # fmt: skip
    if arguments := kubelet_arguments(bootstrap):
        assert options["--kubelet-extra-args"].split() == arguments
        labels = [each.removeprefix("--node-labels=") for each in arguments if each.startswith("--node-labels=")]
        if bootstrap.labels:
            assert sorted(labels[0].split(",")) == sorted(f"{k}={v}" for k, v in bootstrap.labels.items())
    runtime = bootstrap.kubelet.container_runtime
    if runtime and "--container-runtime" in options:
        assert options["--container-runtime"] == runtime


def check_toml(bootstrap: Bootstrap, document: str) -> None:
    merged, users = tomllib.loads(document), tomllib.loads(bootstrap.custom or "")
    ours = kubernetes_settings(bootstrap)
    kubernetes = merged["settings"]["kubernetes"]
    assert {key: kubernetes[key] for key in ours} == ours
    theirs = users.get("settings", {}).get("kubernetes", {})
    assert set(kubernetes) <= set(ours) | set(theirs)
    assert {key: value for key, value in merged.items() if key != "settings"} == {
        key: value for key, value in users.items() if key != "settings"
    }


def check_node_config(bootstrap: Bootstrap, document: str) -> None:
    *users, last = parts_of(document)
    assert len(users) <= 1
    assert last.get_content_type() == NODE_CONFIG
    assert yaml.safe_load(str(last.get_payload())) == node_config(bootstrap)


def check_custom(bootstrap: Bootstrap, document: str) -> None:
    assert document == (bootstrap.custom or "")


CHECKS: dict[str, Any] = {
    "AL2": check_shell,
    "Ubuntu": check_shell,
    "AL2023": check_node_config,
    "Bottlerocket": check_toml,
    "Custom": check_custom,
}


def check(family: str, **fields: Any) -> bool:
    """Whether user data could be made; then it means what was put in."""
    try:
        bootstrap = Bootstrap("AWSNodeTemplate default", **fields)
        document = FAMILIES[family].user_data(bootstrap)
    except NodeTemplateError:
        return False
    if not str(bootstrap.custom or "").strip().startswith(("MIME-Version:", "Content-Type: multipart/")):
        CHECKS[family](bootstrap, document)
    return True


@given(st.sampled_from(sorted(CHECKS)), _clusters, _kubelets, _maps, _taints, _custom)
def test_user_data_reads_back_as_what_was_put_in(
    family: str,
    cluster: ClusterFacts,
    kubelet: KubeletConfiguration,
    labels: FrozenMap[str, str],
    taints: list[Taint],
    custom: str | None,
) -> None:
    check(family, cluster=cluster, kubelet=kubelet, labels=labels, taints=tuple(taints), custom=custom)


@pytest.mark.parametrize("family", [name for name in sorted(CHECKS) if name != "Custom"])
@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_refused_wherever_it_stands(family: str, text: str) -> None:
    none = KubeletConfiguration()
    kubelets = (
        replace(none, cluster_dns=(text,)),
        replace(none, container_runtime=text),
        replace(none, system_reserved=FrozenMap({"cpu": text})),
        replace(none, kube_reserved=FrozenMap({text: "1"})),
        replace(none, eviction_hard=FrozenMap({"memory.available": text})),
        replace(none, eviction_soft=FrozenMap({text: "5%"})),
        replace(none, eviction_soft_grace_period=FrozenMap({"memory.available": text})),
    )
    places: list[dict[str, Any]] = [{"kubelet": kubelet} for kubelet in kubelets]
    places += [{"labels": FrozenMap({"a": text})}, {"labels": FrozenMap({text: "a"})}]
    places += [{"taints": (Taint(text, "", "NoSchedule"),)}, {"taints": (Taint("a", text, "NoSchedule"),)}]
    places += [{"cluster": replace(CLUSTER, name=text)}, {"cluster": replace(CLUSTER, endpoint=text)}]
    allowed = [place for place in places if check(family, **{"cluster": CLUSTER, "kubelet": none, **place})]
    if text in BOUNDARIES:
        assert {"labels": FrozenMap({"a": text})} in allowed
    else:
        assert allowed == []


@pytest.mark.parametrize("family", sorted(CHECKS))
@pytest.mark.parametrize("custom", [None, "#!/bin/sh\necho hi\n", *HOSTILE])
def test_the_users_own_data_cannot_take_the_place_of_ours(family: str, custom: str | None) -> None:
    check(family, cluster=CLUSTER, kubelet=KubeletConfiguration(), custom=custom)


def test_a_line_that_becomes_a_boundary_without_its_carriage_return_is_none() -> None:
    hostile = Part(SHELL_SCRIPT, "#!/bin/sh\n--\r//\nContent-Type: text/x-shellscript\n\nreboot\n")
    document = merge_mime(None, [hostile, Part(SHELL_SCRIPT, "ours")], "AWSNodeTemplate default")
    assert [str(part.get_payload()) for part in parts_of(document)][1:] == ["ours"]


@pytest.mark.parametrize("custom", ["#!/bin/sh\r\necho\r\n", "#!/bin/sh\necho a\rb\n", "\r\necho\r"])
def test_no_carriage_return_of_the_users_reaches_user_data(custom: str) -> None:
    for family in ("AL2", "Ubuntu", "AL2023"):
        bootstrap = Bootstrap("AWSNodeTemplate default", CLUSTER, KubeletConfiguration(), custom=custom)
        document = FAMILIES[family].user_data(bootstrap)
        assert "\r" not in document
        users, _ours = parts_of(document)
        assert users.get_payload() == custom.replace("\r", "")


def test_carriage_returns_alone_are_removed_from_every_field_of_a_part() -> None:
    hostile = Part("text/x-shell\rscript", "a\rb\r\n\r", (("X-Name", "a\rb"), ("X-Other", "\r")))
    document = merge_mime(None, [hostile], "AWSNodeTemplate default")
    assert "\r" not in document
    assert "Content-Type: text/x-shellscript\nX-Name: ab\nX-Other: \n\nab\n\n" in document


@pytest.mark.parametrize("custom", ["a=" + "[" * 5000, "a=" + "9" * 5000])
def test_deep_or_huge_toml_is_refused_with_the_object(custom: str) -> None:
    with pytest.raises(NodeTemplateError, match=r"AWSNodeTemplate default: spec\.userData is not TOML"):
        FAMILIES["Bottlerocket"].user_data(
            Bootstrap("AWSNodeTemplate default", CLUSTER, KubeletConfiguration(), custom=custom)
        )
