"""What a million tokens cost: by hand, and where it can't be told."""

from typing import Any

import pytest
from benchrun.api import (
    COSTS,
    OUTPUT_COST,
    PER_GPU,
    TOKENS_PER_JOULE,
    TOTAL_COST,
    Cost,
    CostStatus,
    Result,
    RoleFigures,
    ServerStatus,
    total_gpus,
)
from benchrun.judge.result_row import with_costs, with_throughput_per_gpu
from benchrun.judge.results import results
from benchrun.measure import (
    EXTERNAL_HITS,
    EXTERNAL_QUERIES,
    GENERATION_TOKENS,
    NOT_RENEWED,
    PREFIX_HITS,
    PREFIX_QUERIES,
    GpuFigures,
    cost_status,
    rounded,
    token_costs,
    tokens_per_joule,
)
from benchrun_client.contract import ServerEdge
from unit.judge.specs import spec
from unit.measure.records import edge, load_point, record, requests, sample

PER_HOUR = Cost(per_hour="3600")
A_DOLLAR_A_SECOND = CostStatus(currency="USD", per_hour=3600.0)


def servers(*gpus: int) -> list[ServerStatus]:
    """One entry a role, each with so many GPUs."""
    return [
        ServerStatus(engine="VLLM", role=f"role-{i}", gpus=held)
        for i, held in enumerate(gpus)
    ]


def measured(**metrics: float | None) -> Result:
    return Result(
        load_point="chat/rate=4",
        workload="chat",
        axis="RequestRate",
        value="4",
        repeats=1,
        repeats_planned=1,
        metrics=metrics,
        verdict="Valid",
    )


def test_the_price_of_a_gpu_counts_for_every_gpu_of_every_role() -> None:
    found = cost_status(Cost(per_gpu_hour="2.49", currency="EUR"), servers(2, 0, 4))
    assert found == CostStatus(currency="EUR", per_hour=14.94)


def test_a_price_of_the_whole_does_not_look_at_gpus() -> None:
    for held in (servers(), servers(0), servers(8)):
        assert cost_status(PER_HOUR, held) == A_DOLLAR_A_SECOND


@pytest.mark.parametrize("held", [servers(), servers(0, 0)])
def test_without_a_gpu_its_price_is_not_that_of_the_servers(
    held: list[ServerStatus],
) -> None:
    assert cost_status(Cost(per_gpu_hour="2.49"), held) == CostStatus(
        currency="USD", per_hour=None
    )


def test_without_a_price_nothing_is_reported() -> None:
    assert cost_status(None, servers(1)) is None
    assert with_costs(measured(duration=1.0), None) == measured(duration=1.0)


def test_costs_match_a_calculation_by_hand() -> None:
    """A dollar a second, for 2,000 tokens out a second and 8,000 in."""
    row = with_costs(
        measured(output_throughput=2_000, total_token_throughput=10_000),
        A_DOLLAR_A_SECOND,
    )
    assert row.metrics["cost_per_million_output_tokens"] == 500.0
    assert row.metrics["cost_per_million_total_tokens"] == 100.0


def test_five_digits() -> None:
    row = with_costs(
        measured(output_throughput=3, total_token_throughput=7), A_DOLLAR_A_SECOND
    )
    assert [row.metrics[key] for key in COSTS] == [333_330.0, 142_860.0]


@pytest.mark.parametrize(
    ("metrics", "price"),
    [
        pytest.param(
            {"output_throughput": 10, "total_token_throughput": 10},
            None,
            id="no price known",
        ),
        pytest.param(
            {"output_throughput": 0, "total_token_throughput": 0},
            3600.0,
            id="no token",
        ),
        pytest.param(
            {"output_throughput": None, "total_token_throughput": None},
            3600.0,
            id="no duration",
        ),
        pytest.param({}, 3600.0, id="nothing measured"),
    ],
)
def test_an_unknown_cost_is_null(
    metrics: dict[str, Any], price: float | None
) -> None:
    row = with_costs(
        measured(**metrics), CostStatus(currency="USD", per_hour=price)
    )
    assert [row.metrics[key] for key in COSTS] == [None, None]


def test_prompts_alone_have_a_cost_of_all_tokens() -> None:
    row = with_costs(
        measured(output_throughput=0, total_token_throughput=1_000_000),
        A_DOLLAR_A_SECOND,
    )
    assert [row.metrics[key] for key in COSTS] == [None, 1.0]


def test_repeats_are_priced_together_and_failed_requests_answer_for_nothing() -> (
    None
):
    """Twice 10 s; of two requests with 5 tokens each, one failed in the second repeat."""
    stages = [
        record(
            "chat/rate=4/r1",
            requests=requests(output_tokens=(5, 5)),
            scalars={"duration": 10.0},
        ),
        record(
            "chat/rate=4/r2",
            requests=requests(output_tokens=(5, 5), ok=(1, 0)),
            scalars={"duration": 10.0},
        ),
    ]
    [row] = results(
        [load_point(repeats=2)],
        stages,
        [],
        spec=spec(cost={"perHour": "3600"}),
        servers=servers(1),
    ).results
    assert row.metrics["cost_per_million_output_tokens"] == pytest.approx(
        20 / 15 * 1e6, rel=1e-4
    )


def test_rows_of_a_run_without_a_price_have_no_such_figures() -> None:
    [row] = results(
        [load_point()], [record()], [], spec=spec(), servers=servers(1)
    ).results
    assert not set(COSTS) & set(row.metrics)


PRICES: dict[str, Any] = {
    "perMillionTokens": {"input": "3", "cachedInput": "0.3", "output": "15"},
    "currency": "EUR",
}


def read(
    hits: float, *, looked_up: float = 1000.0, **external: float
) -> ServerEdge:
    """Counters of a server that found so many of the prompt tokens that it looked up."""
    return edge(
        rises={PREFIX_QUERIES: looked_up, PREFIX_HITS: hits},
        before=dict.fromkeys(external, 0.0),
        after=external,
    )


@pytest.mark.parametrize(
    ("hits", "euros"),
    [
        pytest.param(0, 1000 * 3 + 10 * 15, id="nothing cached"),
        pytest.param(750, 250 * 3 + 750 * 0.3 + 10 * 15, id="three quarters"),
        pytest.param(1000, 1000 * 0.3 + 10 * 15, id="all"),
    ],
)
def test_cached_tokens_have_a_price_of_their_own(hits: float, euros: float) -> None:
    """1,000 tokens in and 10 out, by hand, in millionths."""
    stage = record(
        requests=requests(input_tokens=(400, 600), output_tokens=(5, 5)),
        servers=(read(hits),),
    )
    judged = results(
        [load_point()], [stage], [], spec=spec(cost=PRICES), servers=servers(2)
    )
    assert [judged.results[0].metrics[key] for key in COSTS] == [
        rounded(euros / 10),
        rounded(euros / 1010),
    ]


def test_each_stage_counts_by_its_own_hits_and_failed_requests_for_nothing() -> (
    None
):
    cold = record(
        "chat/rate=4/r1",
        requests=requests(input_tokens=(500, 500), output_tokens=(5, 5)),
        servers=(read(0),),
    )
    warm = record(
        "chat/rate=4/r2",
        requests=requests(input_tokens=(500, 500), output_tokens=(5, 5), ok=(1, 0)),
        servers=(read(900),),
    )
    euros = 1000 * 3 + 50 * 3 + 450 * 0.3 + 15 * 15
    found = token_costs([cold, warm], Cost.model_validate(PRICES))
    assert found == {
        OUTPUT_COST: rounded(euros / 15),
        TOTAL_COST: rounded(euros / 1515),
    }


def test_a_second_tier_is_cached_too_and_a_cache_that_is_off_finds_nothing() -> (
    None
):
    columns = requests(input_tokens=(400, 600), output_tokens=(5, 5))
    prices = Cost.model_validate(PRICES)
    off = record(requests=columns, servers=(read(0, looked_up=0),))
    assert token_costs([off], prices)[OUTPUT_COST] == rounded((3000 + 150) / 10)
    behind = record(
        requests=columns,
        servers=(read(200, **{EXTERNAL_HITS: 300.0, EXTERNAL_QUERIES: 800.0}),),
    )
    assert token_costs([behind], prices)[OUTPUT_COST] == rounded(
        (500 * 3 + 500 * 0.3 + 150) / 10
    )


@pytest.mark.parametrize(
    "edges",
    [(), (ServerEdge(address="a", before=None, after=None),)],
    ids=["none", "unread"],
)
def test_hits_that_are_not_known_leave_the_cost_unknown(
    edges: tuple[ServerEdge, ...],
) -> None:
    assert token_costs([record(servers=edges)], Cost.model_validate(PRICES)) == {
        OUTPUT_COST: None,
        TOTAL_COST: None,
    }


def test_prices_of_tokens_are_reported_and_have_no_hour() -> None:
    status = cost_status(Cost.model_validate(PRICES), servers(2))
    assert status == CostStatus(
        currency="EUR", per_million_tokens="3 input, 0.3 cached, 15 output"
    )
    row = measured(output_throughput=10.0, total_token_throughput=10.0)
    assert with_costs(row, status) == row
    assert token_costs([record()], PER_HOUR) == token_costs([record()], None) == {}


def role(
    name: str, watts: float | None = None, reason: str | None = None
) -> RoleFigures:
    return RoleFigures(
        role=name, gpu_power_mean_watts=watts, no_power_reason=reason
    )


@pytest.mark.parametrize(
    ("expected", "gpus", "roles"),
    [
        (
            {TOKENS_PER_JOULE: 3.0},
            GpuFigures(output_tokens_per_joule=3.0),
            [role("server", 400.0)],
        ),
        (
            {TOKENS_PER_JOULE: None},
            GpuFigures(),
            [role("prefill", 300.0), role("decode")],
        ),
        (
            {TOKENS_PER_JOULE: None},
            GpuFigures(),
            [role("server", None, "not renewed")],
        ),
        ({}, GpuFigures(), [role("server")]),
        ({}, GpuFigures(), []),
    ],
)
def test_tokens_per_joule_stand_where_an_exporter_was_read(
    expected: dict[str, float | None], gpus: GpuFigures, roles: list[RoleFigures]
) -> None:
    assert tokens_per_joule(gpus, roles) == expected


def test_it_stands_in_the_row_of_a_run_whose_gpus_were_read() -> None:
    """250 J and five tokens a second, by the server's own counter."""
    stage = record(servers=(edge(rises={GENERATION_TOKENS: 100.0}),))
    read = [
        sample(1001.0 + t, gpu_joules=250.0 * t, generation_tokens=1.0 + 5 * t)
        for t in range(6)
    ]
    [row] = results([load_point()], [stage], read, spec=spec()).results
    assert (row.metrics[TOKENS_PER_JOULE], row.roles[0].gpu_power_mean_watts) == (
        0.02,
        250.0,
    )
    [once] = results([load_point()], [stage], read[:2], spec=spec()).results
    assert (once.metrics[TOKENS_PER_JOULE], once.roles[0].no_power_reason) == (
        None,
        NOT_RENEWED,
    )
    [other] = results(
        [load_point()], [record()], [sample(1005.0)], spec=spec()
    ).results
    assert TOKENS_PER_JOULE not in other.metrics


def test_gpus_of_every_role_share_the_throughput() -> None:
    held = total_gpus(servers(2, 0, 4))
    assert with_throughput_per_gpu(
        measured(output_throughput=1000.0), held
    ).metrics == {
        "output_throughput": 1000.0,
        PER_GPU: 166.67,
    }


@pytest.mark.parametrize("held", [servers(), servers(0, 0)])
def test_without_a_gpu_nothing_is_reported(held: list[ServerStatus]) -> None:
    row = measured(output_throughput=1000.0)
    assert with_throughput_per_gpu(row, total_gpus(held)) == row


@pytest.mark.parametrize("metrics", [{}, {"output_throughput": None}])
def test_an_unknown_throughput_has_an_unknown_share(
    metrics: dict[str, float | None],
) -> None:
    assert with_throughput_per_gpu(measured(**metrics), 2).metrics[PER_GPU] is None


def test_rows_of_a_run_have_it_beside_their_costs() -> None:
    """Ten tokens in ten seconds, by two roles of two GPUs each."""
    stage = record(
        requests=requests(output_tokens=(5, 5)), scalars={"duration": 10.0}
    )
    for of_spec in (spec(), spec(cost={"perHour": "3600"})):
        [row] = results(
            [load_point()], [stage], [], spec=of_spec, servers=servers(2, 2)
        ).results
        assert (row.metrics["output_throughput"], row.metrics[PER_GPU]) == (
            1.0,
            0.25,
        )
    assert row.metrics["cost_per_million_output_tokens"] == 1e6


def test_a_run_whose_servers_are_not_known_has_none() -> None:
    [row] = results([load_point()], [record()], [], spec=spec(), servers=()).results
    assert PER_GPU not in row.metrics
