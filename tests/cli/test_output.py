"""How the commands behave as a program: listed without being imported, completed by shells, failing in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

import controller
from controller.cli.main import VERBS
from tests.cli.conftest import TEMPLATE, Run, Write, deployment, provisioner


def test_starting_loads_neither_the_commands_for_people_nor_what_is_slow() -> None:
    """What `nodeless run` does not need must not slow its start, and `--help` needs click alone."""
    slow = "('controller.cli.', 'numpy', 'highspy', 'boto3', 'kubernetes', 'structlog', 'rich', 'yaml')"
    loaded = f"[m for m in sys.modules if m.startswith({slow}) and m != 'controller.cli.main']"
    code = f"import sys, controller.cli.main; print({loaded})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"


@pytest.mark.parametrize("name", VERBS)
def test_every_command_is_listed_and_has_help(run: Run, name: str) -> None:
    assert f"  {name} " in run("--help").stdout
    result = run(name, "--help")
    assert result.exit_code == 0
    assert f"Usage: main {name}" in result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_a_script_for_this_command(run: Run, shell: str) -> None:
    script = run("completion", shell).stdout
    assert f"_NODELESS_COMPLETE={shell}_complete" in script


@pytest.mark.parametrize("command", [["view", "--once"], ["check"], ["dump"], ["explain", "node", "n"]])
def test_no_cluster_is_a_sentence_and_no_stack_trace(run: Run, command: list[str]) -> None:
    result = run(*command, "--kubeconfig", "/nowhere/kubeconfig")
    assert result.exit_code == 2
    assert "/nowhere/kubeconfig" in result.stderr
    assert "set KUBECONFIG" in result.stderr


def test_the_version_and_what_was_probably_meant(run: Run) -> None:
    assert run("--version").stdout == f"nodeless {controller.__version__}\n"
    result = run("simulat")
    assert result.exit_code == 2
    assert "No such command 'simulat'. Did you mean 'simulate'?" in result.stderr


def test_no_error_ends_in_a_traceback(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = write(TEMPLATE, provisioner(), deployment(replicas=1))
    result = run("simulate", fleet, "--html", "/nowhere/at/all.html")
    assert (result.exit_code, result.stderr) == (
        1,
        "nodeless simulate: /nowhere/at/all.html: No such file or directory\n",
    )
    monkeypatch.setattr("controller.cli.simulate.command.run", lambda _: 1 / 0)
    result = run("simulate", fleet)
    told = "nodeless simulate: ZeroDivisionError: division by zero; a fault of nodeless: report it with what "
    assert (result.exit_code, result.stderr) == (1, f"{told}NODELESS_TRACEBACK=1 adds\n")
    monkeypatch.setenv("NODELESS_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run("simulate", fleet)


def test_a_flag_with_few_words_names_them_when_it_is_given_another(run: Run) -> None:
    assert "'pod' is not one of 'namespace', 'workload'." in run("cost", "--by", "pod").stderr
