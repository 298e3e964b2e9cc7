"""A cluster in memory of which some parts can't be read."""

from benchrun.effects import Forbidden
from unit.runtime.memory_cluster import MemoryCluster


class Fenced(MemoryCluster):
    """A cluster that refuses lists of the kinds and namespaces in `fenced`."""

    def __init__(self, *fenced: str) -> None:
        super().__init__()
        self.fenced = set(fenced)

    def _ask(self, verb: str, *about: str) -> None:
        super()._ask(verb, *about)
        if verb == "list" and self.fenced & set(about):
            raise Forbidden("not yours", code=403)
