"""Check that the Poplar programs of custom operations can be built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.checks import replica_checks
from tensorflow_ipu.compiler.ir.program import Program, node_tag
from tensorflow_ipu.compiler.passes import user_ops

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable


def check(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Builds the Poplar programs of a Program's custom operations.

    Describing the Executable builds them for the shapes of their inputs. So the faults of users'
    functions are errors when the Program is compiled.

    Those in which replicas exchange data are collectives.

    Raises:
        tf.errors.InvalidArgumentError: If a predicate around an exchange depends on the replica.
        tf.errors.UnimplementedError: If replicas of several processes exchange data.
        tf.errors.InternalError: If a user's function fails.
        tf.errors.ResourceExhaustedError: If variables of an operation do not fit on a tile.
    """
    del cluster
    if any(node.op == user_ops.PRECOMPILED for _, node in program.nodes()):
        executable.workload  # noqa: B018
        check_exchange(program, executable)


def check_exchange(program: Program, executable: Executable) -> None:
    """Checks the custom operations in whose programs replicas exchange data.

    Args:
        program: the Program, whose operations have been built.
        executable: what it was compiled to.

    Raises:
        tf.errors.InvalidArgumentError: If a predicate around an exchange depends on the replica.
        tf.errors.UnimplementedError: If replicas of several processes exchange data.
    """
    for function, node in program.nodes():
        if user_ops.exchanges(node) and executable.system.process_count > 1:
            raise errors.UnimplementedError(
                None,
                None,
                "Replicas exchange data in the program of the custom operation "
                f"{node_tag(node.name, function.signature.name)}, and the replicas of this program "
                f"are in {executable.system.process_count} processes. Run the program in one "
                "process, or use ipu.cross_replica_ops between two operations.",
            )
    replica_checks.check_uniform_around(program, executable.replicas, user_ops.exchanges)
