"""The arguments of the component `NodeLess` as typed dictionaries, from the declarations of the stack's keys.

Pulumi's analyzer reads types and docstrings off the source of a module, which is why they are written to one,
components/config/inputs.py.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any, cast, get_args, get_origin

from components.config.keys import key_fields, plain
from components.config.schema import StackConfig
from controller.core.api.frozen import FrozenMap

HEADER = '''"""Arguments of the component `NodeLess`: the keys of a stack, in Python's spelling.

Written by `uv run python scripts/stack_reference.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict
'''
LAST_FIELD = '''    secret_keys: NotRequired[Sequence[str]]
    """Keys of this level that hold a secret: the free text under them stays out of the state in plain."""
'''
WIDTH = 110
INDENT = "\n    "


def module() -> str:
    """The source of components/config/inputs.py; a type comes after those that it refers to."""
    sections: list[type[Any]] = []
    _collect(StackConfig, sections)
    return "\n\n".join([HEADER, *(_source(each) for each in sections)])


def class_name(section: type[Any]) -> str:
    """Of the typed dictionary of a section."""
    name = section.__name__
    return "NodeLessArgs" if section is StackConfig else name if name.endswith("Config") else f"{name}Config"


def _collect(section: type[Any], found: list[type[Any]]) -> None:
    for each in key_fields(section):
        member = _member(each.hint)
        if dataclasses.is_dataclass(member) and member not in found:
            _collect(member, found)  # type: ignore[arg-type]
    found.append(section)


def _member(hint: Any) -> Any:
    hint = plain(hint)
    return get_args(hint)[0] if get_origin(hint) is tuple else hint


def _source(section: type[Any]) -> str:
    text = f'class {class_name(section)}(TypedDict):\n    """{section.__doc__}"""\n\n' + "".join(_fields(section))
    return text + (LAST_FIELD if section is StackConfig else "")


def _fields(section: type[Any]) -> Iterator[str]:
    for each in key_fields(section):
        hint = _hint(plain(each.hint))
        yield f"    {each.attribute}: {hint if each.required else f'NotRequired[{hint}]'}\n"
        doc = textwrap.wrap(each.rule.doc, WIDTH, break_on_hyphens=False)
        yield f'    """{INDENT.join(doc)}{INDENT if len(doc) > 1 else ""}"""\n'


def _hint(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"Sequence[{_hint(get_args(hint)[0])}]"
    if get_origin(hint) is FrozenMap:
        return f"Mapping[str, {'Any' if get_args(hint)[1] is Any else _hint(get_args(hint)[1])}]"
    return class_name(cast("type[Any]", hint)) if dataclasses.is_dataclass(hint) else str(hint.__name__)
