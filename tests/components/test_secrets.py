"""Secrets of a stack file: nothing under a secret key is plain text in the engine's state."""

from __future__ import annotations

import json

import pytest

from tests.components.engine import DECLARES, Run, declared_once, run_stack, warned
from tests.components.stacks import minimal

pytestmark = DECLARES

SECRET = "the-secret"
TEMPLATE = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}, "userData": f"echo {SECRET}"}
KEYS = {
    "cluster": {"name": "myeks", "kubeconfig": f"/home/{SECRET}"},
    "controller": {"image": "i", "env": {"TOKEN": SECRET}},
    "settings": {"tags": {"token": SECRET}},
    "nodeTemplates": [{"name": "default", "spec": TEMPLATE}],
    "provisioners": [{"name": "default", "spec": {"providerRef": {"name": "default"}, "labels": {"team": SECRET}}}],
    "addons": {
        "prometheus": {},
        "grafana": {"values": {"adminPassword": SECRET, "ingress": {"hosts": [SECRET]}}},
        "coreDns": {"values": {"corefile": SECRET}},
    },
}


def declared(*secret: str) -> Run:
    keys = {f"nodeless:{name}": json.dumps(value) for name, value in minimal(**KEYS).items()}
    return declared_once(keys, secret_keys=[f"nodeless:{name}" for name in secret])


def showing(run: Run, text: str = SECRET) -> set[str]:
    """Resources whose inputs show it."""
    return {each.name for each in run.declared.values() if text in each.shown}


def test_what_is_under_a_secret_key_is_secret_in_every_resource_that_gets_it() -> None:
    shown = {
        "cluster": {"kubernetes", "kubernetes-kept"},
        "controller": {"controller-deployment"},
        "settings": {"controller-settings"},
        "nodeTemplates": {"provisioning-template-default"},
        "provisioners": {"provisioning-provisioner-default"},
        "addons": {"grafana-release", "coredns-addon"},
    }
    plain = declared()
    assert showing(plain) == set().union(*shown.values()), "every key reaches the engine"
    for key, resources in shown.items():
        assert showing(declared(key)) == showing(plain) - resources, key
    assert showing(declared(*KEYS)) == set()


def test_a_digest_of_secret_settings_is_as_secret() -> None:
    template = declared().one("controller-deployment").inputs["spec"]["template"]
    checksum = template["metadata"]["annotations"]["checksum/settings"]
    assert showing(declared(), checksum) == {"controller-deployment"}
    assert showing(declared("settings"), checksum) == set()


def test_a_key_under_which_nothing_can_be_secret_is_said(caplog: pytest.LogCaptureFixture) -> None:
    keys = {f"nodeless:{name}": json.dumps(value) for name, value in minimal(identity={"path": "/a/"}).items()}
    run_stack("test", keys, secret_keys=["nodeless:identity", "nodeless:controller", "other:identity"])
    (warning,) = warned(caplog)
    assert warning.startswith("identity: is encrypted, but its values are names and choices")
