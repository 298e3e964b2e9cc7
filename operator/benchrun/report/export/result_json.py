"""The run's result document, as it is in the cluster: what `-f` reads without one."""

from benchrun.api import result_json
from benchrun.report.export import formats

NAME = "result.json"
formats.FORMATS["result"] = formats.Format(
    "its result document, which -f reads",
    lambda run: {NAME: result_json(run.document)},
    lambda run, _: result_json(run.document),
    is_whole=True,
)
