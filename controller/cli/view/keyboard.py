"""Keys from a terminal, without waiting for Enter."""

from __future__ import annotations

import codecs
import os
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

ESCAPE = "\x1b"
NAMES = {
    "[A": "up", "OA": "up", "[B": "down", "OB": "down", "[C": "right", "OC": "right", "[D": "left", "OD": "left",
    "[5~": "page up", "[6~": "page down",
    "[H": "home", "OH": "home", "[1~": "home", "[F": "end", "OF": "end", "[4~": "end",
}  # fmt: skip
"""Keys that a terminal sends as ESCAPE and this."""
SEQUENCE = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O[A-Z])")
BEGUN = re.compile(r"\x1b(\[[0-9;]*|O)?\Z")
SINGLE = {ESCAPE: "escape", "\n": "enter", "\r": "enter", "\x7f": "backspace", "\b": "backspace"}
SEQUENCE_SECONDS = 0.05
"""Longest wait for the rest of a sequence; after it, ESCAPE was a key of its own."""


class Keyboard:
    """Keys of a descriptor (None: no terminal, no keys), and a way for another thread to end the wait for one."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._woken, self._waker = os.pipe()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = ""
        self._lock = threading.Lock()
        self._open = True

    def close(self) -> None:
        with self._lock:
            self._open = False
            os.close(self._woken)
            os.close(self._waker)

    def wake(self) -> None:
        """End the wait; from any thread."""
        with self._lock:
            if self._open:
                os.write(self._waker, b".")

    def typed(self) -> bool:
        """Return whether a key waits to be taken."""
        if not self._typed:
            self._wait(0.0)
        return bool(self._typed)

    def key(self, seconds: float) -> str:
        """Return the next key: a character, or a name of NAMES or SINGLE.
        Empty when woken, or after so many seconds."""
        if not self._typed:
            self._wait(seconds)
        if BEGUN.match(self._typed):
            self._wait(SEQUENCE_SECONDS)
        sequence = SEQUENCE.match(self._typed)
        if sequence:
            self._typed = self._typed[sequence.end() :]
            return NAMES.get(sequence[1], "")
        key, self._typed = self._typed[:1], self._typed[1:]
        return SINGLE.get(key, key)

    def _wait(self, seconds: float) -> None:
        watched = [self._woken] if self._descriptor is None else [self._woken, self._descriptor]
        ready, _, _ = select.select(watched, [], [], max(0.0, seconds))
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._descriptor is not None and self._descriptor in ready:
            read = os.read(self._descriptor, 4096)
            self._typed += self._decoder.decode(read)
            if not read:  # the terminal is gone: no key will come
                self._descriptor = None


@contextmanager
def keyboard() -> Iterator[Keyboard]:
    """Yield the keys of standard input while this lasts; where it is no terminal, none ever comes."""
    terminal = sys.stdin.isatty()
    descriptor = sys.stdin.fileno() if terminal else None
    before = termios.tcgetattr(descriptor) if descriptor is not None else None
    keys = Keyboard(descriptor)
    try:
        if descriptor is not None:
            tty.setcbreak(descriptor)
        yield keys
    finally:
        if descriptor is not None and before is not None:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        keys.close()
