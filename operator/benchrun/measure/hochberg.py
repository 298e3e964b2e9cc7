"""Many questions asked at once: each at a level that keeps all of them together to one false-alarm rate."""

from __future__ import annotations

from collections.abc import Sequence


def hochberg_levels(p_values: Sequence[float], *, error: float) -> list[float]:
    """The error rate at which Hochberg's procedure puts each question, in the order given, when all together may err by `error`.

    A question is answered "yes" exactly where its p-value is at most its level. From the largest p-value down, the first is
    asked at `error`, the second at half of it, the third at a third ...; the first "yes" is the answer to all smaller ones.
    Figures of one measurement move together, and where all of them changed each may then be asked at `error` (Holm would ask
    the first at a fifth of it, of five). Y. Hochberg, Biometrika 75 (1988); holds for independent and for positively
    dependent questions (S. K. Sarkar, Annals of Statistics 26, 1998).
    """
    descending = sorted(p_values, reverse=True)
    agreed = next((place for place, p in enumerate(descending, start=1) if p <= error / place), len(p_values) + 1)
    yes = error / agreed
    # Everything larger was a "no" at a level of its own; told at the strictest of them, equals are told alike.
    no = error / max(agreed - 1, 1)
    threshold = descending[agreed - 1] if agreed <= len(p_values) else -1.0
    return [yes if p <= threshold else no for p in p_values]
