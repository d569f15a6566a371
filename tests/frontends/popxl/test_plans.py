"""Reports and plans of PopXL programs, compared with arithmetic by hand."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import collectives
from popxl.transforms import autodiff

from tensorflow_ipu.compiler import cache
from tensorflow_ipu.configs import chips
from tensorflow_ipu.costs.chip.collectives import all_gather, all_reduce, reduce_scatter
from tensorflow_ipu.costs.chip.exchange import sync_cycles
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.resources import ResourceTable, costs_of
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.tuning.advice import out_of_memory
from tensorflow_ipu.tuning.advice.remedies import remedies
from tensorflow_ipu.tuning.edits import workload_edits
from tensorflow_ipu.util.op_names import CROSS_REPLICA_SUM

N, FEATURES = 4, 8


def block(x: popxl.Tensor, weight: popxl.Tensor) -> popxl.Tensor:
    with popxl.name_scope("product"):
        product = x @ weight
    return ops.gelu(product)


def line_of(function, text):
    """Returns the line of this file in which a function has some text, as reports show it."""
    lines, start = inspect.getsourcelines(function)
    number = start + next(i for i, line in enumerate(lines) if text in line)
    return f"{Path(__file__).name}:{number} ({function.__name__})"


def run(ir, inputs=None):
    """Runs a program once; returns its results and its Executable."""
    with popxl.Session(ir, "ipu_hw") as session:
        results = session.run(inputs or {})
    return results, cache.executables()[-1]


def trained_blocks(blocks, ipus):
    """Returns a program that trains blocks, which are calls of one graph for each IPU."""
    ir = popxl.Ir()
    per_ipu = blocks // ipus
    with ir.main_graph:
        stream = popxl.h2d_stream((N, FEATURES), popxl.float32)
        x = ops.host_load(stream)
        graphs, calls, weights = [], [], []
        for ipu in range(ipus):
            with popxl.ipu(ipu):
                graph = ir.create_graph(block, x.spec, popxl.TensorSpec((8, 8), popxl.float32))
                graphs.append((graph, autodiff(graph)))
        for i in range(blocks):
            ipu = i // per_ipu
            with popxl.ipu(ipu):
                if x.ipu != ipu:
                    x = x.copy_to_ipu(ipu)
                start = np.eye(FEATURES, dtype=np.float32)
                weights.append(popxl.variable(start, name=f"block{i}.weight"))
                calls.append(ops.call_with_info(graphs[ipu][0], x, weights[-1]))
                x = calls[-1].outputs[0]
        gradient = x
        for i in reversed(range(blocks)):
            ipu = i // per_ipu
            with popxl.ipu(ipu):
                if gradient.ipu != ipu:
                    gradient = gradient.copy_to_ipu(ipu)
                info = graphs[ipu][1]
                passed = info.inputs_dict(calls[i])
                gradient, slope = ops.call(info.graph, gradient, inputs_dict=passed)
                ops.scaled_add_(weights[i], slope, b=-0.5)
    return ir, stream, weights


def test_layers_phases_and_lines_are_those_of_program() -> None:
    ir, stream, _ = trained_blocks(2, 1)
    _, executable = run(ir, {stream: np.ones((N, FEATURES))})
    workload = executable.workload
    rows = {row.layer: row for row in Report.from_plan(executable.plan).layers()}
    for name in ("block0", "block1"):
        whole, product = rows[name], rows[f"{name}/product"]
        assert min(whole.forward_cycles, whole.backward_cycles, whole.update_cycles) > 0
        assert min(product.forward_cycles, product.backward_cycles) > 0
        assert whole.variable_bytes == FEATURES * FEATURES * 4
    assert {layer for layer in rows if layer.startswith("block")} == {
        *("block0", "block1", "block0/product", "block1/product")
    }
    products = [op for op in workload.ops if op.type == "MatMul"]
    assert [op.phase for op in products] == [""] * 2 + ["backward"] * 4
    assert {op.source for op in products} == {line_of(block, "x @ weight")}
    calls = [op.phase for op in workload.ops if op.type == "PartitionedCall"]
    assert calls == [""] * 2 + ["backward"] * 2
    sums = [
        op for op in workload_edits.with_replica_sums(workload).ops if op.type == CROSS_REPLICA_SUM
    ]
    assert [op.inputs[0].shape for op in sums] == [(FEATURES, FEATURES)] * 2
    scaled = line_of(trained_blocks, "scaled_add_")
    assert {op.phase for op in workload.ops if op.source == scaled and op.inputs} == {"update"}
    assert not executable.copies


def test_graph_called_often_is_in_memory_once() -> None:
    sizes = []
    for blocks in (1, 5):
        ir = popxl.Ir()
        with ir.main_graph:
            x = popxl.variable(np.ones((N, FEATURES), np.float32))
            weight = popxl.variable(np.eye(FEATURES, dtype=np.float32))
            graph = ir.create_graph(block, x, weight)
            for _ in range(blocks):
                (x,) = ops.call(graph, x, weight)
            ops.host_store(popxl.d2h_stream(x.shape, x.dtype), x)
        memory = run(ir)[1].plan.fullest
        code = [c for c in memory.categories if "code" in c.name or c.name == "vertex state"]
        assert len(code) == 4
        sizes.append({c.name: c.tiles.max() for c in code})
    assert sizes[0] == sizes[1]


def test_a_loop_over_remote_shards_moves_their_bytes() -> None:
    entries, replicas, width = 4, 2, 6
    ir = popxl.Ir(replicas)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.replica_sharded_buffer((width, width), popxl.float32, entries=entries)
        for i in range(entries):
            start = np.full((width, width), i, np.float32)
            popxl.remote_replica_sharded_variable(start, buffer, i)

        def step(i: popxl.Tensor, x: popxl.Tensor):
            shard = ops.remote_load(buffer, i)
            whole = ops.collectives.replicated_all_gather(shard)
            ops.remote_store(buffer, i, shard + shard)
            return i + 1, x + whole

        start = popxl.constant(np.zeros((width, width), np.float32))
        graph = ir.create_graph(step, popxl.constant(0), start)
        _, total = ops.repeat(graph, entries, popxl.constant(0), start)
        stream = popxl.d2h_stream(total.shape, total.dtype)
        ops.host_store(stream, total)
    results, executable = run(ir)
    assert (results[stream] == 0 + 1 + 2 + 3).all()
    shard = width * width // replicas * 4
    transfers = {
        (t.kind, t.name.rpartition("/")[2], t.num_bytes, t.runs)
        for t in executable.plan.timeline.transfers
    }
    # What brings the variables to the device and back is in other launches.
    assert transfers == {
        ("streaming in", "remote_buffer_1", shard, entries),
        ("streaming out", "remote_buffer_1", shard, entries),
        ("collective", "all_gather", replicas * shard, entries),
        ("host out", "IpuOutfeedEnqueue", width * width * 4, 1),
    }
    (variable,) = executable.workload.variables
    assert (variable.offloaded, variable.num_bytes) == (True, entries * shard)
    categories = {c.name: c.total for c in executable.plan.fullest.categories}
    assert not categories.get("variables")


def test_what_ops_ask_for_reaches_the_plan() -> None:
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.numIOTiles, options.partialsTypeMatMuls = 32, "half"
    half = popxl.float16
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones((64, 256), np.float16))
        weight = popxl.variable(np.ones((256, 256), np.float16))

        def product(x: popxl.Tensor, weight: popxl.Tensor) -> popxl.Tensor:
            return ops.matmul(x, weight, available_memory_proportion=0.1, partials_type=half)

        graph = ir.create_graph(product, x, weight)
        info = autodiff(graph)
        call = ops.call_with_info(graph, x, weight)
        (y,) = call.outputs
        gradients = ops.call(info.graph, y, inputs_dict=info.inputs_dict(call))
        plain = ops.matmul(x, weight, partials_type=popxl.float32)
        stores = [popxl.d2h_stream(t.shape, t.dtype) for t in (y, plain, *gradients)]
        with popxl.transforms.io_tile_exchange():
            for stream, tensor in zip(stores, (y, plain, *gradients)):
                ops.host_store(stream, tensor)
    _, executable = run(ir)
    settings = executable.settings
    assert (settings.io_tiles, settings.compute_tiles) == (32, settings.chip.tiles - 32)
    assert settings.matmul_partials == "float16"
    products = [op for op in executable.workload.ops if op.type == "MatMul"]
    assert [op.attributes.get("memory_proportion") for op in products] == [0.1, 0.1, 0.1, None]
    table = ResourceTable(settings)
    assert [table.of(op).partials for op in products] == ["float16"] * 3 + ["float32"]
    assert [table.of(op).memory_proportion for op in products] == [0.1] * 3 + [0.6]
    stored = [t for t in executable.plan.timeline.transfers if t.kind == "host out"]
    assert [t.num_bytes for t in stored] == [t.nelms * 2 for t in (y, plain, *gradients)]
    assert all(t.overlapped for t in stored)
    # They wait for the host together: each for a fourth of the time.
    chip = settings.chip
    for transfer in stored:
        bandwidth = transfer.num_bytes / chip.network_bandwidth * chip.clock
        assert transfer.cycles == pytest.approx(bandwidth + sync_cycles(2, chip) / 4)


def test_ipus_have_weights_and_copies_that_program_says() -> None:
    blocks, weight_bytes, row_bytes = 4, FEATURES * FEATURES * 4, N * FEATURES * 4
    trained = {}
    for ipus in (1, 2, 4):
        ir, stream, weights = trained_blocks(blocks, ipus)
        data = np.random.default_rng(0).normal(size=(N, FEATURES))
        _, executable = run(ir, {stream: data})
        trained[ipus] = [weight.data.copy() for weight in weights]
        workload = executable.workload
        assert [variable.ipu for variable in workload.variables] == [
            i * ipus // blocks for i in range(blocks)
        ]
        for memory in executable.plan.memory:
            assert memory.category("variables").total == blocks // ipus * weight_bytes
        forward = [(i, i + 1, row_bytes, 1) for i in range(ipus - 1)]
        backward = [(i + 1, i, row_bytes, 1) for i in range(ipus - 1)]
        found = [(c.source, c.destination, c.num_bytes, c.runs) for c in workload.copies]
        assert sorted(found) == sorted([*forward, *backward])
        products = [op.ipu for op in workload.ops if op.type == "MatMul"]
        assert sorted(products) == sorted(3 * [i * ipus // blocks for i in range(blocks)])
    for ipus in (2, 4):
        np.testing.assert_array_equal(trained[ipus], trained[1])
    assert not np.array_equal(trained[1][0], np.eye(FEATURES))


def test_nested_call_layers_are_those_of_variables() -> None:
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((N, FEATURES), np.float32), name="x")
        start = np.eye(FEATURES, dtype=np.float32)
        names = [f"{i}.{part}.weight" for i in range(2) for part in ("up", "down")]
        weights = [popxl.variable(start, name=name) for name in names]
        sums = [popxl.variable(0 * start, name=f"accum.{name}") for name in names]
        spec = weights[0].spec

        def layer(x: popxl.Tensor):
            for part in ("up", "down"):
                x = ops.gelu(x @ popxl.graph_input(**spec, name=f"{part}.weight"))
            return x

        def model(x: popxl.Tensor):
            graph = ir.create_graph(layer, x)
            for i in range(2):
                own = [popxl.graph_input(**spec, name=name) for name in names[2 * i : 2 * i + 2]]
                (x,) = ops.call(graph, x, *own)
            return x

        graph = ir.create_graph(model, x)
        info = autodiff(graph)
        call = ops.call_with_info(graph, x, *weights)
        found = ops.call(info.graph, call.outputs[0], inputs_dict=info.inputs_dict(call))
        for total, slope in zip(sums, found[1:]):
            ops.var_updates.accumulate_(total, slope)
    _, executable = run(ir)
    rows = {row.layer: row for row in Report.from_plan(executable.plan).layers()}
    for i in range(2):
        assert min(rows[f"{i}"].forward_cycles, rows[f"{i}"].backward_cycles) > 0
        for part in ("up", "down"):
            row = rows[f"{i}/{part}"]
            assert min(row.forward_cycles, row.backward_cycles, row.update_cycles) > 0
            assert row.variable_bytes == 2 * FEATURES * FEATURES * 4
    assert {layer.split("/")[0] for layer in rows if "/" in layer} == {"0", "1"}


def test_8_bit_products_have_own_bytes_and_rate() -> None:
    ir = popxl.Ir()
    rows, inner, columns = 512, 1024, 768
    with ir.main_graph:
        scale = popxl.constant(0, popxl.int32)
        results = []
        for dtype in (popxl.float8_143, popxl.float16):
            a = popxl.variable(np.zeros((rows, inner), np.float16), dtype)
            b = popxl.variable(np.zeros((inner, columns), np.float16), dtype)
            halves = dtype is popxl.float16
            results.append(a @ b if halves else ops.matmul_pow2scaled(a, b, scale))
        image = popxl.variable(np.zeros((2, 32, 9, 9), np.float16), popxl.float8_152)
        kernel = popxl.variable(np.zeros((16, 32, 3, 3), np.float16), popxl.float8_143)
        results.append(ops.conv_pow2scaled(image, kernel, scale, stride=(2, 2)))
        for result in results:
            ops.host_store(popxl.d2h_stream(result.shape, result.dtype), result)
    _, executable = run(ir)
    workload = executable.workload
    assert workload.variables[0].num_bytes == rows * inner
    found = {op.type: op for op in workload.ops}
    narrow, half, convolution = found["Float8MatMul"], found["MatMul"], found["Float8Conv"]
    assert narrow.flops == half.flops == 2 * rows * inner * columns
    assert convolution.flops == 2 * (2 * 16 * 4 * 4) * (32 * 3 * 3)
    sizes = {buffer.num_bytes for buffer in workload.buffers}
    assert sizes.isdisjoint({4 * rows * inner, 4 * inner * columns})
    # On the chip that has them: twice the products of float16 sums, 32 channels at a time.
    bow = executable.settings.replace(chip=chips.BOW, matmul_partials="float16")
    costs = dict(zip((op.type for op in workload.ops), costs_of(workload, bow)))
    assert costs["Float8MatMul"].cycles < 0.75 * costs["MatMul"].cycles
    # Others compute them in float16.
    mk2 = executable.settings.replace(matmul_partials="float16")
    costs = dict(zip((op.type for op in workload.ops), costs_of(workload, mk2)))
    assert costs["Float8MatMul"].cycles == costs["MatMul"].cycles
    assert costs["Float8Conv"].cycles > 0


def test_collectives_at_distance_cost_what_their_groups_exchange() -> None:
    replicas, size, count = 8, 2, 48
    ir = popxl.Ir(replicas)
    group = ir.replica_grouping(stride=4, group_size=size)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.arange(count, dtype=np.float32))
        made = [
            collectives.replicated_all_reduce(x, group=group),
            collectives.replicated_all_gather(x, group=group),
            collectives.replicated_reduce_scatter(x, group=group),
            collectives.replicated_all_reduce(x, "max"),
        ]
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in made]
        for stream, t in zip(streams, made):
            ops.host_store(stream, t)
    results, executable = run(ir)
    data = np.arange(count)
    np.testing.assert_array_equal(results[streams[0]], np.tile(2 * data, (replicas, 1)))
    np.testing.assert_array_equal(results[streams[1]], np.tile(data, (replicas, 2)))
    np.testing.assert_array_equal(results[streams[3]], np.tile(data, (replicas, 1)))
    shards = results[streams[2]]
    np.testing.assert_array_equal(np.concatenate([shards[0], shards[4]]), 2 * data)
    moved = [t for t in executable.plan.timeline.transfers if t.kind == "collective"]
    assert [t.num_bytes for t in moved] == [4 * count, size * 4 * count, 4 * count, 4 * count]
    chip = executable.settings.chip
    expected = [
        all_reduce(4 * count, size, 1, chip),
        all_gather(size * 4 * count, size, 1, chip),
        reduce_scatter(4 * count, size, 1, chip),
        all_reduce(4 * count, replicas, 1, chip),
    ]
    assert [t.cycles for t in moved] == [pytest.approx(cost.cycles) for cost in expected]


def test_gradient_sums_cost_one_group_exchange_each_way() -> None:
    replicas, size, count = 4, 2, 48
    ir = popxl.Ir(replicas)
    group = ir.replica_grouping(stride=2, group_size=size)
    reduce = collectives.replicated_all_reduce_with_grad
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.arange(count, dtype=np.float32))

        def layer(x: popxl.Tensor):
            x = reduce(x, group=group, identical_inputs=True)
            return reduce(ops.tanh(x), group=group, identical_gradients=True)

        graph = ir.create_graph(layer, x)
        info = ops.call_with_info(graph, x)
        backward = autodiff(graph, graph.outputs[:1])
        (gradient,) = ops.call(
            backward.graph, info.outputs[0], inputs_dict=backward.inputs_dict(info)
        )
        stream = popxl.d2h_stream(gradient.shape, gradient.dtype)
        ops.host_store(stream, gradient)
    _, executable = run(ir)
    moved = [t for t in executable.plan.timeline.transfers if t.kind == "collective"]
    assert [t.num_bytes for t in moved] == [4 * count] * 2
    expected = all_reduce(4 * count, size, 1, executable.settings.chip).cycles
    assert [t.cycles for t in moved] == [pytest.approx(expected)] * 2


def test_errors_and_remedies_are_in_words_of_popxl(tmp_path) -> None:
    ir, stream, _ = trained_blocks(2, 1)
    _, executable = run(ir, {stream: np.ones((N, FEATURES))})
    Report.from_executable(executable).save(tmp_path / "report.json")
    workload = Report.load(tmp_path / "report.json").workload
    # On tiles that hold next to nothing the program is too large.
    small = dataclasses.replace(executable.settings.chip, memory_per_tile=25_000)
    plan = Planner(workload).plan(executable.settings.replace(chip=small))
    assert not plan.fits
    text = out_of_memory.report(plan, True, remedies(plan))
    assert line_of(block, "x @ weight") in text or line_of(block, "gelu") in text
    assert "of the layer block" in text and "with popxl.ipu(i):" in text
    for word in ("tf.", "keras", "Keras", "config.", "dataset"):
        assert word not in text


def test_written_optimizer_is_one_map_per_variable():
    ir, shape = popxl.Ir(), (64, 48)
    updates = ops.var_updates
    with ir.main_graph:
        weight, first, second = (popxl.variable(np.ones(shape, np.float32)) for _ in range(3))
        stream = popxl.h2d_stream((N, 64), popxl.float32)
        x = ops.host_load(stream)
        gradient = ops.matmul(ops.transpose(x), ops.matmul(x, weight))
        mean = updates.accumulate_moving_average_(first, gradient, 0.9)
        square = updates.accumulate_moving_average_square_(second, gradient, 0.99)
        count = popxl.variable(np.float32(1))
        change = updates.adam_updater(mean, square, weight, count, 0.01, 0.9, 0.99, 1e-5)
        ops.scaled_add_(weight, change, b=-0.1)
    _, executable = run(ir, {stream: np.ones((N, 64), np.float32)})
    maps = fused_maps.find(executable.workload).ops
    types = {tuple(executable.workload.ops[i].type for i in members) for members in maps.values()}
    # What the moments become is read by the assignment and by the change.
    assert types == {
        ("Mul", "Mul", "AddV2"),
        ("Square", "Mul", "Mul", "AddV2"),
        (
            *("RealDiv", "RealDiv", "Sqrt", "AddV2", "RealDiv"),
            *("Mul", "AddV2", "Mul", "AddV2", "AssignVariableOp"),
        ),
    }
