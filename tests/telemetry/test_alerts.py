"""Every alert fires on what it is for and on nothing else, by Prometheus' own rule tests where there is a promtool."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.kubebinaries import cache_folder
from tests.telemetry.test_dashboards import FOLDER, KNOWN, rules

TESTS = FOLDER / "alerts_test.yaml"


def cases() -> list[dict[str, Any]]:
    tests: list[dict[str, Any]] = yaml.safe_load(TESTS.read_text())["tests"]
    return tests


def test_each_alert_is_tried_on_values_that_make_it_fire_and_on_values_that_must_not() -> None:
    tried: dict[str, set[bool]] = defaultdict(set)
    for case in cases():
        for each in case["alert_rule_test"]:
            tried[each["alertname"]].add(bool(each["exp_alerts"]))
    assert tried == {rule["alert"]: {True, False} for rule in rules()}


def test_the_values_are_of_series_that_the_controller_has() -> None:
    for case in cases():
        for each in case.get("input_series", ()):
            name, _, labels = each["series"].partition("{")
            given = set(re.findall(r"(\w+)=", labels)) - {"pod"}
            assert given <= KNOWN.get(name, set()), f"{case['name']}: {each['series']}"


def test_prometheus_agrees() -> None:
    kept = cache_folder().with_name("prometheus") / "promtool"
    promtool = shutil.which("promtool") or (str(kept) if kept.exists() else None)
    if promtool is None:
        pytest.skip("no promtool here")
    done = subprocess.run([promtool, "test", "rules", Path(TESTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
