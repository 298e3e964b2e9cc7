"""Logging, set up before anything logs: one line an entry, JSON for machines or plain for people."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from benchrun.runtime.settings import LogFormat, LogLevel

_PLAIN = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_NOISY = ("aiohttp.access", "asyncio", "kopf._core.engines", "kopf.objects")
"""Loggers that say something for every request or event."""


class JsonFormatter(logging.Formatter):
    """One JSON object an entry: time, level, logger, message, error, and the run it is about."""

    def format(self, record: logging.LogRecord) -> str:
        """The entry as one line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        run = getattr(record, "run", None)
        if run is not None:
            entry["run"] = str(run)
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def configure(*, level: LogLevel, log_format: LogFormat) -> None:
    """Send everything to standard error in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else logging.Formatter(_PLAIN))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
