"""What a scale run is told as: the table's figures, the picture's curves, and a process that is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.control_plane.foresight import Foresight
from bench.control_plane.foresight import table as foresight_table
from bench.control_plane.processor_time import ProcessorTime, program
from bench.control_plane.scale import ScaleRun, Usage, sampled
from bench.control_plane.scalereport import picture, share, table
from bench.control_plane.side_by_side import (
    figures,
    over_limit,
    programs_table,
    ratios,
    read,
    side_table,
    without_controller,
)

BURN = """
import time
while time.process_time() < 0.15:
    pass
print("burnt", flush=True)
time.sleep(60)
"""

RUN = ScaleRun(
    created=(0.0, 0.0, 1.0, 1.0),
    bound=(5.0, 5.0, 6.0, 9.0),
    waited=(4.0, 5.0, 5.0, 8.0),
    launched=(2.0, 3.0),
    known=(2.5, 3.5),
    ready=(4.0, 8.0),
    usage=(Usage(0.0, 100 << 20, 1.0), Usage(5.0, 300 << 20, 3.0), Usage(9.0, 200 << 20, 4.5)),
    calls=Counter({"create nodes": 2, "patch nodes": 5}),
    spent=ProcessorTime(
        40.0, {"controller": 4.0, "kube-apiserver": 30.0, "etcd": 3.0, "bench": 1.0, "other programs": 0.01}
    ),
    load=1.5,
)


def test_the_table_has_the_runs_figures() -> None:
    rows = dict(line.strip("| ").rsplit(" | ", 1) for line in table(RUN).splitlines()[2:])
    assert rows["pods, nodes"] == "4, 2"
    assert rows["last pod bound, s"] == "9"
    assert rows["a pod's wait from Pending to bound, s: median, 90 %, longest"] == "5, 8, 8"
    assert rows["controller's memory at most, MiB"] == "300"
    assert rows["controller's processor time, s"] == "4"
    assert rows["API requests of the controller a node"] == "3.5"
    assert rows["processor time of all processes on the machine, s"] == "40"
    assert rows["of these patch nodes"] == "2.50"


def test_a_share_of_one_value_is_that_value() -> None:
    assert [share((7.0,), part) for part in (0.0, 0.5, 1.0)] == [7.0, 7.0, 7.0]


def test_every_curve_ends_at_the_top() -> None:
    ends = [
        line.split('points="')[1].split('"')[0].split()[-1] for line in picture(RUN).splitlines() if "points" in line
    ]
    assert [end.split(",")[1] for end in ends] == ["60.0"] * 4
    assert ends[-1] == "700.0,60.0", "the last pod bound is the end of all"


def test_a_process_is_looked_at_from_beginning_to_end() -> None:
    with sampled(os.getpid()) as usage:
        burnt = sum(range(1_000_000))
    assert burnt > 0
    first, *_, last = usage
    assert first.at == 0.0 < last.at
    assert min(first.rss_bytes, last.rss_bytes) > 10 << 20
    assert last.processor_seconds >= first.processor_seconds > 0


def test_the_figures_stand_beside_anothers_and_the_limit(tmp_path: Path) -> None:
    """What `--json` writes is what `--side` reads; what another does not say is an empty cell."""
    file = tmp_path / "karpenter.json"
    file.write_bytes(figures(RUN).json())
    assert read(file) == figures(RUN)
    file.write_text('{"last_pod_bound_s": 233, "api_requests_a_node": 18.4, "version": "1.14"}')
    alone = figures(replace(RUN, launched=(), ready=(), usage=(), calls=Counter()))
    table = side_table({"NodeLess": figures(RUN), "karpenter": read(file), "limit": alone})
    rows = {
        row[0]: row[1:] for row in ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
    }
    assert rows[""] == ["NodeLess", "karpenter", "limit"]
    assert rows["last pod bound s"] == ["9", "233", "9"]
    assert rows["api requests a node"] == ["3.5", "18.4", ""]
    assert rows["wait p99 s"] == ["8", "", "8"]
    assert rows["controller cpu ms a node"] == ["1,750", "", ""]


def test_the_programs_processor_time_stands_beside_the_limits() -> None:
    """Those with next to none have no row, and the bench has no part in what the others need."""
    alone = replace(RUN, spent=ProcessorTime(31.0, {"kube-apiserver": 20.0, "etcd": 2.0, "bench": 9.0}))
    rows = programs_table(RUN, alone).splitlines()
    assert rows[2:] == [
        "| kube-apiserver | 30.0 | 20.0 |",
        "| controller | 4.0 | 0.0 |",
        "| etcd | 3.0 | 2.0 |",
        "| bench | 1.0 | 9.0 |",
    ]
    assert without_controller([(RUN, alone)]).strip().endswith("limit's of the same round: 1.50.")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["/opt/kube/kube-scheduler", "--leader-elect=false"], "kube-scheduler"),
        (["python", "-u", "-m", "sandbox.world", "--region", "eu-west-1"], "kubelets (sandbox)"),
        (["python", "/venv/bin/nodeless", "run"], "controller"),
        (["python", "-m", "http.server"], "other programs"),
        ([], "other programs"),
    ],
)
def test_a_program_is_known_by_its_command_line(words: list[str], name: str) -> None:
    assert program(words) == name


def test_processor_time_is_counted_of_this_process_and_those_that_it_started() -> None:
    before = ProcessorTime.now()
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"burnt\n"
        spent = ProcessorTime.now().since(before)
        child.kill()
    assert spent.programs["other programs"] >= 0.1
    assert spent.machine >= 0.1


def test_processor_time_between_two_moments_is_the_difference_a_program_that_began_meanwhile_included() -> None:
    before, after = ProcessorTime(10.0, {"etcd": 3.0}), ProcessorTime(14.0, {"etcd": 4.0, "controller": 2.0})
    assert after.since(before) == ProcessorTime(4.0, {"etcd": 1.0, "controller": 2.0})


@pytest.mark.parametrize("text", ["[]", '{"last_pod_bound_s": "soon"}', '{"last_pod_bound_s": true}'])
def test_a_file_that_holds_no_figures_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "karpenter.json").write_text(text)
    with pytest.raises(ValueError, match=r"karpenter\.json"):
        read(tmp_path / "karpenter.json")


def test_each_rounds_last_binding_is_told_over_its_own_limit() -> None:
    quick, slow = replace(RUN, bound=(6.0,)), replace(RUN, bound=(12.0,))
    rounds = [(RUN, quick), (RUN, slow)]
    assert [over_limit(each) for each in rounds] == [1.5, 0.75]
    assert over_limit((RUN, None)) == 9.0
    assert over_limit((RUN, replace(RUN, bound=(0.0,)))) == 9.0
    assert "1.50, 0.75" in ratios(rounds)


def test_controller_and_foresight_are_told_over_the_limit_of_the_same_round() -> None:
    """Of the other programs 33 s are the controller's run, 22 the one with foresight, 11 the limit."""
    foreseen = replace(RUN, bound=(2.0, 6.0), ready=(5.0,), spent=ProcessorTime(30.0, {"etcd": 22.0, "bench": 5.0}))
    limit = replace(RUN, bound=(1.0, 4.0), ready=(), spent=ProcessorTime(15.0, {"etcd": 11.0}))
    others = replace(RUN, spent=ProcessorTime(40.0, {"controller": 4.0, "kube-apiserver": 30.0, "etcd": 3.0}))
    *_, row = foresight_table([Foresight(others, foreseen, limit)]).splitlines()
    assert row == "| 1 | 8, 5 | 9, 6 | 2.25, 1.50 | 3.00, 2.00 | 4 |"
