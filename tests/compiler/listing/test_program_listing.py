"""Listings of compiled programs, against programs small enough to list by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.core.framework import attr_value_pb2, function_pb2
from tensorflow.python.framework import graph_to_function_def
from tensorflow.python.ops import handle_data_util

from tensorflow_ipu.compiler.listing.program_listing import (
    ArgumentSpec,
    OpRecord,
    TensorRecord,
    format_listing,
    human_bytes,
    human_count,
    list_ops,
    work_total,
)
from tensorflow_ipu.compiler.source_map import SourceMap

Concrete = tf.types.experimental.ConcreteFunction


def _library(concrete: Concrete) -> function_pb2.FunctionDefLibrary:
    library = concrete.graph.as_graph_def().library
    if concrete.name.decode() not in {f.signature.name for f in library.function}:
        library.function.add().CopyFrom(concrete.function_def)
    return library


def _arguments(concrete: Concrete) -> tuple[ArgumentSpec, ...]:
    specs = []
    for tensor in concrete.inputs:
        if tensor.dtype == tf.resource:
            held = handle_data_util.get_resource_handle_data(tensor).shape_and_type[0]
            shape = tuple(tf.TensorShape(held.shape).as_list())
            specs.append(ArgumentSpec(tensor.op.name, tf.as_dtype(held.dtype), shape, True))
        else:
            specs.append(ArgumentSpec(tensor.op.name, tensor.dtype, tuple(tensor.shape.as_list())))
    return tuple(specs)


def _list(function: Callable[..., Any], *specs: tf.TensorSpec) -> tuple[OpRecord, ...]:
    concrete = tf.function(function).get_concrete_function(*specs)
    return list_ops(_library(concrete), concrete.name.decode(), _arguments(concrete))


def _only(records: tuple[OpRecord, ...], op_type: str) -> OpRecord:
    found = [record for record in records if record.type == op_type]
    assert len(found) == 1
    return found[0]


def test_a_record_has_all_facts() -> None:
    records = _list(lambda x, y: tf.matmul(x, y), tf.TensorSpec([2, 3]), tf.TensorSpec([3, 4]))
    assert [record.type for record in records] == ["MatMul", "Identity"]
    product = records[0]
    assert product.name == "MatMul"
    assert product.function.startswith("__inference_")
    assert product.inputs == ("x:0", "y:0")
    assert product.outputs == (TensorRecord("float32", (2, 4)),)
    assert (product.bytes_in, product.bytes_out) == (4 * (6 + 12), 4 * 8)
    assert (product.flops, product.flops_label) == (2 * 2 * 3 * 4, "exact")
    assert (product.depth, product.ipu, product.runs, product.trip_count) == (0, 0, 1, None)


def test_variables_count_where_they_are_read_and_written() -> None:
    weights = tf.Variable(tf.zeros([5, 2]))

    def step(x: tf.Tensor) -> tf.Tensor:
        result = x @ weights
        weights.assign_add(tf.ones([5, 2]))
        weights.assign(tf.zeros([5, 2]))
        return result

    records = _list(step, tf.TensorSpec([3, 5]))
    read = _only(records, "ReadVariableOp")
    assert (read.bytes_in, read.bytes_out) == (40, 40)
    assert read.outputs == (TensorRecord("float32", (5, 2)),)
    add = _only(records, "AssignAddVariableOp")
    assert (add.bytes_in, add.bytes_out, add.flops) == (80, 40, 10)
    assign = _only(records, "AssignVariableOp")
    assert (assign.bytes_in, assign.bytes_out, assign.flops) == (40, 40, 0)


def test_reading_rows_counts_rows_and_slots_only() -> None:
    table, slot = tf.Variable(tf.zeros([9, 2])), tf.Variable(tf.zeros([9, 2]))

    def step(x: tf.Tensor) -> tf.Tensor:
        rows = tf.raw_ops.ResourceGather(resource=table.handle, indices=[1, 2, 3], dtype=tf.float32)
        tf.raw_ops.ResourceScatterAdd(resource=table.handle, indices=[1], updates=x)
        tf.raw_ops.ResourceApplyMomentum(
            var=table.handle, accum=slot.handle, lr=0.1, grad=tf.ones([9, 2]), momentum=0.9
        )
        return rows

    records = _list(step, tf.TensorSpec([1, 2]))
    gather = _only(records, "ResourceGather")
    assert (gather.bytes_in, gather.bytes_out) == (3 * 4 + 3 * 2 * 4, 3 * 2 * 4)
    scatter = _only(records, "ResourceScatterAdd")
    assert (scatter.bytes_in, scatter.bytes_out) == (4 + 8 + 8, 8)
    momentum = _only(records, "ResourceApplyMomentum")
    assert (momentum.bytes_in, momentum.bytes_out) == (72 + 4 + 4 + 2 * 72, 2 * 72)


def test_loop_follows_its_op_with_trip_count() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(2, 17, 5):
            x = tf.tanh(x)
        return x

    records = _list(program, tf.TensorSpec([4]))
    position = next(i for i, record in enumerate(records) if record.type == "StatelessWhile")
    loop = records[position]
    assert loop.trip_count == 3
    inside = [record for record in records if record.depth == 1]
    assert records[position + 1 : position + 1 + len(inside)] == tuple(inside)
    tanh = _only(records, "Tanh")
    assert (tanh.depth, tanh.runs) == (1, 3)
    checked = [record.runs for record in inside if record.type == "Less"]
    assert set(checked) == {4}
    assert work_total(records).flops == 3 * 4


@pytest.mark.parametrize(
    "start, condition, step, expected",
    [
        (0, lambda i: i < 10, 1, 10),
        (0, lambda i: i <= 10, 3, 4),
        (10, lambda i: i > 0, -4, 3),
        (10, lambda i: i >= 0, -5, 3),
        (3, lambda i: 9 > i, 2, 3),
        (0, lambda i: tf.not_equal(i, 8), 2, 4),
        (5, lambda i: i < 5, 1, 0),
        (0, lambda i: tf.logical_and(i < 10, i < 4), 1, 4),
        (0, lambda i: i < 10, -1, None),
        (0, lambda i: tf.not_equal(i, 7), 2, None),
        (0, lambda i: i * i < 10, 1, None),
    ],
)
def test_trip_counts_follow_from_constant_bounds(
    start: int, condition: Callable[[tf.Tensor], tf.Tensor], step: int, expected: int | None
) -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, _: condition(i), lambda i, y: (i + step, y * 2.0), (start, x)
        )[1]

    loop = _only(_list(program, tf.TensorSpec([1])), "StatelessWhile")
    assert loop.trip_count == expected


def test_maximum_iterations_bound_a_loop_of_constant_length() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, _: i < 100, lambda i, y: (i + 1, y * 2.0), (0, x), maximum_iterations=6
        )[1]

    assert _only(_list(program, tf.TensorSpec([1])), "StatelessWhile").trip_count == 6


def test_gradient_loop_runs_as_often_as_forward_loop() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        y = tf.while_loop(lambda i, _: i < 7, lambda i, y: (i + 1, tf.tanh(y)), (0, x))[1]
        return tf.gradients(y, x)[0]

    records = _list(program, tf.TensorSpec([3]))
    loops = [record for record in records if record.type == "StatelessWhile"]
    assert [loop.trip_count for loop in loops] == [7, 7]
    assert _only(records, "TanhGrad").runs == 7


def test_count_data_is_unknown_and_counted_once() -> None:
    def program(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, y * 2.0), (0, x))[1]

    records = _list(program, tf.TensorSpec([5]), tf.TensorSpec([], tf.int32))
    assert _only(records, "StatelessWhile").trip_count is None
    assert _only(records, "Mul").runs is None
    total = work_total(records)
    assert (total.flops, total.unknown_loops) == (5, 1)
    assert "1 loops of unknown trip count" in format_listing(records)


def test_nested_loops_multiply_and_constants_pass_in() -> None:
    @tf.function
    def inner(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < n, lambda i, y: (i + 1, tf.exp(y)), (0, x))[1]

    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, _: i < 3, lambda i, y: (i + 1, inner(y, tf.constant(4))), (0, x)
        )[1]

    exp = _only(_list(program, tf.TensorSpec([2])), "Exp")
    assert (exp.depth, exp.runs) == (3, 12)


def test_branches_are_conditional_and_counted_as_taken() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: tf.sin(tf.cos(x)))

    records = _list(program, tf.TensorSpec([4]))
    order = [r.type for r in records if r.type in ("StatelessIf", "Exp", "Cos", "Sin")]
    assert order == ["StatelessIf", "Exp", "Cos", "Sin"]
    assert all(r.conditional == (r.depth == 1) for r in records)
    assert "every branch" in format_listing(records)


def test_a_function_called_twice_is_listed_twice() -> None:
    inner = tf.function(lambda x: tf.exp(x))
    records = _list(lambda x: inner(inner(x)), tf.TensorSpec([4]))
    calls = [index for index, record in enumerate(records) if record.type == "PartitionedCall"]
    assert [records[index + 1].type for index in calls] == ["Exp", "Exp"]


def test_a_node_may_name_the_function_it_calls() -> None:
    inner = tf.function(lambda x: tf.exp(x @ x))
    concrete = tf.function(lambda x: inner(x)).get_concrete_function(tf.TensorSpec([2, 2]))
    library = _library(concrete)
    for function in library.function:
        for node in function.node_def:
            if node.op == "PartitionedCall":
                node.op = node.attr["f"].func.name
                node.attr.clear()
                called = node.name
    result = next(
        f.signature.output_arg[0].name
        for f in library.function
        if f.signature.name != concrete.name.decode()
    )
    for function in library.function:
        for node in function.node_def:
            node.input[:] = [
                name.replace(f"{called}:output:", f"{called}:{result}:") for name in node.input
            ]
    records = list_ops(library, concrete.name.decode(), _arguments(concrete))
    assert [(r.type, r.depth) for r in records if r.flops] == [("MatMul", 1), ("Exp", 1)]
    assert _only(records, records[0].type).outputs == (TensorRecord("float32", (2, 2)),)


def _sharding(*devices: int) -> attr_value_pb2.AttrValue:
    sharding = xla_data_pb2.OpSharding(
        type=xla_data_pb2.OpSharding.MAXIMAL, tile_assignment_devices=devices
    )
    return attr_value_pb2.AttrValue(s=sharding.SerializeToString())


def test_ipus_are_inherited_and_host_is_none() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(
            lambda i, _: i < 2, lambda i, y: (i + 1, tf.exp(tf.sin(tf.cos(y)))), (0, x)
        )[1]

    concrete = tf.function(program).get_concrete_function(tf.TensorSpec([1]))
    library = _library(concrete)
    for function in library.function:
        for node in function.node_def:
            if node.op == "StatelessWhile":
                node.attr["_XlaSharding"].CopyFrom(_sharding(3))
            if node.op == "Sin":
                node.attr["_XlaSharding"].CopyFrom(_sharding(1, 2))
            if node.op == "Cos":
                node.attr["_xla_outside_compilation"].s = b"host_1"
    records = list_ops(library, concrete.name.decode(), _arguments(concrete))
    assert _only(records, "StatelessWhile").ipus == (3,)
    assert _only(records, "Exp").ipu == 3
    assert _only(records, "Sin").ipus == (1, 2)
    assert _only(records, "Cos").ipu is None
    assert records[0].ipu == 0
    text = format_listing(records)
    assert {line.split()[0] for line in text.split("\n\n")[0].splitlines()[1:]} == {
        "0",
        "3",
        "1,2",
        "host",
    }


def test_order_is_topological_whatever_order_of_definition() -> None:
    concrete = tf.function(lambda x: tf.exp(tf.sin(tf.cos(x)))).get_concrete_function(
        tf.TensorSpec([1])
    )
    definition = function_pb2.FunctionDef()
    definition.CopyFrom(concrete.function_def)
    backwards = list(reversed(definition.node_def))
    del definition.node_def[:]
    definition.node_def.extend(backwards)
    library = function_pb2.FunctionDefLibrary(function=[definition])
    records = list_ops(library, definition.signature.name, _arguments(concrete))
    assert [record.type for record in records] == ["Cos", "Sin", "Exp", "Identity"]


def test_shapes_that_are_not_static_have_no_bytes() -> None:
    records = _list(lambda x: tf.exp(x), tf.TensorSpec([None, 2]))
    assert (records[0].bytes_in, records[0].bytes_out, records[0].flops) == (None, None, None)
    assert "not in that number: 1 ops that have no formula (1 Exp)" in format_listing(records)


def test_batch_norm_has_static_sizes() -> None:
    ones = tf.ones([3])
    records = _list(
        lambda x: tf.raw_ops.FusedBatchNormV3(
            x=x, scale=ones, offset=ones, mean=ones, variance=ones, is_training=True
        )[0],
        tf.TensorSpec([2, 4, 4, 3]),
    )
    norm = _only(records, "FusedBatchNormV3")
    # The CPU kernel returns an empty last output, four vectors and the result.
    assert norm.bytes_out == 4 * (2 * 4 * 4 * 3 + 4 * 3)
    assert (norm.flops, norm.flops_label) == (7 * 96, "modelled")


def test_control_flow_v1_loops_nest_without_counts() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [2], name="x")
        tf.compat.v1.disable_control_flow_v2()
        try:
            y = tf.while_loop(lambda i, _: i < 5, lambda i, y: (i + 1, tf.exp(y)), (0, x))[1]
        finally:
            tf.compat.v1.enable_control_flow_v2()
    body = [op for op in graph.get_operations() if op is not x.op]
    definition = graph_to_function_def.graph_to_function_def(graph, body, [x], [y])
    definition.signature.name = "v1"
    library = function_pb2.FunctionDefLibrary(function=[definition])
    records = list_ops(library, "v1", [ArgumentSpec("x", tf.float32, (2,))])
    exp = _only(records, "Exp")
    assert (exp.depth, exp.runs) == (1, None)
    assert work_total(records).unknown_loops == 1


def test_sources_are_asked_for() -> None:
    concrete = tf.function(lambda x: tf.exp(x)).get_concrete_function(tf.TensorSpec([1]))
    name = concrete.name.decode()
    records = list_ops(
        _library(concrete), name, _arguments(concrete), SourceMap(concrete.graph, name)
    )
    assert records[0].source is not None
    assert "test_program_listing.py" in format_listing(records).splitlines()[1]


@pytest.mark.parametrize(
    "entry, arguments, phrase",
    [
        ("no_such", (), "no_such"),
        (None, (), "Expected 1 arguments"),
    ],
)
def test_wrong_entry_or_number_of_arguments_is_refused(
    entry: str | None, arguments: tuple[ArgumentSpec, ...], phrase: str
) -> None:
    concrete = tf.function(lambda x: tf.exp(x)).get_concrete_function(tf.TensorSpec([1]))
    with pytest.raises(ValueError, match=phrase):
        list_ops(_library(concrete), entry or concrete.name.decode(), arguments)


def test_recursion_is_refused() -> None:
    concrete = tf.function(lambda x: tf.exp(x)).get_concrete_function(tf.TensorSpec([1]))
    definition = concrete.function_def
    name = definition.signature.name
    recursive = function_pb2.FunctionDef()
    recursive.CopyFrom(definition)
    node = recursive.node_def[0]
    node.op = "PartitionedCall"
    del node.attr["T"]
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)
    node.attr["f"].func.name = name
    # The conversion to a graph infers no shapes through a function that is not there yet.
    node.attr["_disable_call_shape_inference"].b = True
    recursive.node_def[1].input[0] = f"{node.name}:output:0"
    library = function_pb2.FunctionDefLibrary(function=[recursive])
    with pytest.raises(ValueError, match="recursion"):
        list_ops(library, name, _arguments(concrete))


def test_listing_does_not_depend_on_the_calling_context() -> None:
    concrete = tf.function(lambda x: tf.exp(x)).get_concrete_function(tf.TensorSpec([1]))
    library, name, arguments = _library(concrete), concrete.name.decode(), _arguments(concrete)
    expected = list_ops(library, name, arguments)
    with tf.Graph().as_default() as graph, tf.device("/device:CPU:1"), tf.name_scope("scope"):
        assert list_ops(library, name, arguments) == expected
    assert not graph.get_operations()


def test_the_table_is_aligned() -> None:
    lines = format_listing(_list(lambda x: tf.exp(x) @ x, tf.TensorSpec([8, 8]))).splitlines()
    assert lines[0].split() == ["IPU", "op", "name", "in", "out", "flops", "source"]
    assert lines[1].split() == ["0", "Exp", "Exp", "256", "B", "256", "B", "~64"]
    assert lines[2].split() == ["0", "MatMul", "matmul", "512", "B", "256", "B", "1.02", "k"]
    assert lines[2].index("matmul") == lines[1].index("Exp", lines[1].index("Exp") + 1)
    assert lines[-1] == "every op has a formula"


@pytest.mark.parametrize(
    "count, text",
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (3 * 1024**3, "3 GiB"),
    ],
)
def test_human_bytes_are_in_a_fitting_unit(count: int | None, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize("count, text", [(999, "999"), (1234, "1.23 k"), (7 * 10**12, "7 T")])
def test_human_counts_are_in_a_fitting_unit(count: int, text: str) -> None:
    assert human_count(count) == text
