"""What exists under the stack's names: refused at preview, all of it at once, or imported with `adopt: true`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.documents.account import Account
from components.documents.named import named
from components.lookups.adoption import KINDS, STACK_TAG
from components.lookups.progress import READ_OUTPUTS
from components.nodeless import NodeLess
from tests.components.engine import ACCOUNT_ID, DECLARES, Cloud, Refusal, Run, declared_once, run, run_stack
from tests.components.golden import run_of
from tests.components.stacks import STACKS, minimal, stack

pytestmark = DECLARES

OURS, OTHERS = {STACK_TAG: "nodeless/test"}, {STACK_TAG: "nodeless/other"}
ROLE = "aws:iam/getRole:getRole"


def config(**keys: Any) -> dict[str, str]:
    return {f"nodeless:{name}": json.dumps(value) for name, value in minimal(**keys).items()}


def said(caplog: pytest.LogCaptureFixture, cloud: Cloud, **keys: Any) -> list[str]:
    """The refusals."""
    caplog.clear()
    with pytest.raises(SystemExit):
        run_stack("test", config(**keys), cloud)
    return [record.message for record in caplog.records if record.levelname == "ERROR"]


def imports(cloud: Cloud, **keys: Any) -> dict[str, str]:
    run = run_stack("test", config(**keys), cloud)
    return {each.name: each.import_id for each in run.declared.values() if each.import_id}


def by_hand(tags: Mapping[str, str], *names: str) -> Cloud:
    """An account with these roles; a profile, a policy, a queue and so on where their names are among `names`."""

    def found(answer: Mapping[str, Any], name: str) -> Any:
        return {**answer, "tags": dict(tags)} if name in names else Refusal(f"NoSuchEntity: {name}")

    def properties(args: Mapping[str, Any]) -> Any:
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        return {"properties": json.dumps({"Tags": listed})} if "fargate" in names else Refusal("couldn't find resource")

    return Cloud(
        answers={
            ROLE: lambda args: found({"arn": f"arn:{args['name']}"}, args["name"]),
            "aws:iam/getInstanceProfile:getInstanceProfile": lambda args: found(
                {"roleName": "KarpenterNodeRole-myeks"}, args["name"]
            ),
            "aws:iam/getPolicy:getPolicy": lambda args: found({}, args["arn"].split("/")[-1]),
            "aws:sqs/getQueue:getQueue": lambda args: found({"url": "https://sqs.example/q"}, f"queue {args['name']}"),
            "aws:cloudcontrol/getResource:getResource": properties,
            "aws:eks/getAccessEntry:getAccessEntry": lambda args: found({}, args["principalArn"].split("/")[-1]),
            "aws:eks/getAddon:getAddon": lambda args: found({}, args["addonName"]),
        }
    )


GUIDE = ("KarpenterNodeRole-myeks", "KarpenterNodeInstanceProfile-myeks", "KarpenterControllerRole-myeks")
CLOUDFORMATION = (*GUIDE[:2], "KarpenterControllerPolicy-myeks", "queue myeks")
WHOLE = (*GUIDE, *CLOUDFORMATION[2:], "KarpenterControllerReadPolicy-myeks", "fargate", "coredns")
POD_ROLE = "NodelessFargatePodExecutionRole-myeks"


@pytest.mark.parametrize("name", STACKS)
def test_every_resource_with_a_name_is_looked_up_and_tagged_with_the_stack(name: str) -> None:
    run, chosen = run_of(name), stack(name).config
    entry = bool(run.of_type("aws:eks/accessEntry:AccessEntry"))
    looked_up = list(named(chosen, Account("aws", ACCOUNT_ID, "ap-northeast-2"), by_access_entry=entry))
    declared = {(each.type, each.name): each.inputs for each in run.declared.values() if each.type in KINDS}
    assert {(each.type, each.logical) for each in looked_up} == set(declared)
    for each in looked_up:
        inputs = declared[each.type, each.logical]
        names = [inputs.get(key) for key in ("name", "fargateProfileName", "addonName", "principalArn")]
        assert any(value and each.name.endswith(value) for value in names), each
        assert inputs["tags"][STACK_TAG] == f"nodeless/{name}"


def test_all_that_a_guide_left_behind_is_refused_at_preview_with_the_key_that_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = said(caplog, by_hand({}, *GUIDE))
    remedy = "this stack did not make it; use another name here, leave it out, or take it over with `adopt: true`"
    assert refusals == [
        "identity.nodeRoleName: role KarpenterNodeRole-myeks exists, and " + remedy,
        "identity.instanceProfileName: instance profile KarpenterNodeInstanceProfile-myeks exists, and " + remedy,
        "identity.controllerRoleName: role KarpenterControllerRole-myeks exists, and " + remedy,
        "identity.nodeJoin: access entry myeks:arn:aws:iam::111122223333:role/KarpenterNodeRole-myeks exists, and "
        + remedy,
    ]
    whole = said(caplog, by_hand({}, *WHOLE, POD_ROLE), addons={"coreDns": {}})
    assert {each.partition(":")[0] for each in whole} == {
        "identity.nodeRoleName", "identity.instanceProfileName", "identity.controllerRoleName", "identity.nodeJoin",
        "interruption.queueName", "fargate.podExecutionRoleName", "fargate", "addons.coreDns",
    }  # fmt: skip
    assert len(whole) == 11


def test_names_of_ones_own_go_beside_what_karpenters_cloudformation_made() -> None:
    own = {"nodeRoleName": "n", "instanceProfileName": "p", "controllerRoleName": "c"}
    run = run_stack("test", config(identity=own, interruption={"queueName": "q"}), by_hand({}, *CLOUDFORMATION))
    assert {each.inputs["name"] for each in run.of_type("aws:iam/policy:Policy")} == {"c-launch", "c-read"}


def test_adopt_imports_what_exists_and_nothing_else() -> None:
    assert imports(by_hand({}, *GUIDE[:2], "queue myeks", "fargate"), adopt=True) == {
        "nodes-role": "KarpenterNodeRole-myeks",
        "nodes-instance-profile": "KarpenterNodeInstanceProfile-myeks",
        "node-access-entry": f"myeks:arn:aws:iam::{ACCOUNT_ID}:role/KarpenterNodeRole-myeks",
        "interruption-queue": "https://sqs.example/q",
        "fargate-karpenter": "myeks:karpenter",
        "fargate-kube-system": "myeks:kube-system",
    }


def providers(run: Run) -> dict[str, str]:
    found = run.of_type("pulumi:providers:kubernetes")
    return {each.name: each.inputs["upsertExistingObjects"] for each in found}


def test_adopt_takes_kubernetes_objects_over_too_and_a_preview_says_that_it_is_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert providers(declared_once(config())) == {"kubernetes": "false", "kubernetes-kept": "true"}
    assert providers(run_stack("test", config(adopt=True))) == {"kubernetes": "true", "kubernetes-kept": "true"}
    assert [each.message for each in caplog.records if each.message.startswith("adopt: ")]


def test_what_the_stack_made_is_neither_refused_nor_imported_again() -> None:
    """An import in the program would forbid replacing it."""
    assert imports(by_hand(OURS, *WHOLE, POD_ROLE)) == {}


def test_what_another_stack_made_is_refused_by_that_stacks_name(caplog: pytest.LogCaptureFixture) -> None:
    (refusal,) = said(caplog, by_hand(OTHERS, "KarpenterControllerRole-myeks"))
    assert "role KarpenterControllerRole-myeks exists, and stack nodeless/other made it" in refusal


def test_what_carries_the_stacks_tag_is_refused_where_the_state_has_no_finished_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The state was lost, or the last `up` failed: `adopt` goes on from either."""
    cloud = by_hand(OURS, *WHOLE, POD_ROLE)
    lost = Cloud(answers={**cloud.answers, READ_OUTPUTS: {"outputs": {}}})
    refusals = said(caplog, lost)
    assert len(refusals) == 10
    assert refusals[0] == (
        "identity.nodeRoleName: role KarpenterNodeRole-myeks exists with this stack's tag, and its state has no "
        "finished `up`; the state was lost, or the last `up` failed: take over what is there with `adopt: true` for "
        "one `up`"
    )
    assert len(imports(lost, adopt=True)) == len(refusals)
    silent = Cloud(answers={**cloud.answers, READ_OUTPUTS: Refusal("unknown stack")})
    assert imports(silent) == {}, "a backend that does not tell is no reason to refuse"
    arguments: Any = minimal()

    def program() -> None:
        NodeLess("nodeless", arguments)

    run(program, lost)  # others' programs may export nothing


def test_after_a_destroy_the_spot_role_that_was_kept_is_imported_and_after_a_lost_state_the_oidc_provider_too() -> None:
    cloud = by_hand(OURS, "AWSServiceRoleForEC2Spot")
    assert imports(cloud) == {"spot-role": "arn:AWSServiceRoleForEC2Spot"}
    issuer = "aws:iam/getOpenIdConnectProvider:getOpenIdConnectProvider"
    lost = Cloud(answers={**cloud.answers, issuer: {"arn": "arn:oidc", "tags": OURS}})
    assert imports(lost)["oidc-provider"] == "arn:oidc"


def test_a_new_cluster_whose_name_is_taken_is_refused_unless_this_stack_made_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = {
        "name": "myeks",
        "create": {"version": "1.33", "subnetIds": [f"subnet-0000000000000000{n}" for n in "12"]},
    }
    (refusal,) = said(caplog, Cloud(), cluster=cluster)
    assert refusal.startswith("cluster.create: cluster 'myeks' exists, and this stack did not make it; leave it out")
    mine = {"aws:eks/getCluster:getCluster": {"tags": OURS}}
    assert run_stack("test", config(cluster=cluster), Cloud(answers=mine)).declared
