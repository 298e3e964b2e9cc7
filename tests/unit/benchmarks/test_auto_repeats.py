"""What the benchmark of `repeats: Auto` says of runs whose outcome is given."""

from benchrun_client.contract import Outcome
from truth_kit import auto_repeats, certainty
from truth_kit.auto_repeats import Run, Setting, figures, ideal_repeats, simulated


def run(word: Outcome, repeats: int, *, fixed_from: int, right: Outcome) -> Run:
    fixed = tuple(
        right if count >= fixed_from else "Inconclusive"
        for count in auto_repeats._COUNTS
    )
    return Run(word, repeats, fixed)


def test_the_ideal_number_decides_nine_of_ten() -> None:
    runs = [run("Met", 5, fixed_from=n, right="Met") for n in range(1, 11)]
    assert ideal_repeats(1.25, runs) == 9
    assert ideal_repeats(0.8, runs) is None


def test_costs_are_held_against_the_ideal_and_words_against_the_truth() -> None:
    right = [run("Met", 6, fixed_from=4, right="Met")] * 18
    late = [run("Met", 12, fixed_from=4, right="Met")] * 2
    at_truth = [run("Inconclusive", 27, fixed_from=99, right="Met")] * 19
    wrong = [run("Met", 3, fixed_from=99, right="Met")]
    found = figures(
        {Setting("a", 1.25): right + late, Setting("a", 1.0): at_truth + wrong}
    )
    assert found["auto_decided_percent"] == 90
    assert found["auto_false_percent"] == 5
    assert found["auto_cost_ratio"] == (18 * 6 + 2 * 12) / 20 / 4


def test_a_far_limit_is_decided_at_the_first_looks() -> None:
    server = next(s for s in auto_repeats.SERVERS if s.name == "M/M/8 at 0.7")
    true = auto_repeats._objective(server, certainty.truth_of(server))
    found = simulated(auto_repeats._Task(server, true, seed=0, runs=1))
    (far,) = found[Setting(server.name, 2.0)]
    assert far.outcome == "Met"
    assert far.repeats <= 3
    (near,) = found[Setting(server.name, 1.0)]
    assert near.repeats > far.repeats
