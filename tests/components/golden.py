"""Golden files of the committed stacks: every resource with its inputs, as one look at a change shows them.

A line that goes is a resource that is deleted; one that is renamed needs an alias in the same commit.
`uv run python -m tests.components.golden` writes them anew.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from components.image import content_tag
from tests.components.engine import Cloud, Run, run_stack
from tests.components.stacks import ROOT, STACKS, raw_config, stack

GOLDEN = Path(__file__).parent / "golden"


def cloud_of(name: str) -> Cloud:
    """What the stack meets: the local one finds one tagged security group, as the sandbox has it."""
    tagged = {"aws:ec2/getSecurityGroups:getSecurityGroups": {"ids": ["sg-00000000000000001"], "id": "r"}}
    return Cloud(answers=tagged if stack(name).config.discovery.security_group == "none" else {})


@cache
def run_of(name: str, *, preview: bool = False) -> Run:
    """The committed stack, declared; once for all tests, without the warnings from the second time on."""
    return run_stack(name, raw_config(name), cloud_of(name), preview=preview)


def document(run: Run) -> dict[str, Any]:
    """The inputs by resource. Definitions are not repeated, and the image's tag follows from the source."""
    resources = {}
    for each in sorted(run.declared.values(), key=lambda each: each.line):
        inputs = dict(each.inputs)
        if each.type.endswith(":CustomResourceDefinition"):
            inputs["spec"] = "as in crds/"
        resources[each.line] = {key: _readable(value) for key, value in sorted(inputs.items()) if value is not None}
    text = json.dumps(resources)
    for platforms in (["linux/amd64"],):
        text = text.replace(content_tag(ROOT, platforms), "CONTENT")
    result: dict[str, Any] = json.loads(text)
    return result


def _readable(value: Any) -> Any:
    """Documents that AWS takes as JSON text, as the objects that they are."""
    if isinstance(value, str) and value.startswith("{"):
        return json.loads(value)
    return value


def main() -> None:
    """Write every golden file."""
    GOLDEN.mkdir(exist_ok=True)
    for name in STACKS:
        (GOLDEN / f"{name}.json").write_text(json.dumps(document(run_of(name)), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
