"""Workloads of compiled programs, against programs small enough to describe by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import IPUConfig, SchedulingAlgorithm
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.workload import describe
from tensorflow_ipu.compiler.workload.describe import settings_of
from tensorflow_ipu.configs import chips, flags, translate
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.ops.pipelining_ops import PipelineStageOptions
from tensorflow_ipu.planner.schedule import PipelineSchedule
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import CONSTANT, INPUT, TENSOR, VARIABLE, Buffer, Op, Workload
from tensorflow_ipu.runtime import system
from tests.support.models import pipelines


def _compile() -> Executable:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        strategy.run(tf.function(tf.exp), args=(tf.constant([1.0]),))
    return cache.executables()[-1]


def _configured(**options: Any) -> Settings:
    """Compiles a program with some options, and returns its settings."""
    config = IPUConfig()
    for name, value in options.items():
        group: Any = config
        *outer, last = name.split("__")
        for part in outer:
            group = getattr(group, part)
        setattr(group, last, value)
    config.configure_ipu_system()
    return _compile().settings


def test_defaults_of_configuration_are_those_of_planner() -> None:
    settings = _configured()
    assert dataclasses.replace(settings, merged_bytes={}) == Settings()
    assert len(settings.merged_bytes) == 6 and set(settings.merged_bytes.values()) == {0}


@pytest.mark.parametrize(
    "options, attribute, expected",
    [
        ({"auto_select_ipus": 4}, "replicas", 4),
        ({"io_tiles__num_io_tiles": 31}, "io_tiles", 32),
        (
            {"io_tiles__num_io_tiles": 8, "io_tiles__place_ops_on_io_tiles": True},
            "place_ops_on_io_tiles",
            True,
        ),
        ({"io_tiles__available_memory_proportion": 0.5}, "io_memory_proportion", 0.5),
        ({"allow_recompute": True}, "recompute", True),
        ({"scheduling__algorithm": SchedulingAlgorithm.SHORTEST_PATH}, "ordering", "SHORTEST_PATH"),
        (
            {"convolutions__poplar_options": {"availableMemoryProportion": "0.2"}},
            "convolution_proportion",
            0.2,
        ),
        (
            {"convolutions__poplar_options": {"partialsType": "half"}},
            "convolution_partials",
            "float16",
        ),
        (
            {"matmuls__poplar_options": {"availableMemoryProportion": "0.3"}},
            "matmul_proportion",
            0.3,
        ),
        ({"matmuls__poplar_options": {"partialsType": "float"}}, "matmul_partials", "float32"),
        (
            {"slices__poplar_options": {"availableMemoryProportion": "0.1"}},
            "slice_proportion",
            0.1,
        ),
        ({"optimizations__enable_graph_outlining": False}, "outlining", False),
        ({"optimizations__prefetch_data_streams": False}, "prefetch", False),
    ],
)
def test_options_become_attributes_of_settings(
    options: dict[str, Any], attribute: str, expected: Any
) -> None:
    assert getattr(_configured(**options), attribute) == expected


def test_merged_bytes_have_the_names_of_the_options() -> None:
    settings = _configured(optimizations__maximum_inter_ipu_copies_buffer_size=1000)
    assert settings.merged_bytes["maximum_inter_ipu_copies_buffer_size"] == 1000
    assert sum(settings.merged_bytes.values()) == 1000


def test_a_later_configuration_changes_nothing() -> None:
    config = IPUConfig()
    config.allow_recompute = True
    config.configure_ipu_system()
    executable = _compile()
    assert _configured(auto_select_ipus=2).recompute is False
    assert executable.settings.recompute is True
    assert executable.settings.replicas == 1


def test_the_model_has_its_own_tiles() -> None:
    config = IPUConfig()
    config.ipu_model.version = "ipu21"
    parsed = flags.parse("--use_ipu_model --ipu_model_tiles=16")
    attached = system.build(translate.to_options(config), parsed, 0)
    assert settings_of(attached, 0, 1, None).chip == chips.BOW.with_tiles(16)


def test_options_of_pipeline_stages_reach_the_settings() -> None:
    half = {"availableMemoryProportion": "0.5"}
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        gradient_accumulation_count=4,
        forward_propagation_stages_poplar_options=[
            PipelineStageOptions(),
            PipelineStageOptions(half, {"partialsType": "half"}),
        ],
        backward_propagation_stages_poplar_options=[
            PipelineStageOptions(matmul_options=half),
            PipelineStageOptions(half, half),
        ],
        weight_update_poplar_options=PipelineStageOptions(convolution_options=half),
    )
    settings = cache.executables()[-1].settings
    name = "availableMemoryProportion"
    assert settings.stage_options == {
        (1, "forward"): {f"convolutions.{name}": "0.5", "matmuls.partialsType": "half"},
        (0, "backward"): {f"matmuls.{name}": "0.5"},
        (1, "backward"): {f"convolutions.{name}": "0.5", f"matmuls.{name}": "0.5"},
        (0, "update"): {f"convolutions.{name}": "0.5"},
        (1, "update"): {f"convolutions.{name}": "0.5"},
    }


@pytest.mark.parametrize("offload", [None, False, True])
def test_stashes_of_a_pipeline_may_be_offloaded(offload: bool | None) -> None:
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        gradient_accumulation_count=4,
        offload_activations=offload,
    )
    assert cache.executables()[-1].settings.offload_activations is bool(offload)


def test_partials_of_a_scope_reach_the_ops() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        with scopes.partials_type(tf.float16):
            return tf.matmul(x, x)

    IPUConfig().configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        strategy.run(tf.function(program), args=(tf.constant(np.ones((2, 2), np.float16)),))
    (product,) = [op for op in cache.executables()[-1].workload.ops if op.type == "MatMul"]
    assert product.attributes["partials"] == "float16"


# --- Workloads of compiled programs, against programs small enough to describe by hand ---

tf1 = tf.compat.v1


def _describe(function: Callable[..., Any], *arguments: Any, ipus: int = 1) -> Workload:
    """Runs a function as TensorFlow 2 does, and describes its program."""
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()
    tensors = [tf.constant(argument) for argument in arguments]
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        strategy.run(tf.function(function), args=tensors)
    return describe.workload(cache.executables()[-1])


def _only(workload: Workload, op_type: str) -> Op:
    (found,) = [op for op in workload.ops if op.type == op_type]
    return found


def _buffer(workload: Workload, op: Op, output: int = 0) -> Buffer:
    index = op.outputs[output].buffer
    assert index is not None
    return workload.buffers[index]


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_inputs_results_and_views_share_buffers() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.exp(tf.reshape(tf.identity(x) * 2.0, [2, 6])[None])

    workload = _describe(program, _ones(3, 4))
    product, exponential = _only(workload, "Mul"), _only(workload, "Exp")
    (kept,) = [buffer for buffer in workload.buffers if buffer.kind == INPUT]
    assert (kept.shape, kept.dtype, kept.ipu, kept.num_bytes) == ((3, 4), "float32", 0, 48)
    assert workload.batch == 3
    assert workload.buffers[product.inputs[0].buffer or 0] == kept
    assert exponential.inputs[0].buffer == product.outputs[0].buffer
    assert exponential.inputs[0].shape == (1, 2, 6)
    assert _buffer(workload, exponential).kind == TENSOR
    assert exponential.flops is not None and exponential.label is Label.EXACT
    assert exponential.end == workload.ops.index(exponential) + 1
    assert exponential.source.startswith("test_describe.py:")


def test_constants_and_derived_values_take_no_memory() -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)

    def program(x: tf.Tensor) -> tf.Tensor:
        ones = tf.constant(_ones(100, 4))
        return tf.matmul(x, tf.constant(table), transpose_b=True) + tf.reduce_sum(ones * 2, 0)[:3]

    workload = _describe(program, _ones(2, 4))
    constants = {b.shape: b.num_bytes for b in workload.buffers if b.kind == CONSTANT}
    # The constant of equal elements is one element; so is the 2.
    assert constants == {(3, 4): 48, (): 4}
    axes = [op for op in workload.ops if op.type == "Const" and op.outputs[0].dtype == "int32"]
    assert axes and all(op.outputs[0].buffer is None and op.ipu is None for op in axes)
    assert _only(workload, "Sum").attributes["axes"] == [0]
    assert _only(workload, "MatMul").attributes["transpose_b"] is True


def test_variables_are_written_in_place() -> None:
    made: list[tf.Variable] = []

    def step(x: tf.Tensor) -> tf.Tensor:
        if not made:
            made.append(tf.Variable(_ones(5, 2), name="layer/w"))
            made.append(tf.Variable(_ones(5, 2), name="layer/w/Momentum"))
        weights, slot = made
        y = tf.matmul(x, weights)
        tf.raw_ops.ResourceApplyMomentum(
            var=weights.handle, accum=slot.handle, lr=0.1, grad=_ones(5, 2) * y[0, 0], momentum=0.9
        )
        return y

    workload = _describe(step, _ones(3, 5))
    kept = [buffer for buffer in workload.buffers if buffer.kind == VARIABLE]
    assert [(b.shape, b.num_bytes, b.variable, b.ipu) for b in kept] == [
        ((5, 2), 40, 0, 0),
        ((5, 2), 40, 1, 0),
    ]
    assert [(v.role, v.ipu, v.num_bytes) for v in workload.variables][0] == ("weight", 0, 40)
    read = _only(workload, "ReadVariableOp")
    assert read.inputs[0].buffer == read.outputs[0].buffer
    assert workload.buffers[read.outputs[0].buffer or 0].kind == VARIABLE
    update = _only(workload, "ResourceApplyMomentum")
    assert {workload.buffers[o.buffer or 0].variable for o in update.inputs[:2]} == {0, 1}
    assert update.inputs[0][:2] == ("float32", (5, 2))
    assert (update.layer, update.phase) == ("layer", "update")


def test_a_loop_keeps_its_state_in_one_buffer() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        y = tf.exp(x)
        for _ in tf.range(5):
            y = tf.tanh(y) + x
        return y * 2.0

    workload = _describe(program, _ones(4))
    start, tanh = _only(workload, "Exp"), _only(workload, "Tanh")
    (loop,) = [op for op in workload.ops if op.type.endswith("While")]
    position = workload.ops.index(loop)
    assert (loop.trip_count, loop.runs, tanh.runs) == (5, 1, 5)
    assert position < workload.ops.index(tanh) < loop.end
    state = start.outputs[0].buffer
    assert tanh.inputs[0].buffer == state
    assert _only(workload, "Mul").inputs[0].buffer == state
    assert state in [operand.buffer for operand in loop.outputs]
    (new,) = [op for op in workload.ops if op.type == "AddV2" and op.outputs[0].shape == (4,)]
    assert new.outputs[0].buffer not in (state, None)
    assert workload.buffers[new.inputs[1].buffer or 0].kind == INPUT  # does not change


def test_loop_keeps_initial_values_that_others_own() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        first = second = tf.exp(x)
        third = x
        for _ in tf.range(3):
            first, second, third = first + 1.0, second * 2.0, tf.tanh(third)
        return first + second + third

    workload = _describe(program, _ones(4))
    (loop,) = [op for op in workload.ops if op.type.endswith("While")]
    states = [operand.buffer for operand in loop.outputs if operand.shape == (4,)]
    assert len(set(states)) == 3
    assert all(workload.buffers[index or 0].kind == TENSOR for index in states)
    assert _only(workload, "Exp").outputs[0].buffer in states


def test_unknown_trip_count_is_assumed_to_be_one() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < 10.0, lambda y: (y * 2.0,), (x,))[0]

    workload = _describe(program, _ones(4))
    (loop,) = [op for op in workload.ops if op.type.endswith("While")]
    assert (loop.trip_count, loop.label) == (None, Label.ASSUMED)
    assert (_only(workload, "Mul").runs, _only(workload, "Mul").label) == (1, Label.ASSUMED)


def test_branches_work_on_the_callers_tensors() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        y = tf.exp(x)
        z = tf.cond(x[0] > 0, lambda: tf.tanh(y), lambda: tf.sin(y))
        return tf.sqrt(z)

    workload = _describe(program, _ones(4))
    (conditional,) = [op for op in workload.ops if op.type.endswith("If")]
    tanh, sine = _only(workload, "Tanh"), _only(workload, "Sin")
    assert tanh.conditional and sine.conditional and not conditional.conditional
    assert (
        tanh.inputs[0].buffer == sine.inputs[0].buffer == _only(workload, "Exp").outputs[0].buffer
    )
    assert _only(workload, "Sqrt").inputs[0].buffer == tanh.outputs[0].buffer
    assert conditional.outputs[0] == ("float32", (4,), None)  # made later, inside


def test_input_that_only_starts_loop_is_on_ipu() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        while tf.reduce_sum(x) < 1000.0:
            x = x * 2.0
        return x

    workload = _describe(program, [[1.0, 2.0, 3.0]])
    (given,) = [buffer for buffer in workload.buffers if buffer.kind == INPUT]
    assert given.ipu == 0


def test_a_branch_may_pass_on_its_argument() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        y = tf.exp(x)
        z = tf.cond(x[0] > 0, lambda: y, lambda: tf.sin(y))
        return tf.sqrt(z)

    workload = _describe(program, _ones(4))
    (conditional,) = [op for op in workload.ops if op.type.endswith("If")]
    made = conditional.outputs[0].buffer
    assert made is not None and made == _only(workload, "Sqrt").inputs[0].buffer
    assert made not in (
        _only(workload, "Exp").outputs[0].buffer,
        _only(workload, "Sin").outputs[0].buffer,
    )


def test_lists_have_room_for_loop_results() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(6):
                y = tf.tanh(y)
        return tape.gradient(y, x)

    workload = _describe(program, _ones(3, 2))
    pushes = [op for op in workload.ops if op.type == "TensorListPushBack"]
    lists = {op.inputs[0].buffer: workload.buffers[op.inputs[0].buffer or 0] for op in pushes}
    assert [b.num_bytes for b in lists.values() if b.dtype == "float32"] == [6 * 3 * 2 * 4]
    assert all(op.inputs[0].buffer == op.outputs[0].buffer for op in pushes)
    backward = _only(workload, "TanhGrad")
    assert (backward.runs, backward.phase, backward.label) == (6, "backward", Label.EXACT)


def test_array_is_tensor_that_it_is_stacked_to() -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        array = tf.TensorArray(tf.float32, 5, element_shape=[3])
        for index in tf.range(5):
            array = array.write(index, x + 1.0)
        return array.stack() * 2.0

    workload = _describe(program, _ones(3))
    product = _only(workload, "Mul")
    buffer = workload.buffers[product.inputs[0].buffer or 0]
    assert (buffer.shape, buffer.entries, buffer.num_bytes) == ((3,), 5, 60)
    assert product.inputs[0].shape == (5, 3)


def test_ops_variables_and_copies_have_their_ipus() -> None:
    with tf.Graph().as_default(), tf1.Session() as session:

        def net(x: tf.Tensor) -> tf.Tensor:
            with scopes.ipu_shard(0):
                y = tf.exp(x)
            with scopes.ipu_shard(1):
                weight = tf1.get_variable("w", initializer=_ones(2, 3), use_resource=True)
                return tf.matmul(y, weight)

        x = tf1.placeholder(tf.float32, [4, 2])
        with scopes.ipu_scope("/device:IPU:0"):
            compiled = ipu_compiler.compile(net, [x])
        pipelines.configure(2)
        session.run(tf1.global_variables_initializer())
        session.run(compiled, {x: _ones(4, 2)})
    workload = cache.executables()[-1].workload
    exponential, product = _only(workload, "Exp"), _only(workload, "MatMul")
    assert (exponential.ipu, product.ipu, workload.ipus) == (0, 1, 2)
    assert _buffer(workload, exponential).ipu == 0 and _buffer(workload, product).ipu == 1
    assert [(v.name, v.ipu) for v in workload.variables] == [("w", 1)]
    (copy,) = workload.copies
    assert (copy.source, copy.destination, copy.num_bytes, copy.runs) == (0, 1, 32, 1)
    assert _buffer(workload, product).batched == 0


@pytest.fixture(name="trained")
def _trained() -> Workload:
    pipelines.run(
        pipelines.stages(2),
        pipelines.data(8),
        gradient_accumulation_count=4,
        opt="momentum",
        pipeline_schedule=pipelining_ops.PipelineSchedule.Grouped,
    )
    return cache.executables()[-1].workload


def test_a_pipeline_has_stages_schedule_and_count(trained: Workload) -> None:
    description = trained.pipeline
    assert description is not None and description.schedule is PipelineSchedule.Grouped
    assert (description.count, len(trained.stage_names), trained.batch) == (4, 2, pipelines.BATCH)
    products = [op for op in trained.ops if op.type == "MatMul"]
    assert {(op.stage, op.ipu, op.phase) for op in products} == {
        *((0, 0, ""), (1, 1, ""), (0, 0, "backward"), (1, 1, "backward"))
    }
    assert {op.runs for op in products} == {4}
    updates = [op for op in trained.ops if op.type == "ResourceApplyMomentum"]
    assert [(op.runs, op.conditional, op.phase) for op in updates] == [(1, False, "update")] * 4


def test_variables_of_a_pipeline_have_their_bytes(trained: Workload) -> None:
    # Weights of 5 x 7, 7 x 6, 6 x 4, 4 x 3; as many accumulators and slots; a counter.
    by_role: dict[str, int] = {}
    for variable in trained.variables:
        by_role[variable.role] = by_role.get(variable.role, 0) + variable.num_bytes
    weights = 4 * (35 + 42 + 24 + 12)
    expected = dict.fromkeys(("weight", "optimizer state", "accumulator"), weights)
    assert by_role == {**expected, "other": 4}
    assert [v.ipu for v in trained.variables[:4]] == [0, 0, 1, 1]
    buffers = [b for b in trained.buffers if b.kind == VARIABLE]
    assert sum(b.num_bytes for b in buffers) == 3 * weights + 4


def test_buffers_are_made_before_they_are_used(trained: Workload) -> None:
    made = {i for i, buffer in enumerate(trained.buffers) if buffer.kind != TENSOR}
    for op in trained.ops:
        for operand in op.inputs:
            assert operand.buffer is None or operand.buffer in made, (op.name, operand)
        made |= {operand.buffer for operand in op.outputs if operand.buffer is not None}
    assert made == set(range(len(trained.buffers)))
    assert all(op.end > index for index, op in enumerate(trained.ops))


def test_nothing_is_described_before_it_is_asked_for() -> None:
    _describe(lambda x: tf.exp(x), _ones(2))
    executable = cache.executables()[-1]
    assert not {"workload", "settings", "plan"} & set(vars(executable))
    assert executable.workload is executable.workload
