"""A replacement for the HTTP session in vLLM's benchmark that yields an answer event by event.

An answer that comes as a whole is read within bounds, and looked at after its time was taken.

It also sends a request once more if its connection was closed before it was answered.
"""

from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any, Self

import aiohttp

from benchrun_client.load.event_stream import (
    BrokenStreamError,
    CompletionStream,
    StreamNotes,
    cached_of,
)
from benchrun_client.load.whole_answer import (
    embedding_in,
    prompt_tokens_of,
    read_whole,
)

STREAM_NOTES: ContextVar[StreamNotes | None] = ContextVar(
    "STREAM_NOTES", default=None
)
"""The notes about its answer that the task of a request must fill in."""
OK = 200
CLOSED_UNANSWERED = (
    aiohttp.ServerDisconnectedError,
    aiohttp.ClientOSError,
    ConnectionResetError,
)
"""Exceptions that aiohttp raises if a connection is closed before the head of an answer arrives."""


class StreamingSession:
    """A session whose answers to POST are read event by event."""

    def __init__(self, session: Any, *, open_another: Callable[[], Any]) -> None:
        """Wrap a session; `open_another` opens a session with a new connection for each request."""
        self._session = session
        self._open_another = open_another
        self._another: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def post(self, **asked: Any) -> "Posting":
        """Return a context that sends the request when it is entered.

        Redirects are not followed: they would add a round trip to the server's time, and most of
        them would turn the POST into a GET.
        """
        return Posting(self, {**asked, "allow_redirects": False})

    def send(self, asked: dict[str, Any]) -> Any:
        """Return aiohttp's context that sends a request."""
        return self._session.post(**asked)

    def send_anew(self, asked: dict[str, Any]) -> Any:
        """Return aiohttp's context that sends a request on a new connection."""
        if self._another is None:
            self._another = self._open_another()
        return self._another.post(**asked)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        if self._another is not None:
            await self._another.close()


class Posting:
    """One request, as a context manager that sends it and yields the answer."""

    def __init__(self, session: StreamingSession, asked: dict[str, Any]) -> None:
        self._session = session
        self._asked = asked
        self._context: Any = None

    async def __aenter__(self) -> Any:
        notes = STREAM_NOTES.get() or StreamNotes()
        self._context = self._session.send(self._asked)
        try:
            response = await self._context.__aenter__()
        except CLOSED_UNANSWERED:
            # Gateways close a connection that was idle, or after so many requests, at any moment.
            # One that was opened for this request was refused, and is no such case.
            if not notes.is_reused:
                raise
            notes.reconnects += 1
            self._context = self._session.send_anew(self._asked)
            response = await self._context.__aenter__()
        return (
            StreamedResponse(response, notes) if response.status == OK else response
        )

    async def __aexit__(self, *raised: Any) -> None:
        await self._context.__aexit__(*raised)


class StreamedResponse:
    """An answer whose content is read event by event, each as a line that begins with `data: `."""

    def __init__(self, response: Any, notes: StreamNotes) -> None:
        self._response = response
        self._notes = notes
        self._stream = CompletionStream(notes)
        self._whole = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)

    @property
    def content(self) -> "StreamedResponse":
        return self

    async def read(self) -> bytes:
        """Return an answer that comes as a whole; raise BrokenStreamError if it is too long."""
        try:
            self._whole = await read_whole(self._response)
        except BrokenStreamError as error:
            self._notes.problem = str(error)
            raise
        self._notes.is_closed = True
        return self._whole

    async def json(self) -> dict[str, Any]:
        """Return the answer that was read; raise BrokenStreamError if it has no embedding.

        Without the server's count of the prompt's tokens they are none.
        """
        try:
            answer = embedding_in(self._whole)
        except BrokenStreamError as error:
            self._notes.problem = str(error)
            raise
        self._notes.cached = cached_of(answer)
        return {"usage": {"prompt_tokens": prompt_tokens_of(answer) or 0}}

    def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the events one by one; raise BrokenStreamError for a broken stream."""
        return self.__aiter__()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                if self._stream.is_one_token(chunk):
                    self._stream.note_token(chunk)
                    yield chunk
                    continue
                for line in self._stream.feed(chunk):
                    yield line
            for line in self._stream.end():
                yield line
        except BrokenStreamError as error:
            self._notes.problem = str(error)
            raise
