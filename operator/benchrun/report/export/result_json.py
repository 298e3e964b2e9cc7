"""Export a run's result document unchanged; `-f` reads it without a cluster."""

from benchrun.api import result_json
from benchrun.report.export import formats

NAME = "result.json"
formats.FORMATS["result"] = formats.Format(
    "the result document of the run, which -f reads",
    lambda run: {NAME: result_json(run.document)},
    lambda run, _: result_json(run.document),
    is_whole=True,
)
