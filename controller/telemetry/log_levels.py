"""The names of log levels; apart from the logging itself, so that `nodeless --help` is quick."""

from __future__ import annotations

import logging
from collections.abc import Mapping

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""The names that `--log-level` and `config-logging` know."""
