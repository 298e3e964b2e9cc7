"""A finished run as one HTML page. Needs the packages of the extra `report`."""

from __future__ import annotations

import json
from importlib.metadata import version

import vl_convert

from benchrun.cli.finished_run import FinishedRun
from benchrun.report.html.blocks import ChartSpec
from benchrun.report.html.page import page
from benchrun.report.html.reported import Reported

GRAMMAR = "6.1"
"""Version of Vega-Lite, of those that vl-convert brings along."""


def html_page(found: FinishedRun) -> str:
    """The page, with its charts drawn."""
    measured = found.measured
    reported = Reported(
        name=found.run.name,
        namespace=found.run.namespace,
        uid=found.run.uid,
        written=found.run.spec,
        spec=found.spec,
        status=found.status,
        records=measured.records,
        samples=measured.samples,
        notes=measured.unreadable,
    )
    return page(reported, draw, made_by=version("benchrun-operator"))


def draw(spec: ChartSpec) -> str:
    """A chart as SVG, by Vega within this process: no browser, no network, no file."""
    drawn: str = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=GRAMMAR, allowed_base_urls=[])
    return drawn
