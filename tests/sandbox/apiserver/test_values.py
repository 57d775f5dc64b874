"""Values: quantities in canonical form, protobuf bodies, durations."""

from __future__ import annotations

import pytest

from sandbox.apiserver.errors import APIError
from sandbox.apiserver.schemas import protobuf
from sandbox.apiserver.schemas.quantity import MalformedQuantityError, canonical
from sandbox.apiserver.tables.columns import human_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "1"), ("1000m", "1"), ("1500m", "1500m"), ("0.5", "500m"), (2, "2"), (0.25, "250m"), ("1000", "1k"),
        ("1024", "1024"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("100Ki", "100Ki"), ("0.5Ki", "512"),
        ("1023Ki", "1023Ki"), ("2.95Gi", "3167538380800m"), ("3167538380800m", "3167538380800m"), ("1e3", "1e3"),
        ("1E", "1E"), ("12e6", "12e6"), ("0", "0"), ("0Gi", "0"), ("-1500m", "-1500m"), (".5", "500m"), ("1n", "1m"),
        ("0.000001", "1m"), ("1.23456789Gi", "1325607178061m"),
    ],
)  # fmt: skip
def test_canonical_quantities(text: object, expected: str) -> None:
    """As resource.Quantity's String gives them (checked against kube-apiserver 1.34)."""
    assert canonical(text) == expected


@pytest.mark.parametrize("text", ["", "one", "1 Gi", "1gi", "1.2.3", "--1", "Gi", True, None])
def test_malformed_quantities(text: object) -> None:
    with pytest.raises(MalformedQuantityError, match="must match the regular expression"):
        canonical(text)


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


def envelope(kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, b"policy/v1") + field(2, kind.encode())) + field(2, raw)


def test_an_eviction_in_protobuf() -> None:
    metadata = field(1, b"p") + field(3, b"ns") + field(8, b"")
    options = bytes([1 << 3, 30]) + field(2, field(1, b"uid-1")) + field(5, b"All")
    decoded = protobuf.decode(envelope("Eviction", field(1, metadata) + field(2, options)))
    assert decoded == {
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {"gracePeriodSeconds": 30, "preconditions": {"uid": "uid-1"}, "dryRun": ["All"]},
    }  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b"nonsense",
        envelope("Unheard", b""),
        envelope("Eviction", bytes([9 << 3, 1])),
        envelope("Eviction", field(1, b"\x0a\x7f")),
    ],
)
def test_what_is_not_understood_in_protobuf_is_refused(body: bytes) -> None:
    """Never half understood: a field that we do not know may matter."""
    with pytest.raises(APIError) as refused:
        protobuf.decode(body)
    assert refused.value.code == 415
    assert "send JSON instead" in refused.value.message


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (600, "10m"),
        (10_800, "3h"),
        (19_200, "5h20m"),
        (176_400, "2d1h"),
        (172_799, "47h"),
        (700_000, "8d"),
    ],
)
def test_durations_as_kubectl_prints_them(seconds: int, words: str) -> None:
    assert human_duration(seconds) == words
