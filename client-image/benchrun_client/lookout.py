"""Waiting for the target: from "nothing there" to "a completion came back", while the main thread imports and prepares."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass

from benchrun_client.canary import send_canary, served_models
from benchrun_client.contract import Plan
from benchrun_client.http_session import open_session
from benchrun_client.identity import Identity, identify
from benchrun_client.ledger import Ledger
from benchrun_client.records import micros
from benchrun_client.target import Deadline, Servers, find_healthy
from benchrun_client.traffic import Material, check_lengths

FIRST_REQUEST_SECONDS = 300.0
"""The first forward pass of a server may compile for minutes."""


@dataclass(frozen=True, slots=True)
class Found:
    """Servers that answered a completion, the last of them at `answered` (`time.perf_counter`)."""

    servers: Servers
    identities: tuple[Identity, ...]
    """One for each metrics page."""
    answered: float


async def look_out(plan: Plan, material: Material, ledger: Ledger, *, tls: ssl.SSLContext | None) -> Found:
    """Find the servers, wait until they are healthy, check lengths against what they serve, prove the path.

    Raises:
        RunFailure: the target cannot be measured.
    """
    deadline = Deadline(plan.health_deadline_seconds)
    ledger.enter("Waiting")
    async with open_session(tls=tls, seconds=FIRST_REQUEST_SECONDS) as session:
        servers = await find_healthy(session, plan.target, deadline)
        ledger.note(healthy_unix_us=micros(time.time()))
        served = await served_models(session, servers.url)
        if context := served.context_of(plan.target.served_model):
            check_lengths(plan, material, context_tokens=context, whose="the server (max_model_len)")
        # An engine without an API server has proved itself before it says that it is healthy.
        for url in servers.urls if not plan.target.offline else ():
            for api in plan.apis:
                await send_canary(
                    session, url, api=api, model=plan.target.served_model, run_uid=plan.run_uid, served=served.names
                )
        answered = time.perf_counter()
        # Not earlier: with several API processes some figures are there from the first request on only.
        identities = await identify(session, servers.metrics_urls, model=plan.target.served_model)
    return Found(servers, identities, answered)
