"""Tests of changing the batch size: by hand, and against programs built with the other size."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.workload import TENSOR, VARIABLE, Copy, Operand
from tensorflow_ipu.tuning.edits import batch
from tests.support.planner import real_programs
from tests.support.planner.workloads import Builder, pipeline, training_step


def _grown(op_type, inputs, output, attributes=None):
    """Which dimensions of an op's result grow if the first of its first input does."""
    make = Builder()
    operands = [make.input("x", inputs[0])]
    operands += [make.variable(f"v{i}", shape) for i, shape in enumerate(inputs[1:])]
    made = make.op(op_type, operands, output, attributes=attributes)
    return batch.batch_dimensions(make.workload(batch=inputs[0][0])).get(made, ())


@pytest.mark.parametrize(
    ("op_type", "inputs", "output", "attributes", "expected"),
    [
        ("Relu", [(8, 5)], (8, 5), {}, (0,)),
        ("AddV2", [(8, 5), (5,)], (8, 5), {}, (0,)),
        ("AddV2", [(8, 8), (8,)], (8, 8), {}, (0,)),
        ("MatMul", [(8, 5), (5, 3)], (8, 3), {}, (0,)),
        ("MatMul", [(8, 5), (8, 3)], (5, 3), {"transpose_a": True}, ()),
        ("MatMul", [(8, 8), (8, 8)], (8, 8), {}, (0,)),
        ("BatchMatMulV2", [(8, 4, 5), (8, 5, 6)], (8, 4, 6), {}, (0,)),
        ("Conv2D", [(8, 9, 9, 3), (3, 3, 3, 4)], (8, 7, 7, 4), {}, (0,)),
        ("MaxPool", [(8, 8, 8, 3)], (8, 4, 4, 3), {}, (0,)),
        ("BiasAddGrad", [(8, 5)], (5,), {}, ()),
        ("Sum", [(8, 5)], (8,), {"axes": [1]}, (0,)),
        ("Sum", [(8, 8)], (8,), {"axes": [0]}, ()),
        ("Mean", [(8, 5, 6)], (8, 1, 6), {"axes": [1], "keep_dims": True}, (0,)),
        ("Mean", [(8, 5)], (), {"axes": [0, 1]}, ()),
        ("Reshape", [(8, 5, 6)], (40, 6), {}, (0,)),
        ("Reshape", [(8, 5, 6)], (8, 30), {}, (0,)),
        ("Reshape", [(8, 6)], (1, 8, 6), {}, (1,)),
        ("Transpose", [(8, 5, 6)], (5, 8, 6), {"axes": [1, 0, 2]}, (1,)),
        ("Einsum", [(8, 5, 6), (6, 7)], (7, 5, 8), {"equation": "btd,dk->ktb"}, (2,)),
        ("ConcatV2", [(8, 5), (8, 5)], (8, 10), {"axes": [1]}, (0,)),
        ("Pack", [(8, 5)], (8, 1, 5), {"axis": 1}, (0,)),
        ("FusedBatchNormV3", [(8, 4, 4, 3), (3,)], (8, 4, 4, 3), {}, (0,)),
        ("SparseSoftmaxCrossEntropyWithLogits", [(8, 5), (8,)], (8,), {}, (0,)),
        ("L2Loss", [(8, 5)], (), {}, ()),
    ],
)
def test_rules_find_the_dimensions_that_grow(op_type, inputs, output, attributes, expected):
    assert _grown(op_type, inputs, output, attributes) == expected


def test_lookup_by_indices_of_a_batch():
    make = Builder()
    table = make.variable("table", (100, 16))
    words = make.input("words", (8, 5), "int32")
    made = make.op("GatherV2", [table, words], (8, 5, 16), attributes={"axes": [0]})
    assert batch.batch_dimensions(make.workload(batch=8))[made] == (0,)


def test_variables_and_their_gradients_never_grow():
    before = training_step(width=64, batch=64)
    after = batch.with_batch(before, 16)
    assert after.variables == before.variables
    for old, new in zip(before.buffers, after.buffers):
        assert new.shape == old.shape or old.kind != VARIABLE
    gradients = [op for op in after.ops if op.name.endswith("MatMul_1")]
    assert len(gradients) == 3
    for op in gradients:
        assert [operand.shape for operand in op.inputs] == [(16, 64), (16, 64)]
        assert op.outputs[0].shape == (64, 64)


@pytest.mark.parametrize("dimension", [8, 5])
def test_gradient_of_a_lookup_has_shape_of_table(dimension):
    """Even if the table has as many rows or columns as the batch has elements."""
    make = Builder()
    words = make.input("words", (8,), "int32")
    rows = make.op("AddV2", [make.input("x", (8, dimension))], (8, dimension))
    made = make.op("UnsortedSegmentSum", [rows, words], (8, dimension))
    assert made not in batch.batch_dimensions(make.workload(batch=8))


def test_attributes_that_look_like_shapes_stay():
    """A batch of 1 has tensors of shape [1]; axis 1 is the same axis for any batch."""
    make = Builder()
    x = make.input("x", (1, 5))
    make.op("Sum", [x], (1,), attributes={"axes": [1]})
    (changed,) = batch.with_batch(make.workload(batch=1), 8).ops
    assert changed.outputs[0].shape == (8,)
    assert changed.attributes["axes"] == [1]


def test_attributes_that_are_shapes_change_too():
    make = Builder()
    x = make.input("x", (8, 5))
    one = make.input("one", (8, 1))
    make.op("BroadcastTo", [x], (8, 5), attributes={"shape": [8, 5], "shapes": [[8, 5], [2]]})
    make.op("Tile", [one], (8, 5), attributes={"multiples": [1, 5]})
    first, second = batch.with_batch(make.workload(batch=8), 16).ops
    assert first.attributes == {"shape": [16, 5], "shapes": [[16, 5], [2]]}
    assert second.attributes == {"multiples": [1, 5]}


def test_operations_and_copies_scale():
    make = Builder()
    x = make.input("x", (8, 5))
    made = make.op("MatMul", [x, make.variable("w", (5, 3))], (8, 3), name="product", flops=240)
    workload = make.workload(batch=8)
    copies = (Copy("product", 0, 1, 96, 4), Copy("w", 0, 1, 60, 1))
    after = batch.with_batch(dataclasses.replace(workload, copies=copies), 32)
    assert after.ops[0].flops == 960
    assert [copy.num_bytes for copy in after.copies] == [384, 60]
    assert after.buffers[made].shape == (32, 3)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    width=st.sampled_from([1, 8, 33]),
    size=st.sampled_from([1, 4, 8]),
    factor=st.sampled_from([2, 3, 8]),
    pipelined=st.booleans(),
)
def test_there_and_back_is_the_identity(width, size, factor, pipelined):
    make = pipeline(2, batch=size, width=width) if pipelined else training_step(width, size)
    assert batch.with_batch(batch.with_batch(make, size * factor), size) == make
    assert batch.with_batch(make, size) is make


def test_batch_sizes_that_are_not_possible_are_refused():
    with pytest.raises(ValueError, match="batch size of 'test' is not known"):
        batch.with_batch(dataclasses.replace(training_step(), batch=None), 4)
    with pytest.raises(ValueError, match="at least 1 element; received 0"):
        batch.with_batch(training_step(), 0)
    make = Builder()
    x = make.input("x", (6, 5))
    make.op("Slice", [x], (3, 5))
    grown = dataclasses.replace(make.workload(batch=4))
    buffers = (grown.buffers[0]._replace(batched=0), *grown.buffers[1:])
    with pytest.raises(ValueError, match=r"6 \* 1 / 4 is no whole number"):
        batch.with_batch(dataclasses.replace(grown, buffers=buffers), 1)


@pytest.mark.parametrize("model", ["mlp", "cnn", "attention"])
def test_equals_the_program_built_with_the_other_batch(model):
    """The shape of every operand of every op that computes."""
    small, large = real_programs.workload(model, 8), real_programs.workload(model, 24)
    scaled = batch.with_batch(small, 24)
    assert len(scaled.ops) == len(large.ops)
    for index, (one, two) in enumerate(zip(scaled.ops, large.ops)):
        assert one.type == two.type
        if one.end == index + 1:
            assert _shapes(one) == _shapes(two), one.name
            assert one.attributes == two.attributes, one.name
    assert [b.shape for b in scaled.buffers] == [b.shape for b in large.buffers]
    assert batch.with_batch(scaled, 8) == small


def test_lists_of_a_loop_grow_with_the_batch():
    """A recurrent layer: a list of steps, an element of which is read and used in each round."""
    make = Builder()
    steps = make.op("Transpose", [make.input("x", (8, 7, 5))], (7, 8, 5),
                    attributes={"axes": [1, 0, 2]})  # fmt: skip
    state = make.op("Fill", [], (8, 9))
    start = make.begin("While", [state, steps], alias=state, trip_count=7)
    weights = make.variable("w", (5, 9))
    element = make.op("TensorListGetItem", [steps], (8, 5), runs=7)
    product = make.op("MatMul", [element, weights], (8, 9), runs=7)
    make.op("AddV2", [product, state], (8, 9), runs=7)
    make.end(start)
    kept = make.buffer("kept", (8, 9), entries=7)
    make.op("TensorListSetItem", [kept, product], alias=kept)
    workload = make.workload(batch=8)
    handle = Operand("variant", (), steps)
    read = dataclasses.replace(workload.ops[3], inputs=(handle,))
    ops = (*workload.ops[:3], read, *workload.ops[4:])
    after = batch.with_batch(dataclasses.replace(workload, ops=ops), 16)
    shapes = [b.shape for b in after.buffers if b.kind == TENSOR]
    assert shapes == [(7, 16, 5), (16, 9), (16, 5), (16, 9), (16, 9), (16, 9)]
    assert after.ops[3].inputs == (handle,)
    assert after.buffers[kept].entries == 7


def _shapes(op):
    return [operand.shape for operand in (*op.inputs, *op.outputs)]
