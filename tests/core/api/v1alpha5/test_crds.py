"""The CRDs and the rules in code agree: same fields, same choices, same bounds; every field is described."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from controller.core.api.front_end import ApiKind
from controller.core.api.provisioner import KUBELET_MEMBERS
from controller.core.api.v1alpha5 import V1ALPHA5, nodetemplate_rules, provisioner_rules
from tests.core.api.v1alpha5.test_nodetemplate_rules import ACCEPTED as TEMPLATES
from tests.core.api.v1alpha5.test_provisioner_rules import ACCEPTED as PROVISIONERS
from tests.core.api.v1alpha5.test_provisioner_rules import GUIDES
from tests.factories import node_template_object, provisioner_object

CRDS = Path(__file__).parents[4] / "crds"
FILES = ("karpenter.sh_provisioners.yaml", "karpenter.k8s.aws_awsnodetemplates.yaml")


@cache
def crd(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CRDS / name).read_text(encoding="utf-8"))
    return loaded


def schema(name: str) -> dict[str, Any]:
    openapi: dict[str, Any] = crd(name)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return openapi


def spec_properties(name: str) -> dict[str, Any]:
    properties: dict[str, Any] = schema(name)["properties"]["spec"]["properties"]
    return properties


def fields(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    if isinstance(node.get("items"), dict):
        yield from fields(node["items"], f"{path}[]")


@pytest.mark.parametrize("name", FILES)
def test_every_field_has_a_description_and_a_type(name: str) -> None:
    for path, field in fields(schema(name), ""):
        assert path == ".metadata" or field.get("description"), path
        assert "type" in field or field.get("x-kubernetes-int-or-string"), path


@pytest.mark.parametrize("name", FILES)
def test_category_scope_and_status_subresource(name: str) -> None:
    spec = crd(name)["spec"]
    (version,) = spec["versions"]
    assert crd(name)["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (spec["scope"], spec["names"]["categories"], version["subresources"]) == (
        "Cluster",
        ["karpenter"],
        {"status": {}},
    )


@pytest.mark.parametrize(("file", "kind"), list(zip(FILES, (V1ALPHA5.pool, V1ALPHA5.node_template), strict=True)))
def test_the_front_end_names_the_kinds_as_the_crds_do(file: str, kind: ApiKind[Any]) -> None:
    spec = crd(file)["spec"]
    names = (spec["group"], spec["versions"][0]["name"], spec["names"]["plural"], spec["names"]["kind"])
    assert (kind.group, kind.version, kind.plural, kind.name) == names


def test_provisioner_fields_are_those_that_are_read() -> None:
    properties = spec_properties(FILES[0])
    assert set(properties) == set(provisioner_rules.SPEC_FIELDS)
    assert set(properties["kubeletConfiguration"]["properties"]) == set(KUBELET_MEMBERS)
    shown = {"nodes", "limitUse", "pricePerHour"}
    karpenters = {"resources", "lastScaleTime", "conditions"}
    assert set(schema(FILES[0])["properties"]["status"]["properties"]) == karpenters | shown


def test_provisioner_choices_and_bounds_are_those_of_the_rules() -> None:
    properties = spec_properties(FILES[0])
    assert properties["requirements"]["items"]["properties"]["operator"]["enum"] == list(provisioner_rules.OPERATORS)
    for taints in ("taints", "startupTaints"):
        assert properties[taints]["items"]["properties"]["effect"]["enum"] == list(provisioner_rules.EFFECTS)
    weight = properties["weight"]
    assert (weight["minimum"], weight["maximum"]) == (provisioner_rules.MIN_WEIGHT, provisioner_rules.MAX_WEIGHT)


def test_node_template_fields_and_choices_are_those_of_the_rules() -> None:
    properties = spec_properties(FILES[1])
    assert set(properties) == set(nodetemplate_rules.SPEC_FIELDS)
    assert properties["amiFamily"]["enum"] == list(nodetemplate_rules.AMI_FAMILIES)
    volume = properties["blockDeviceMappings"]["items"]["properties"]["ebs"]["properties"]["volumeType"]
    assert volume["enum"] == list(nodetemplate_rules.VOLUME_TYPES)


def without_nulls(value: Any) -> Any:
    """The API server drops nulls of fields that are not nullable before it validates."""
    if isinstance(value, dict):
        return {key: without_nulls(member) for key, member in value.items() if member is not None}
    return [without_nulls(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("spec", [*(spec for _, spec in PROVISIONERS), *GUIDES])
def test_the_schema_accepts_every_provisioner_that_the_rules_accept(spec: dict[str, Any]) -> None:
    jsonschema.validate(without_nulls(provisioner_object(spec=spec)), schema(FILES[0]))


@pytest.mark.parametrize("spec", [spec for _, spec in TEMPLATES])
def test_the_schema_accepts_every_node_template_that_the_rules_accept(spec: dict[str, Any]) -> None:
    jsonschema.validate(without_nulls(node_template_object(spec=spec)), schema(FILES[1]))


def test_the_examples_in_the_documentation_are_valid() -> None:
    checked = 0
    for path in sorted((CRDS.parent / "docs" / "examples").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] == "Provisioner":
                assert V1ALPHA5.pool.validate(document) == (), path.name
                jsonschema.validate(document, schema(FILES[0]))
            elif document["kind"] == "AWSNodeTemplate":
                assert V1ALPHA5.node_template.validate(document) == (), path.name
                jsonschema.validate(document, schema(FILES[1]))
            else:
                continue
            checked += 1
    assert checked >= 2
