"""Charts as Vega-Lite: data and marks, no drawing."""
