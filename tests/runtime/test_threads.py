"""Threads, pools, queues and sleeps stand in runtime/, and where sockets are served."""

from __future__ import annotations

import ast

from tests.source_trees import READS_SOURCES, ROOT, syntax_trees

pytestmark = READS_SOURCES
CONTROLLER = ROOT / "controller"
MAKES_THREADS = frozenset({"Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor"})
BLOCKS = frozenset({"sleep", "SimpleQueue", "LifoQueue", "PriorityQueue"})
ELSEWHERE = {
    "cli/view/reading.py": "reads the cluster while `nodeless view` answers keys",
    "operator/process.py": "ends the process in time when a signal's stop hangs",
    "telemetry/http_server.py": "serves probes and metrics",
    "webhook/https_server.py": "serves admission",
}


def called(tree: ast.AST) -> set[str]:
    """The last name of everything that is called: `x` of `x(...)` and of `y.x(...)`."""
    targets = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    return names | {each.attr for each in targets if isinstance(each, ast.Attribute)}


def test_nothing_outside_runtime_makes_a_thread_a_queue_or_sleeps() -> None:
    blocking = {
        path.relative_to(CONTROLLER).as_posix(): names
        for path, tree in syntax_trees("controller").items()
        if (names := called(tree) & (MAKES_THREADS | BLOCKS))
    }
    outside = {name for name in blocking if not name.startswith("runtime/")}
    assert outside <= ELSEWHERE.keys()
    assert any(name.startswith("runtime/") for name in blocking), "the names are those that runtime/ uses"
