"""One comment on a pull request: what its change of a stack file costs, and which resources it changes.

    .venv/bin/python scripts/preview_comment.py --stack-file stacks/Pulumi.prod.yaml --workloads stacks/workloads \
        --base COMMIT [--no-resources] [--repository OWNER/NAME --pull-request NUMBER]

The action .github/actions/preview runs it. `nodeless simulate` compares the file with that of the base commit; `pulumi
preview` runs the program of this folder with it. Without --pull-request the comment is printed alone; with it, the
comment of the same stack is replaced, or made. Exit code 1: one of the two failed; the comment says why.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
MOST_CHARACTERS = 65_000
"""Of a comment; GitHub takes 65,536."""
MOST_SUMMARY_CHARACTERS = 500_000
"""Of a step's summary; GitHub takes 1 MiB."""
UNPLACED = 3
"""Exit code of `nodeless simulate` where some pods cannot be placed."""
CUT = "… {} more lines: see the run"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended; `output` has standard error's lines too where it failed."""

    code: int
    output: str


Run = Callable[[Sequence[str], str], Ran]
"""A command and its standard input → how it ended."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section of the comment. `text` is plain, and cut where the comment gets too long."""

    title: str
    markdown: str = ""
    text: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What to preview. `workloads` empty: no costs."""

    stack_file: Path
    stack: str
    workloads: str
    base: str
    resources: bool


def cost(ran: Ran) -> Part:
    """Of `nodeless simulate -o markdown`."""
    if ran.code in (0, UNPLACED):
        return Part("", markdown=ran.output.strip())
    return Part("### Fleet simulation failed", text=ran.output, failed=True)


def resources(ran: Ran) -> Part:
    """Of `pulumi preview --diff`."""
    if ran.code != 0:
        return Part("### Resources: the preview failed", text=ran.output, failed=True)
    block = ran.output.rpartition("\nResources:")[2]
    counts = re.findall(r"\d+ (?:to [a-z-]+|unchanged)", block)
    return Part(f"### Resources: {', '.join(counts) or 'see the preview'}", text=ran.output)


NOT_YET = Part("### Resources", markdown="`pulumi preview` has not run for this commit.")


def marker(stack: str) -> str:
    """First line of a stack's comment, by which a later run finds and replaces it."""
    return f"<!-- nodeless preview {stack} -->"


def comment(stack: str, parts: Sequence[Part], footer: str = "", most: int = MOST_CHARACTERS) -> str:
    """The comment, of at most so many characters."""
    room = most - len(_comment(stack, parts, footer, 0))
    texts = [each for each in parts if each.text]
    return _comment(stack, parts, footer, max(0, room // max(1, len(texts))))


def _comment(stack: str, parts: Sequence[Part], footer: str, room: int) -> str:
    sections = [marker(stack), f"## Stack `{stack}`"]
    for each in parts:
        sections += [each.title, each.markdown, _fenced(each, room) if each.text else ""]
    return "\n\n".join(filter(None, [*sections, footer])) + "\n"


def _fenced(part: Part, room: int) -> str:
    """The text where no backtick of it ends the block. Of a failure the last lines are kept, else the first."""
    text = _cut(part.text.strip("\n"), room, keep_end=part.failed)
    longest = max((len(each) for each in re.findall("`+", part.text)), default=0)
    fence = "`" * max(3, longest + 1)
    block = f"{fence}\n{text}\n{fence}"
    return block if part.failed else f"<details><summary>pulumi preview</summary>\n\n{block}\n\n</details>"


def _cut(text: str, room: int, *, keep_end: bool) -> str:
    if len(text) <= room:
        return text
    lines = text.splitlines()
    kept: list[str] = []
    for line in reversed(lines) if keep_end else lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    said = CUT.format(len(lines) - len(kept))
    return "\n".join([said, *reversed(kept)] if keep_end else [*kept, said])


def comment_id(listed: str, stack: str) -> str:
    """The id of the stack's comment among lines of JSON, [id, body] each; empty: there is none."""
    found = (json.loads(line) for line in listed.splitlines() if line.strip())
    return next((str(id_) for id_, body in found if body.startswith(marker(stack))), "")


def post(run: Run, repository: str, number: str, stack: str, body: str) -> None:
    """Replace the stack's comment on the pull request, or make it. Raises ClickException."""
    every = f"repos/{repository}/issues/{number}/comments"
    wanted = '.[] | select(.user.type == "Bot") | [.id, .body] | @json'
    known = comment_id(_must(run(["gh", "api", "--paginate", every, "--jq", wanted], "")), stack)
    target = ["-X", "PATCH", f"repos/{repository}/issues/comments/{known}"] if known else ["-X", "POST", every]
    _must(run(["gh", "api", "--silent", *target, "-F", "body=@-"], body))


def _must(ran: Ran) -> str:
    if ran.code != 0:
        raise click.ClickException(f"the comment could not be written:\n{ran.output}")
    return ran.output


def preview(run: Run, request: Request, folder: Path) -> list[Part]:
    """The parts that are asked for. `folder`: an empty one, for the base commit's files."""
    parts = [cost(_simulated(run, request, folder))] if request.workloads else []
    return [*parts, resources(_previewed(run, request)) if request.resources else NOT_YET]


def _simulated(run: Run, request: Request, folder: Path) -> Ran:
    base = folder / "base"
    fetched = run(["git", "worktree", "add", "--detach", str(base), request.base], "")
    if fetched.code != 0:
        return Ran(
            fetched.code, f"{fetched.output}\nCheck out with `fetch-depth: 0`: the base commit is compared with."
        )
    before = base / request.stack_file
    compared = ("--compare", str(before)) if before.exists() else ()
    command = [str(ROOT / ".venv/bin/nodeless"), "simulate", str(request.stack_file), request.workloads]
    done = run([*command, *compared, "-o", "markdown"], "")
    run(["git", "worktree", "remove", "--force", str(base)], "")
    return done


def _previewed(run: Run, request: Request) -> Ran:
    config = str(request.stack_file.absolute())
    flags = ["--diff", "--non-interactive", "--suppress-progress", "--color", "never"]
    return run(["pulumi", "preview", "--cwd", str(ROOT), "--stack", request.stack, "--config-file", config, *flags], "")


def stack_name(file: Path) -> str:
    """Of Pulumi.NAME.yaml. Raises UsageError."""
    named = re.fullmatch(r"Pulumi\.(.+)\.ya?ml", file.name)
    if named is None:
        raise click.UsageError(f"--stack-file: {file} is not named Pulumi.NAME.yaml; give --stack")
    return named[1]


def footer(environment: Mapping[str, str], commit: str) -> str:
    """Which run of which commit wrote the comment; empty outside of GitHub Actions."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    if not all(environment.get(name) for name in names):
        return ""
    server, repository, run = (environment[name] for name in names)
    return f"[Run]({server}/{repository}/actions/runs/{run}) of {commit[:12]}"


def run_command(command: Sequence[str], given: str) -> Ran:
    """A real process, in this one's folder and environment."""
    environment = {name: value for name, value in os.environ.items() if value or name != "PULUMI_ACCESS_TOKEN"}
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=environment)
    sys.stderr.write(done.stderr)
    return Ran(done.returncode, done.stdout + (done.stderr if done.returncode else ""))


@click.command(help=__doc__)
@click.option("--stack-file", required=True, type=click.Path(path_type=Path), help="From the present folder.")
@click.option("--stack", default="", help="[default: NAME of Pulumi.NAME.yaml]")
@click.option("--workloads", default="", help="Manifests, or a dump of the cluster, to plan for. Empty: no costs.")
@click.option("--base", default="", help="Commit to compare the costs with.")
@click.option("--resources/--no-resources", default=True, help="Run `pulumi preview`.")
@click.option("--commit", default="", help="The pull request's, for the comment.")
@click.option("--repository", default="", help="OWNER/NAME")
@click.option("--pull-request", "number", default="", help="Number. Empty: no comment is written.")
def main(
    stack_file: Path, stack: str, workloads: str, base: str, resources: bool, commit: str, repository: str, number: str
) -> None:
    """Preview, print, comment."""
    request = Request(stack_file, stack or stack_name(stack_file), workloads, base, resources)
    sys.exit(write(run_command, request, commit, repository, number))


def write(run: Run, request: Request, commit: str, repository: str, number: str) -> int:
    """The exit code. Prints the comment, adds it to the step's summary, and writes it to the pull request."""
    with tempfile.TemporaryDirectory(prefix="nodeless-preview-") as folder:
        parts = preview(run, request, Path(folder))
    last = footer(os.environ, commit)
    whole = comment(request.stack, parts, last, MOST_SUMMARY_CHARACTERS)
    click.echo(whole)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a") as file:
            file.write(whole)
    if number:
        post(run, repository, number, request.stack, comment(request.stack, parts, last))
    return int(any(each.failed for each in parts))


if __name__ == "__main__":
    main()
