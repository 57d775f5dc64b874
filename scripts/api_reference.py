"""Writes docs/reference/{provisioner,awsnodetemplate,settings}.md from the CRDs, the settings table and the options.

uv run python scripts/api_reference.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from controller.core.api.settings.settings_table import SETTINGS  # noqa: E402 - the project is a program, not installed
from controller.operator.options import Option, Options  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
WRITTEN = "This page is written by `uv run python scripts/api_reference.py`."


def pages() -> dict[str, str]:
    """File name → text."""
    kinds = {f"{name}.md": _kind_page(document) for name, document in _definitions().items()}
    return {**kinds, "settings.md": _settings_page()}


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
    lines = ["# Settings of the controller", "", WRITTEN, "", "## ConfigMap `karpenter-global-settings`", ""]
    lines += [
        "In the controller's namespace; in a stack they are under `settings` ([stack-config.md](stack-config.md)).",
        "A live key takes effect while the controller runs; any other by a restart, which follows by itself.",
        "",
        "| Key | Meaning | Default | Live |",
        "| --- | --- | --- | --- |",
        *(
            _row(f"`{each.key}`", each.doc, _default(each.default, each.required), "yes" if each.live else "")
            for each in SETTINGS.values()
        ),
        "",
        "## Environment and flags of `nodeless run`",
        "",
        "| Variable and flag | Meaning | Default |",
        "| --- | --- | --- |",
        *(_option_row(each) for each in fields(Options)),
    ]
    return "\n".join(lines) + "\n"


def _option_row(field: Field[Any]) -> str:
    option: Option = field.metadata["option"]
    names = f"`{option.variable}`" + (f", `--{option.flag}`" if option.has_flag else "")
    required = field.default is MISSING
    return _row(names, option.doc, _default(None if required else _text(field.default), required))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _default(text: str | None, required: bool) -> str:
    return "**required**" if required else "absent" if text is None else f"`{text}`" if text else "empty"


def _row(*cells: str) -> str:
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |"


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)
        sys.stdout.write(f"docs/reference/{name}\n")


if __name__ == "__main__":
    main()
