"""The report as one HTML page. Pure: whoever calls `page` passes what draws a chart; the operator never loads this folder."""
