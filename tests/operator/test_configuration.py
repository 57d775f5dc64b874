"""Settings and log levels change while the controller runs, or by a restart; what is wrong changes nothing."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from controller.errors import NotFoundError, UnavailableError, ValidationError
from controller.operator.configuration import Configuration, log_levels
from controller.operator.options import Options
from controller.settings import CONFIG_MAP, LIVE, Settings
from controller.telemetry.registry import Metrics
from controller.telemetry.structured_logging import configure, set_level
from tests.manual_clock import ManualClock
from tests.telemetry.test_registry import values

BASE = {"aws.clusterName": "test"}


class Maps:
    """ConfigMaps by name, as the client reads them."""

    def __init__(self) -> None:
        self.data: dict[str, Mapping[str, str]] = {CONFIG_MAP: BASE}
        self.down = False

    def get(self, _resource: object, name: str, namespace: str) -> dict[str, Any]:
        assert namespace == "karpenter"
        if self.down:
            raise UnavailableError("connection refused")
        if name not in self.data:
            raise NotFoundError("gone", 404)
        return {"metadata": {"uid": f"uid-{name}"}, "data": self.data[name]}


class Events:
    """What was published."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def publish(self, *event: Any) -> None:
        self.said.append(event)


class Process:
    """What is told of changes."""

    def __init__(self) -> None:
        self.maps, self.clock, self.stop = Maps(), ManualClock(), threading.Event()
        self.adopted: list[Settings] = []
        self.leads = False
        self.events, self.metrics = Events(), Metrics(self.clock)
        maps: Any = self.maps
        options = Options("karpenter")
        self.configuration = Configuration(maps, options, "info", self.clock, self.stop, recorder=self.metrics)
        events: Any = self.events
        self.configuration.follow(Settings.parse(BASE), self.adopted.append, lambda: self.leads, events)

    def refused(self) -> dict[str, float]:
        """As the page tells it."""
        series = values(self.metrics.page({}).body, "nodeless_configuration_refused", "config_map")
        return {name: value for (name,), value in series.items()}

    def look(self, name: str = CONFIG_MAP, **data: str) -> list[Any]:
        """Change a ConfigMap, let it be seen; what was logged."""
        with capture_logs() as logs:
            if data or name == CONFIG_MAP:
                self.maps.data[name] = {**(BASE if name == CONFIG_MAP else {}), **data}
            self.configuration.look()
        return logs


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture(autouse=True)
def levels_as_they_were() -> Iterator[None]:
    yield
    set_level("info")
    structlog.reset_defaults()


def test_what_is_live_is_taken_up_at_once_and_said_once(process: Process) -> None:
    logs = process.look(batchMaxDuration="30s", weightPremium="0.1")
    (adopted,) = process.adopted
    assert (adopted.batch_max_duration_seconds, adopted.weight_premium) == (30.0, 0.1)
    (line,) = [entry for entry in logs if entry["event"] == "Settings changed"]
    assert line["keys"] == ["batchMaxDuration", "weightPremium"]
    assert process.look(batchMaxDuration="30s", weightPremium="0.1") == []
    assert not process.stop.is_set()
    process.look()
    assert process.adopted[-1] == Settings.parse(BASE), "a key that goes is at its default again"


def test_the_rest_is_taken_up_by_a_restart_that_is_announced(process: Process) -> None:
    change = {"aws.tags": '{"team": "a"}', "batchIdleDuration": "2s"}
    logs = process.look(**change)
    (line,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert line["keys"] == ["aws.tags"]
    assert "a restart follows" in line["event"]
    assert process.adopted[-1].batch_idle_duration_seconds == 2.0
    assert not process.adopted[-1].tags, "not half of it"
    process.clock.advance(59)
    assert process.look(**change) == []
    assert not process.stop.is_set()
    process.clock.advance(2)
    process.look(**change)
    assert process.stop.is_set()


def test_the_leader_restarts_later_so_that_not_all_are_away(process: Process) -> None:
    process.leads = True
    process.look(**{"aws.isolatedVPC": "true"})
    process.clock.advance(119)
    process.look(**{"aws.isolatedVPC": "true"})
    assert not process.stop.is_set()
    process.clock.advance(2)
    process.look(**{"aws.isolatedVPC": "true"})
    assert process.stop.is_set()


def test_a_change_that_is_taken_back_or_changed_again_starts_anew(process: Process) -> None:
    process.look(**{"aws.isolatedVPC": "true"})
    process.clock.advance(50)
    assert [entry["event"] for entry in process.look()] == ["No restart follows: the settings are as before"]
    process.clock.advance(50)
    process.look(**{"aws.isolatedVPC": "true"})
    process.clock.advance(50)
    process.look(**{"aws.isolatedVPC": "true", "aws.enablePodENI": "true"})
    process.clock.advance(50)
    process.look(**{"aws.isolatedVPC": "true", "aws.enablePodENI": "true"})
    assert not process.stop.is_set()


def test_wrong_settings_are_refused_with_all_keys_and_remedies_once_and_the_last_good_ones_hold(
    process: Process,
) -> None:
    process.look(batchMaxDuration="30s")
    bad = {"batchMaxDuration": "soon", "aws.clusterNam": "x"}
    (line,) = process.look(**bad)
    assert line["log_level"] == "error"
    assert "aws.clusterNam: unknown key; did you mean 'aws.clusterName'?" in line["problems"]
    assert any(problem.startswith("batchMaxDuration: ") for problem in line["problems"])
    assert process.look(**bad) == [], "said once"
    assert process.adopted[-1].batch_max_duration_seconds == 30.0
    assert not process.stop.is_set()
    process.look(batchMaxDuration="20s")
    assert process.adopted[-1].batch_max_duration_seconds == 20.0


def test_what_is_refused_is_a_metric_and_of_the_leader_an_event_until_it_is_mended(process: Process) -> None:
    """The event names the short problems first: a list of known keys may be what is cut off."""
    process.look(batchMaxDuration="soon", nonsense="x")
    assert process.refused() == {CONFIG_MAP: 1.0, "config-logging": 0.0}
    assert process.events.said == [], "one that stands by leaves that to the leader"
    process.leads = True
    process.look()
    assert process.refused() == dict.fromkeys((CONFIG_MAP, "config-logging"), 0.0)
    process.look("config-logging", **{"loglevel.webhook": "loud"})
    process.maps.data["config-logging"] = {}
    process.look(batchMaxDuration="soon", nonsense="x")
    process.maps.down = True
    process.look()
    assert process.refused() == {CONFIG_MAP: 1.0, "config-logging": 0.0}, "nobody knows better"
    levels, settings = process.events.said
    assert (levels[0].name, levels[0].uid, levels[0].namespace) == ("config-logging", "uid-config-logging", "karpenter")
    assert levels[1:3] == ("Warning", "ConfigurationRefused")
    assert settings[0].name == CONFIG_MAP
    assert settings[3].startswith("Configuration refused; the last good one holds: batchMaxDuration: 'soon' is not")
    assert "nonsense: unknown key" in settings[3]


def test_an_outage_or_a_config_map_that_is_gone_changes_nothing(process: Process) -> None:
    process.maps.down = True
    lines = process.look() + process.look()
    assert [line["config_map"] for line in lines] == ["karpenter/config-logging", f"karpenter/{CONFIG_MAP}"]
    process.maps.down = False
    del process.maps.data[CONFIG_MAP]
    with capture_logs() as logs:
        process.configuration.look()
    assert logs == []
    assert process.adopted == []


def test_every_live_field_is_a_field_and_the_clusters_name_is_none_of_them() -> None:
    assert set(LIVE) < set(Settings.__dataclass_fields__)
    assert "cluster_name" not in LIVE


def test_log_levels_change_while_it_runs_by_component(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")

    looks = itertools.count()  # told apart, else the same line again is held back for a minute

    def said() -> list[str]:
        look = next(looks)
        for name in ("webhook", "provisioning"):
            log = structlog.get_logger(name)
            log.debug(f"{name} debug", look=look)
            log.info(f"{name} info", look=look)
        lines = capsys.readouterr().out.splitlines()
        return [name for name in ("webhook debug", "webhook info", "provisioning debug", "provisioning info")
                if any(f'"{name}"' in line for line in lines)]  # fmt: skip

    process.configuration.look()
    assert said() == ["webhook info", "provisioning info"]
    process.maps.data["config-logging"] = {"loglevel.controller": "debug", "loglevel.webhook": "error"}
    process.configuration.look()
    assert said() == ["provisioning debug", "provisioning info"]
    process.maps.data["config-logging"] = {"loglevel.controller": "loud", "loglevel.webhook": "debug"}
    process.configuration.look()
    assert said() == ["provisioning debug", "provisioning info"], "the last good ones hold"
    process.maps.data["config-logging"] = {}
    process.configuration.look()
    assert said() == ["webhook info", "provisioning info"]


def test_karpenters_form_is_read_and_a_components_own_level_has_priority() -> None:
    assert log_levels({"zap-logger-config": '{"level": "error", "encoding": "console"}'}, "info") == {"": "error"}
    levels = log_levels({"zap-logger-config": '{"level": "error"}', "loglevel.controller": "debug"}, "info")
    assert levels == {"": "debug"}
    assert log_levels({"zap-logger-config": "{}"}, "warn") == {"": "warn"}


def test_all_that_is_wrong_with_log_levels_is_told_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        log_levels({"zap-logger-config": "[]", "loglevel.webhook": "loud", "loglevel.controller": ""}, "info")
    assert [problem.path for problem in caught.value.problems] == [
        "zap-logger-config",
        "loglevel.webhook",
        "loglevel.controller",
    ]
