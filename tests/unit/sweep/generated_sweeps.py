"""Sweeps whose fields each have the right type and bounds, and which keep or break rules.

The rules are those between fields.
"""

from typing import Any

from hypothesis import strategies as st
from unit.api.generated_specs import mostly, some_of
from unit.api.spec_cases import absent, minimal
from unit.sweep.sweeps import axis

Json = dict[str, Any]
_VALUES = st.lists(
    st.sampled_from(["1", "2", "4", "8", "0.9", "fp8"]),
    min_size=1,
    max_size=4,
    unique=True,
)
_NAMES = ["seqs", "block-size", "a", "b", "c"]


def axes(values: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[Json]]:
    """Draw up to five axes of different names."""
    return st.lists(
        st.sampled_from(_NAMES), min_size=1, max_size=5, unique=True
    ).flatmap(
        lambda names: st.tuples(*[values] * len(names)).map(
            lambda found: [
                axis(name, *each) for name, each in zip(names, found, strict=True)
            ]
        )
    )


ZIPS = st.integers(1, 4).flatmap(
    lambda size: axes(
        st.lists(
            st.sampled_from(["1", "2", "4", "8", "16"]),
            min_size=size,
            max_size=size,
            unique=True,
        )
    )
)
VARIANTS = st.lists(
    st.sampled_from([f"v{n}" for n in range(40)]),
    min_size=1,
    max_size=32,
    unique=True,
).map(lambda names: [{"name": name} for name in names])
MATRICES = some_of(
    {"grid": axes(_VALUES), "zip": ZIPS | axes(_VALUES), "variants": VARIANTS}
)
BASELINES = st.lists(
    st.builds(
        "{}={}".format,
        st.sampled_from(_NAMES),
        st.sampled_from(["1", "2", "4", "fp8"]),
    ),
    min_size=1,
    max_size=3,
).map(",".join) | st.sampled_from(["v0", "v1", "v1,v2", "a", ",", "a=1,"])
TEMPLATES = mostly(
    minimal(),
    st.sampled_from(
        [
            minimal({"suspend": True}),
            minimal({"cancel": True}),
            minimal({"ttlSecondsAfterFinished": 60}),
            minimal({"server": absent(), "endpoint": {"url": "http://llm"}}),
            minimal(
                {
                    "repeats": 100,
                    "workloads.0.load": {"requestRates": ["1", "2", "3"]},
                }
            ),
        ]
    ),
)
SWEEP_SPECS = st.fixed_dictionaries(
    {"template": TEMPLATES, "matrix": MATRICES},
    optional={
        "baseline": BASELINES,
        "replications": st.sampled_from([1, 2, 4, 5, 10]),
    },
)
