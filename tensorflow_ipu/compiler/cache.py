"""Cache of the Executables of the attached configuration."""

from __future__ import annotations

import threading
import weakref

from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.runtime.attachment import System


class ExecutableCache:
    """Executables by fingerprint, as long as a Cluster can launch them.

    They belong to the Clusters that were compiled to them. When the configuration changes, the
    Clusters forget them. A program that was requested before the change and is compiled after it
    runs, but is not found here.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._generation = 0  # of the configuration in force
        # In the order of their compilation.
        self._executables: weakref.WeakValueDictionary[str, Executable] = (
            weakref.WeakValueDictionary()
        )
        self._clusters: weakref.WeakSet[Cluster] = weakref.WeakSet()

    def find(self, fingerprint: str) -> Executable | None:
        """Returns the Executable with this fingerprint, if it was compiled before."""
        with self._lock:
            return self._executables.get(fingerprint)

    def add(self, executable: Executable, cluster: Cluster) -> None:
        """Adds an Executable to a Cluster. The Executable lives as long as any of its Clusters.

        Args:
            executable: the Executable.
            cluster: the Cluster.
        """
        with self._lock:
            if executable.fingerprint in self._executables:
                # The Cluster that knows where its ops came from may go before this one.
                executable.keep_sources()
            if executable.generation == self._generation:
                self._executables[executable.fingerprint] = executable
            self._clusters.add(cluster)
            if executable not in cluster.executables:
                cluster.executables.append(executable)

    def all(self) -> list[Executable]:
        """Returns the Executables in the order of their compilation."""
        with self._lock:
            return list(self._executables.values())

    def clear(self, attached: System) -> None:
        """Drops all Executables, for another configuration.

        Args:
            attached: the new configuration.
        """
        with self._lock:
            self._generation = attached.generation
            for cluster in self._clusters:
                cluster.executables.clear()
            self._clusters.clear()
            self._executables.clear()


CACHE = ExecutableCache()


def executables() -> list[Executable]:
    """Returns the programs that were compiled under the configuration in force, oldest first.

    A program is listed while something can run it: the function, graph, session or model that it
    was compiled for. To keep programs for longer, keep the returned objects or use
    `profiler.profile`.
    """
    found = CACHE.all()
    for executable in found:
        executable.keep_sources()
    return found
