"""The form in which a client wants objects: whole, metadata only, or as a Table for printing."""

from __future__ import annotations

import re
from typing import Any

import orjson

from sandbox.apiserver.api import API
from sandbox.apiserver.kinds.conversion import converts, to_version
from sandbox.apiserver.requests import Request
from sandbox.apiserver.storage.store import Entry, Obj
from sandbox.apiserver.tables.tables import columns_of, table_row

_AS = re.compile(r"as=(\w+)")


def wanted_form(accept: str) -> str:
    """`Table`, `PartialObjectMetadata`, `PartialObjectMetadataList` or "" (the first entry that we serve)."""
    for part in accept.split(","):
        if "application/json" in part or "*/*" in part or "application/*" in part:
            match = _AS.search(part)
            form = match[1] if match else ""
            if not form or ("g=meta.k8s.io" in part.replace(" ", "") and "v=v1" in part.replace(" ", "").split(";")):
                return form
    return ""


class View:
    """How one request shows objects."""

    def __init__(self, api: API, request: Request) -> None:
        self._api = api
        self._resource = request.resource
        self._include = request.query.get("includeObject", "Metadata")
        form = wanted_form(request.accept)
        self.table = form == "Table"
        self.partial = form in ("PartialObjectMetadata", "PartialObjectMetadataList")

    def object(self, entry: Entry) -> bytes:
        """One object: JSON."""
        if self.table or self.partial or converts(self._resource, entry.obj):
            return self.body(entry.obj)
        return entry.raw

    def body(self, obj: Obj) -> bytes:
        """One object that need not be stored (dry run)."""
        if self.table:
            return orjson.dumps(
                self._table([obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")}, header=True)
            )
        return orjson.dumps(self._shown(obj))

    def watched(self, entry: Entry, *, header: bool) -> bytes:
        """The object of a watch event; the first Table of a watch carries the column definitions."""
        if self.table:
            return orjson.dumps(
                self._table([entry.obj], {"resourceVersion": str(entry.resource_version)}, header=header)
            )
        return self.object(entry)

    def bookmark(self, resource_version: int, annotations: dict[str, str] | None = None) -> bytes:
        """The object of a BOOKMARK event."""
        metadata: dict[str, Any] = {"resourceVersion": str(resource_version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        if self.table:
            return orjson.dumps({**self._table([], {"resourceVersion": str(resource_version)}, header=False)})
        kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"} if self.partial else self._kind()
        return orjson.dumps({**kind, "metadata": metadata})

    def listing(self, entries: list[Entry], metadata: dict[str, Any]) -> bytes:
        """A whole list document."""
        if self.table:
            return orjson.dumps(self._table([entry.obj for entry in entries], metadata, header=True))
        if self.partial:
            head: dict[str, Any] = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        else:
            head = {"kind": self._resource.list_kind, "apiVersion": self._resource.group_version}
        items = b",".join(self.object(entry) for entry in entries)
        return orjson.dumps({**head, "metadata": metadata})[:-1] + b',"items":[' + items + b"]}"

    def _kind(self) -> dict[str, str]:
        return {"kind": self._resource.kind, "apiVersion": self._resource.group_version}

    def _shown(self, obj: Obj) -> Obj:
        if self.partial:
            return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
        return to_version(self._resource, obj)

    def _table(self, objects: list[Obj], metadata: dict[str, Any], *, header: bool) -> Obj:
        columns = columns_of(self._api, self._resource)
        now = self._api.clock()
        rows = []
        for obj in objects:
            row: dict[str, Any] = {"cells": table_row(columns, obj, now)}
            if self._include == "Object":
                row["object"] = to_version(self._resource, obj)
            elif self._include != "None":
                row["object"] = {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": obj["metadata"],
                }
            rows.append(row)
        definitions = [column.definition() for column in columns] if header else None
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }
