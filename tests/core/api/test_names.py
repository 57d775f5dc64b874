"""Names follow Kubernetes' syntax."""

from __future__ import annotations

import pytest

from controller.core.api.names import dns_1035_error, label_value_error, qualified_name_error


@pytest.mark.parametrize("key", ["a", "A.b-c_d", "1", "example.com/a", "a-b.c/D", "x" * 63, f"{'a' * 63}.{'b' * 63}/x"])
def test_qualified_names(key: str) -> None:
    assert qualified_name_error(key) == ""


@pytest.mark.parametrize(
    "key", ["", "-a", "a-", "a b", "/a", "a/", "a/b/c", "A.com/a", "a_b/c", "x" * 64, f"{'a' * 254}/x", "é", "a\n"]
)
def test_what_is_no_qualified_name(key: str) -> None:
    assert "is not a qualified name" in qualified_name_error(key)


@pytest.mark.parametrize("value", ["", "a", "A_b.c-1", "x" * 63])
def test_label_values(value: str) -> None:
    assert label_value_error(value) == ""


@pytest.mark.parametrize("value", ["-a", "a/b", "a b", "x" * 64, "é", "a\n"])
def test_what_is_no_label_value(value: str) -> None:
    assert "is not a label value" in label_value_error(value)


@pytest.mark.parametrize("name", ["a", "a-1", "a" * 63])
def test_dns_1035_labels(name: str) -> None:
    assert dns_1035_error(name) == ""


@pytest.mark.parametrize("name", ["", "1a", "A", "a.b", "a-", "a" * 64, "a\n"])
def test_what_is_no_dns_1035_label(name: str) -> None:
    assert "must start with a lower-case letter" in dns_1035_error(name)
