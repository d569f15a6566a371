"""Finds what an Ir uses of the device: IPUs, variables, remote buffers, and tensors that last."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.graph import Graph, reachable, storage_of
from tensorflow_ipu.frontends.popxl.ir import Ir
from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer
from tensorflow_ipu.frontends.popxl.tensor import Tensor, Variable


def ipus_used(ir: Ir) -> int:
    """Returns how many IPUs a replica of an Ir takes: the highest one that an op names, plus 1."""
    ops = itertools.chain.from_iterable(graph.ops for graph in reachable(ir.main_graph))
    return max((ipu for op in ops for ipu in (op.ipu, *op.ipus)), default=0) + 1


def used_variables(ir: Ir) -> list[Variable]:
    """Returns the variables that some op takes, or that are in remote buffers that are used."""
    buffers = set(used_buffers(ir))
    return [
        variable
        for variable in ir.main_graph.variables
        if (variable.consumers if variable.entry is None else variable.entry[0] in buffers)
    ]


def used_buffers(ir: Ir) -> list[RemoteBuffer]:
    """Returns the remote buffers that some op loads from or stores to."""
    ops = itertools.chain.from_iterable(graph.ops for graph in reachable(ir.main_graph))
    buffers = (op.attributes.get("buffer") for op in ops)
    return list(dict.fromkeys(buffer for buffer in buffers if buffer is not None))


def kept_tensors(main: Graph) -> list[Tensor]:
    """Returns the tensors that one part of a program makes and another takes: they last, too.

    Args:
        main: the main graph.
    """
    return list(
        dict.fromkeys(
            root
            for op in main.ops
            for tensor in op.inputs
            for root in storage_of(tensor)
            if root.producer is not None
            and root.producer.execution_context is not op.execution_context
        )
    )


def last_writers(ops: Sequence[Op], state: Collection[Tensor]) -> dict[Tensor, Op]:
    """Returns the last op that makes or modifies each of the tensors that last.

    Args:
        ops: the ops of a part of a program, in order.
        state: the tensors that last.
    """
    found = {}
    for op in ops:
        written = [root for i in op.writes for root in storage_of(op.inputs[i])]
        found.update({root: op for root in (*op.fresh_outputs, *written) if root in state})
    return found
