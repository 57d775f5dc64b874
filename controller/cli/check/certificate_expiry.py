"""How long a certificate still holds."""

from __future__ import annotations

import base64


def days_left(bundle: str, now: float) -> float | None:
    """Days until the last certificate of a base64 PEM bundle ends (below 0: it has ended); None for no certificate.

    The last, for authorities of before stay in the bundle until they end. `now` in Unix seconds.
    """
    from cryptography import x509  # slow to import, and of use for this alone

    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except ValueError:
        return None
    return max((one.not_valid_after_utc.timestamp() - now) / 86_400 for one in certificates)
