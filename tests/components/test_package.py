"""The components as a package: the program that the guide shows, arguments in Python's spelling, the schema."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from pulumi.provider.experimental.analyzer import Analyzer

from components.config.arguments import module
from components.config.keys import key_fields
from components.config.load import load, spelled
from components.config.schema import StackConfig
from components.nodeless import COMPONENTS, NAME
from controller.errors import ValidationError
from tests.components.engine import DECLARES, run
from tests.components.golden import run_of
from tests.components.stacks import ROOT, STACKS, minimal, stack

pytestmark = DECLARES


def guide() -> str:
    """The program of the guide."""
    (program,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guides/pulumi-package.md").read_text(), re.M | re.S)
    return str(program)


def test_the_ten_lines_of_the_guide_declare_a_whole_stack() -> None:
    program = guide()
    assert len([line for line in program.splitlines() if line and not line.startswith(("import", "from"))]) <= 10
    declared = run(lambda: exec(program, {}))
    assert set(declared.outputs) == {"nodeRoleArn"}
    assert declared.outputs["nodeRoleArn"].endswith(":role/KarpenterNodeRole-myeks")
    assert len(declared.of_type("kubernetes:karpenter.sh/v1alpha5:Provisioner")) == 1
    assert declared.one("controller-deployment").inputs["spec"]["replicas"] == 2


@pytest.mark.parametrize("name", STACKS)
def test_all_of_a_stack_is_under_the_component_and_keeps_what_it_was_before(name: str) -> None:
    declared = run_of(name)
    (whole,) = declared.of_type("nodeless:index:NodeLess")
    top = [each for each in declared.declared.values() if each.parent == whole.name]
    assert len(top) > 10
    assert [each.line for each in top if not each.aliases_at_root] == []
    names = {each.name for each in declared.declared.values()}
    assert [each.name for each in declared.declared.values() if each.parent not in names] == [whole.name]


def test_keys_may_have_pythons_spelling_or_that_of_stack_files() -> None:
    written = {
        "node_templates": [{"name": "a", "spec": {"amiFamily": "AL2023"}}],
        "cluster": {"name": "c", "create": {"subnet_ids": ["subnet-1"], "logTypes": ["api"]}},
        "fargate": {"profiles": [{"name": "p", "selectors": [{"namespace": "n", "labels": {"my_label": "x"}}]}]},
        "settings": {"price_rules": [{"discount_percent": 5}], "tags": {"cost_center": "1"}},
    }
    assert spelled(StackConfig, written) == {
        "nodeTemplates": [{"name": "a", "spec": {"amiFamily": "AL2023"}}],
        "cluster": {"name": "c", "create": {"subnetIds": ["subnet-1"], "logTypes": ["api"]}},
        "fargate": {"profiles": [{"name": "p", "selectors": [{"namespace": "n", "labels": {"my_label": "x"}}]}]},
        "settings": {"priceRules": [{"discountPercent": 5}], "tags": {"cost_center": "1"}},
    }


def test_a_stack_file_and_its_arguments_are_the_same_stack() -> None:
    keys = yaml.safe_load((ROOT / "stacks/Pulumi.prod.yaml").read_text())["config"]
    arguments: Any = {name.partition(":")[2]: value for name, value in keys.items() if name.startswith("nodeless:")}
    assert load(arguments, ROOT) == stack("prod")


def test_wrong_arguments_are_refused_all_at_once() -> None:
    wrong: Any = {**minimal(), "node_templats": [], "settings": {"batch_max_duration": "long"}}
    with pytest.raises(ValidationError) as refused:
        load(wrong, ROOT)
    assert [problem.path for problem in refused.value.problems] == ["node_templats", "settings.batchMaxDuration"]


def test_the_written_types_are_those_of_the_keys_and_the_schema_has_them() -> None:
    assert (ROOT / "components/config/inputs.py").read_text() == module(), (
        "run: uv run python scripts/stack_reference.py"
    )
    schema = Analyzer(NAME).analyze(list(COMPONENTS))
    whole = schema["component_definitions"]["NodeLess"]
    assert set(whole.inputs) == {*(each.name for each in _keys()), "secretKeys"}
    assert {name for name, prop in whole.inputs.items() if not prop.optional} == {"cluster", "controller"}
    assert "nodeRoleArn" in whole.outputs


def _keys() -> list[Any]:
    return list(key_fields(StackConfig))


def test_the_plugin_file_runs_as_the_project_does() -> None:
    plugin = yaml.safe_load((ROOT / "PulumiPlugin.yaml").read_text())
    assert plugin["runtime"] == yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["runtime"]
