"""Environment variables that hold only while the client prepares, such as the site's HTTP proxy.

A proxy in the environment must never see the load: it would be measured with the server, and
Python's NO_PROXY knows no networks by which pods could be left out.
"""

import os
from collections.abc import Mapping, MutableMapping, Sequence


class Preparation:
    """Environment variables that hold only while the client prepares, until `end`."""

    def __init__(
        self,
        names: Sequence[str],
        environment: MutableMapping[str, str] = os.environ,
    ) -> None:
        self.names = tuple(names)
        self._environment = environment
        self._whole = dict(environment)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the whole environment as it was at the start.

        It is for other processes, which also prepare and may be started after `end`.
        """
        return self._whole

    def end(self) -> None:
        """Remove the variables, before the first connection to a server is opened.

        Sessions look at the environment when they are opened (`open_session`).
        """
        for name in self.names:
            self._environment.pop(name, None)
