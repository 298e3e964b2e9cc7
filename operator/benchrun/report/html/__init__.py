"""The report as one HTML page: a run made into sections, their charts drawn as SVG, all in one file without a script.

    Reported (status, spec, records, readings) -> sections -> blocks (tables, charts as Vega-Lite) -> page

Everything here is pure. Who calls `page` hands in what draws a chart; the operator's own process never loads this folder.
"""
