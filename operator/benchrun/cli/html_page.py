"""A finished run or sweep as one HTML page. Needs the packages of the extra `report`."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import version

import vl_convert
from pydantic import ValidationError

from benchrun.api.sweep import BenchmarkSweepSpec
from benchrun.cli import finished_sweep
from benchrun.report.html import Reported, ReportedSweep, page, page_elements

GRAMMAR = "6.1"  # Version of Vega-Lite, of those that vl-convert brings along.


def html_page(found: Reported) -> str:
    return page.page(found, draw, made_by=version("benchrun-operator"))


def sweep_html_page(found: finished_sweep.FoundSweep) -> str:
    """The page of a sweep, with its charts drawn; one that was refused for its spec has a page, too."""
    sweep, spec = found.sweep, None
    with suppress(ValidationError):
        spec = BenchmarkSweepSpec.model_validate(sweep.spec)
    reported = ReportedSweep(
        name=sweep.name,
        namespace=sweep.namespace,
        uid=sweep.uid,
        written=sweep.spec,
        spec=spec,
        status=found.status,
        series=found.series,
    )
    return page.sweep_page(reported, draw, made_by=version("benchrun-operator"))


def draw(spec: page_elements.ChartSpec) -> str:
    """A chart as SVG, by Vega within this process: no browser, no network, no file."""
    drawn: str = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=GRAMMAR, allowed_base_urls=[])
    return drawn
