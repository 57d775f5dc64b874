"""Writes docs/reference/{provisioner,awsnodetemplate,settings}.md from the CRDs and from the docstrings of
controller/settings.py and controller/operator/options.py.

uv run python scripts/api_reference.py
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"
WRITTEN = "This page is written by `uv run python scripts/api_reference.py`."


def pages() -> dict[str, str]:
    """File name → text."""
    found = {f"{name}.md": _kind_page(document) for name, document in _definitions().items()}
    return {**found, "settings.md": _settings_page()}


def _definitions() -> dict[str, dict[str, Any]]:
    documents = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    return {each["spec"]["names"]["singular"]: each for each in documents}


def _kind_page(definition: dict[str, Any]) -> str:
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    lines = [
        f"# {names['kind']}",
        "",
        f"`apiVersion: {definition['spec']['group']}/{version['name']}`, `kind: {names['kind']}`, cluster-scoped, "
        f"in the category `{names['categories'][0]}`.",
        WRITTEN,
    ]
    for part in ("spec", "status"):
        lines += ["", f"## {part}", "", "| Field | Type | Meaning |", "| --- | --- | --- |"]
        lines += _rows(schema[part], "")
        lines += _rules(schema[part])
    return "\n".join(lines) + "\n"


def _rows(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        meaning = [field.get("description", "").strip()]
        if name in required:
            meaning.append("**Required.**")
        if values := (field.get("enum") or field.get("items", {}).get("enum")):
            meaning.append(f"One of {', '.join(f'`{value}`' for value in values)}.")
        if "default" in field:
            meaning.append(f"Default `{field['default']}`.")
        text = " ".join(each for each in meaning if each).replace("|", "\\|")
        yield f"| `{prefix}{name}` | {_type(field)} | {text} |"
        inner = field.get("items", field) if field.get("type") == "array" else field
        yield from _rows(inner, f"{prefix}{name}{'[]' if field.get('type') == 'array' else ''}.")


def _type(field: dict[str, Any]) -> str:
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}s"
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if field.get("type") == "object" and "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}s".replace("quantitys", "quantities")
    return str(field.get("format") or field.get("type", "any"))


def _rules(schema: dict[str, Any]) -> Iterator[str]:
    rules = schema.get("x-kubernetes-validations", ())
    if rules:
        yield from ("", "Rules between fields:", "")
    for rule in rules:
        yield f"- {rule['message']}"


def _settings_page() -> str:
    trees = [ast.parse((ROOT / "controller" / f"{name}.py").read_text()) for name in ("settings", "operator/options")]
    classes = {node.name: node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)}
    lines = ["# Settings of the controller", "", WRITTEN, "", "## ConfigMap `karpenter-global-settings`", ""]
    lines += [
        "In the controller's namespace; in a stack they are under `settings` ([stack-config.md](stack-config.md)).",
        "",
        "| Key and meaning | Default |",
        "| --- | --- |",
        *_field_rows(classes["Settings"]),
        "",
        "## Environment and flags of `nodeless run`",
        "",
        "| Variable, flag and meaning | Default |",
        "| --- | --- |",
        *_field_rows(classes["Options"]),
    ]
    return "\n".join(lines) + "\n"


def _field_rows(node: ast.ClassDef) -> Iterator[str]:
    for field, doc in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(doc, ast.Expr):
            continue
        text = " ".join(str(ast.literal_eval(doc.value)).split()).replace("|", "\\|")
        default = f"`{ast.unparse(field.value)}`" if field.value else "**required**"
        yield f"| {text} | {default.replace('EMPTY', 'none')} |"


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)
        sys.stdout.write(f"docs/reference/{name}\n")


if __name__ == "__main__":
    main()
