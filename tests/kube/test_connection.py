"""Where the credentials come from: a kubeconfig, a plugin that it names, or the pod's service account."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.config import incluster_config

from controller.errors import ForbiddenError, ValidationError
from controller.kube.connection import connect


def kubeconfig(path: Path, user: dict[str, Any], server: str = "http://127.0.0.1:1") -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def plugin(path: Path, body: str) -> dict[str, Any]:
    """The user of a kubeconfig whose credentials come from a program, as with `aws eks get-token`."""
    path.write_text(body)
    version = "client.authentication.k8s.io/v1beta1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(path)], "interactiveMode": "Never"}}


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod's service account; returns the token's file."""
    token, certificate = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    certificate.write_text("not read before the first call")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificate))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return token


def test_the_token_of_a_kubeconfig(tmp_path: Path) -> None:
    connection = connect(kubeconfig(tmp_path / "k", {"token": "secret"}, "http://127.0.0.1:1/"))
    assert connection.server == "http://127.0.0.1:1"
    assert connection.auth_headers() == {"Authorization": "Bearer secret"}


def test_the_environment_names_the_kubeconfig_even_in_a_pod(
    tmp_path: Path, service_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "k", {"token": "secret"}))
    assert connect().auth_headers() == {"Authorization": "Bearer secret"}


def test_a_pods_service_account(service_account: Path) -> None:
    connection = connect()
    assert connection.server == "https://[fd00::1]:443"
    assert connection.auth_headers()["Authorization"].split() == ["bearer", "first"]


def test_a_token_that_the_kubelet_rotated_is_read_again(service_account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A projected token lives an hour; its file changes under us."""
    monkeypatch.setattr(
        incluster_config.InClusterConfigLoader, "token_expires_at", property(_past, _ignore), raising=False
    )
    connection = connect()
    service_account.write_text("second")
    assert connection.auth_headers()["Authorization"].split() == ["bearer", "second"]


def test_credentials_of_a_plugin(tmp_path: Path) -> None:
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": "from-plugin", "expirationTimestamp": "2999-01-01T00:00:00Z"},
    }
    user = plugin(tmp_path / "plugin.py", f"print({json.dumps(json.dumps(answer))})")
    assert connect(kubeconfig(tmp_path / "k", user)).auth_headers() == {"Authorization": "Bearer from-plugin"}


def test_a_plugin_that_fails_later_is_a_lack_of_credentials(tmp_path: Path) -> None:
    connection = connect(kubeconfig(tmp_path / "k", {"token": "secret"}))

    def expired(_configuration: object) -> None:
        raise RuntimeError("exec: process returned 255")

    connection.configuration.refresh_api_key_hook = expired
    with pytest.raises(ForbiddenError, match=r"No credentials .* returned 255"):
        connection.auth_headers()


@pytest.mark.parametrize("content", ["", "{}", "- a", "a: [", "current-context: nowhere\ncontexts: []"])
def test_a_kubeconfig_that_cannot_be_used_is_named_with_the_remedy(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken"
    path.write_text(content)
    with pytest.raises(ValidationError, match=r"broken.*KUBECONFIG"):
        connect(str(path))


def _past(_loader: object) -> Any:
    """A time that has come."""
    return incluster_config.datetime.datetime.min


def _ignore(_loader: object, _value: object) -> None:
    """The loader sets when to read again: never mind."""


def test_a_file_that_is_no_kubeconfig_and_a_context_that_there_is_not_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root:x:0:0")
    with pytest.raises(
        ValidationError, match=r"passwd: cannot be used: it is no kubeconfig; set KUBECONFIG to the path"
    ):
        connect(str(tmp_path / "passwd"))
    with pytest.raises(ValidationError, match=r"name nope in .*, and --context to one that `kubectl config get-contex"):
        connect(kubeconfig(tmp_path / "k", {"token": "secret"}), "nope")
