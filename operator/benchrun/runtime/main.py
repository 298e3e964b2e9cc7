"""The operator's start and end: settings, logging, the operator's own parts, and Kopf."""

import asyncio
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import kopf

from benchrun.decide import decide
from benchrun.runtime import watching
from benchrun.runtime.log_lines import JsonFormatter, PlainFormatter
from benchrun.runtime.run_reconciler import Decide
from benchrun.runtime.settings import (
    BadSetting,
    LogFormat,
    LogLevel,
    OperatorSettings,
)
from benchrun.runtime.wiring import Operator

# they log every request or event
_NOISY = (
    "aiohttp.access",
    "asyncio",
    "kopf._core.engines",
    "kopf.objects",
)
# it warns at every attempt to watch what can't be watched
_REPEATED = "kopf._cogs.clients.watching"
REPEATED_SECONDS = 600.0
_MAX_REPEATED = 1000


class Sparing(logging.Filter):
    """Passes the same message only once in ten minutes; attempt numbers in it are ignored."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._seconds = seconds
        self._let_through: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = re.sub(r"#\d+", "", record.getMessage())
        now = self._seconds()
        if now - self._let_through.get(text, -REPEATED_SECONDS) < REPEATED_SECONDS:
            return False
        if len(self._let_through) >= _MAX_REPEATED:
            self._let_through.clear()
        self._let_through[text] = now
        return True


def configure(*, level: LogLevel, log_format: LogFormat) -> None:
    """Send all log entries to standard error in one format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if log_format == "json" else PlainFormatter()
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger(_REPEATED).addFilter(Sparing())
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)


RECURSION_LIMIT = 25_000


def main() -> int:
    """Run the operator until it is stopped, and return the exit status.

    0 after a stop, 1 when another operator leads, 2 when a setting can't be used.
    """
    try:
        settings = OperatorSettings.from_environment(os.environ)
    except BadSetting as error:
        print(f"benchrun-operator: {error}", file=sys.stderr)
        return 2
    configure(level=settings.log_level, log_format=settings.log_format)
    # Anybody who may write a run can nest its free fields (affinity, extraConfig) as deep as the
    # API server allows, 10,000 levels. At the usual limit one such run would make all lists and
    # watches unreadable.
    sys.setrecursionlimit(RECURSION_LIMIT)
    return 1 if asyncio.run(operate(settings, decide=decide)) else 0


async def operate(settings: OperatorSettings, *, decide: Decide) -> bool:
    """Run the operator, and return whether it ended because another operator leads.

    The operator's own parts start before Kopf watches, and stop after.
    """
    operator = Operator(settings, decide=decide)
    registry = watching.registry()
    heard = watching.listener(
        operator.indexes, enqueue=operator.enqueue, telemetry=operator.telemetry
    )

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        try:
            await operator.start()
        except Exception as error:
            # Kopf would call this once more, on top of what was begun; a new process starts clean.
            raise kopf.PermanentError(f"can't start: {error}") from error

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await operator.stop()

    await kopf.operator(
        registry=registry,
        settings=watching.kopf_settings(
            namespaces=len(settings.namespaces),
            heard=heard,
            reached=operator.reached,
        ),
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=operator.ends,
    )
    return operator.is_superseded
