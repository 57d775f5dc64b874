"""What all components have in common, and the choices of each that no committed stack makes."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.provider.experimental.analyzer import Analyzer

from components.image import SOURCES, content_tag
from components.nodeless import COMPONENTS
from components.nodes import NodeAccess, NodeAccessArgs
from components.role import Role
from tests.components.engine import DECLARES, run, run_stack
from tests.components.stacks import ROOT, minimal

pytestmark = DECLARES


def config(**keys: Any) -> dict[str, str]:
    return {f"nodeless:{name}": json.dumps(value) for name, value in minimal(**keys).items()}


def test_every_component_is_in_the_package() -> None:
    modules = [ast.parse(path.read_text()) for path in (ROOT / "components").glob("*.py")]
    classes = [node for module in modules for node in module.body if isinstance(node, ast.ClassDef)]
    names = {
        each.name for each in classes if any(ast.unparse(base).endswith("ComponentResource") for base in each.bases)
    }
    assert names == {each.__name__ for each in COMPONENTS}


def test_pulumis_analyzer_reads_a_schema_from_every_component() -> None:
    schema = Analyzer("nodeless").analyze(list(COMPONENTS))
    assert set(schema["component_definitions"]) == {each.__name__ for each in COMPONENTS}
    for definition in schema["component_definitions"].values():
        assert definition.description
        for name, prop in {**definition.inputs, **definition.outputs}.items():
            assert prop.description, f"{definition.name}.{name} has no docstring"
    for type_ in schema["type_definitions"].values():
        assert all(prop.description for prop in type_.properties.values()), type_.name


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda each: each.__name__)
def test_a_components_token_is_its_name_and_its_signature_the_convention(component: type[Any]) -> None:
    source = Path(ast.literal_eval(repr(__import__(component.__module__, fromlist=["x"]).__file__))).read_text()
    assert f'"nodeless:index:{component.__name__}"' in source
    assert "from __future__ import annotations" not in source, "Pulumi's analyzer cannot read such a module"
    hints = component.__init__.__annotations__
    assert list(hints) == ["name", "args", "opts", "return"]
    assert hints["args"].__name__ == f"{component.__name__}Args"
    assert hints["opts"] == pulumi.ResourceOptions | None


def test_a_roles_arn_is_known_before_it_is_made_and_its_policies_come_before_who_depends_on_it() -> None:
    arn, policy = "arn:aws:iam::111122223333:role/r", "arn:aws:iam::aws:policy/A"

    def program() -> None:
        role = Role("r", {"role_name": "r", "arn": arn, "trust_policy": "{}", "managed_policy_arns": [policy]})
        access: NodeAccessArgs = {"cluster_name": "c", "role_arn": role.arn, "by_access_entry": True}
        NodeAccess("access", access, opts=pulumi.ResourceOptions(depends_on=[role]))

    declared = run(program, preview=True)
    assert {"r-role", "r-A"} <= declared.one("access").dependencies
    assert declared.one("access-entry").inputs["principalArn"] == arn


def test_a_given_kms_key_replaces_sqs_own_encryption() -> None:
    key = "arn:aws:kms:ap-northeast-2:111122223333:key/k"
    declared = run_stack("test", config(interruption={"kmsKeyArn": key}))
    queue = declared.one("interruption-queue").inputs
    assert queue["kmsMasterKeyId"] == key
    assert "sqsManagedSseEnabled" not in queue
    read = json.loads(declared.one("controller-identity-KarpenterControllerReadPolicy-myeks").inputs["policy"])
    assert {"kms:Decrypt"} == {action for each in read["Statement"] for action in each["Action"] if action[0] == "k"}


def test_what_is_off_is_not_there() -> None:
    off = config(
        interruption={"enabled": False},
        fargate={"enabled": False},
        controller={"image": "i", "placement": "any", "manageCrds": False},
        identity={"nodeJoin": "none", "spotServiceLinkedRole": False},
    )
    declared = run_stack("test", off)
    gone = ("aws:sqs", "aws:cloudwatch", "aws:eks", "aws:ecr", "kubernetes:apiextensions", "kubernetes:helm")
    assert not [each.line for each in declared.declared.values() if each.type.startswith(gone)]
    assert "aws.interruptionQueueName" not in declared.one("controller-settings").inputs["data"]
    policies = [each.inputs["policy"] for each in declared.of_type("aws:iam/policy:Policy")]
    assert not [text for text in policies if "sqs:" in text]


def test_a_boundary_and_a_path_reach_every_role() -> None:
    boundary = "arn:aws:iam::111122223333:policy/Boundary"
    keys = {
        "addons": {"loadBalancerController": {}, "ebsCsi": {}, "externalDns": {"domain": "a.example", "zoneId": "Z1"}}
    }
    declared = run_stack("test", config(identity={"permissionsBoundaryArn": boundary, "path": "/team/"}, **keys))
    roles = declared.of_type("aws:iam/role:Role")
    assert len(roles) == 6
    assert {each.inputs["permissionsBoundary"] for each in roles} == {boundary}
    # EKS strips no path from the execution role in aws-auth: that one must have none.
    assert {each.name for each in roles if each.inputs["path"] == "/"} == {"fargate-identity-role"}


def test_overprovisioning_is_a_schedule_in_its_targets_namespace() -> None:
    schedule = {"timezone": "Asia/Seoul", "start": "0 8 * * 1-5", "end": "0 19 * * 1-5", "replicas": 5}
    declared = run_stack("test", config(addons={"keda": {}, "overprovisioning": schedule}))
    scaled, target = declared.one("keda-scaled-object").inputs, declared.one("keda-deployment").inputs
    assert scaled["metadata"]["namespace"] == target["metadata"]["namespace"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == target["metadata"]["name"]
    assert scaled["spec"]["triggers"][0]["metadata"]["desiredReplicas"] == "5"
    assert "replicas" not in target["spec"], "KEDA's to say"
    assert "keda-release" in declared.one("keda-scaled-object").dependencies


def test_users_values_go_over_ours_map_by_map() -> None:
    theirs = {"values": {"server": {"retention": "7d"}}, "version": "25.0.0"}
    release = run_stack("test", config(addons={"prometheus": theirs})).one("prometheus-release").inputs
    assert release["version"] == "25.0.0"
    assert release["values"]["server"]["retention"] == "7d"
    assert release["values"]["server"]["fullnameOverride"] == "prometheus-server"


def test_an_images_tag_follows_from_what_the_image_is_made_of(tmp_path: Path) -> None:
    for name in SOURCES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).mkdir() if (ROOT / name).is_dir() else (tmp_path / name).write_text(name)
    (tmp_path / "controller/a.py").write_text("a = 1")
    before = content_tag(tmp_path, ["linux/amd64"])
    assert content_tag(tmp_path, ["linux/amd64"]) == before
    assert content_tag(tmp_path, ["linux/arm64"]) != before
    (tmp_path / "docs").write_text("not in the image")
    assert content_tag(tmp_path, ["linux/amd64"]) == before
    (tmp_path / "controller/a.py").write_text("a = 2")
    assert content_tag(tmp_path, ["linux/amd64"]) != before
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert allowed == set(SOURCES) - {"Dockerfile", ".dockerignore"}
