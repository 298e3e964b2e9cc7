"""A spec made into stages, and stages and servers made into manifests, role by role. Pure."""

from benchrun.plan.child_objects import *
from benchrun.plan.client_manifests import *
from benchrun.plan.client_plan import *
from benchrun.plan.mounted_files import *
from benchrun.plan.network_policies import *
from benchrun.plan.server_manifests import *
from benchrun.plan.server_pod import *
from benchrun.plan.stages import *
from benchrun.plan.stored_records import *
from benchrun.plan.variants import *
