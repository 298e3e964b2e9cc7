"""The console that every command writes to: what others wrote is shown and never obeyed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from benchrun.api.text import plain_text


class Terminal(Console):
    """Rich's console without highlighting. Names, messages and logs of a cluster can't steer the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Styles and the cursor are Rich's own and come beside the text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=plain_text(segment.text))
