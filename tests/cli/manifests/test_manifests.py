"""`nodeless manifests` prints what the stack declares: the same objects, the same roles and policies."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from components.lookups.cluster_objects import STACK_ANNOTATION
from controller.cli.main import main
from tests.components.engine import ACCOUNT_ID, DECLARES, ISSUER, VPC, Run, run_stack
from tests.components.golden import run_of
from tests.components.stacks import ROOT, STACKS, minimal, raw_config

pytestmark = DECLARES

FACTS = ("--account", ACCOUNT_ID, "--vpc", VPC, "--oidc-issuer", ISSUER)
FULL = minimal(
    controller={"image": "registry.example/nodeless:1", "env": {"A": "b"}, "webhook": True},
    identity={"path": "/nodes/", "nodePolicyArns": ["arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"]},
    fargate={"logging": True},
    interruption={"enabled": True},
    settings={"surgeSingleReplicas": True, "tags": {"team": "a"}},
    provisioners=[
        {
            "name": "default",
            "annotations": {"example.com/a": "b"},
            "spec": {"providerRef": {"name": "default"}, "limits": {"resources": {"cpu": 10}}},
        }
    ],
    nodeTemplates=[
        {"name": "default", "spec": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}},
    ],
    addons={
        "vpcCni": {},
        "ebsCsi": {"defaultStorageClass": "gp3"},
        "loadBalancerController": {},
        "externalDns": {"domain": "example.com", "zoneId": "Z0123ABC"},
        "keda": {},
        "overprovisioning": {"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *", "replicas": 2},
    },
)
CASES = (*STACKS, "full")


def raw(name: str) -> dict[str, str]:
    """The configuration as the engine has it."""
    if name != "full":
        return raw_config(name)
    return {f"nodeless:{key}": json.dumps(value) for key, value in FULL.items()}


def declared(name: str) -> Run:
    return run_stack(name, raw(name)) if name == "full" else run_of(name)


def call(name: str, tmp_path: Path, *flags: str) -> Result:
    """The command on the stack's file, with what the engine's look-ups would answer."""
    file = ROOT / "stacks" / f"Pulumi.{name}.yaml"
    if name == "full":
        file = tmp_path / "Pulumi.full.yaml"
        keys = {f"nodeless:{key}": value for key, value in FULL.items()}
        file.write_text(yaml.safe_dump({"config": {"aws:region": "ap-northeast-2", **keys}}))
    image = ("--image", IMAGE) if '"build"' in raw(name)["nodeless:controller"] else ()
    version = () if '"create"' in raw(name)["nodeless:cluster"] else ("--kubernetes-version", "1.34")
    region = ("--region", "ap-northeast-2")
    return CliRunner().invoke(main, ["manifests", "-f", str(file), *FACTS, *image, *version, *region, *flags])


IMAGE = f"{ACCOUNT_ID}.dkr.ecr.ap-northeast-2.amazonaws.com/nodeless/test@sha256:{'0' * 64}"


def objects_of(run: Run) -> list[dict[str, Any]]:
    """The Kubernetes objects that a run of the program declared; charts are Helm's, a patch is of another's object.

    Without the annotations that only Pulumi's stacks have.
    """
    found = []
    for each in run.declared.values():
        inputs = {key: value for key, value in each.inputs.items() if value is not None}
        ours = each.type.startswith("kubernetes:") and "helm" not in each.type and not each.type.endswith("Patch")
        if ours and inputs.get("metadata"):
            annotations = inputs["metadata"].get("annotations") or {}
            kept = {
                key: value
                for key, value in annotations.items()
                if key != STACK_ANNOTATION and not key.startswith("pulumi.com/")
            }
            metadata = {key: value for key, value in inputs["metadata"].items() if key != "annotations"}
            found.append({**inputs, "metadata": {**metadata, **({"annotations": kept} if kept else {})}})
    return in_order(found)


def in_order(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    def key(each: dict[str, Any]) -> tuple[str, str, str]:
        return each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]

    return sorted(objects, key=key)


def roles_of(run: Run) -> dict[str, dict[str, Any]]:
    """Role by name: trust, managed policies and the documents of its own; a new cluster's role is its own."""
    found = {}
    made = {each.inputs["name"]: each.inputs["policy"] for each in run.of_type("aws:iam/policy:Policy")}
    for role in run.of_type("aws:iam/role:Role"):
        if role.name.startswith("cluster-"):
            continue
        name = role.inputs["name"]
        attached = [
            each.inputs["policyArn"]
            for each in run.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
            if each.inputs["role"] == name
        ]
        inline = [
            each.inputs["policy"]
            for each in run.of_type("aws:iam/rolePolicy:RolePolicy")
            if each.inputs["role"] == name
        ]
        own = {arn.rsplit("/", 1)[-1] for arn in attached if ":mock:" in arn}
        found[name] = {
            "path": role.inputs["path"],
            "trust": json.loads(role.inputs["assumeRolePolicy"]),
            "managed": sorted(arn for arn in attached if ":mock:" not in arn),
            "policies": {each: json.loads(made[each]) for each in own},
            "inline": [json.loads(each) for each in inline],
        }
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_command_prints_what_the_stack_declares(name: str, tmp_path: Path) -> None:
    run = declared(name)
    printed = call(name, tmp_path)
    assert printed.exit_code == 0, printed.stderr
    assert in_order(list(yaml.safe_load_all(printed.stdout))) == objects_of(run)
    roles = json.loads(call(name, tmp_path, "--iam").stdout)
    assert {
        each["name"]: {
            "path": each["path"],
            "trust": each["trustPolicy"],
            "managed": sorted(each["managedPolicyArns"]),
            "policies": each["policies"],
            "inline": list(each["inlinePolicies"].values()),
        }
        for each in roles
    } == roles_of(run)


def test_a_folder_has_both_in_the_order_to_apply_them_in(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    written = call("full", tmp_path, "--into", str(folder))
    assert written.exit_code == 0, written.stderr
    assert sorted(map(str, folder.rglob("*.*"))) == sorted(written.stdout.split())
    files = sorted(folder.glob("*.yaml"))
    assert [each.stem for each in files] == [
        "1-definitions", "2-controller", "3-fargate-logging", "4-provisioning", "5-addons",
    ]  # fmt: skip
    together = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    assert together == list(yaml.safe_load_all(call("full", tmp_path).stdout))
    (nodes,) = [each for each in json.loads(call("full", tmp_path, "--iam").stdout) if "NodeRole" in each["name"]]
    managed = folder / "iam" / nodes["name"] / "managed-policies.json"
    assert json.loads(managed.read_text()) == nodes["managedPolicyArns"]
    assert "vpc-cni, aws-ebs-csi-driver, load-balancer-controller, external-dns, keda" in " ".join(
        written.stderr.split()
    )


def test_all_problems_of_file_and_flags_come_at_once(tmp_path: Path) -> None:
    file = tmp_path / "stack.yaml"
    controller = {"build": {}, "env": {"TOKEN": {"secure": "v1:abc"}}, "replicas": "two"}
    keys = {"nodeless:cluster": {"name": "a"}, "nodeless:controller": controller, "nodeless:provisoners": []}
    file.write_text(yaml.safe_dump({"config": keys}))
    refused = CliRunner().invoke(main, ["manifests", "-f", str(file), "--account", "12", "--iam"])
    assert refused.exit_code == 2
    assert refused.stdout == ""
    paths = [line.strip().partition(": ")[0] for line in refused.stderr.splitlines()[1:]]
    assert sorted(paths) == sorted([
        "controller.env.TOKEN", "--account", "--region", "--kubernetes-version", "--image", "--vpc", "--oidc-issuer",
        "provisoners", "controller.replicas",
    ])  # fmt: skip


def test_it_needs_no_pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.split(".")[0].startswith(("pulumi", "components"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "controller.cli.manifests.stack", raising=False)
    monkeypatch.setitem(sys.modules, "pulumi", None)
    assert call("full", tmp_path).exit_code == 0
