"""The controller's image without a Docker engine: the Dockerfile's own steps in a folder, and what comes of them.

The steps are read from the Dockerfile and run by a shell with its environment; only /app is the folder, and the mounts
are what the repository has. The entrypoint then runs as the image's user, who can write to nothing but /tmp.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS
from sandbox import apiserver, aws
from sandbox.aws import AwsSettings
from sandbox.realkube import free_ports

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
USER_ID = 65_532
STARTS = 5
PART_BYTES = 4_000_000
READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a Dockerfile: its RUN commands, its environment, and other instructions by name.

    `copies` are the words of COPY from the repository: sources, and at last their target.
    """

    runs: tuple[str, ...]
    copies: tuple[tuple[str, ...], ...]
    environment: Mapping[str, str]
    instructions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ImageFigures:
    """`ready_seconds` of each start, from the process' start to the first 200 of /readyz."""

    size_bytes: int
    locked_bytes: int
    """As the packages come: what installing the wheel with its dependencies takes."""
    parts: tuple[tuple[str, int], ...]
    """The largest packages with their bytes, largest first."""
    import_kilobytes: int
    """Resident memory of a process that has imported the controller, at most."""
    ready_seconds: tuple[float, ...]
    processor_seconds: float
    """User and system time of all starts together, divided by their number."""


def stages(dockerfile: str) -> list[Stage]:
    """The stages in their order. Lines that a backslash continues are joined; comments go."""
    text = re.sub(r"\\\n", " ", "\n".join(line for line in dockerfile.splitlines() if not line.startswith("#")))
    read: list[tuple[list[str], list[tuple[str, ...]], dict[str, str], dict[str, str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, rest = line.partition(" ")
        if name == "FROM":
            read.append(([], [], {}, {}))
        elif not read:
            continue  # ARGs of the whole file
        elif name == "RUN":
            read[-1][0].append(re.sub(r"--mount=\S+\s+", "", rest.strip()))
        elif name == "COPY" and not rest.startswith("--from="):
            read[-1][1].append(tuple(shlex.split(rest)))
        elif name == "ENV":
            pairs = (pair.partition("=") for pair in shlex.split(rest))
            read[-1][2].update({name: value for name, _, value in pairs})
        else:
            read[-1][3][name] = rest.strip()
    return [Stage(tuple(runs), tuple(copies), environment, others) for runs, copies, environment, others in read]


def build(folder: Path, steps: int | None = None, **environment: str) -> Path:
    """Run the build stage in `folder` (empty, absolute); returns the entrypoint. Raises CalledProcessError.

    `steps`: only so many of its commands (None: all; negative: all but those). `environment` goes over the stage's own.
    """
    stage = next(each for each in stages(DOCKERFILE.read_text()) if each.runs)
    app = folder / "app"
    app.mkdir()
    for *sources, target in stage.copies:
        for name in sources:
            _copy(ROOT / name, app / target)
    given = {name: value.replace("/app", str(app)) for name, value in stage.environment.items()}
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    variables = {**ours, **given, "UV_PYTHON": _system_python() or sys.executable, **environment}
    for command in stage.runs[:steps]:
        subprocess.run(["/bin/sh", "-ec", command], cwd=app, env=variables, check=True, capture_output=True)
    return app / ".venv" / "bin" / "nodeless"


def _copy(source: Path, target: Path) -> None:
    """As COPY does: a folder's content, or a file under the target's name, or into a folder that is the target."""
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _system_python() -> str | None:
    """An interpreter of this version that another user can run, if there is one: a root's own is often in its home."""
    return shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")


def can_be_the_images_user() -> bool:
    """Whether this process may change to the image's user, and that user can run the interpreter."""
    return os.geteuid() == 0 and _system_python() is not None


def size_bytes(folder: Path) -> int:
    """Of all files below."""
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file() and not each.is_symlink())


def largest_parts(packages: Path) -> tuple[tuple[str, int], ...]:
    """The packages of PART_BYTES and more, with the libraries that belong to them; largest first."""
    sizes: Counter[str] = Counter()
    for each in packages.iterdir():
        sizes[each.name.removesuffix(".libs")] += size_bytes(each) if each.is_dir() else 0
    return tuple((name, size) for name, size in sizes.most_common() if size >= PART_BYTES)


def _import_kilobytes(python: Path) -> int:
    code = "import controller.operator.process, kubernetes.config, re"
    asked = "print(re.search(r'VmHWM:\\s*(\\d+) kB', open('/proc/self/status').read())[1])"
    done = subprocess.run([python, "-c", f"{code}; {asked}"], check=True, capture_output=True, text=True, cwd="/")
    return int(done.stdout)


def start(entrypoint: Path, environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """The entrypoint with `run`, in the final stage's environment, as the image's user where that is possible."""
    final = stages(DOCKERFILE.read_text())[-1]
    user: dict[str, Any] = {"user": USER_ID, "group": USER_ID, "extra_groups": []} if can_be_the_images_user() else {}
    command = [str(entrypoint), *json.loads(final.instructions["CMD"]), "--log-format=json"]
    with log.open("ab") as out:
        return subprocess.Popen(
            command, stdout=out, stderr=out, cwd="/", env={"PATH": "/usr/bin:/bin", **final.environment, **environment},
            **user,
        )  # fmt: skip


@contextmanager
def readable_folder() -> Iterator[Path]:
    """A temporary folder that every user can read."""
    folder = Path(tempfile.mkdtemp(prefix="nodeless-image-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def measure_image() -> ImageFigures:
    """Build, and start it again and again against the sandbox's API server and AWS."""
    with readable_folder() as folder:
        locked = size_bytes(build(folder, -1).parents[1])
    with readable_folder() as folder, ExitStack() as stack:
        entrypoint = build(folder)
        (packages,) = entrypoint.parents[1].glob("lib/python3*/site-packages")
        api = stack.enter_context(apiserver.serve(kubeconfig=folder / "kubeconfig"))
        cloud = stack.enter_context(aws.serve(AwsSettings(cluster="bench")))
        _install(KubeClient(connect(str(api.kubeconfig))))
        (folder / "kubeconfig").chmod(0o644)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = {
            **cloud.environment(),
            "KUBECONFIG": str(folder / "kubeconfig"),
            "SYSTEM_NAMESPACE": "karpenter",
            "KARPENTER_SERVICE": "karpenter",
        }
        times = tuple(_start_to_ready(entrypoint, environment, folder / "log") for _ in range(STARTS))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / STARTS
        return ImageFigures(
            size_bytes(entrypoint.parents[1]), locked, largest_parts(packages),
            _import_kilobytes(entrypoint.with_name("python")), times, spent,
        )  # fmt: skip


def _install(kube: KubeClient) -> None:
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        kube.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(path.read_text()))
    kube.create(NAMESPACES, {"metadata": {"name": "karpenter"}})
    data = {"aws.clusterName": "bench", "aws.defaultInstanceProfile": "bench"}
    kube.create(CONFIG_MAPS, {"metadata": {"name": "karpenter-global-settings"}, "data": data}, "karpenter")
    kube.create(SECRETS, {"metadata": {"name": "karpenter-cert"}}, "karpenter")


def _start_to_ready(entrypoint: Path, environment: Mapping[str, str], log: Path) -> float:
    """Seconds. Raises TimeoutError with what the process said."""
    ports = free_ports(3)
    names = ("HEALTH_PROBE_PORT", "METRICS_PORT", "WEBHOOK_PORT")
    variables = {**environment, **{name: str(port) for name, port in zip(names, ports, strict=True)}}
    began = time.perf_counter()
    process = start(entrypoint, variables, log)
    try:
        while not _ready(ports[0]):
            if time.perf_counter() - began > READY_SECONDS or process.poll() is not None:
                raise TimeoutError(f"not ready after {READY_SECONDS:.0f} s:\n{log.read_text()[-3000:]}")
            time.sleep(0.01)
        return time.perf_counter() - began
    finally:
        process.kill()
        process.wait()


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def image_table(figures: ImageFigures) -> str:
    """A page of Markdown."""
    load = os.getloadavg()[0]
    return (
        "# The image\n\nWritten by `python -m bench image`: the Dockerfile's own steps in an empty folder, then the "
        "entrypoint against the sandbox.\n\n| | |\n|---|---|\n"
        f"| Installed, with the bytecode of what the controller imports | {figures.size_bytes / 1e6:.0f} MB |\n"
        f"| The wheel with its dependencies, without bytecode | {figures.locked_bytes / 1e6:.0f} MB |\n"
        f"| Memory of a process that has imported the controller | {figures.import_kilobytes / 1e3:.0f} MB |\n"
        f"| Start to ready (caches synced, webhook served), median of {len(figures.ready_seconds)} | "
        f"{statistics.median(figures.ready_seconds):.1f} s |\n"
        f"| Best and worst | {min(figures.ready_seconds):.1f} s, {max(figures.ready_seconds):.1f} s |\n"
        f"| Processor time of a start | {figures.processor_seconds:.1f} s |\n"
        f"| Load of the machine's {os.cpu_count()} cores meanwhile | {load:.1f} |\n"
        "\nThe largest packages of the image. The first two are mostly shared libraries (NumPy's and OpenBLAS), "
        "which go as a whole or\nnot at all. What `pip install` brings is as its authors publish it, with the "
        "Kubernetes client's models and all services\nof AWS: only the Dockerfile can take something away.\n\n"
        "| package | MB |\n|---|---|\n" + "".join(f"| {name} | {size / 1e6:.0f} |\n" for name, size in figures.parts)
    )
