"""The report as one HTML page; all functions are pure.

The caller of `page` passes the function that draws a chart. The operator never loads this folder.
"""

from benchrun.report.html.page_elements import (
    Chart,
    Charts,
    ChartSpec,
    CodeBlock,
    Element,
    FactList,
    FindingCard,
    Fold,
    Heading,
    Prose,
    Section,
    Table,
    Verdict,
    facts,
    fold,
    section,
)
from benchrun.report.html.report_data import (
    STATUS_ONLY,
    Curve,
    Reported,
    ReportedSweep,
    curves,
)

__all__ = [
    "STATUS_ONLY",
    "Chart",
    "ChartSpec",
    "Charts",
    "CodeBlock",
    "Curve",
    "Element",
    "FactList",
    "FindingCard",
    "Fold",
    "Heading",
    "Prose",
    "Reported",
    "ReportedSweep",
    "Section",
    "Table",
    "Verdict",
    "curves",
    "facts",
    "fold",
    "section",
]
