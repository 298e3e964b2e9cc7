"""(run, what is observed, now) -> what to do. One policy a file. Pure: the same input gives the
same output."""

from benchrun.decide.condition_table import *
from benchrun.decide.create_and_release import *
from benchrun.decide.decide_run import *
from benchrun.decide.decision import *
from benchrun.decide.early_endings import *
from benchrun.decide.letting_go import *
from benchrun.decide.run_state import *
from benchrun.decide.server_status import *
