"""Starting and stopping: kubeconfig, state, the process, bookmarks on a timer."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path

import urllib3
import yaml

from sandbox import apiserver
from tests.contract.builders import config_map
from tests.contract.client import Client


def client(running: apiserver.Running) -> Client:
    return Client(running, "embedded", lambda: None, "default")


def test_the_kubeconfig_leads_to_the_server_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "kubeconfig"
    with apiserver.serve(kubeconfig=path) as running:
        document = yaml.safe_load(path.read_text())
        assert document["clusters"][0]["cluster"] == {"server": running.url}
        assert document["users"][0]["user"] == {"token": running.token}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_state_outlives_a_restart(tmp_path: Path) -> None:
    """Objects, uids and versions stay; watches from before get 410, as after a restore of etcd."""
    state = tmp_path / "state.json"
    with apiserver.serve(state=state) as running:
        api = client(running)
        created = api.post(api.path("configmaps"), config_map("a", x="1")).ok()
        api.patch(api.path("configmaps", "a"), {"data": {"x": "2"}}).ok()
    with apiserver.serve(state=state) as running:
        api = client(running)
        kept = api.get(api.path("configmaps", "a")).ok()
        assert (kept["metadata"]["uid"], kept["data"]) == (created["metadata"]["uid"], {"x": "2"})
        (event,) = api.watch_until(api.path("configmaps"), 1, resourceVersion=created["metadata"]["resourceVersion"])
        assert event["object"]["code"] == 410


def test_two_servers_run_beside_each_other() -> None:
    with apiserver.serve() as one, apiserver.serve() as two:
        client(one).post("/api/v1/namespaces", {"metadata": {"name": "only-here"}}).ok()
        assert client(two).get("/api/v1/namespaces/only-here").code == 404


def test_the_process_says_when_it_is_ready_and_stops_on_sigterm(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "sandbox.apiserver", "--port", "0", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[0] == "ready"
        assert urllib3.request("GET", f"{words[1]}/readyz", timeout=5.0).status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_bookmarks_come_on_a_timer_with_the_present_version(api: Client) -> None:
    """Clients that see no events of their type still move on, and are not hit by a compaction."""
    start = api.get(api.path("configmaps")).ok()["metadata"]["resourceVersion"]
    api.post(api.path("secrets"), {"metadata": {"name": "other"}}).ok()
    (event,) = api.watch_until(api.path("configmaps"), 1, resourceVersion=start, allowWatchBookmarks="true")
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(start)


def test_no_bookmarks_are_sent_to_clients_that_do_not_ask(api: Client) -> None:
    start = api.get(api.path("configmaps")).ok()["metadata"]["resourceVersion"]
    assert list(api.watch(api.path("configmaps"), seconds=1, resourceVersion=start)) == []
