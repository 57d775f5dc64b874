"""Read Kubernetes objects from YAML or JSON files, folders and standard input, each with its location.

The problems of all files go to one report.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.core.api.document import Document
from controller.core.api.strict import Report, kind_of
from controller.core.untrusted_json import MOST_DEPTH, UnreadableJsonError, read_json

SUFFIXES = (".yaml", ".yml", ".json")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
STDIN = "-"
MOST_BYTES = 2**30
"""Of a file of JSON: dumps of large clusters have tens of megabytes."""


@dataclass(frozen=True, slots=True)
class LocatedObject:
    """An object with its location for messages, such as `fleet.yaml (document 2)`."""

    document: Document
    where: str

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        """metadata.name, or generateName, or empty."""
        metadata = self.document.get("metadata")
        metadata = metadata if isinstance(metadata, Mapping) else {}
        return str(metadata.get("name") or metadata.get("generateName") or "")

    @property
    def in_words(self) -> str:
        """Location, kind and name, for messages."""
        return f"{self.where}: {self.kind} {self.name}".rstrip()


def read_files(paths: Iterable[str], report: Report) -> tuple[LocatedObject, ...]:
    """Return the objects of these files, in order. Folders are read recursively; `-` is standard input."""
    objects: list[LocatedObject] = []
    for path in paths:
        for name, text in _texts(path, report):
            objects.extend(_objects(name, text, report))
    return tuple(objects)


def _texts(path: str, report: Report) -> Iterator[tuple[str, str]]:
    if path == STDIN:
        yield "standard input", sys.stdin.read()
        return
    place = Path(path)
    files = sorted(f for f in place.rglob("*") if f.suffix in SUFFIXES) if place.is_dir() else [place]
    if not files:
        report.add(path, "has no YAML or JSON file", f"files end in {', '.join(SUFFIXES)}")
    for file in files:
        try:
            raw = file.read_bytes()
            yield str(file), (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        except OSError as error:
            report.add(str(file), f"cannot be read: {error.strerror or error}", "check the path")
        except (UnicodeDecodeError, EOFError, zlib.error) as error:
            report.add(str(file), f"is not text: {error}", "it must be YAML or JSON, gzip-compressed or not")


def _objects(name: str, text: str, report: Report) -> Iterator[LocatedObject]:
    try:
        documents = [each for each in _decoded(text) if each is not None]
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date or number that is none
        said = " ".join(str(error).split()).replace('in "<unicode string>", ', "at ")
        report.add(name, f"is not YAML: {said}")
        return
    for number, document in enumerate(documents, start=1):
        where = name if len(documents) == 1 else f"{name} (document {number})"
        yield from _locate(document, where, report)


def _decoded(text: str) -> Iterator[Any]:
    """Yield the documents of JSON or YAML. Raises YAMLError, ValueError."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            yield read_json(text, MOST_BYTES)
            return
        except UnreadableJsonError:
            pass  # YAML may begin so, too
    around: list[str | None] = []
    for event in yaml.parse(text, _LOADER):  # libyaml composes by recursion, and would overflow the stack
        if isinstance(event, yaml.CollectionStartEvent):
            around.append(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            around.pop()
        elif isinstance(event, yaml.AliasEvent) and event.anchor in around:
            raise ValueError(f"alias {event.anchor} stands for what it is part of")
        if len(around) > MOST_DEPTH:
            raise ValueError(f"nested more than {MOST_DEPTH} deep")
    yield from yaml.load_all(text, _LOADER)


def _locate(document: Any, where: str, report: Report) -> Iterator[LocatedObject]:
    if not isinstance(document, dict):
        report.add(where, f"must be a Kubernetes object, not {kind_of(document)}")
    elif "kind" not in document and isinstance(document.get("config"), dict):
        yield LocatedObject({"kind": "StackConfig", **document}, where)
    elif not isinstance(document.get("kind"), str):
        report.add(f"{where}: kind", "is missing", "every object of Kubernetes has apiVersion and kind")
    elif document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for index, item in enumerate(document["items"]):
            kind = document["kind"].removesuffix("List")
            full = {"kind": kind, **item} if isinstance(item, dict) and kind else item
            yield from _locate(full, f"{where}: items[{index}]", report)
    else:
        yield LocatedObject(document, where)
