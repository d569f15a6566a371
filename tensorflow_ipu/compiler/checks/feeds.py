"""Check of a Program's use of its feeds."""

from __future__ import annotations

from tensorflow.python.framework import errors

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.ir import node_sharding
from tensorflow_ipu.compiler.ir.program import Program, node_tag


def check(program: Program) -> None:
    """Checks that no feed is used on two IPUs.

    Raises:
        tf.errors.FailedPreconditionError: Naming the ops.
    """
    users: dict[bytes, tuple[tuple[int, ...], str]] = {}
    for function, node in program.nodes():
        if node.op not in op_names.FEEDS:
            continue
        ipus = node_sharding.node_ipus(node)
        name = node_tag(node.name, function.signature.name)
        first_ipus, first = users.setdefault(node.attr["feed_id"].s, (ipus, name))
        if ipus != first_ipus:
            raise errors.FailedPreconditionError(
                None,
                None,
                f"Trying to use the same feed on two IPUs: {first} on {list(first_ipus)} and "
                f"{name} on {list(ipus)}. Make one queue for each.",
            )
