"""Randomness that is the same in every run: numbers and ids as hashes of the seed and a name."""

from __future__ import annotations

import hashlib


class Seeded:
    """Numbers and ids drawn from `seed`. `unit` depends on its arguments only, `hex_id` on the count of calls too."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._drawn: dict[str, int] = {}

    def unit(self, *parts: object) -> float:
        """A number in [0, 1) for this name."""
        return int.from_bytes(self._digest(parts)[:8], "big") / 2.0**64

    def hex_id(self, prefix: str, digits: int = 17) -> str:
        """The next id of a kind: i-0123456789abcdef0."""
        count = self._drawn[prefix] = self._drawn.get(prefix, 0) + 1
        return f"{prefix}-0{self._digest((prefix, count)).hex()[: digits - 1]}"

    def uuid(self, kind: str) -> str:
        """The next UUID-shaped id of a kind."""
        count = self._drawn[kind] = self._drawn.get(kind, 0) + 1
        text = self._digest((kind, count)).hex()
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:32]}"

    def _digest(self, parts: tuple[object, ...]) -> bytes:
        text = ":".join(map(str, (self.seed, *parts)))
        return hashlib.blake2b(text.encode(), digest_size=32).digest()
