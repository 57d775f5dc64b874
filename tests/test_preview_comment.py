"""The comment on a pull request: costs and resources in one, found again and replaced, and never too long."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from click import ClickException, UsageError
from click.testing import CliRunner

from scripts.preview_comment import (
    CUT,
    MOST_CHARACTERS,
    NOT_YET,
    ROOT,
    Part,
    Ran,
    Request,
    comment,
    comment_id,
    cost,
    footer,
    main,
    resources,
    run_command,
    stack_name,
    write,
)

COSTS = "<!-- nodeless simulate -->\n### Fleet simulation: saves $197.10 a month (52.9 %)\n"
DIFF = """Previewing update (prod):
  pulumi:pulumi:Stack: (same)
    ~ kubernetes:core/v1:ConfigMap: (update)
        batchMaxDuration: "10s" => "20s"
Resources:
    + 3 to create
    ~ 1 to update
    +-2 to replace
    6 changes. 45 unchanged
"""
REFUSED = "Diagnostics:\n  error: cluster.name: there is no EKS cluster 'x'\n  error: identity.nodeRoleName: exists\n"
MARKED = "<!-- nodeless preview prod -->\n\n## Stack `prod`"
FILE = Path("stacks/Pulumi.prod.yaml")


class Commands:
    """What the commands answer, and how they were called."""

    def __init__(self, comments: Sequence[object] = (), **codes: int) -> None:
        self.comments, self.codes = comments, codes
        self.calls: list[list[str]] = []
        self.bodies: list[str] = []

    def __call__(self, command: Sequence[str], given: str) -> Ran:
        name = Path(command[0]).name
        self.calls.append([name, *command[1:]])
        if given:
            self.bodies.append(given)
        if list(command[:3]) == ["git", "worktree", "add"]:
            (Path(command[4]) / FILE).parent.mkdir(parents=True)
            (Path(command[4]) / FILE).touch()
        said = {"nodeless": COSTS, "pulumi": DIFF, "gh": "\n".join(map(json.dumps, self.comments))}
        return Ran(self.codes.get(name, 0), said.get(name, ""))

    def named(self, name: str) -> list[list[str]]:
        return [each for each in self.calls if each[0] == name]


def request(**changes: object) -> Request:
    given = {"stack_file": FILE, "stack": "prod", "workloads": "stacks/workloads", "base": "abc", "resources": True}
    return Request(**{**given, **changes})  # type: ignore[arg-type]


def test_costs_are_beside_the_resources_in_one_comment_that_is_replaced() -> None:
    others = [[1, "hello"], [2, "<!-- nodeless preview dev -->\n"], [3, f"{MARKED}\nof an earlier commit"]]
    commands = Commands(others)
    assert write(commands, request(), "c0ffee", "owner/name", "7") == 0
    (body,) = commands.bodies
    assert body.startswith(MARKED)
    assert body.index("saves $197.10") < body.index(
        "### Resources: 3 to create, 1 to update, 2 to replace, 45 unchanged"
    )
    assert 'batchMaxDuration: "10s" => "20s"' in body
    assert commands.named("gh")[1][3:6] == ["-X", "PATCH", "repos/owner/name/issues/comments/3"]
    first = Commands(others[:2])
    write(first, request(), "c0ffee", "owner/name", "7")
    assert first.named("gh")[1][3:6] == ["-X", "POST", "repos/owner/name/issues/7/comments"]


def test_costs_are_compared_with_the_base_commits_file_and_the_program_previews_this_one() -> None:
    commands = Commands()
    write(commands, request(), "", "", "")
    ((_, command, file, workloads, flag, before, *_),) = commands.named("nodeless")
    assert (command, file, workloads, flag) == ("simulate", str(FILE), "stacks/workloads", "--compare")
    assert before.endswith(f"/base/{FILE}")
    assert [each[2] for each in commands.named("git")] == ["add", "remove"]
    (previewed,) = commands.named("pulumi")
    flags = dict(zip(previewed[2::2], previewed[3::2], strict=False))
    assert flags == {
        "--cwd": str(ROOT), "--stack": "prod", "--config-file": str(FILE.absolute()), "--diff": "--non-interactive",
        "--suppress-progress": "--color",
    }  # fmt: skip
    assert not commands.named("gh"), "nobody asked for a comment"


def test_a_new_file_has_nothing_to_be_compared_with() -> None:
    commands = Commands()
    write(commands, request(stack_file=Path("Pulumi.new.yaml")), "", "", "")
    assert "--compare" not in commands.named("nodeless")[0]


def test_either_part_is_left_out_where_it_is_not_asked_for() -> None:
    commands = Commands()
    assert write(commands, request(resources=False), "", "o/n", "1") == 0
    assert "`pulumi preview` has not run for this commit." in commands.bodies[0], "an earlier commit's is not kept"
    assert not commands.named("pulumi")
    alone = Commands()
    write(alone, request(workloads=""), "", "o/n", "1")
    assert not alone.named("nodeless")
    assert "Fleet" not in alone.bodies[0]


def test_what_failed_is_in_the_comment_and_in_the_exit_code() -> None:
    refused = resources(Ran(1, REFUSED))
    assert "### Resources: the preview failed\n\n```\nDiagnostics:\n  error: cluster.name" in comment("p", [refused])
    assert cost(Ran(3, COSTS)).markdown == COSTS.strip(), "pods that cannot be placed are said, and no failure"
    assert cost(Ran(2, "stacks/x: no such file")).failed
    commands = Commands(pulumi=255)
    assert write(commands, request(), "", "o/n", "1") == 1
    assert "saves $197.10" in commands.bodies[0]
    shallow = Commands(git=128)
    assert write(shallow, request(), "", "o/n", "1") == 1
    assert "fetch-depth: 0" in shallow.bodies[0]
    with pytest.raises(ClickException, match="could not be written"):
        write(Commands(gh=1), request(), "", "o/n", "1")


def test_a_long_preview_is_cut_by_lines_and_a_failed_one_keeps_its_end() -> None:
    lines = [f"line {number} {'x' * 90}" for number in range(5000)]
    whole = "\n".join(lines)
    short = comment("p", [Part("", markdown=COSTS), resources(Ran(0, whole))], "last")
    assert MOST_CHARACTERS - 200 < len(short) <= MOST_CHARACTERS + 20
    assert lines[0] in short
    kept = len(set(lines) & set(short.splitlines()))
    assert CUT.format(5000 - kept) in short
    assert short.endswith("</details>\n\nlast\n")
    both = comment("p", [cost(Ran(2, whole)), resources(Ran(0, whole))])
    assert len(both) <= MOST_CHARACTERS + 20
    failed = comment("p", [resources(Ran(1, whole))])
    assert lines[-1] in failed
    assert lines[0] not in failed


def test_no_text_ends_its_block() -> None:
    text = comment("p", [resources(Ran(0, "a\n```\nb\n````\nResources:\n    1 unchanged"))])
    assert text.count("\n`````\n") == 2


def test_comments_of_others_are_not_taken_for_ours() -> None:
    lines = "\n".join(json.dumps(each) for each in [[1, "see\n" + MARKED], [2, "<!-- nodeless preview product -->"]])
    assert comment_id(lines, "prod") == ""
    assert comment_id("", "prod") == ""


def test_a_stack_has_its_files_name_unless_told() -> None:
    assert stack_name(Path("a/Pulumi.my-stack.yaml")) == "my-stack"
    with pytest.raises(UsageError, match="give --stack"):
        stack_name(Path("stack.yaml"))
    assert CliRunner().invoke(main, ["--stack-file", "stack.yaml"]).exit_code == 2


def test_the_run_and_the_commit_are_named() -> None:
    there = {"GITHUB_SERVER_URL": "https://h", "GITHUB_REPOSITORY": "o/n", "GITHUB_RUN_ID": "9"}
    assert footer(there, "c" * 40) == f"[Run](https://h/o/n/actions/runs/9) of {'c' * 12}"
    assert footer({}, "c") == ""
    assert NOT_YET.markdown in comment("p", [NOT_YET], footer(there, "c"))


def test_an_empty_token_is_no_token(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PULUMI_ACCESS_TOKEN", "")
    ran = run_command(["/bin/sh", "-c", "cat; echo ${PULUMI_ACCESS_TOKEN-none}; echo why >&2; exit 4"], "given ")
    assert ran == Ran(4, "given none\nwhy\n")
    assert capfd.readouterr().err == "why\n"


def test_the_action_hands_over_flags_that_there_are_and_inputs_by_environment_alone() -> None:
    action = yaml.safe_load((ROOT / ".github/actions/preview/action.yml").read_text())
    (step,) = [each for each in action["runs"]["steps"] if "preview_comment.py" in each.get("run", "")]
    known = {flag for option in main.params for flag in (*option.opts, *option.secondary_opts)}
    assert set(re.findall(r"--[a-z-]+", step["run"])) <= known
    used = set(re.findall(r"inputs\.([a-z-]+)", json.dumps(action["runs"])))
    assert used == set(action["inputs"])
