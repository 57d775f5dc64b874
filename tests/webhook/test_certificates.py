"""The certificate: good for its names, kept whole in a Secret, made anew in time, and the old one trusted meanwhile."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from controller.webhook.certificates import (
    KEPT_AUTHORITIES,
    ServingCertificate,
    from_secret,
    issue,
    server_names,
    to_secret,
    why_renew,
)

NOW = 1_800_000_000.0
DAY = 86_400.0
NAMES = server_names("karpenter", "karpenter")
HELD = issue(NAMES, NOW)


def trusts(authorities: bytes, certificate: ServingCertificate) -> bool:
    """Whether a client of these authorities accepts the server, by the rules of RFC 5280 and the CA/Browser forum."""
    store = Store(x509.load_pem_x509_certificates(authorities))
    leaf = x509.load_pem_x509_certificate(certificate.certificate)
    verifier = PolicyBuilder().store(store).time(leaf.not_valid_before_utc + timedelta(days=1))
    try:
        verifier.build_server_verifier(x509.DNSName("karpenter.karpenter.svc")).verify(leaf, [])
    except x509.verification.VerificationError:
        return False
    return True


def test_a_new_certificate_is_good_and_trusted_under_the_services_name() -> None:
    assert why_renew(HELD, NAMES, NOW) == ""
    assert trusts(HELD.authorities, HELD)
    assert not trusts(issue(NAMES, NOW).authorities, HELD)


def test_it_survives_its_secret() -> None:
    data = to_secret(HELD)
    assert set(data) == {"server-key.pem", "server-cert.pem", "ca-cert.pem"}, "Karpenter v0.27's names"
    assert from_secret(data) == HELD


@pytest.mark.parametrize("data", [None, {}, {"server-key.pem": "AA=="}, {**to_secret(HELD), "ca-cert.pem": "%"}])
def test_a_secret_that_is_not_whole_has_none(data: dict[str, str] | None) -> None:
    assert from_secret(data) is None
    assert why_renew(from_secret(data), NAMES, NOW) == "there is none"


def test_it_is_made_anew_two_days_before_it_ends_and_not_earlier() -> None:
    assert why_renew(HELD, NAMES, NOW + 4.9 * DAY) == ""
    assert why_renew(HELD, NAMES, NOW + 5.5 * DAY) == "it ends in 36 h"
    assert why_renew(HELD, NAMES, NOW + 9 * DAY) == "it ends in 0 h"


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (replace(HELD, key=issue(NAMES, NOW).key), "its key is another's"),
        (replace(HELD, authorities=issue(NAMES, NOW).authorities), "none of its authorities has signed it"),
        (replace(HELD, certificate=b"text"), "it cannot be read"),
        (replace(HELD, key=b"text"), "it cannot be read"),
        (issue(server_names("karpenter", "elsewhere"), NOW), "it lacks karpenter.karpenter.svc"),
    ],
)
def test_what_could_not_serve_is_made_anew(held: ServingCertificate, why: str) -> None:
    assert why_renew(held, NAMES, NOW).startswith(why)


def test_during_a_change_both_the_new_and_the_old_are_trusted() -> None:
    after = issue(NAMES, NOW + 5 * DAY, HELD)
    assert trusts(after.authorities, after)
    assert trusts(after.authorities, HELD)
    assert not trusts(HELD.authorities, after)


def test_an_authority_that_has_run_out_is_trusted_no_more() -> None:
    late = issue(NAMES, NOW + 8 * DAY, HELD)
    assert not trusts(late.authorities, HELD)


def test_the_bundle_does_not_grow_without_end() -> None:
    held = HELD
    for _ in range(4):
        held = issue(NAMES, NOW, held)
    assert len(x509.load_pem_x509_certificates(held.authorities)) == 1 + KEPT_AUTHORITIES


def test_an_unreadable_predecessor_is_no_obstacle() -> None:
    broken = ServingCertificate(b"a", b"b", base64.b64encode(b"c"))
    assert why_renew(issue(NAMES, NOW, broken), NAMES, NOW) == ""
