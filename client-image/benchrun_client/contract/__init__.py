"""The messages between operator and client: a plan goes in, records come out.

The one module that both sides import. The operator writes a `Plan` as JSON and mounts it into the
client pod. The client answers on a small port:

    GET  /ready                           200 once plan, tokenizer and data have been found; 503 before
    GET  /records?from=N&seen=V&wait=S    a `Delivery`, held back up to S seconds until a record N exists or the
                                          progress has moved past version V
    POST /ack                             an `Acknowledgement`: records below `through` are stored for good
    GET  /metrics                         Prometheus text, for people

Records and acknowledgements need the token whose digest the plan has, as `Benchrun-Token: TOKEN` or
`Authorization: Bearer TOKEN`. A client that could not read its plan knows no digest: it shows its
progress to anybody, and has no records.

Field names are the JSON names. All durations of requests are integer microseconds; instants are
Unix microseconds of the client's clock. Unknown fields are refused on both sides. Every list, text
and number has its bounds."""

from benchrun_client.contract.base import *
from benchrun_client.contract.certainty import *
from benchrun_client.contract.datasets import *
from benchrun_client.contract.percentiles import *
from benchrun_client.contract.plan import *
from benchrun_client.contract.probability import *
from benchrun_client.contract.record import *
from benchrun_client.contract.record_delivery import *
from benchrun_client.contract.steady_part import *

RECORD_PORT = 8090  # Port of the record server in the client pod.
# Port at which the processes of a client meet before every stage, in the pod of the first.
GATE_PORT = 8091
