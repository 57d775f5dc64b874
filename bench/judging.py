"""What kube-scheduler's own filters make of our plans: `bench/judge/`, a Go program, judges them one by one.

It is built by Go the first time, into `~/.cache/nodeless/judge` (`XDG_CACHE_HOME` is honoured), from the Kubernetes
modules that its go.mod pins; a change of its sources builds it again.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench import shapes
from bench.made_up import attachments, spreads
from bench.problems import Document, load
from bench.runs import document, timed
from controller.core.provisioning import SolveOptions
from sandbox.kubebinaries import Say, cache_folder

SOURCES = Path(__file__).parent / "judge"
MADE_UP: Mapping[str, Callable[[int], Document]] = {
    "rules": shapes.problem,
    "spreads": spreads.problem,
    "attachments": attachments.problem,
}
"""Makers of problems from seeds, by what they are about."""
COMPLAINTS = ("refused", "elsewhere", "missed", "wrong")


class JudgeMissingError(Exception):
    """The judge is not built and cannot be: the message says what would help."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What kube-scheduler makes of the plan for one problem."""

    name: str
    answer: Document
    """What the judge printed: counts, and a list for each kind of complaint."""

    @property
    def holds(self) -> bool:
        """Nothing is held against the plan."""
        return not any(self.answer[each] for each in COMPLAINTS)

    def lines(self, most: int = 5) -> Iterator[str]:
        """One line that sums up, then at most so many of each complaint."""
        said = "holds" if self.holds else ", ".join(f"{len(self.answer[c] or ())} {c}" for c in COMPLAINTS)
        counts = f"{self.answer['placed']} pods bound, {self.answer['unplaced']} left, {self.answer['nodes']} new nodes"
        yield f"{self.name}: {said}: {counts}, ${self.answer['price']:.4f}/h"
        for kind in COMPLAINTS:
            for each in (self.answer[kind] or ())[:most]:
                yield f"  {kind}: {_text(each)}"


def judge(binary: Path, name: str, posed: Document, options: SolveOptions) -> Verdict:
    """Solve a problem document, and have the plan judged. Raises subprocess.CalledProcessError."""
    with tempfile.TemporaryDirectory(prefix="nodeless-judge-") as folder:
        file = Path(folder) / "problem.json.gz"
        file.write_bytes(gzip.compress(orjson.dumps(posed), compresslevel=1))
        return verdict(binary, name, file, document(timed(posed, options)))


def verdict(binary: Path, name: str, problem_file: Path, plan: Document) -> Verdict:
    """Have a plan, as `solve --output json` prints it, judged. Raises subprocess.CalledProcessError."""
    with tempfile.NamedTemporaryFile(prefix="nodeless-plan-", suffix=".json") as file:
        file.write(orjson.dumps(plan))
        file.flush()
        done = subprocess.run([str(binary), str(problem_file), file.name], stdout=subprocess.PIPE, check=True)
    return Verdict(name, orjson.loads(done.stdout))


def posed(files: Sequence[Path], seeds: Sequence[int]) -> Iterator[tuple[str, Document]]:
    """The problems of files, then those made up from seeds: of each seed one of every kind."""
    for path in files:
        yield path.name.removesuffix(".json.gz"), load(path)
    for seed in seeds:
        for kind, made in MADE_UP.items():
            yield f"{kind} seed {seed}", made(seed)


def find_or_build(say: Say) -> Path:
    """The judge's binary for the sources as they are. Raises JudgeMissingError."""
    sources = sorted(each for each in SOURCES.iterdir() if each.suffix in (".go", ".mod", ".sum"))
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:12]
    binary = cache_folder().parent / "judge" / f"judge-{digest}"
    if os.access(binary, os.X_OK):
        return binary
    if shutil.which("go") is None:
        raise JudgeMissingError(f"The judge is not in {binary.parent}, and there is no Go to build it: see go.dev/dl")
    say(f"building the judge into {binary.parent}: a minute or more the first time")
    binary.parent.mkdir(parents=True, exist_ok=True)
    fresh = binary.with_name(f".{binary.name}.{os.getpid()}")
    built = subprocess.run(
        ["go", "build", "-ldflags", "-s -w", "-o", str(fresh), "."],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        words = "\n".join(built.stderr.splitlines()[-15:])
        raise JudgeMissingError(f"`go build` ended with code {built.returncode}; is there a module proxy?\n{words}")
    fresh.replace(binary)
    return binary


def _text(complaint: Any) -> str:
    if isinstance(complaint, str):
        return complaint
    if "where" in complaint:
        return f"{complaint['pod']} would go to {complaint['where']}; it was left: {complaint['said']}"
    return f"{complaint['pod']} on {complaint['node']}: {complaint['reason']}"
