"""Issue the webhook's serving certificate, which is kept in a Secret under Karpenter v0.27's names.

Each certificate has its own authority, whose key is discarded after signing. The Secret's `ca-cert.pem` has the new
authority and the unexpired earlier ones, so that the API server trusts the new certificate while some replica still
serves the old one.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR: Final = timedelta(days=7)
"""As in Karpenter v0.27."""
RENEW_BEFORE: Final = timedelta(days=2)
"""Enough time to notice and fix a failing renewal; one day in Karpenter v0.27."""
BACKDATED_BY: Final = timedelta(hours=1)
"""The API server's clock may be behind ours."""
KEPT_AUTHORITIES: Final = 2
"""Authorities of earlier certificates in the caBundle, whose size must stay bounded."""

_KEY, _CERTIFICATE, _AUTHORITIES = "server-key.pem", "server-cert.pem", "ca-cert.pem"

Extension = tuple[x509.ExtensionType, bool]


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """PEM: the server's key and certificate, and the authorities that a client must trust."""

    key: bytes
    certificate: bytes
    authorities: bytes

    @property
    def ends_at(self) -> datetime:
        """When it expires. Raises ValueError if it is not a certificate."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc


def from_secret(data: Mapping[str, str] | None) -> ServingCertificate | None:
    """Return the certificate in a Secret's data; None when a part is missing or is not base64."""
    held = data or {}
    try:
        parts = [base64.b64decode(held.get(key, ""), validate=True) for key in (_KEY, _CERTIFICATE, _AUTHORITIES)]
    except (binascii.Error, ValueError):
        return None
    return ServingCertificate(*parts) if all(parts) else None


def to_secret(certificate: ServingCertificate) -> dict[str, str]:
    """Return a Secret's data."""
    parts = ((_KEY, certificate.key), (_CERTIFICATE, certificate.certificate), (_AUTHORITIES, certificate.authorities))
    return {key: base64.b64encode(part).decode() for key, part in parts}


def server_names(service: str, namespace: str) -> tuple[str, ...]:
    """Return the DNS names of the Service, and those of this machine (for port-forwards, and without a Service)."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", "localhost", "127.0.0.1")


def why_renew(held: ServingCertificate | None, names: Sequence[str], now: float) -> str:
    """Return why the certificate must be replaced, for the log; empty when it need not be. `now`: Unix seconds."""
    if held is None:
        return "there is none"
    try:
        certificate = x509.load_pem_x509_certificate(held.certificate)
        key = serialization.load_pem_private_key(held.key, None)
        authorities = x509.load_pem_x509_certificates(held.authorities)
    except (ValueError, TypeError) as error:
        return f"it cannot be read: {error}"
    if certificate.public_key() != key.public_key():
        return "its key is another's"
    if not any(_signed(certificate, authority) for authority in authorities):
        return "none of its authorities has signed it"
    if missing := set(names) - _names_of(certificate):
        return f"it lacks {', '.join(sorted(missing))}"
    left = certificate.not_valid_after_utc - datetime.fromtimestamp(now, UTC)
    return f"it ends in {max(0, round(left / timedelta(hours=1)))} h" if left < RENEW_BEFORE else ""


def issue(names: Sequence[str], now: float, before: ServingCertificate | None = None) -> ServingCertificate:
    """Issue a certificate for these DNS names and IP addresses; `before` stays trusted until it expires."""
    moment = datetime.fromtimestamp(now, UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{names[0]} authority {moment:%Y-%m-%d %H:%M:%S}")])
    authority = _sign(issuer, issuer, authority_key.public_key(), authority_key, moment, _authority_extensions())
    certificate = _sign(name, issuer, key.public_key(), authority_key, moment, _server_extensions(names))
    kept = [each for each in _readable(before) if each.not_valid_after_utc > moment][:KEPT_AUTHORITIES]
    return ServingCertificate(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        _pem(certificate),
        b"".join(_pem(each) for each in (authority, *kept)),
    )


def _sign(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    moment: datetime,
    extensions: Sequence[Extension],
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment - BACKDATED_BY)
        .not_valid_after(moment + VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _authority_extensions() -> tuple[Extension, ...]:
    return (x509.BasicConstraints(ca=True, path_length=0), True), (_usage(signs_certificates=True), True)


def _server_extensions(names: Sequence[str]) -> tuple[Extension, ...]:
    return (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_general_name(name) for name in names]), False),
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_of(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _readable(before: ServingCertificate | None) -> list[x509.Certificate]:
    if before is None:
        return []
    try:
        return x509.load_pem_x509_certificates(before.authorities)
    except ValueError:
        return []


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
