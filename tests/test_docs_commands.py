"""Every command of the documents can be typed as it stands there.

Calls of `nodeless` that read files run in a scratch folder that has the files of the documents, and what asks a
cluster in tests/test_docs_cluster.py. What needs AWS, Pulumi or a registry (`--catalog live`; helm, aws, pulumi,
docker, cosign) does not run: `nodeless` parses the flags itself, of the others the verb and the flags are looked up
here, and files that are named must be there. Make's targets, modules and scripts must exist.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from controller.cli.main import main
from tests.cli.cluster.test_limits_report import M5_XLARGE, node, pod
from tests.cli.conftest import TEMPLATE, deployment, provisioner

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^ *```\n([\s\S]*?)^ *```|((?:^ {4}\S.*\n)+)", re.MULTILINE)
LANGUAGE = re.compile(r"^```[a-z]+\n[\s\S]*?^```", re.MULTILINE)
SEPARATORS = ("|", ";", "&&")

KUBECTL = {
    "apply": "-f", "delete": "-f -n -l --all", "exec": "-n", "get": "-o -n -A -L -l --watch --field-selector",
    "patch": "-n -p", "port-forward": "-n", "rollout": "-n", "scale": "-n --replicas",
    "create": "-f -n --clusterrole --group",
    "logs": "-n -l", "describe": "-n --namespace", "annotate": "-n", "label": "-n", "cordon": "",
    "drain": "--ignore-daemonsets",
}  # fmt: skip
"""Flags of kubectl's verbs that the documents use."""
VERBS = {
    "aws": {"eks", "ec2", "sts", "iam", "arc-zonal-shift"},
    "cosign": {"verify"},
    "docker": {"buildx"},
    "git": {"show", "ls-remote"},
    "helm": {"repo", "install", "uninstall", "upgrade", "get", "template"},
    "pulumi": {"stack", "preview", "up", "destroy", "config", "refresh", "package", "state", "import", "plugin"},
    "pip": {"install"},
}
"""First arguments of programs that do not run here."""
OTHERS = {"jq", "sed", "source", "curl"}
PROGRAMS = {"nodeless", "kubectl", "make", "uv", "python", "python3", "BURSTS=1000", *VERBS, *OTHERS}
ASKS_A_CLUSTER = {"view", "check", "dump", "explain", "rebalance", "cost"}
"""Verbs that read a cluster, but for a dump that is given by --from."""


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command of a page; `piped`: another one writes its standard input; `into`: the file of its output."""

    page: str
    words: tuple[str, ...]
    piped: bool = False
    into: str = ""

    @property
    def program(self) -> str:
        """The program's name, without its folder."""
        return self.words[0].rpartition("/")[2]

    @property
    def asks_a_cluster(self) -> bool:
        """Of a call of nodeless."""
        return "--live" in self.words or (self.words[1] in ASKS_A_CLUSTER and "--from" not in self.words)

    @property
    def asks_aws(self) -> bool:
        """Of a call of nodeless."""
        return self.words[-2:] == ("--catalog", "live")

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def lines(text: str) -> Iterator[str]:
    """Lines of the blocks of a page whose first word is a program; continued lines are one."""
    for block in BLOCK.finditer(LANGUAGE.sub("", text)):
        code = re.sub(r"\\\n\s*", " ", block[1] or block[2])
        first = re.sub(r"^(\S+=\S+ )+", "", code.strip()).split(maxsplit=1)
        if first and first[0].rpartition("/")[2] in PROGRAMS:
            yield from (line for line in code.splitlines() if line.strip())


def commands() -> list[Command]:
    """Every simple command of every page."""
    every = []
    for path in PAGES:
        for line in lines(path.read_text()):
            lexer = shlex.shlex(re.sub(r"<\((.*?)\)", r"; \1", line), posix=True, punctuation_chars="|;<>")
            lexer.whitespace_split = True
            piped = False
            words: list[str] = []
            for word in [*lexer, ";"]:
                if word in SEPARATORS:
                    kept, into = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
                    kept = kept[next((n for n, each in enumerate(kept) if not re.match(r"[A-Z_]+=", each)), 0) :]
                    every.append(Command(str(path.relative_to(ROOT)), tuple(kept), piped, into))
                    piped = word == "|"
                    words = []
                else:
                    words.append(word)
    return every


def calls() -> list[Command]:
    """Calls of `nodeless`, each once."""
    named: dict[tuple[tuple[str, ...], bool], Command] = {}
    for each in commands():
        words = each.words[1:] if each.program == "kubectl" and each.words[1:2] == ("nodeless",) else each.words
        words = words[words.index("--") + 1 :] if each.program == "kubectl" and "--" in words else words
        if words and words[0].rpartition("/")[2] == "nodeless":
            named.setdefault((words[1:], each.piped), replace(each, words=words))
    return list(named.values())


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reader(tmp_path_factory.mktemp("reader"))


def reader(folder: Path) -> Path:
    """A folder with what a reader has: the repository's files, objects of a cluster, workloads, a dump."""
    for name in ("stacks", "docs/examples", "crds"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "manifests").mkdir()
    (folder / "manifests" / "web.yaml").write_text(json.dumps(deployment(replicas=2)))
    objects = [TEMPLATE, provisioner("default", M5_XLARGE)]
    (folder / "provisioners.yaml").write_text(json.dumps({"kind": "List", "items": objects}))
    shutil.copy(ROOT / "stacks" / "Pulumi.prod.yaml", folder / "before.yaml")
    cluster = [*objects, node("x3d6f9d4288"), pod("web-1", on="x3d6f9d4288"), pod("web-2")]
    for name in ("dump.json.gz", "before.json.gz"):
        text = json.dumps({"kind": "ClusterDump", "taken": "2027-01-15T08:00:00Z", "objects": cluster})
        (folder / name).write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.mark.parametrize("call", [each for each in calls() if each.asks_aws or not each.asks_a_cluster], ids=str)
def test_a_call_of_nodeless_does_what_it_says(call: Command, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *arguments = call.words[1:]
    if call.asks_aws:
        command = main.get_command(click.Context(main), name)
        assert command is not None, name
        with command.make_context(name, list(arguments)):
            return
    monkeypatch.chdir(scratch)
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    objects = "provisioners.yaml" if name == "convert" else "manifests/web.yaml"
    stdin = (scratch / objects).read_text() if call.piped else ""
    result = CliRunner().invoke(main, [name, *arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code in (0, 3), result.stderr
    assert result.stdout.strip()


def known(command: Command) -> str:
    """Why a command cannot be typed; empty when it can."""
    program, arguments = command.program, command.words[1:]
    if program == "kubectl":
        return _kubectl(arguments)
    if program == "make":
        made = (ROOT / "Makefile").read_text()
        targets = [each for each in arguments if "=" not in each]
        return "" if all(f"\n{each}:" in made for each in targets) else f"no such target: {targets}"
    if program in ("python", "python3"):
        return _python(arguments)
    if program == "uv":
        return _uv(arguments)
    if program in VERBS:
        return "" if arguments[0] in VERBS[program] else f"{program} {arguments[0]} is not looked up here"
    return "" if program in {"nodeless", *OTHERS} else f"{program} is unknown"


def _kubectl(arguments: tuple[str, ...]) -> str:
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if own[0] == "nodeless":
        return ""
    words = list(own)
    while words and words[0] == "-n":  # kubectl takes it before the verb too
        del words[:2]
    if words[0] not in KUBECTL:
        return f"kubectl {words[0]} is not looked up here"
    flags = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
    unknown = flags - set(KUBECTL[words[0]].split())
    files = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "-f"]
    missing = [each for each in files if "/" in each and not (ROOT / each).exists()]
    return f"unknown flags: {sorted(unknown)}" if unknown else f"missing: {missing}" if missing else ""


def _python(arguments: tuple[str, ...]) -> str:
    if arguments[0] == "-m":
        module = ROOT / arguments[1].replace(".", "/")
        there = module.is_dir() or module.with_suffix(".py").exists() or arguments[1] in ("venv", "pytest")
        return "" if there else f"no module {arguments[1]}"
    return "" if (ROOT / arguments[0]).exists() else f"no file {arguments[0]}"


def _uv(arguments: tuple[str, ...]) -> str:
    if arguments[0] != "run":
        return "" if arguments[0] in ("tool", "sync", "lock") else f"uv {arguments[0]} is not looked up here"
    rest = tuple(each for each in arguments[1:] if each != "--")
    if rest[0] == "python":
        return _python(rest[1:])
    if rest[0] == "pytest":
        return (
            "" if all((ROOT / each).exists() for each in rest[1:] if each.startswith("tests")) else f"missing: {rest}"
        )
    return ""


def test_every_other_command_can_be_typed() -> None:
    every = commands()
    assert len(every) > 60
    wrong = [f"{each.page}: {' '.join(each.words)}: {why}" for each in every if (why := known(each))]
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("kubectl frobnicate nodes", "kubectl frobnicate"),
        ("kubectl get nodes --wach", "unknown flags: ['--wach']"),
        ("kubectl apply -f docs/examples/nothing.yaml", "missing"),
        ("make nothing", "no such target"),
        ("uv run python scripts/nothing.py", "no file"),
        ("python -m bench.nothing", "no module"),
        ("frobnicate", "is unknown"),
    ],
)
def test_a_command_that_cannot_be_typed_is_found(line: str, why: str) -> None:
    assert why in known(Command("page", tuple(line.split())))
