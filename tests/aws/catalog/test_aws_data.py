"""scripts/aws_data.py, over HTTP against the sandbox, as whoever has credentials runs it on AWS."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controller.aws.catalog.shipped_tables import BRANCH_INTERFACES_FILE, PRICES_FILE, TYPES_FILE, branch_interfaces
from sandbox.aws.faults import Fault
from scripts.aws_data import main
from tests.aws.conftest import Cloud

REGION = "ap-northeast-2"
LIMITS_GO = """// This file was generated at 2026-03-04T05:06:07Z
var Limits = map[string]*VPCLimits{
\t"m5.large": {
\t\tInterface: 3,
\t\tIsTrunkingCompatible:  true,
\t\tBranchInterface:       9,
\t},
\t"t3.large": {
\t\tIsTrunkingCompatible:  false,
\t\tBranchInterface:       0,
\t},
}
"""


def run(folder: Path, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["--folder", str(folder), *map(str, arguments)])


def table(folder: Path, name: str = PRICES_FILE) -> Any:
    return json.loads(gzip.decompress((folder / name).read_bytes()))


def test_prices_are_the_apis_with_the_day_and_the_source(cloud: Cloud, tmp_path: Path) -> None:
    result = run(tmp_path, "prices", "--region", REGION, "--source", "a test")
    assert result.exit_code == 0, result.output
    written = table(tmp_path)[REGION]
    assert written["generated"] == dt.datetime.now(dt.UTC).date().isoformat()
    assert written["source"] == "a test"
    assert written["prices"]["m5.large"] == 0.118
    assert f"{REGION}: {len(written['prices'])} prices" in result.output
    before = (tmp_path / PRICES_FILE).read_bytes()
    assert run(tmp_path, "prices", "--region", REGION, "--source", "a test").exit_code == 0
    assert (tmp_path / PRICES_FILE).read_bytes() == before, "the same answer makes no change to commit"


@pytest.mark.parametrize(
    ("command", "region", "code", "said"),
    [
        ("prices", REGION, "AccessDeniedException", "allow pricing:GetProducts in the policy"),
        ("prices", "nowhere-1", "", "lists no instance type of region nowhere-1"),
        ("instance-types", REGION, "UnauthorizedOperation", "allow ec2:DescribeInstanceTypes in the policy"),
    ],
)
def test_without_an_answer_it_says_why_and_keeps_the_table(
    cloud: Cloud, tmp_path: Path, command: str, region: str, code: str, said: str
) -> None:
    files = {name: gzip.compress(b"{}") for name in (PRICES_FILE, TYPES_FILE)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    if code:
        cloud.aws.faults.add(Fault(code=code))
    result = run(tmp_path, command, "--region", region)
    assert result.exit_code == 1
    assert said in result.output
    assert {name: (tmp_path / name).read_bytes() for name in files} == files


def test_branch_interfaces_are_those_of_types_that_trunk(tmp_path: Path) -> None:
    (tmp_path / "limits.go").write_text(LIMITS_GO)
    result = run(tmp_path, "branch-interfaces", tmp_path / "limits.go")
    assert result.exit_code == 0, result.output
    written = table(tmp_path, BRANCH_INTERFACES_FILE)
    assert written["branchInterfaces"] == {"m5.large": branch_interfaces()["m5.large"]}
    assert written["generated"] == "2026-03-04T05:06:07Z"
    (tmp_path / "limits.go").write_text("package vpc")
    assert "adapt this script" in run(tmp_path, "branch-interfaces", tmp_path / "limits.go").output
