"""Functions of a Program with the names and order of their tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler.ir import program_functions
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.program_functions import ProgramFunction, ProgramOp
from tests.support.programs.compiled_programs import program_of

_SPEC = tf.TensorSpec([4], tf.float32)


def _entry(function: Any) -> ProgramFunction:
    return program_functions.entry(program_of(function, _SPEC))


def _only(function: ProgramFunction, op_type: str) -> ProgramOp:
    (found,) = [op for op in function.ops if op.type == op_type]
    return found


def test_results_have_the_names_that_other_nodes_use() -> None:
    def function(x: tf.Tensor) -> Any:
        values, indices = tf.math.top_k(x, 2)
        first, second = tf.split(values, 2)
        return indices, first + second

    entry = _entry(function)
    top, split, add = (_only(entry, kind) for kind in ("TopKV2", "Split", "AddV2"))
    assert top.outputs == (f"{top.node.name}:values:0", f"{top.node.name}:indices:0")
    assert split.outputs == (f"{split.node.name}:output:0", f"{split.node.name}:output:1")
    assert split.inputs[1] == top.outputs[0]
    assert add.inputs == split.outputs
    assert top.inputs[0] == entry.arguments[0]
    made = {name for op in entry.ops for name in op.outputs}
    assert made.issuperset(entry.results)


def test_a_loop_runs_a_condition_and_a_body() -> None:
    entry = _entry(lambda x: tf.while_loop(lambda y: y[0] < 3.0, lambda y: [tf.exp(y)], [x])[0])
    (loop,) = [op for op in entry.ops if op.calls]
    condition, body = loop.calls
    assert _only(condition, "Less")
    assert _only(body, "Exp").function == body.name
    assert len(body.arguments) == len(body.results) == len(loop.inputs) == len(loop.outputs)


def test_ops_come_after_their_inputs_whatever_the_order_of_nodes() -> None:
    program = program_of(lambda x: tf.exp(tf.tanh(x)), _SPEC)
    nodes = program.functions[program.entry].node_def
    backwards = list(reversed(nodes))
    del nodes[:]
    nodes.extend(backwards)
    types = [op.type for op in program_functions.entry(program).ops]
    assert types.index("Tanh") < types.index("Exp")


def test_a_function_is_one_object_wherever_it_is_called() -> None:
    @tf.function
    def doubled(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    first, second = [op for op in _entry(lambda x: doubled(doubled(x))).ops if op.calls]
    assert first.calls[0] is second.calls[0]
    assert second.inputs == first.outputs


def test_the_program_is_left_as_it_is() -> None:
    program = program_of(lambda x: tf.cond(x[0] > 0.0, lambda: tf.exp(x), lambda: x), _SPEC)
    before = Program.from_library(program.to_library(), program.entry)
    program_functions.entry(program)
    assert program == before
