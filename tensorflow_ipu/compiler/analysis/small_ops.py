"""Small ops: one thread runs a program of them at least as fast as several."""

from __future__ import annotations

from collections.abc import Iterable

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.util import op_names

# Listing the ops takes 0.3 ms each. Bodies with more of them have long steps.
_MOST_NODES = 400
# Limits for two cores: what one thread does in the time that two take, with the start of the
# second. TensorFlow's matrix product takes one thread below 50 times the first-level cache.
_CORES = 2
_MATMUL_BYTES, _MATMUL_FLOPS = 50 * 32 * 1024, 16_000_000
_BYTES, _FLOPS = 6_000_000, 4_000_000
# Of ops whose floating-point operations are not known.
_UNKNOWN_BYTES = 250_000


def has_short_loops(library: function_pb2.FunctionDefLibrary) -> bool:
    """Returns whether a library has loops, and few enough nodes to look at each."""
    nodes = [node.op for function in library.function for node in function.node_def]
    loops = any(op_names.is_loop(op) or op in op_names.ENTERS for op in nodes)
    return loops and len(nodes) <= _MOST_NODES


def are_small(ops: Iterable[OpRecord], cores: int) -> bool:
    """Returns whether each op has static shapes, and is over before more threads would help.

    Args:
        ops: the ops. Ops that run functions do not count, only those of the functions.
        cores: of the host.
    """
    share = min(1.0, _CORES / cores)
    skipped = op_names.CONTROL_FLOW | op_names.PASSING
    return all(op.type in skipped or _is_small(op, share) for op in ops)


def _is_small(op: OpRecord, share: float) -> bool:
    if op.bytes_in is None or op.bytes_out is None:
        return False
    if op.type in (op_names.USER_OP, op_names.HOST_USER_OP):
        return True  # it uses no threads of TensorFlow's
    size = op.bytes_in + op.bytes_out
    if op.type in op_names.SLICES:
        size = 2 * op.bytes_out
    if op.type == "MatMul":
        return size <= _MATMUL_BYTES * share and (op.flops or 0) <= _MATMUL_FLOPS * share
    if op.flops is None:
        return size <= _UNKNOWN_BYTES * share
    return size <= _BYTES * share and op.flops <= _FLOPS * share
