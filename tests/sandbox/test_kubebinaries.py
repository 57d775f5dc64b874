"""A control plane's binaries: KUBEBUILDER_ASSETS wins, then the cache, then Go; else a sentence that says what to do.

`go` is a script here that leaves its `go.mod` to look at and compiles nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from e2e import __main__ as runner
from sandbox import kubebinaries
from sandbox.realkube import ASSETS_VARIABLE, AssetsMissingError

GO = """#!/bin/sh
case "$1 $2" in
"mod download") echo '{"GoMod": "'"$GO_TEST"'/theirs.mod"}' ;;
"mod tidy") cp go.mod "$GO_TEST/last.mod" ;;
build*) echo "$@" >> "$GO_TEST/builds"; echo built > "$4"; chmod +x "$4" ;;
esac
"""
THEIRS = """module k8s.io/kubernetes

go 1.24.0

require (
\tk8s.io/api v0.0.0
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/client-go => ./staging/src/k8s.io/client-go
)
"""


def filled(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in kubebinaries.NEEDED:
        (folder / name).touch(mode=0o755)
    return folder


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No binaries anywhere, and no Go."""
    monkeypatch.delenv(ASSETS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def with_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str = GO) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "go").write_text(script)
    (tmp_path / "bin" / "go").chmod(0o755)
    (tmp_path / "theirs.mod").write_text(THEIRS)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("GO_TEST", str(tmp_path))


def test_the_named_folder_wins_over_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = filled(kubebinaries.cache_folder())
    assert kubebinaries.find() == cache
    named = filled(tmp_path / "named")
    monkeypatch.setenv(ASSETS_VARIABLE, str(named))
    assert kubebinaries.find() == named
    (named / "kubectl").unlink()
    with pytest.raises(AssetsMissingError, match="has no executable kubectl"):
        kubebinaries.find()


def test_go_builds_what_is_missing_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Kubernetes replaces by paths inside its repository is replaced by the versions that are published."""
    with_go(tmp_path, monkeypatch)
    folder = filled(kubebinaries.cache_folder())
    (folder / "kube-scheduler").unlink()
    said: list[str] = []
    assert kubebinaries.find_or_build(said.append) == folder
    assert said[0] == f"[1/1] building kube-scheduler {kubebinaries.KUBERNETES} into {folder}"
    assert (folder / "kube-scheduler").read_text() == "built\n"
    assert not kubebinaries.missing(folder)
    module = (tmp_path / "last.mod").read_text().splitlines()
    assert f"require k8s.io/kubernetes {kubebinaries.KUBERNETES}" in module
    assert "replace k8s.io/client-go => k8s.io/client-go v0.34.4" in module
    assert "go 1.24.0" in module
    builds = (tmp_path / "builds").read_text()
    assert builds.count("\n") == 1
    assert builds.rstrip().endswith("k8s.io/kubernetes/cmd/kube-scheduler")


def test_what_go_says_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_go(tmp_path, monkeypatch, "#!/bin/sh\necho no such module >&2; exit 1\n")
    with pytest.raises(AssetsMissingError, match=r"(?s)go mod download.*GOPROXY.*no such module"):
        kubebinaries.find_or_build(print)


def test_without_binaries_and_go_the_run_ends_with_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert runner.main([]) == os.EX_UNAVAILABLE
    told = capsys.readouterr().err
    assert "install Go" in told
    assert ASSETS_VARIABLE in told
