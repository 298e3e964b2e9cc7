"""The museum's counts: what a word means, twins that are shared, and exhibits that are whole."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from benchrun.api import Code
from museum import _batches, _experiments, _is_seen, _twins, museum
from museum_kit import columns, peers_column, tally
from museum_kit.exhibits import EXHIBITS, Exhibit
from museum_kit.said import Said, can_replay, warnings_in
from unit.foreign.foreign_files import FILES

from dev.museum_table import TOOLS, UNKNOWN_ALARMS, museum_text

PREFIX = Code.PREFIX_CACHE_CONTAMINATED
CACHED = next(each for each in EXHIBITS if PREFIX in each.names)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda each: each.thread)
def test_an_exhibit_differs_from_its_twin_and_has_a_name(exhibit: Exhibit) -> None:
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", exhibit.thread)
    assert exhibit.wrong != exhibit.clean
    assert bool(exhibit.names) != (exhibit.is_prevented is not None)
    assert set(exhibit.names) <= {code.value for code in Code}
    for run in (exhibit.wrong, exhibit.clean):
        assert run.spec("http://127.0.0.1:1").workloads


def test_threads_are_different_and_twins_are_shared() -> None:
    shared = _twins(EXHIBITS)
    assert len({each.thread for each in shared}) == len(EXHIBITS) >= 24
    runs = _experiments(shared)
    assert len({each.name for each in runs}) == len(runs) < 2 * len(EXHIBITS)


@pytest.mark.parametrize(
    ("word", "wrong", "clean", "prevented"),
    [
        ("named", {PREFIX: "Suspect"}, {}, False),
        ("named", {PREFIX: "Invalid"}, {PREFIX: "Suspect"}, False),
        ("flagged", {PREFIX: "Note", Code.COLD_START: "Suspect"}, {}, False),
        ("silent", {PREFIX: "Suspect"}, {PREFIX: "Suspect"}, False),
        ("silent", {Code.TOO_FEW_SAMPLES: "Note"}, {}, False),
        ("silent", {}, {}, False),
        ("prevented", {}, {}, True),
    ],
)
def test_what_the_words_mean(
    word: str, wrong: tally.Codes, clean: tally.Codes, prevented: bool
) -> None:
    assert tally.word_of(CACHED, wrong, clean, prevented=prevented) == word


SEEN = replace(
    tally.unseen(CACHED),
    twin="twin",
    ours="named",
    said=[PREFIX],
    theirs={"vllm": "silent"},
)
MISSED = replace(
    tally.unseen(EXHIBITS[-1]), twin="twin", ours="silent", alarms=["ColdStart"]
)


def test_a_twin_of_several_counts_once() -> None:
    assert tally.figures(
        [SEEN, replace(MISSED, alarms=[]), MISSED, tally.unseen(EXHIBITS[1])]
    ) == {
        "exhibits": 4,
        "replayed": 3,
        "named": 1,
        "flagged": 0,
        "silent": 2,
        "prevented": 0,
        "twins": 1,
        "calm_twins": 1,
        "false_alarms": 1,
        "busy_alarms": 0,
        "replayed_by_vllm": 1,
        "named_by_vllm": 0,
        "replayed_by_guidellm": 0,
        "named_by_guidellm": 0,
        "replayed_by_aiperf": 0,
        "named_by_aiperf": 0,
        "replayed_by_inference-perf": 0,
        "named_by_inference-perf": 0,
    }


def test_an_alarm_on_a_busy_host_is_not_known_to_be_false() -> None:
    found = tally.figures([replace(MISSED, waited_percent=30.0)])
    assert (found["calm_twins"], found["false_alarms"], found["busy_alarms"]) == (
        0,
        0,
        1,
    )


def test_every_tool_has_a_column_and_a_title() -> None:
    assert tuple(columns.TOOLS) == tally.TOOL_NAMES == tuple(TOOLS)


def test_exhibits_of_a_twin_are_replayed_together() -> None:
    batches = list(_batches(_twins(EXHIBITS)))
    assert sum(map(len, batches)) == len(EXHIBITS)
    twins = [{each.clean.name for each in batch} for batch in batches]
    assert all(len(each) == 1 for each in twins)
    assert len(set.union(*twins)) == len(batches)


def test_what_is_left_is_what_has_no_result() -> None:
    assert _is_seen(SEEN, "")
    assert _is_seen(SEEN, "vllm")
    assert not _is_seen(SEEN, "aiperf")
    assert not _is_seen(tally.unseen(CACHED), "")
    assert not _is_seen(None, "")
    blamed = replace(MISSED, waited_percent=30.0)
    assert not _is_seen(blamed, "")
    assert _is_seen(replace(blamed, waited_percent=0.1), "")


def test_what_is_not_shown_again_keeps_its_result() -> None:
    content = museum([SEEN, replace(MISSED, ours="flagged")], [MISSED])
    rows = [tally.Shown(**each) for each in content["exhibits"]]
    assert [each.thread for each in rows] == [each.thread for each in EXHIBITS]
    assert {each.ours for each in rows if each.ours} == {"named", "silent"}
    assert content["figures"] == tally.figures(rows)


def test_the_page_has_a_row_an_exhibit_and_what_does_not_happen() -> None:
    page = museum_text(museum([SEEN], []))
    row = next(line for line in page.splitlines() if f"[{SEEN.thread}]" in line)
    assert f"| named | [{PREFIX}](findings/{PREFIX}.md) | silent | - |" in row
    assert page.count("not replayed yet") == len(EXHIBITS) - 1
    assert f"- {SEEN.thread}: {SEEN.by_default}." in page


def test_the_page_tells_which_twins_are_blamed_on_how_busy_a_machine() -> None:
    blamed = replace(MISSED, waited_percent=3.5)
    page = museum_text(museum([blamed], []))
    assert (
        "- twin: ColdStart; its client or server waited for a core in 3.5 %" in page
    )
    assert UNKNOWN_ALARMS in page
    calm = museum_text(museum([replace(blamed, waited_percent=0.1)], []))
    assert UNKNOWN_ALARMS not in calm


def test_a_tool_flags_what_it_does_not_say_of_the_twin() -> None:
    clean = Said(failed=1, warnings=frozenset({"slow"}))
    assert not Said(failed=1, warnings=frozenset({"slow"})).flags(clean)
    assert Said(failed=2).flags(clean)
    assert Said(ended=True).flags(clean)
    assert Said(warnings=frozenset({"cache"})).flags(clean)


def test_a_starved_client_is_not_replayed_through_another() -> None:
    starved = [each for each in EXHIBITS if each.wrong.client_cpu_share is not None]
    assert starved
    assert not any(can_replay(each.wrong) for each in starved)


def of_thread(word: str) -> Exhibit:
    """Return the exhibit of a thread with this in its name."""
    return next(each for each in EXHIBITS if word in each.thread)


@pytest.mark.parametrize("tool", ["guidellm", "aiperf", "inference-perf"])
def test_a_tool_is_told_the_load_of_an_exhibit(tool: str, tmp_path: Path) -> None:
    exhibit = of_thread("guidellm#444")
    (load,) = peers_column._loads(exhibit.wrong, "http://127.0.0.1:1")
    assert (load.rate, load.cap, load.requests) == (20.0, None, 220)
    words = peers_column._COMMANDS[tool](load, tmp_path / "out")
    told = " ".join(words) + "".join(
        each.read_text() for each in tmp_path.glob("out.*")
    )
    for number in ("20.0", "64", "24", "http://127.0.0.1:1"):
        assert number in told


def test_what_a_tool_cannot_be_told_is_not_replayed_through_it() -> None:
    at_once = of_thread("vllm#4252").wrong
    chat = of_thread("vllm#27485").wrong
    starved = of_thread("vllm#39963").wrong
    assert peers_column.replays("guidellm", at_once)
    assert not peers_column.replays("aiperf", at_once)
    assert peers_column.replays("aiperf", chat)
    assert not peers_column.replays("inference-perf", chat)
    assert not peers_column.replays("guidellm", starved)


def test_failed_requests_are_counted_by_the_readers_of_the_tools_files(
    tmp_path: Path,
) -> None:
    assert peers_column._failed("guidellm", tmp_path) is None
    name = "guidellm-0.8.1-concurrency-4.json"
    content = json.loads((FILES / name).read_text())
    content["benchmarks"][0]["metrics"]["request_totals"]["errored"] = 3
    (tmp_path / "benchmarks.json").write_text(json.dumps(content))
    assert peers_column._failed("guidellm", tmp_path) == 3
    (tmp_path / "benchmarks.json").write_text("cut off")
    assert peers_column._failed("guidellm", tmp_path) is None


def test_numbers_of_a_warning_do_not_make_it_another(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "WARNING: -3.5e-05 slow\nfine\nwarning: 4 late\nWARNING: 5.2 slow\n"
    )
    assert warnings_in(log) == {"WARNING:  slow", "warning:  late"}
