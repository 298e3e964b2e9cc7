"""What is said of a comparison: counts, the most marked change, and no more than was measured."""

from unit.judge.comparison.sides import compared, repeated, run


def test_regressions_are_named_first() -> None:
    after = repeated("b", OutputThroughput=1500.0, MeanTTFT=60.0, MeanTPOT=20.0)
    found = compared(repeated("a"), after, "OutputThroughput", "MeanTTFT", "MeanTPOT")
    assert found.message.startswith("3 figures: 1 better, 2 worse. The worst: MeanTPOT at chat/rate=4 +81.8 % (")


def test_the_sentence_names_the_best_improvement() -> None:
    found = compared(repeated("a"), repeated("b", OutputThroughput=1500.0, MeanTTFT=20.0))
    assert "The best: MeanTTFT at chat/rate=4 -53.5 % (" in found.message


def test_a_throughput_that_fell_is_worse_than_a_latency_that_rose_less() -> None:
    found = compared(repeated("a"), repeated("b", OutputThroughput=600.0, MeanTTFT=60.0))
    assert "The worst: OutputThroughput at chat/rate=4 -50.0 % (" in found.message


def test_the_level_and_the_scope_are_stated() -> None:
    message = compared(repeated("a"), repeated("b")).message
    assert "2 figures: 2 without a detectable difference" in message
    assert "95 % confidence" in message
    assert message.endswith("Another start of the same server may differ by more")


def test_each_statement_is_a_sentence_of_its_own() -> None:
    message = compared(repeated("a"), repeated("b", MeanTTFT=60.0)).message
    assert ";" not in message
    assert max(len(each.split()) for each in message.split(". ")) <= 20


def test_runs_without_results_have_nothing_to_compare() -> None:
    assert compared(run("a", []), run("b", [])).message == "no load point is comparable: neither side has results"
