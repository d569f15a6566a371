"""Remote buffers, and variables in them: whole, in groups of replicas, and sharded."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import collectives

from tensorflow_ipu.compiler import observers

FLOAT = popxl.float32


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_entries_keep_what_each_replica_stores(replicas):
    ir = popxl.Ir(replicas)
    lead = (replicas,) if replicas > 1 else ()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), FLOAT, 3)
        x, at = popxl.h2d_stream((2,), FLOAT), popxl.h2d_stream((), popxl.int32)
        before, after = (popxl.d2h_stream((2,), FLOAT) for _ in range(2))
        t, i = ops.host_load(x), ops.host_load(at)
        ops.host_store(before, ops.remote_load(buffer, i))

        def store(t, i):
            ops.remote_store(buffer, i, t * 2.0)

        ops.call(ir.create_graph(store, t, i), t, i)
        copy = ops.init((2,), FLOAT)
        ops.remote_load_(buffer, i, copy)
        ops.host_store(after, copy)
    kept = np.zeros((replicas, 3, 2), np.float32)
    with popxl.Session(ir, "ipu_hw") as session:
        for step in range(4):
            data = np.random.default_rng(step).normal(size=(replicas, 2)).astype(np.float32)
            # Replicas store in entries of their own.
            places = (np.arange(replicas) + step) % 3
            found = session.run({x: data.reshape(*lead, 2), at: places.reshape(lead)})
            rows = np.arange(replicas)
            np.testing.assert_array_equal(found[before].reshape(replicas, 2), kept[rows, places])
            kept[rows, places] = 2 * data
            np.testing.assert_array_equal(found[after].reshape(replicas, 2), 2 * data)


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize("dtype", [popxl.float32, popxl.uint32, popxl.float16])
def test_remote_variables_are_their_entries(replicas, dtype):
    ir = popxl.Ir(replicas)
    start = np.arange(6).reshape(2, 3).astype(dtype.as_numpy())
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((3,), dtype, 2)
        rows = [popxl.remote_variable(row, buffer, i) for i, row in enumerate(start)]
        graph = ir.create_graph(lambda i: add_one(buffer, i), popxl.TensorSpec((), popxl.int32))
        ops.repeat(graph, 2, popxl.constant(0))
    session = popxl.Session(ir, "ipu_hw")
    with session:
        for i, row in enumerate(rows):
            np.testing.assert_array_equal(session.get_tensor_data(row), start[i])
        session.run()
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(rows[1]), start[1] + 2)
        session.write_variable_data(rows[1], start[0])
        session.run()
    for row, expected in zip(rows, [start[0] + 3, start[0] + 1]):
        np.testing.assert_array_equal(session.get_tensor_data(row), expected)


def add_one(buffer, i):
    """Adds 1 to an entry; returns the number of the next."""
    ops.remote_store(buffer, i, ops.remote_load(buffer, i) + 1)
    return i + 1


GROUPS = [(1, 1, 1), (2, 1, 1), (4, 1, 2), (4, 2, 2), (4, 1, 4)]


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("replicas, stride, size", GROUPS)
def test_groups_have_values_of_their_own(replicas, stride, size, remote):
    ir = popxl.Ir(replicas)
    grouping = ir.replica_grouping(stride, size)
    groups = grouping.num_groups
    values = np.arange(groups * 2, dtype=np.float32).reshape(groups, 2)
    start = values if groups > 1 else values[0]
    with ir.main_graph, popxl.in_sequence():
        x = ops.host_load(popxl.h2d_stream((2,), FLOAT, "x"))
        found = []
        for mode in ("one_per_group", "all_replicas"):
            options = {"replica_grouping": grouping, "retrieval_mode": mode}
            if remote:
                buffer = popxl.remote_buffer((2,), FLOAT)
                found.append(popxl.remote_variable(start, buffer, 0, **options))
                ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + x)
            else:
                found.append(popxl.variable(start, **options))
                ops.var_updates.accumulate_(found[-1], x)
    (stream,) = ir.get_all_h2d_streams()
    data = np.arange(replicas * 2, dtype=np.float32).reshape(replicas, 2) * 10
    expected = values[grouping.assignment] + data
    firsts = [grouping.assignment.index(group) for group in range(groups)]
    one, other = found
    assert (one.shape, one.replica_grouping) == ((2,), grouping)
    assert one.shape_on_host == ((groups, 2) if groups > 1 else (2,))
    session = popxl.Session(ir, "ipu_hw")
    shape = (replicas, 2) if size > 1 else one.shape_on_host
    before = values[grouping.assignment] if size > 1 else start
    np.testing.assert_array_equal(session.get_tensor_data(other), before)
    with session:
        session.run({stream: data if replicas > 1 else data[0]})
        got = session.get_tensors_data(found)
    np.testing.assert_array_equal(got[one], expected[firsts].reshape(one.shape_on_host))
    np.testing.assert_array_equal(got[other], expected[: len(expected)].reshape(shape))
    if size > 1:
        with pytest.raises(NotImplementedError, match="is not yet supported"):
            session.write_variable_data(other, start)


def test_variables_take_groupings_of_no_constant_stride():
    ir = popxl.Ir(4)
    grouping = ir.replica_grouping_from_assignments([0, 1, 1, 0])
    with ir.main_graph:
        v = popxl.variable(np.float32([[1], [2]]), replica_grouping=grouping)
        out = popxl.d2h_stream((1,), FLOAT)
        with popxl.in_sequence():
            ops.host_store(out, v)
            v += 1.0
    with popxl.Session(ir, "ipu_hw") as session:
        assert session.run()[out].ravel().tolist() == [1, 2, 2, 1]
    assert session.get_tensor_data(v).tolist() == [[2], [3]]


@pytest.mark.parametrize("replicas, stride, size, shard_over", [
    (2, 1, 2, None), (4, 1, 4, None), (4, 2, 2, None), (4, 1, 4, 2), (4, 1, 2, 2),
])  # fmt: skip
def test_shards_are_updated_and_read_back_whole(replicas, stride, size, shard_over):
    ir = popxl.Ir(replicas)
    grouping = ir.replica_grouping(stride, size)
    groups = grouping.num_groups
    shape = (groups, 3, 3) if groups > 1 else (3, 3)
    start = np.arange(groups * 9, dtype=np.float32).reshape(shape)
    shards = shard_over or size
    over = ir.replica_grouping(stride, shards)
    with ir.main_graph:
        v, shard = popxl.replica_sharded_variable(
            start, replica_grouping=grouping, shard_over=shard_over
        )
        assert (shard.shape, shard.meta_shape) == ((-(-9 // shards),), (3, 3))
        buffer = popxl.replica_sharded_buffer(shape, FLOAT, grouping, shard_over, entries=2)
        assert (buffer.tensor_shape, buffer.meta_shape) == (shard.shape, (3, 3))
        w = popxl.remote_replica_sharded_variable(start, buffer, 1, replica_grouping=grouping)
        out = popxl.d2h_stream((3, 3), FLOAT)
        with popxl.in_sequence():
            other = ops.remote_load(buffer, 1)
            ops.host_store(out, collectives.replicated_all_gather(shard + other, group=over))
            ops.var_updates.accumulate_(shard, other)
            ops.remote_store(buffer, 1, shard)
    session = popxl.Session(ir, "ipu_hw")
    values = start.reshape(groups, 3, 3)[grouping.assignment]
    with session:
        for factor in (2, 4):
            np.testing.assert_array_equal(session.run()[out], values * factor)
        np.testing.assert_array_equal(session.get_tensor_data(v), start * 4)
    np.testing.assert_array_equal(session.get_tensor_data(w), start * 4)


def test_buffer_knows_replicas_of_sharded_tensors():
    ir = popxl.Ir(4)
    with ir.main_graph:
        buffer = popxl.replica_sharded_buffer((1,), FLOAT, shard_over=2)
        popxl.remote_replica_sharded_variable(np.float32([7]), buffer)
        out = popxl.d2h_stream((1,), FLOAT)
        shard = ops.remote_load(buffer, 0)
        pairs = ir.replica_grouping(1, 2)
        ops.host_store(out, collectives.replicated_all_gather(shard, group=pairs))
    with popxl.Session(ir, "ipu_hw") as session:
        assert session.run()[out].ravel().tolist() == [7] * 4


def train(phased, replicas):
    """Trains a layer with momentum, its state on the chip or in remote buffers; returns it."""
    ir = popxl.Ir(replicas)
    generator = np.random.default_rng(0)
    start = generator.normal(size=(4, 3)).astype(np.float32)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((8, 4), FLOAT)
        x = ops.host_load(stream)
        if phased:
            buffer = popxl.remote_buffer((4, 3), FLOAT, 2)
            made = [popxl.remote_variable(v, buffer, i) for i, v in enumerate((start, start * 0))]
            weight, momentum = (ops.remote_load(buffer, i) for i in range(2))
        else:
            made = [popxl.variable(v) for v in (start, start * 0)]
            weight, momentum = made
        gradient = x.T @ ops.tanh(x @ weight)
        gradient = collectives.replicated_all_reduce(gradient, "mean")
        ops.var_updates.accumulate_moving_average_(momentum, gradient, 0.9)
        ops.scaled_add_(weight, momentum, b=-0.1)
        if phased:
            ops.remote_store(buffer, 0, weight)
            ops.remote_store(buffer, 1, momentum)
    shape = (replicas, 8, 4) if replicas > 1 else (8, 4)
    with popxl.Session(ir, "ipu_hw") as session:
        for _ in range(3):
            session.run({stream: generator.normal(size=shape).astype(np.float32)})
        return session.get_tensors_data(made), made


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_phased_execution_equals_chip_bit_for_bit(replicas):
    (plain, tensors), (phased, loaded) = train(False, replicas), train(True, replicas)
    for one, other in zip(tensors, loaded):
        assert plain[one].tobytes() == phased[other].tobytes()


@pytest.fixture
def compiled_executables():
    found = []
    observers.observe(found.append)
    yield found
    observers.forget(found.append)


def test_plans_keep_buffers_in_remote_memory(compiled_executables):
    train(True, 2)
    (executable,) = compiled_executables
    (record,) = executable.variables
    assert (record.memory, record.remote_bytes, record.in_processor_bytes) == ("remote", 96, 0)
    assert record.entries == 2


def test_plans_move_one_entry_at_a_time(compiled_executables):
    for entries in (1, 50):
        ir = popxl.Ir()
        with ir.main_graph, popxl.in_sequence():
            buffer = popxl.remote_buffer((100, 100), FLOAT, entries)
            ops.remote_store(buffer, 0, ops.tanh(ops.remote_load(buffer, 0)))
        with popxl.Session(ir) as session:
            session.run()
    one, many = (executable.plan for executable in compiled_executables)
    assert many.fullest.worst_bytes == one.fullest.worst_bytes
    assert many.timeline.cycles == one.timeline.cycles
    assert many.workload.variables[0].share == 50 * one.workload.variables[0].share


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda b, t: popxl.remote_buffer((2,), FLOAT, 0), ValueError, "non-zero, positive"),
        (lambda b, t: ops.remote_load(b, 2), ValueError, "must be at least 0 and less than 2"),
        (lambda b, t: ops.remote_load(b, t), ValueError, "an int or a tensor of one"),
        (lambda b, t: ops.remote_store(b, 0, t[:1]), ValueError, "does not match buffer"),
        (lambda b, t: ops.remote_load_(b, 0, ops.cast(t, popxl.int32)), ValueError, "not match"),
        (lambda b, t: popxl.remote_variable([1, 2], b), ValueError, "does not match buffer"),
        (
            lambda b, t: popxl.replica_sharded_buffer((4,), FLOAT, shard_over=8),
            ValueError,
            "must be less than or equal to",
        ),
        (
            lambda b, t: popxl.replica_sharded_buffer((4,), FLOAT, shard_over=3),
            ValueError,
            "must be divisible",
        ),
        (
            lambda b, t: popxl.remote_replica_sharded_variable(np.zeros(8, np.int32), b),
            ValueError,
            "does not match buffer",
        ),
        (
            lambda b, t: [
                popxl.remote_replica_sharded_variable(np.zeros(n), b) for n in (8, (2, 4))
            ],
            ValueError,
            "meta_shape has already been set",
        ),
        (
            lambda b, t: popxl.variable(np.zeros(3), replica_grouping=t.ir.replica_grouping(1, 1)),
            popxl.errors.popart_exception,
            "should match numGroups",
        ),
        (
            lambda b, t: popxl.variable(1.0, replica_grouping=t.ir.replica_grouping(1, 1)),
            popxl.errors.popart_exception,
            "should have at least one dimension",
        ),
        (
            lambda b, t: popxl.variable(np.zeros(2), retrieval_mode="first"),
            ValueError,
            "Invalid retrieval_mode",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir(4).main_graph:
        buffer = popxl.remote_buffer((2,), FLOAT, 2)
        t = popxl.variable(np.zeros(2))
        with pytest.raises(error, match=message):
            build(buffer, t)


def test_buffers_are_numbered_and_can_be_changed():
    with popxl.Ir().main_graph:
        one, two = popxl.remote_buffer((2,), FLOAT), popxl.RemoteBuffer((), popxl.int32, 4)
        assert (one.remote_buffer_id, two.remote_buffer_id, two.entries) == (1, 2, 4)
        two.set_remote_buffer_info(popxl.float16, (3,), 5)
        two.meta_shape = (5, 1)
        assert (two.tensor_shape, two.tensor_dtype, two.entries) == ((3,), popxl.float16, 5)
        whole = popxl.constant(np.zeros((5, 1)), popxl.float16)
        two.validate_tensor_matches_buffer(whole, 2)
        with pytest.raises(ValueError, match="greater than 1"):
            popxl.replica_sharded_variable(np.zeros(4))
        with pytest.raises(ValueError, match="greater than 1"):
            popxl.remote_replica_sharded_variable(np.zeros(4), one)
        assert repr(one) == "RemoteBuffer[1 popxl.dtypes.float32 (2,) 1 entries]"


# Shape of the data, shape of an entry: equal counts of elements, or those that fit.
FORMS = [((1, 1), (1,)), ((2, 3), (3, 2)), ((2, 2, 2), (2, 2)), ((3,), (2, 2))]


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("data_shape, entry_shape", FORMS)
def test_entries_hold_the_elements_that_fit(data_shape, entry_shape, sharded):
    ir = popxl.Ir(2)
    data = np.arange(1, 1 + np.prod(data_shape), dtype=np.float32).reshape(data_shape)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer(entry_shape, FLOAT)
        make = popxl.remote_replica_sharded_variable if sharded else popxl.remote_variable
        variable = make(data, buffer)
        assert variable.shape == variable.shape_on_host == data_shape
        entry = popxl.d2h_stream(entry_shape, FLOAT)
        loaded = ops.remote_load(buffer, popxl.constant([0]))
        ops.host_store(entry, loaded)
        ops.remote_store(buffer, 0, loaded + 1)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run()[entry].reshape(2, -1)
        after = session.get_tensor_data(variable)
    room, flat = found.shape[1], data.reshape(-1)
    # An entry that has room for the whole has it.
    shards = 2 if sharded and not room == flat.size > 1 else 1
    length = -(-flat.size // shards)
    kept = min(room, length)
    for replica in range(2):
        shard = flat[replica % shards * length :][:kept]
        np.testing.assert_array_equal(found[replica, : shard.size], shard)
    # What has no room on the device stays as it was on the host.
    held = np.arange(flat.size) % length < room
    np.testing.assert_array_equal(after.reshape(-1), np.where(held, flat + 1, flat))


@pytest.mark.parametrize("remote", [False, True])
def test_shards_of_groups_of_one_are_whole(remote):
    ir = popxl.Ir(2)
    data = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    with ir.main_graph, popxl.in_sequence():
        group = ir.replica_grouping(1, 1)
        if remote:
            buffer = popxl.replica_sharded_buffer(data.shape, FLOAT, group)
            variable = popxl.remote_replica_sharded_variable(
                data, buffer, 0, replica_grouping=group
            )
            shard = ops.remote_load(buffer, 0)
        else:
            variable, shard = popxl.replica_sharded_variable(data, replica_grouping=group)
        assert (shard.shape, shard.meta_shape) == ((6,), (3, 2))
        whole = collectives.replicated_all_gather(shard, group=group)
        scattered = collectives.replicated_reduce_scatter(
            whole, group=group, configure_output_for_replicated_tensor_sharding=True
        )
        ops.var_updates.accumulate_(shard, scattered)
        if remote:
            ops.remote_store(buffer, 0, shard)
        out = popxl.d2h_stream((3, 2), FLOAT)
        ops.host_store(out, whole)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run()[out], data)
        np.testing.assert_array_equal(session.get_tensor_data(variable), 2 * data)


@pytest.mark.parametrize(
    ("is_remote", "size", "uniform", "copies"),
    [(True, 4, 1, 0), (True, 2, 0, 2), (True, 1, 0, 4), (False, 2, 0, 2), (False, 1, 0, 4)],
    ids=["remote_all", "remote_groups", "remote_alone", "groups", "alone"],
)
def test_variables_are_held_once_for_each_group(
    is_remote, size, uniform, copies, compiled_executables
):
    """In a remote buffer that all replicas write alike once in all."""
    ir, length, steps = popxl.Ir(4), 20_000, 3
    group = ir.replica_grouping(group_size=size)
    start = np.arange(group.num_groups * length, dtype=np.float32).reshape(-1, length)
    start = start[0] if group.num_groups == 1 else start
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((length,), FLOAT)
        change = collectives.replicated_all_reduce(ops.host_load(stream), "add", group)
        if is_remote:
            buffer = popxl.remote_buffer((length,), FLOAT, 1)
            made = popxl.remote_variable(start, buffer, replica_grouping=group)
            ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + change)
        else:
            made = popxl.variable(start, replica_grouping=group)
            ops.add_(made, change)
    data = np.random.default_rng(0).integers(0, 9, (steps, 4, length)).astype(np.float32)
    with popxl.Session(ir, "ipu_hw") as session:
        for batch in data:
            session.run({stream: batch})
    sums = data.sum(0).reshape(group.num_groups, size, length).sum(1)
    np.testing.assert_array_equal(made.data, start + sums.reshape(start.shape))
    _, _, shared, _, copied = compiled_executables[-1].uniform
    assert (shared, copied) == (uniform * 4 * length, copies * 4 * length)


def test_only_entries_that_differ_are_held_several_times(compiled_executables):
    ir, length, replicas = popxl.Ir(4), 20_000, 4
    start = np.arange(2 * length, dtype=np.float32).reshape(2, length)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((length,), FLOAT, 2)
        rows = [popxl.remote_variable(row, buffer, i) for i, row in enumerate(start)]
        x, out = popxl.h2d_stream((length,), FLOAT), popxl.d2h_stream((2, length), FLOAT)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + ops.host_load(x))
        entries = [ops.reshape(ops.remote_load(buffer, i), (1, length)) for i in range(2)]
        ops.host_store(out, ops.concat(entries))
    data = np.random.default_rng(0).integers(0, 9, (2, replicas, length)).astype(np.float32)
    expected = np.tile(start, (replicas, 1, 1))
    with popxl.Session(ir, "ipu_hw") as session:
        for batch in data:
            expected[:, 0] += batch
            np.testing.assert_array_equal(session.run({x: batch})[out], expected)
    np.testing.assert_array_equal([row.data for row in rows], expected[0])
    assert compiled_executables[-1].uniform[4] == (replicas + 1) * 4 * length
