"""What the world is told from outside: kubeconfigs and scripted machine faults."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from sandbox.world.__main__ import main
from sandbox.world.client import Connection
from sandbox.world.machines.faults import FaultPlan, MachineFault
from tests.sandbox.world.harness import ScriptedCloud

KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/"}}],
    "users": [{"name": "u", "user": {"token": "secret"}}],
}


def _write(tmp_path: Path, **changes: object) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({**KUBECONFIG, **changes}))
    return path


def test_a_kubeconfig_gives_server_and_token(tmp_path: Path) -> None:
    """The current context's cluster and user; no trailing slash."""
    connection = Connection.from_kubeconfig(_write(tmp_path))
    assert connection.server == "http://127.0.0.1:1"
    assert connection.headers == {"Authorization": "Bearer secret"}


@pytest.mark.parametrize(
    "changes", [{"current-context": "other"}, {"clusters": []}, {"users": None}], ids=["context", "cluster", "user"]
)
def test_a_kubeconfig_without_what_its_context_names_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no usable current-context"):
        Connection.from_kubeconfig(_write(tmp_path, **changes))


def test_faults_hit_what_they_name_and_no_more_often_than_they_say() -> None:
    """Fields must be equal; count limits how many instances; the answer for one instance never changes."""
    cloud = ScriptedCloud()
    plan = FaultPlan((MachineFault.parse("slow=30:type=m5.large,count=1"), MachineFault.parse("never-ready:zone=b")))
    first, second = cloud.launch(instance_type="m5.large"), cloud.launch(instance_type="m5.large")
    elsewhere = cloud.launch(zone="b")
    assert [plan.extra_seconds(instance) for instance in (first, second, first, elsewhere)] == [30, 0, 30, 0]
    assert [plan.has(instance, "never-ready") for instance in (first, elsewhere)] == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("explode", "none of never-join"),
        ("slow=x", "could not convert"),
        ("slow=1:colour=red", "unknown field 'colour'"),
    ],
)
def test_a_wrong_fault_is_refused_at_the_start(tmp_path: Path, text: str, message: str) -> None:
    """With exit code 2 and the reason, before anything runs."""
    result = CliRunner().invoke(main, ["--kubeconfig", str(_write(tmp_path)), "--fail", text])
    assert result.exit_code == 2
    assert message in result.output
