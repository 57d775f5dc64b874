"""The names of log levels, apart from structlog, whose import would slow `nodeless --help` down."""

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
"""Levels by the names that `--log-level` and the ConfigMap `config-logging` accept."""
