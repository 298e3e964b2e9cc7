"""Write a finished run or sweep as one HTML page. It needs the packages of the extra `report`."""

import json

import vl_convert

from benchrun.cli.versions import own_version
from benchrun.report.html import Reported, ReportedSweep, page, page_elements

# Version of Vega-Lite: one of the versions that vl-convert contains.
GRAMMAR = "6.1"


def html_page(found: Reported | ReportedSweep) -> str:
    """Build the HTML page of a run or sweep, with its charts drawn."""
    made_by = own_version()
    if isinstance(found, Reported):
        return page.page(found, draw, made_by=made_by)
    return page.sweep_page(found, draw, made_by=made_by)


def draw(spec: page_elements.ChartSpec) -> str:
    """Draw a chart as SVG with Vega in this process, without a browser, network or files."""
    drawn: str = vl_convert.vegalite_to_svg(
        json.dumps(spec), vl_version=GRAMMAR, allowed_base_urls=[]
    )
    return drawn
