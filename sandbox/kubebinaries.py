"""The binaries of a real control plane: found where `KUBEBUILDER_ASSETS` or the cache has them, else built by Go.

They are built from their published Go modules, at the versions pinned here, into `~/.cache/nodeless/kube`
(`XDG_CACHE_HOME` is honoured): some minutes the first time, nothing after that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.realkube import ASSETS_VARIABLE, AssetsMissingError

KUBERNETES = "v1.34.4"
ETCD = "v3.5.24"
NEEDED = ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")

_MINOR = KUBERNETES.split(".")[1]
_VERSION = "k8s.io/component-base/version"
"""Where the Kubernetes binaries keep their version."""
_STAGED = re.compile(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging/", re.MULTILINE)
_GO_LINE = re.compile(r"^go .*$", re.MULTILINE)

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module and the binaries that it gives: name → package."""

    path: str
    version: str
    binaries: dict[str, str]
    staging_version: str = ""
    """Of the modules that live inside its repository, which it names by path: only versions can be had from outside."""
    linker_flags: str = "-s -w"


MODULES = (
    Module("go.etcd.io/etcd/server/v3", ETCD, {"etcd": "go.etcd.io/etcd/server/v3"}),
    Module(
        "k8s.io/kubernetes",
        KUBERNETES,
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in NEEDED[1:]},
        staging_version=f"v0.{KUBERNETES.removeprefix('v1.')}",
        linker_flags=(
            f"-s -w -X {_VERSION}.gitVersion={KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor={_MINOR}"
        ),
    ),
)


def cache_folder() -> Path:
    """Where built binaries are kept."""
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "nodeless" / "kube"


def missing(folder: Path, names: Sequence[str] = NEEDED) -> list[str]:
    """Which of the binaries a folder lacks."""
    return [name for name in names if not os.access(folder / name, os.X_OK)]


def find() -> Path | None:
    """The folder that has them all: the one that KUBEBUILDER_ASSETS names, else the cache; None where that is not
    filled yet. Raises AssetsMissingError when KUBEBUILDER_ASSETS names a folder that lacks some."""
    named = os.environ.get(ASSETS_VARIABLE, "")
    if not named:
        return None if missing(cache_folder()) else cache_folder()
    if lacks := missing(Path(named)):
        raise AssetsMissingError(
            f"{ASSETS_VARIABLE}={named} has no executable {', '.join(lacks)}; put them there, or unset the variable: "
            "then they are built by Go"
        )
    return Path(named)


def find_or_build(say: Say) -> Path:
    """The folder with the binaries; builds what is missing, and tells `say` how far it is.

    Raises AssetsMissingError when they are not there and cannot be built; the message says what would help.
    """
    found = find()
    if found is not None:
        return found
    folder = cache_folder()
    if shutil.which("go") is None:
        raise AssetsMissingError(
            f"A real control plane needs {', '.join(NEEDED)}. They are not in {folder}, and there is no Go to build "
            f"them with: install Go (https://go.dev/dl), or set {ASSETS_VARIABLE} to a folder that has them"
        )
    folder.mkdir(parents=True, exist_ok=True)
    todo = [(module, name) for module in MODULES for name in module.binaries if name in missing(folder)]
    for number, (module, name) in enumerate(todo, start=1):
        say(f"[{number}/{len(todo)}] building {name} {module.version} into {folder}")
        began = time.monotonic()
        build(module, name, folder)
        say(f"[{number}/{len(todo)}] {name}: {time.monotonic() - began:.0f} s")
    return folder


def build(module: Module, name: str, folder: Path) -> None:
    """Build one binary. Raises AssetsMissingError with the compiler's words."""
    with tempfile.TemporaryDirectory(prefix="nodeless-build-") as text:
        work = Path(text)
        (work / "go.mod").write_text(_go_mod(module, work))
        package = module.binaries[name]
        (work / "imports.go").write_text(f'//go:build tools\n\npackage binaries\n\nimport _ "{package}"\n')
        _go(work, "mod", "tidy", "-e")
        built = work / "built"
        _go(work, "build", "-mod=mod", "-o", str(built), "-ldflags", module.linker_flags, package)
        fresh = folder / f".{name}.{os.getpid()}"
        shutil.copy2(built, fresh)
        fresh.replace(folder / name)


def _go_mod(module: Module, work: Path) -> str:
    """A module of ours that requires the other one, with what it replaces by path replaced by version."""
    theirs = Path(
        json.loads(_go(work, "mod", "download", "-json", f"{module.path}@{module.version}"))["GoMod"]
    ).read_text()
    go_line = _GO_LINE.search(theirs)
    lines = ["module binaries", go_line.group() if go_line else "", f"require {module.path} {module.version}"]
    lines += [
        f"replace {staged} => {staged} {module.staging_version}" for staged in sorted(set(_STAGED.findall(theirs)))
    ]
    return "\n".join(lines) + "\n"


def _go(folder: Path, *arguments: str) -> str:
    """Run go; what it printed. Raises AssetsMissingError."""
    command = ["go", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = "\n".join(done.stderr.splitlines()[-15:])
        raise AssetsMissingError(
            f"`go {' '.join(arguments[:2])}` ended with code {done.returncode}; is there a module proxy "
            f"(go env GOPROXY)?\n{words}"
        )
    return done.stdout


def main() -> int:
    """`python -m sandbox.kubebinaries`: prints the folder; EX_UNAVAILABLE (69) where they cannot be had."""
    try:
        print(find_or_build(lambda line: print(line, file=sys.stderr, flush=True)))
    except AssetsMissingError as error:
        print(f"No real control plane: {error}", file=sys.stderr)
        return os.EX_UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
