"""Starting the operator: settings, logging, then Kopf with our parts around it."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import kopf

from benchrun.decide.reconcile import decide
from benchrun.runtime import logs, watching
from benchrun.runtime.process import Operator
from benchrun.runtime.reconcile import Decide
from benchrun.runtime.settings import BadSetting, Settings

RECURSION_LIMIT = 25_000


def main() -> int:
    """Run until told to stop, or until another operator leads (1). Exits 2 when a setting can't be used."""
    try:
        settings = Settings.from_environment(os.environ)
    except BadSetting as error:
        print(f"benchrun-operator: {error}", file=sys.stderr)
        return 2
    logs.configure(level=settings.log_level, log_format=settings.log_format)
    # Anybody who may write a run can nest its free fields (affinity, extraConfig) as deep as the API server allows, 10,000
    # levels. At the usual limit neither lists nor watches could be read any more, for anybody.
    sys.setrecursionlimit(RECURSION_LIMIT)
    return 1 if asyncio.run(operate(settings, decide=decide)) else 0


async def operate(settings: Settings, *, decide: Decide) -> bool:
    """Kopf is the only thing in the loop; what is ours starts before it watches and stops after.

    Whether it ended because another operator leads.
    """
    operator = Operator(settings, decide=decide)
    registry = watching.registry(operator.indexes, enqueue=operator.enqueue, telemetry=operator.telemetry)

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        try:
            await operator.start()
        except Exception as error:
            # Kopf would call us again, on top of what was begun; a new process starts clean.
            raise kopf.PermanentError(f"can't start: {error}") from error

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await operator.stop()

    await kopf.operator(
        registry=registry,
        settings=watching.kopf_settings(),
        clusterwide=not settings.namespaces,
        namespaces=settings.namespaces,
        stop_flag=operator.ends,
    )
    return operator.is_superseded
