"""Which programs are of small ops: sizes by hand."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.compiler.analysis import small_ops
from tensorflow_ipu.compiler.ir.records import OpRecord


def _op(op_type: str, size: int | None, flops: int | None, result: int = 0) -> OpRecord:
    return OpRecord(op_type, op_type, "f", 0, (0,), (), (), size, result, flops, "exact")


@pytest.mark.parametrize(
    "op, expected",
    [
        (_op("MatMul", 4 * (32 * 784 + 784 * 256 + 32 * 256), 2 * 32 * 784 * 256), True),
        (_op("MatMul", 4 * 3 * 512 * 512, 2 * 512**3), False),
        (_op("AssignSubVariableOp", 3 * 4 * 784 * 256, 784 * 256), True),
        (_op("ResourceApplyAdam", 7 * 4 * 784 * 256, 15 * 784 * 256), True),
        (_op("Mul", 3 * 4 * 1024 * 1024, 1024 * 1024), False),
        (_op("Conv2D", 4 * 32 * 28 * 28 * 33, 2 * 32 * 28 * 28 * 32 * 9), False),
        (_op("Svd", 4 * 64 * 64, None), True),
        (_op("Svd", 4 * 512 * 512, None), False),
        (_op("Unique", None, 0), False),
        (_op("While", 20_000_000, 0, 20_000_000), True),
        (_op("Reshape", 20_000_000, 0, 20_000_000), True),
        (_op("StridedSlice", 20_000_000, 0, 100_000), True),
        (_op("StridedSlice", 20_000_000, 0, 10_000_000), False),
        (_op("IpuPrecompiledUserOp", 20_000_000, None, 10_000_000), True),
        (_op("IpuCpuUserOperation", 20_000_000, None, 10_000_000), True),
        (_op("IpuPrecompiledUserOp", None, None), False),
    ],
)
def test_size_of_op_decides(op: OpRecord, expected: bool) -> None:
    assert small_ops.are_small([_op("Const", 4, 0), op], cores=2) is expected


@pytest.mark.parametrize("cores, expected", [(1, True), (2, True), (4, True), (16, False)])
def test_more_cores_lower_the_limit(cores: int, expected: bool) -> None:
    assert small_ops.are_small([_op("MatMul", 500_000, 6_000_000)], cores) is expected


def test_program_without_loop_has_no_loops() -> None:
    function = tf.function(lambda x: x + 1.0).get_concrete_function(tf.constant(1.0))
    assert not small_ops.has_short_loops(function.graph.as_graph_def().library)


@pytest.mark.parametrize("adds, expected", [(3, True), (500, False)])
def test_loop_is_short_by_nodes(adds: int, expected: bool) -> None:
    @tf.function
    def function(x: tf.Tensor) -> tf.Tensor:
        @tf.function
        def loop(x: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(3):
                for _ in range(adds):
                    x = x + 1.0
            return x

        return loop(x)

    library = function.get_concrete_function(tf.constant(1.0)).graph.as_graph_def().library
    assert small_ops.has_short_loops(library) is expected
