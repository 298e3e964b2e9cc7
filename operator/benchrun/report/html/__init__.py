"""The report as one HTML page. Pure: whoever calls `page` passes what draws a chart; the operator
never loads this folder."""

from benchrun.report.html.page_elements import *
from benchrun.report.html.report_data import *
