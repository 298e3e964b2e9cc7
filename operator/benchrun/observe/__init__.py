"""Raw objects of the cluster made into small frozen views, and pod failures into a diagnosis.
Pure."""

from benchrun.observe.packed import *
from benchrun.observe.pod_failures import *
from benchrun.observe.refusals import *
from benchrun.observe.run_outcomes import *
from benchrun.observe.untrusted_json import *
from benchrun.observe.view_builders import *
from benchrun.observe.views import *
