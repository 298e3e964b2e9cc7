"""The process around the simulator: starting, serving and ending."""

import asyncio
import os
import random
import select
import selectors
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from benchrun_simulator.admission import Admission
from benchrun_simulator.api import Api
from benchrun_simulator.arguments import parse
from benchrun_simulator.completions import Completions
from benchrun_simulator.dialects import DIALECTS
from benchrun_simulator.engine import Engine
from benchrun_simulator.engine_metrics import EngineMetrics
from benchrun_simulator.faults import FaultPlan
from benchrun_simulator.foreign import ForeignTraffic
from benchrun_simulator.http_protocol import HandlerQueue, HttpConnection
from benchrun_simulator.pace import Pace
from benchrun_simulator.prefill_budget import PrefillBudget
from benchrun_simulator.prefix_cache import KvCache
from benchrun_simulator.refusals import FAILING_STARTS, Refusal
from benchrun_simulator.request_log import RequestLog
from benchrun_simulator.restart import Lifetime
from benchrun_simulator.scheduler import Scheduler
from benchrun_simulator.settings import Settings
from benchrun_simulator.tokens import OutputText, load_tokenizer

LISTEN_BACKLOG = 2048
NOISE_LINE = (
    "(APIServer pid=1) INFO [loggers.py:335] Engine 000: noise that makes the log rotate".ljust(
        199, "."
    )
    + "\n"
)


class PunctualSelector(selectors.EpollSelector):
    """An epoll selector that wakes within microseconds of the instant that is asked for.

    epoll itself rounds up to whole milliseconds.
    """

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            select.select([self], [], [], timeout)
            timeout = 0
        return super().select(timeout)


def main() -> NoReturn:
    """Run `vllm serve` according to the command line, until SIGTERM."""
    started_at = time.time()
    # Process 1 has no default action for SIGTERM: without a handler it would be ignored.
    signal.signal(signal.SIGTERM, _exit_at_once)
    signal.signal(signal.SIGINT, _exit_at_once)
    try:
        settings = parse(
            sys.argv[1:], environment=os.environ, program=Path(sys.argv[0]).name
        )
        _start_up(settings)
        if settings.headless:
            _work()
        with asyncio.Runner(
            loop_factory=lambda: asyncio.SelectorEventLoop(PunctualSelector())
        ) as runner:
            runner.run(_serve(settings, started_at))
    except Refusal as refusal:
        print(refusal.text, file=sys.stderr, flush=True)
        os._exit(refusal.code)
    raise SystemExit(0)


def _exit_at_once(_signal: int, _frame: object) -> None:
    os._exit(0)


def _start_up(settings: Settings) -> None:
    """Log and wait like vLLM while it loads; raise Refusal if the start is to fail."""
    _log(f"non-default args: {settings.declared}")
    _write_noise(settings.faults.log_noise_megabytes)
    began = time.monotonic()
    time.sleep(settings.load_seconds)
    loaded = time.monotonic() - began
    _log(f"Loading weights took {loaded:.2f} seconds")
    _log(f"Model loading took 0.0 GiB memory and {loaded:.6f} seconds")
    if settings.faults.fail_start is not None:
        raise FAILING_STARTS[settings.faults.fail_start](settings.model)
    concurrency = settings.kv_tokens / settings.max_model_len
    _log(
        f"GPU KV cache size: {settings.kv_tokens:,} tokens, Maximum concurrency for "
        f"{settings.max_model_len:,} "
        f"tokens per request: {concurrency:.2f}x"
    )
    _log("init engine (profile, create kv cache, warmup model) took 0.00 s")


def _work() -> NoReturn:
    """Do what a worker does for an observer: nothing, until it is told to end."""
    _log("Launching headless multiproc executor")
    while True:
        signal.pause()


async def _serve(settings: Settings, started_at: float) -> None:
    loop = asyncio.get_running_loop()
    request_log = (
        RequestLog(settings.request_log, loop)
        if settings.request_log is not None
        else None
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, request_log)
    engine = _engine(settings, loop=loop, started_at=started_at)
    api = _api(
        settings,
        engine=engine,
        request_log=request_log,
        loop=loop,
        started_at=started_at,
    )
    queue = HandlerQueue(loop, api.handle)
    server = await loop.create_server(
        lambda: HttpConnection(queue, loop.time, way_seconds=settings.way_seconds),
        settings.host,
        settings.port,
        backlog=LISTEN_BACKLOG,
    )
    port = server.sockets[0].getsockname()[1]
    _log(f"Starting vLLM server on http://{settings.host}:{port}")
    print("INFO:     Application startup complete.", flush=True)
    if settings.foreign.requests_per_second:
        ForeignTraffic(settings.foreign, engine=engine, loop=loop).start()
    await server.serve_forever()


def _end(request_log: RequestLog | None) -> None:
    if request_log is not None:
        request_log.flush()
    os._exit(0)


def _engine(
    settings: Settings, *, loop: asyncio.AbstractEventLoop, started_at: float
) -> Engine:
    cache = KvCache(
        blocks=settings.kv_blocks,
        block_size=settings.block_size,
        prefix_caching=settings.prefix_caching,
        foreign_hits_percent=settings.foreign.hits_percent,
    )
    scheduler = Scheduler(
        pace=Pace(
            settings.timing, settings.disturbances, warn=_warn_of_compilation
        ),
        cache=cache,
        max_sequences=settings.max_sequences,
        prefill_budget=PrefillBudget(tokens=settings.max_batched_tokens)
        if settings.prefill_serial
        else None,
        preempted_request=settings.preempted_request,
        jitter=jitter_source(settings),
    )
    return Engine(
        scheduler=scheduler,
        cache=cache,
        admission=Admission(
            max_requests=settings.max_queued_requests,
            max_tokens=settings.max_queued_tokens,
        ),
        transfer=settings.kv_transfer,
        new_metrics=lambda: _metrics(settings, started_at),
        gauges_percent=settings.faults.gauges_percent,
        loop=loop,
    )


def _metrics(settings: Settings, started_at: float) -> EngineMetrics:
    common: dict[str, Any] = {
        "model_name": settings.served_names[0],
        "max_model_len": settings.max_model_len,
        "cache_config": _cache_config(settings),
        "consumes": settings.kv_transfer is not None
        and settings.kv_transfer.consumes,
        "created": started_at,
    }
    return DIALECTS[settings.engine].metrics(**common, kv_tokens=settings.kv_tokens)


def _api(
    settings: Settings,
    *,
    engine: Engine,
    request_log: RequestLog | None,
    loop: asyncio.AbstractEventLoop,
    started_at: float,
) -> Api:
    plan = FaultPlan(settings.faults)
    lifetime = Lifetime(settings.faults, engine=engine, started_at=started_at)
    tokenizer = load_tokenizer(settings.tokenizer_folder)
    completions = Completions(
        settings=settings,
        engine=engine,
        output_text=OutputText(tokenizer.output_words()),
        request_log=request_log,
        plan=plan,
        lifetime=lifetime,
        loop=loop,
    )
    return Api(
        settings=settings,
        engine=engine,
        completions=completions,
        tokenizer=tokenizer,
        loop=loop,
        plan=plan,
        lifetime=lifetime,
    )


def jitter_source(settings: Settings) -> Callable[[], float]:
    """Return a function that draws one token's delay in seconds; equal seeds draw equal delays."""
    if not settings.jitter_seconds:
        return lambda: 0.0
    source = random.Random(settings.seed)
    return lambda: source.uniform(0.0, settings.jitter_seconds)


def _cache_config(settings: Settings) -> dict[str, str]:
    """Return the labels of `vllm:cache_config_info` that others read."""
    return {
        "block_size": str(settings.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(settings.prefix_caching),
        "gpu_memory_utilization": str(settings.gpu_memory_utilization),
        "kv_cache_max_concurrency": str(
            settings.kv_tokens / settings.max_model_len
        ),
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(settings.kv_tokens),
        "num_gpu_blocks": str(settings.kv_blocks),
        "prefix_caching_hash_algo": "sha256",
    }


def _write_noise(megabytes: float) -> None:
    for _ in range(int(megabytes * 1e6 / len(NOISE_LINE))):
        sys.stdout.write(NOISE_LINE)
    sys.stdout.flush()


def _log(message: str) -> None:
    _print_line("APIServer", "INFO", "simulator", message)


def _warn_of_compilation(message: str) -> None:
    _print_line("EngineCore", "WARNING", "jit_monitor.py:140", message)


def _print_line(process: str, level: str, source: str, message: str) -> None:
    clock = time.strftime("%m-%d %H:%M:%S")
    print(
        f"({process} pid={os.getpid()}) {level} {clock} [{source}] {message}",
        flush=True,
    )
