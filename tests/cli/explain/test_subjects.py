"""What `explain` takes for a name: kinds and short names as kubectl has them, and what was probably meant."""

from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from controller.cli.explain.subjects import subject
from controller.cli.main import main
from controller.errors import ValidationError
from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, Run, Write, answer, provisioner

LONG = "ip-10-0-0-1.ec2.internal"


@pytest.fixture
def dump(write: Write) -> str:
    objects = [TEMPLATE, provisioner("default", M5_XLARGE), node(LONG), pod("web-1", on=LONG), pod("api-1")]
    return write({"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": objects})


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("pod", "web-1"), ("pod", "default", "web-1")),
        (("pod/web-1",), ("pod", "default", "web-1")),
        (("pods", "shop/web-1"), ("pod", "shop", "web-1")),
        (("po/shop/web-1",), ("pod", "shop", "web-1")),
        (("Nodes", "n"), ("node", "default", "n")),
        (("provisioners.karpenter.sh/default",), ("provisioner", "default", "default")),
        (("svc", "web"), ("service", "default", "web")),
    ],
)
def test_kinds_and_names_are_taken_as_kubectl_takes_them(words: tuple[str, ...], found: tuple[str, str, str]) -> None:
    assert subject(words, "default") == found


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pd", "a"), "KIND: 'pd' cannot be explained; did you mean pod? one of pod, node, provisioner, service"),
        (("deployment", "a"), "KIND: 'deployment' cannot be explained; one of pod, node, provisioner, service"),
        (("pod",), "NAME: one pod is explained at a time; write `nodeless explain pod NAME`"),
        (("pod", "a", "b"), "NAME: one pod is explained at a time; write `nodeless explain pod NAME`"),
    ],
)
def test_what_cannot_be_explained_is_said_with_what_can(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        subject(words, "default")
    assert [str(each) for each in caught.value.problems] == [told]


def test_a_nodes_first_label_is_enough_and_near_names_are_named(run: Run, dump: str) -> None:
    said = answer(run("explain", "no/ip-10-0-0-1", "--from", dump, "-o", "json"))
    assert said["subject"] == f"Node {LONG}"
    assert set(said["facts"]) == {"type", "zone", "price", "costs", "age", "state", "inUse"}, "keys are data"
    for words, told in (
        (("pod", "shop/wbe-1"), "There is no pod shop/wbe-1; did you mean shop/web-1 or shop/api-1?; -n NAMESPACE"),
        (("node", "ip-10-0-0-2.ec2.internal"), f"; did you mean {LONG}?; no decision on record is about it"),
        (("provisioner", "other"), "There is no Provisioner other; there are: default"),
    ):
        result = run("explain", *words, "--from", dump)
        assert (result.exit_code, told in result.stderr) == (1, True), result.stderr


def test_shells_complete_kinds_names_and_contexts(dump: str, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = [{"name": "prod", "context": {}}, {"name": "dev", "context": {}}]
    monkeypatch.setenv("KUBECONFIG", write({"kind": "Config", "contexts": contexts}, name="kubeconfig"))
    shell = ShellComplete(main, {}, "nodeless", "_NODELESS_COMPLETE")
    for typed, word, offered in (
        ([], "ex", ["explain"]),
        (["explain"], "p", ["pod", "provisioner"]),
        (["explain", "--from", dump, "pod"], "shop/w", ["shop/web-1"]),
        (["explain", "--from", dump, "no"], "", [LONG]),
        (["explain", "--kubeconfig", "/nowhere", "no"], "", []),
        (["view", "--context"], "p", ["prod"]),
    ):
        assert [each.value for each in shell.get_completions(typed, word)] == offered, typed
