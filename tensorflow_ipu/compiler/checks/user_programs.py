"""Check that the Poplar programs of custom operations can be built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.passes import user_ops

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable


def check(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Builds the Poplar programs of a Program's custom operations.

    Describing the Executable builds them for the shapes of their inputs. So the faults of users'
    functions are errors when the Program is compiled.

    Raises:
        tf.errors.InternalError: If a user's function fails.
        tf.errors.ResourceExhaustedError: If variables of an operation do not fit on a tile.
    """
    del cluster
    if any(node.op == user_ops.PRECOMPILED for _, node in program.nodes()):
        executable.workload  # noqa: B018
