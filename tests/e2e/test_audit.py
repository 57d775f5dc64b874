"""The API server's audit log as the scenarios read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from e2e.audit import AuditLog, never_granted, refused, tally


def event(verb: str, stage: str = "ResponseComplete", code: int = 200, **ref: str) -> bytes:
    body: dict[str, Any] = {"verb": verb, "stage": stage, "responseStatus": {"code": code}, "requestURI": "/x"}
    return json.dumps({**body, "objectRef": ref} if ref else body).encode() + b"\n"


def test_each_answered_request_counts_once_and_a_watch_when_it_is_answered(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    assert log.mark() == 0
    (tmp_path / "audit.log").write_bytes(event("get", resource="nodes"))
    mark = log.mark()
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(event("watch", "ResponseStarted", resource="pods"))
        file.write(event("watch", resource="pods"))
        file.write(event("watch", code=429, resource="pods"))
        file.write(event("create", code=403, resource="pods", subresource="eviction", namespace="n", name="p"))
        file.write(event("get"))
        file.write(b'{"half a line')
    requests = log.since(mark)
    assert tally(requests) == {"watch pods": 2, "create pods/eviction": 1, "get /x": 1}
    assert [str(each) for each in refused(requests)] == ["create pods/eviction n/p: 403"]
    assert len(refused(requests, 429)) == 1


def test_what_is_forbidden_for_a_moment_is_no_missing_verb(tmp_path: Path) -> None:
    """Whether it was granted before the scenario or within it."""
    log = AuditLog(tmp_path / "audit.log")
    answers = [("get", 200), ("get", 403), ("list", 403), ("list", 200), ("delete", 403)]
    lines = [event(verb, code=code, resource="pods") for verb, code in answers]
    (tmp_path / "audit.log").write_bytes(b"".join(lines))
    scenario = log.since(len(lines[0]))
    assert [each.verb for each in never_granted(scenario, lambda: log.since(0))] == ["delete"]
