"""Print tables on a terminal, and provide the console that every command writes to."""

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from benchrun.api import BenchmarkRunStatus, Bottleneck, Comparison, plain_text
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.judge.comparison import compare
from benchrun.report import (
    comparison_rows,
    opening,
    run_list,
    serving_result,
    sweep_rows,
    tables,
)

COLOURS = {
    "Valid": "green",
    "Suspect": "yellow",
    "Invalid": "red",
    "Note": "cyan",
    "Failed": "red",
}
OUTCOME_COLOURS = {
    "Better": "green",
    "Worse": "red",
    "Mixed": "yellow",
    "Equivalent": "green",
    "NotRegressed": "green",
    "Regressed": "red",
    "RegressedHere": "red",
}
COMPARISON_WIDTH = 100
WIDEST_CELL = 26
"""Most characters of a cell on one line. A longer cell wraps, because it is a sentence and would
leave no room for figures."""
GUTTER = 2  # Spaces between columns.
UNBOUNDED = 10_000  # Width in columns that no table reaches.


def show_result(
    console: Console,
    name: str,
    status: BenchmarkRunStatus,
    *,
    texts_per_prompt: Mapping[str, int] = tables.NO_TEXTS,
    wide: bool = False,
) -> None:
    """Print a run's verdict or phase, its load points, its findings, and what explains them.

    `wide` adds the total of tokens, intervals, and the block in vLLM's layout of every load point.
    """
    verdict = status.verdict or "Unknown"
    word = run_list.outcome_word(status)
    console.print(title(name, word, status.message), width=prose_width(console))
    _show_opening(console, opening.of_run(status))
    if status.results:
        if word != verdict:
            console.print(
                Text.assemble(
                    "verdict of the stages measured: ",
                    (verdict, COLOURS.get(verdict, "")),
                )
            )
        _show_load_points(console, status, texts_per_prompt, wide=wide)
        _print_rows(console, tables.packing_rows(status, texts_per_prompt))
        _print_rows(console, tables.objective_rows(status))
        _print_rows(console, tables.width_rows(status))
        if wide:
            _print_rows(console, tables.interval_rows(status))
    if status.comparison is not None:
        show_comparison(
            console,
            status.comparison,
            before=status.comparison.baseline.name,
            after=name,
        )
    _print_rows(console, tables.finding_rows(status), width=prose_width(console))
    if status.results:
        _show_explanations(console, status, wide=wide)
    if status.log_tail:
        console.print(Text("the end of the server's log:", style="bold"))
        console.print(Text(status.log_tail))


def _show_opening(console: Console, found: opening.Opening | None) -> None:
    """Print the three sentences that a report begins with."""
    for sentence in found.sentences if found is not None else ():
        console.print(Text(sentence), width=prose_width(console))


def title(name: str, word: str, sentence: str | None) -> Text:
    """Build the line above a result; `word` is its verdict or phase."""
    return Text.assemble(
        (f"{name}: ", "bold"),
        (word, COLOURS.get(word, "bold")),
        f" - {sentence or ''}",
    )


def _show_load_points(
    console: Console,
    status: BenchmarkRunStatus,
    texts_per_prompt: Mapping[str, int],
    *,
    wide: bool,
) -> None:
    points = tables.result_rows(
        status, texts_per_prompt=texts_per_prompt, wide=wide
    )
    show_figures(console, points, names=("load point",), wide=wide)
    console.print(Text(tables.LEGEND, style="dim"), width=prose_width(console))
    if tables.has_uncertain(points):
        console.print(Text(tables.UNCERTAIN_NOTE, style="dim"))


def _show_explanations(
    console: Console, status: BenchmarkRunStatus, *, wide: bool
) -> None:
    _print_rows(
        console,
        tables.explanation_rows(status, wide=wide),
        width=prose_width(console),
    )
    _print_rows(console, tables.kernel_rows(status))
    if wide:
        _print_rows(console, tables.repeat_rows(status))
    for block in serving_result.blocks(status) if wide else ():
        console.print(Text(f"\n{block.name}", style="bold"))
        console.print(Text(block.text))


def _print_rows(
    console: Console, cells: tables.Rows, *, width: int | None = None
) -> None:
    if cells.rows:
        console.print(as_table(cells), width=width)


def prose_width(console: Console) -> int:
    """Return the width at which sentences wrap: the edge of the terminal.

    Figures do not wrap: for them the console may be wider than the terminal.
    """
    return (
        min(console.width, Console(file=console.file).width)
        if console.is_terminal
        else console.width
    )


def _full_width(console: Console, table: Table) -> int:
    return Measurement.get(
        console, console.options.update_width(UNBOUNDED), table
    ).maximum


def show_figures(
    console: Console, cells: tables.Rows, *, names: Collection[str], wide: bool
) -> None:
    """Print a table without breaking its figures.

    If the console is too narrow for all columns, the table is printed in parts below each other.
    Each part repeats the columns `names`. A `wide` table is never divided.
    """
    table = as_table(cells, folded=())
    before = console.width
    whole = _full_width(console, table)
    if wide or whole <= before:
        console.width = max(before, whole)
        console.print(table)
        console.width = before
        return
    for number, part in enumerate(
        parts_that_fit(cells, console.width, names=names)
    ):
        if number:
            console.print()
        console.print(_fitted(part, console.width, names=names))


def parts_that_fit(
    cells: tables.Rows, width: int, *, names: Collection[str]
) -> Iterable[tables.Rows]:
    """Yield the table in parts that are at most `width` characters wide.

    Parts have whole columns. Each part repeats the columns `names`. A single column may be wider
    than `width`.
    """
    widths = _widths(cells, width, names=names)
    named = [place for place, header in enumerate(cells.headers) if header in names]
    room = width - sum(widths[place] + GUTTER for place in named)
    chosen: list[int] = []
    left = room
    for place in range(len(cells.headers)):
        if place in named:
            continue
        if chosen and widths[place] > left:
            yield _columns(cells, sorted((*named, *chosen)))
            chosen = []
            left = room
        chosen.append(place)
        left -= widths[place] + GUTTER
    yield _columns(cells, sorted((*named, *chosen)))


def _columns(cells: tables.Rows, places: Collection[int]) -> tables.Rows:
    rows = tuple(tuple(row[place] for place in places) for row in cells.rows)
    return tables.Rows(tuple(cells.headers[place] for place in places), rows)


def _widths(cells: tables.Rows, width: int, *, names: Collection[str]) -> list[int]:
    """Return the width of each column: that of its longest cell, or less if its cells wrap."""
    columns = zip(cells.headers, *cells.rows, strict=True)
    longest = [max(map(cell_len, column)) for column in columns]
    most = [
        max(WIDEST_CELL, width // 3) if h in names else WIDEST_CELL
        for h in cells.headers
    ]
    return list(map(min, longest, most))


def _fitted(cells: tables.Rows, width: int, *, names: Collection[str]) -> Table:
    table = as_table(cells, folded=names)
    for column, wide in zip(
        table.columns, _widths(cells, width, names=names), strict=True
    ):
        column.width = min(wide, width)
        column.no_wrap = False
    return table


def empty_table(
    *headers: str,
    folded: Collection[str] | None = None,
    numbers: Collection[str] = (),
) -> Table:
    """Build a table without rows.

    `folded` are the headers of the columns that may wrap; None means all. The columns `numbers` are
    aligned on the right.
    """
    table = Table(
        box=None, pad_edge=False, header_style="bold", show_header=any(headers)
    )
    for header in headers:
        right = header in numbers
        whole = folded is not None and header not in folded
        table.add_column(
            header,
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=whole,
        )
    return table


def as_table(
    cells: tables.Rows,
    *,
    folded: Collection[str] | None = None,
    numbers: Collection[str] = (),
    colours: Mapping[str, str] = COLOURS,
) -> Table:
    """Build a table of these rows. `colours` maps the text of a cell to its colour."""
    table = empty_table(*cells.headers, folded=folded, numbers=numbers)
    for row in cells.rows:
        styled = (
            "dim" if cell.endswith(tables.UNCERTAIN) else colours.get(cell, "")
            for cell in row
        )
        table.add_row(*map(Text, row, styled))
    return table


def show_comparison(
    console: Console,
    found: compare.Compared | Comparison,
    *,
    before: str,
    after: str,
    limited: Mapping[str, Bottleneck] | None = None,
) -> None:
    """Print the outcome of a comparison, its figures and bottlenecks by load point, and its gate.

    It also prints what could not be compared.
    """
    say = partial(console.print, width=COMPARISON_WIDTH)
    colour = OUTCOME_COLOURS.get(found.outcome, "bold")
    unequal = comparison_rows.setting_rows(found.settings)
    show_settings(console, unequal)
    if unequal.rows and (told := comparison_rows.unknown_text(found.settings)):
        say(Text(told, style="dim"))
    say(Text.assemble((f"{before} -> {after}: ", "bold"), (found.outcome, colour)))
    if found.load_points:
        rows = comparison_rows.comparison_rows(found.load_points)
        numbers = ("baseline", "value", "change", "interval")
        table = as_table(
            rows, folded=("load point",), numbers=numbers, colours=OUTCOME_COLOURS
        )
        table.padding = (0, 1, 0, 0)
        console.print(table)
    for load_point, limit in (limited or {}).items():
        say(Text(f"{load_point}: {limit.sentence}"))
    for price in comparison_rows.prices(found.load_points):
        say(Text(price))
    for reason in comparison_rows.reasons(found.load_points):
        say(Text(f"not compared: {reason}", style="yellow"))
    if without := comparison_rows.unpaired(found.load_points):
        say(
            Text(
                f"both sides may have got different requests at {', '.join(without)}",
                style="dim",
            )
        )
    say(Text(found.message))
    if found.gate is not None:
        say(
            Text(
                comparison_rows.GATES[found.gate],
                style=OUTCOME_COLOURS.get(found.gate, "yellow"),
            )
        )


def show_settings(console: Console, rows: tables.Rows) -> None:
    """Print how the servers of both sides differ, which stands before the comparison's outcome."""
    if rows.rows:
        console.print(Text(SETTINGS_TITLE, style="bold"))
        console.print(as_table(rows))


SETTINGS_TITLE = "the servers differ in"
NAMES = ("variant", "load point")  # Columns whose text may take several lines.


def show_sweep(
    console: Console,
    name: str,
    status: BenchmarkSweepStatus,
    *,
    texts_per_prompt: Mapping[str, int] = tables.NO_TEXTS,
    wide: bool = False,
) -> None:
    """Print a sweep's state, its tables and remarks, and a note on what was cut."""
    width = prose_width(console)
    console.print(
        title(name, run_list.outcome_word(status), status.message), width=width
    )
    _show_opening(console, opening.of_sweep(status))
    if status.results:
        variants = sweep_rows.variant_rows(
            status, texts_per_prompt=texts_per_prompt, wide=wide
        )
        show_figures(console, variants, names=NAMES, wide=wide)
        console.print(Text(sweep_rows.LEGEND, style="dim"), width=width)
        if wide and (side_by_side := sweep_rows.configuration_rows(status)).rows:
            console.print(Text("\nload points side by side", style="bold"))
            show_figures(console, side_by_side, names=NAMES, wide=wide)
    if (compared := sweep_rows.compared_text(status)) is not None:
        against = Text.assemble(
            "\n", (f"against {status.baseline}", "bold"), f", {compared}"
        )
        settings = sweep_rows.setting_rows(status)
        if settings.rows:
            console.print()
        show_settings(console, settings)
        console.print(against, width=width)
        changes = sweep_rows.configuration_change_rows(status)
        if (
            wide
            or not changes.rows
            or _full_width(console, as_table(changes)) > console.width
        ):
            changes = sweep_rows.change_rows(status)
        show_figures(console, changes, names=NAMES, wide=wide)
    for heading, table in (
        ("best", sweep_rows.best_rows(status)),
        ("undecided, and may be better", sweep_rows.undecided_rows(status)),
        ("Pareto front", sweep_rows.front_rows(status)),
    ):
        if table.rows:
            console.print(Text(f"\n{heading}", style="bold"))
            console.print(as_table(table))
    for style, lines in (
        ("yellow", sweep_rows.remarks(status)),
        ("dim", sweep_rows.cuts(status)),
    ):
        for line in lines:
            console.print(Text(line, style=style), width=width)


class Terminal(Console):
    """Rich's console without highlighting.

    Names, messages and logs from a cluster can't steer the terminal.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments, with control characters removed from their text.

        The styles and cursor movements that Rich adds itself are kept.
        """
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else segment._replace(text=plain_text(segment.text))
            )
