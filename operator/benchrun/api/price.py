"""What it takes to decide what a measurement left open: the one model of a price.

A price is computed by one function a kind: of percentiles and objectives in `judge/prices.py`, of
changes and gates in `judge/comparison/prices.py`, before anything is measured in
`preflight/prices.py`. Whatever shows one shows `in_words`.
"""

from pydantic import Field

from benchrun.api.base import StatusModel


class Price(StatusModel):
    """About what it takes, measured anew, to decide this with a probability of 80 %.

    What was measured, and its noise, are taken as true. Absent: not known, or not asked for.
    """

    requests: int | None = Field(
        None, description="Requests to send at the load point, over all repeats."
    )
    repeats: int | None = Field(
        None, description="Repeats of the load point; of a comparison on each side."
    )
    servers: int | None = Field(None, description="Fresh servers on each side.")
    runs: int | None = Field(
        None,
        description="Runs on each side, at endpoints, which are not started anew.",
    )
    minutes: float | None = Field(
        None, description="Time of measuring; of fresh servers from their start on."
    )
    gpu_seconds: float | None = Field(
        None,
        description="Seconds of this time, times the GPUs that the servers held.",
    )

    @property
    def weight(self) -> tuple[float, ...]:
        """Return what prices of one kind are compared by: their time, else what is measured."""
        values = self.servers or self.runs or self.repeats or 0
        return (self.minutes or 0.0, self.requests or 0, values)

    @property
    def in_words(self) -> str:
        """Return the price as text, such as `3,200 requests in 3 repeats, 4 min, 240 GPU-seconds`.

        Numbers have two significant digits, because they are estimates.
        """
        parts = []
        if self.requests is not None:
            parts.append(f"{about(self.requests)} requests")
        if self.repeats is not None and self.repeats > 1:
            repeats = f"{about(self.repeats)} repeats"
            if self.requests is None:
                parts.append(f"{repeats} on each side")
            else:
                parts[-1] += f" in {repeats}"
        if self.servers is not None:
            parts.append(f"{about(self.servers)} fresh servers on each side")
        if self.runs is not None:
            parts.append(f"{about(self.runs)} runs on each side")
        if self.minutes is not None:
            parts.append(f"{about(self.minutes)} min")
        if self.gpu_seconds is not None:
            parts.append(f"{about(self.gpu_seconds)} GPU-seconds")
        return ", ".join(parts)


def about(value: float) -> str:
    """Format an estimate with two significant digits and separated thousands."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.2g}"
