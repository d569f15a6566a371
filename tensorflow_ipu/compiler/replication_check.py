"""Refuses what replicas would have to do together: there are no collectives yet."""

from __future__ import annotations

from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.program import OUTSIDE_ATTRIBUTE, REDUCE_ATTRIBUTE, Program

_TOGETHER = {
    OUTSIDE_ATTRIBUTE: "runs outside compilation, once for all replicas",
    REDUCE_ATTRIBUTE: "reduces over replicas",
}


def check(program: Program, replicas: int) -> None:
    """Checks that a Program with several replicas has no op that combines them.

    Raises:
        tf.errors.UnimplementedError: Naming the op.
    """
    if replicas == 1:
        return
    for _, node in program.nodes():
        for attribute, what in _TOGETHER.items():
            if attribute in node.attr:
                raise errors.UnimplementedError(
                    None,
                    None,
                    f"{node.name} {what}. This release cannot do that with {replicas} replicas. "
                    "Configure as many IPUs as one replica uses.",
                )
