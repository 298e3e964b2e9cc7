"""The operator's process, and at times a second one beside it, each behind a proxy of its own."""

import asyncio
import contextlib
import signal
import ssl
from pathlib import Path

from runs_kit.cluster import Cluster
from runs_kit.operator_process import OperatorProcess

from chaos_kit.proxy import FaultyProxy

SETTINGS = {"BENCHRUN_UNSCHEDULABLE_GRACE_SECONDS": "10"}
LOOK_SECONDS = 0.5
_PATIENCE_SECONDS = 180.0


class Operators:
    """An operator that works all the time except during its faults, and its rival."""

    def __init__(
        self, api: Cluster, home: str, watched: tuple[str, ...], directory: Path
    ) -> None:
        self._tls = ssl.create_default_context(cafile=api.authority)
        self._api = api
        self._home = home
        self._watched = watched
        self._directory = directory
        self._changing = asyncio.Lock()
        self._is_wanted = False
        self._watchdog: asyncio.Task[None] | None = None
        self.proxies = [FaultyProxy(api.url, tls=self._tls) for _ in range(2)]
        self.ended: list[str] = []
        """Last output of operator processes that ended by themselves."""

    async def start(self) -> None:
        """Start the operator and wait until it is ready."""
        for proxy in self.proxies:
            await proxy.start()
        self.first, self._second = [
            self._process(proxy, name)
            for proxy, name in zip(self.proxies, ("first", "second"), strict=True)
        ]
        await self.first.grant()
        await self._launch()
        await self.first.until_ready()
        self._watchdog = asyncio.create_task(self._watch(), name="watchdog")

    async def stop(self) -> None:
        """End both processes and their proxies."""
        self._is_wanted = False
        if self._watchdog is not None:
            self._watchdog.cancel()
        for process in (self.first, self._second):
            if not process.has_ended:
                process.signal(signal.SIGCONT)
                await process.kill()
        for proxy in self.proxies:
            proxy.stop()

    async def ready(self) -> None:
        """Wait until the first operator is ready.

        Raises RuntimeError when that takes longer than _PATIENCE_SECONDS.
        """
        async with self._changing:
            deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
            while True:
                try:
                    return await self.first.until_ready()
                except RuntimeError:
                    if asyncio.get_running_loop().time() > deadline:
                        raise
                    await asyncio.sleep(LOOK_SECONDS)

    async def restart(
        self, *, after_seconds: float = 0.0, clock_ahead_seconds: float = 0.0
    ) -> None:
        """Kill the operator and launch a new one after so many seconds."""
        async with self._changing:
            await self._kill()
            await asyncio.sleep(after_seconds)
            await self._launch(clock_ahead_seconds)

    async def restart_at_write(
        self, number: int, when: str, *, after_seconds: float, seconds: float
    ) -> bool:
        """Kill the operator `before` or `after` its write of that number from now, and restart it.

        Return whether it came to that write within `seconds`.
        """
        async with self._changing:
            struck = asyncio.Event()

            def strike() -> None:
                self._is_wanted = False
                self.first.signal(signal.SIGKILL)
                struck.set()

            proxy = self.proxies[0]
            proxy.at_write = (number, when, strike)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(struck.wait(), seconds)
            proxy.at_write = None
            if not struck.is_set():
                return False
            await self._kill()
            await asyncio.sleep(after_seconds)
            await self._launch()
            return True

    async def freeze(self, seconds: float) -> None:
        """Stop the operator with SIGSTOP for so many seconds."""
        async with self._changing:
            self.first.signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self.first.signal(signal.SIGCONT)

    async def rival(self, seconds: float) -> None:
        """Run a second operator that reconciles, too, for so many seconds."""
        async with self._changing:
            await self._second.launch()
            try:
                with contextlib.suppress(RuntimeError):
                    await self._second.until_ready()
                await asyncio.sleep(seconds)
            finally:
                with contextlib.suppress(RuntimeError):
                    await self._second.kill()

    def _process(self, proxy: FaultyProxy, name: str) -> OperatorProcess:
        directory = self._directory / name
        directory.mkdir()
        return OperatorProcess(
            self._api,
            self._home,
            api_url=proxy.url,
            directory=directory,
            watched=self._watched,
            settings=SETTINGS,
        )

    async def _kill(self) -> None:
        self._is_wanted = False
        with contextlib.suppress(RuntimeError):
            await self.first.kill()

    async def _launch(self, clock_ahead_seconds: float = 0.0) -> None:
        await self.first.launch(clock_ahead_seconds=clock_ahead_seconds)
        self._is_wanted = True

    async def _watch(self) -> None:
        """Restart an operator that ends by itself, like a kubelet, and record its last words."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._is_wanted and self.first.has_ended:
                self.ended.append(self.first.last_words()[-600:])
                await self._launch()
