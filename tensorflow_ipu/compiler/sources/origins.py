"""Origins of a compiled program's ops, which outlive the graph that was traced."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tensorflow_ipu.compiler.sources.source_map import NOWHERE, Origin
from tensorflow_ipu.util.short_repr import shows

if TYPE_CHECKING:
    from tensorflow.core.framework import function_pb2

    from tensorflow_ipu.compiler.cluster import Cluster


class Sources:
    """Origins of a compiled program's ops, without a reference to the trace.

    A trace keeps the variables of the user, and most programs are never asked for locations. So
    they are looked up in the Cluster, as long as it lives, unless `keep` was called.

    Args:
        cluster: the Cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = weakref.ref(cluster)
        self._kept: dict[tuple[str, str], Origin] | None = None

    __repr__ = shows(lambda self: {"kept": self._kept is not None})

    def origin(self, function: str, node: str) -> Origin:
        """Returns the origin of an op.

        Args:
            function: name of the function that the op is in.
            node: name of the op in that function.

        Returns:
            Its origin; `NOWHERE` for an op that has none.
        """
        if self._kept is not None:
            return self._kept.get((function, node), NOWHERE)
        cluster = self._cluster()
        return NOWHERE if cluster is None else cluster.sources.origin(function, node)

    def keep(self, library: function_pb2.FunctionDefLibrary) -> None:
        """Looks up all origins, so that they remain when the Cluster is gone.

        Args:
            library: the functions of the compiled program.
        """
        if self._kept is not None or self._cluster() is None:
            return
        found = {
            (function.signature.name, node.name): self.origin(function.signature.name, node.name)
            for function in library.function
            for node in function.node_def
        }
        self._kept = {op: origin for op, origin in found.items() if origin != NOWHERE}
