"""vLLM's endpoints: their routes, their access control and their answers."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from itertools import repeat

from benchrun_simulator.completions import Completions
from benchrun_simulator.dialects import DIALECTS
from benchrun_simulator.engine import Engine
from benchrun_simulator.engine_metrics import with_old_names
from benchrun_simulator.exposition import CONTENT_TYPE, process_metrics
from benchrun_simulator.faults import FaultPlan
from benchrun_simulator.generation import (
    ApiError,
    bad_request,
    chat_text,
    check_model,
    compact,
    read_embedding,
    read_generation,
    read_json,
)
from benchrun_simulator.http_protocol import Exchange
from benchrun_simulator.restart import Lifetime
from benchrun_simulator.settings import Settings
from benchrun_simulator.tokens import Tokenizer

Route = Callable[[Exchange], None]

GUARDED_PREFIXES = ("/v1", "/v2", "/inference", "/cohere")
GARBAGE = (
    b"\x00\xff<html>{vllm:num_requests_running NaNaN\n# TYPE\nvllm: {{{ 1 2 3\n"
)
ENDLESS_PIECE = b"# never ends\n" * 512
ENDLESS_PAUSE_SECONDS = 0.05


class Api:
    """The HTTP API: it answers every exchange."""

    def __init__(
        self,
        *,
        settings: Settings,
        engine: Engine,
        completions: Completions,
        tokenizer: Tokenizer,
        loop: asyncio.AbstractEventLoop,
        plan: FaultPlan,
        lifetime: Lifetime,
    ) -> None:
        self._settings = settings
        self._dialect = DIALECTS[settings.engine]
        self._engine = engine
        self._completions = completions
        self._tokenizer = tokenizer
        self._loop = loop
        self._plan = plan
        self._lifetime = lifetime
        self._opened_at = loop.time()
        self._key_digests = [_digest(key) for key in settings.api_keys]
        self._routes = self._all_routes()

    def handle(self, exchange: Exchange) -> None:
        """Answer one request, at once or as its tokens fall due."""
        request = exchange.request
        if request.path.startswith(GUARDED_PREFIXES) and not self._may_enter(
            exchange
        ):
            exchange.respond(
                HTTPStatus.UNAUTHORIZED, compact({"error": "Unauthorized"})
            )
            return
        methods = self._routes.get(request.path)
        if methods is None:
            exchange.respond(HTTPStatus.NOT_FOUND, compact({"detail": "Not Found"}))
        elif request.method not in methods:
            allowed = {"allow": ", ".join(methods)}
            body = compact({"detail": "Method Not Allowed"})
            exchange.respond(HTTPStatus.METHOD_NOT_ALLOWED, body, headers=allowed)
        else:
            try:
                methods[request.method](exchange)
            except ApiError as error:
                exchange.respond(error.status, error.body)
            except (TypeError, ValueError, AttributeError) as error:
                # A field of the wrong type. vLLM answers 400 to such exceptions as well.
                exchange.respond(
                    HTTPStatus.BAD_REQUEST, bad_request(str(error)).body
                )

    def _all_routes(self) -> dict[str, dict[str, Route]]:
        routes: dict[str, dict[str, Route]] = {
            "/health": {"GET": self._health},
            "/ping": {"GET": self._health, "POST": self._health},
            "/load": {"GET": self._load},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
        }
        if self._settings.pooling:
            routes["/v1/embeddings"] = {"POST": self._embedding}
        else:
            routes["/v1/completions"] = {"POST": self._completion}
            routes["/v1/chat/completions"] = {"POST": self._chat}
        dialect = self._dialect
        routes[dialect.metrics_path] = {"GET": self._metrics}
        routes[dialect.version_path] = {"GET": self._version}
        if dialect.flush_path is not None:
            routes[dialect.flush_path] = {
                "GET": self._flush_cache,
                "POST": self._flush_cache,
            }
        if dialect.has_development_mode and self._settings.development_mode:
            routes["/reset_prefix_cache"] = {"POST": self._reset_prefix_cache}
            routes["/reset_mm_cache"] = {"POST": self._nothing_to_reset}
            routes["/reset_encoder_cache"] = {"POST": self._nothing_to_reset}
        return routes

    def _may_enter(self, exchange: Exchange) -> bool:
        if not self._key_digests:
            return True
        scheme, _, key = exchange.request.headers.get(
            "authorization", ""
        ).partition(" ")
        known = [
            secrets.compare_digest(_digest(key), digest)
            for digest in self._key_digests
        ]
        return scheme.lower() == "bearer" and any(known)

    def _health(self, exchange: Exchange) -> None:
        open_for_seconds = self._loop.time() - self._opened_at
        healthy = open_for_seconds >= self._settings.faults.health_delay_seconds
        exchange.respond(
            HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
        )

    def _version(self, exchange: Exchange) -> None:
        exchange.respond(200, compact(self._dialect.version(self._settings)))

    def _load(self, exchange: Exchange) -> None:
        exchange.respond(200, compact({"server_load": 0}))

    def _models(self, exchange: Exchange) -> None:
        settings = self._settings
        created = int(time.time())
        cards: list[dict[str, object]] = [
            {
                "id": name,
                "object": "model",
                "created": created,
                "owned_by": "vllm",
                "root": settings.root,
                "parent": None,
                "max_model_len": settings.max_model_len,
                "permission": [],
            }
            for name in settings.served_names
        ]
        base = cards[0]
        cards += [
            {**base, "id": name, "root": f"/adapters/{name}", "parent": base["id"]}
            for name in settings.adapters
        ]
        exchange.respond(200, compact({"object": "list", "data": cards}))

    def _completion(self, exchange: Exchange) -> None:
        self._generate(exchange, chat=False)

    def _chat(self, exchange: Exchange) -> None:
        self._generate(exchange, chat=True)

    def _embedding(self, exchange: Exchange) -> None:
        asked = read_embedding(
            exchange.request.body,
            settings=self._settings,
            tokenizer=self._tokenizer,
        )
        self._completions.embed(exchange, asked)

    def _generate(self, exchange: Exchange, *, chat: bool) -> None:
        body = exchange.request.body
        generation = read_generation(
            body, chat=chat, settings=self._settings, tokenizer=self._tokenizer
        )
        self._completions.serve(exchange, generation)

    def _tokenize(self, exchange: Exchange) -> None:
        asked = read_json(exchange.request.body)
        check_model(asked.get("model"), self._settings)
        messages = asked.get("messages")
        text = (
            chat_text(messages)
            if isinstance(messages, list)
            else str(asked.get("prompt", ""))
        )
        tokens = self._tokenizer.encode(text)
        limit = self._settings.max_model_len
        answer = {
            "count": len(tokens),
            "max_model_len": limit,
            "tokens": tokens,
            "token_strs": None,
        }
        exchange.respond(200, compact(answer))

    def _detokenize(self, exchange: Exchange) -> None:
        asked = read_json(exchange.request.body)
        check_model(asked.get("model"), self._settings)
        exchange.respond(
            200,
            compact({"prompt": self._tokenizer.decode(asked.get("tokens", []))}),
        )

    def _reset_prefix_cache(self, exchange: Exchange) -> None:
        lies = self._settings.faults.reset_lies
        fails = self._plan.next_reset_fails()
        success = not fails and (lies or self._engine.reset_prefix_cache())
        exchange.respond(200, compact({"success": success}))

    def _flush_cache(self, exchange: Exchange) -> None:
        is_empty = (
            not self._plan.next_reset_fails() and self._engine.reset_prefix_cache()
        )
        status = HTTPStatus.OK if is_empty else HTTPStatus.BAD_REQUEST
        text = b"Cache flushed.\nPlease check backend logs for more details.\n"
        exchange.respond(status, text, content_type="text/plain")

    def _nothing_to_reset(self, exchange: Exchange) -> None:
        exchange.respond(200)

    def _metrics(self, exchange: Exchange) -> None:
        delay = self._settings.faults.slow_metrics_seconds
        if delay:
            self._loop.call_later(delay, self._answer_metrics, exchange)
        else:
            self._answer_metrics(exchange)

    def _answer_metrics(self, exchange: Exchange) -> None:
        match (
            "http500"
            if self._plan.next_scrape_fails()
            else self._settings.faults.metrics
        ):
            case "http500":
                exchange.respond(
                    HTTPStatus.INTERNAL_SERVER_ERROR,
                    b"Internal Server Error",
                    content_type="text/plain",
                )
            case "garbage":
                exchange.respond(200, GARBAGE, content_type=CONTENT_TYPE)
            case "endless":
                exchange.open_stream(CONTENT_TYPE)
                self._send_for_ever(exchange, repeat(ENDLESS_PIECE))
            case mode:
                exchange.respond(
                    200, self._exposition(mode).encode(), content_type=CONTENT_TYPE
                )

    def _exposition(self, mode: str) -> str:
        has_process = self._dialect.has_process_metrics
        text = process_metrics(self._lifetime.started_at) if has_process else ""
        if mode != "none" and self._settings.log_stats:
            text += self._engine.exposition()
        return with_old_names(text) if mode == "old-names" else text

    def _send_for_ever(self, exchange: Exchange, pieces: Iterator[bytes]) -> None:
        if not exchange.disconnected:
            exchange.send(next(pieces))
            self._loop.call_later(
                ENDLESS_PAUSE_SECONDS, self._send_for_ever, exchange, pieces
            )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
