"""What users write and read: the models of spec and status, conditions, codes, and how they are
read and compared.

Other packages import from here; the modules below import from each other."""

from benchrun.api.base import *
from benchrun.api.codes import *
from benchrun.api.comparison import *
from benchrun.api.conditions import *
from benchrun.api.datasets import *
from benchrun.api.measurement import *
from benchrun.api.server import *
from benchrun.api.server_figures import *
from benchrun.api.spec import *
from benchrun.api.status import *
from benchrun.api.stored_status import *
from benchrun.api.workloads import *
