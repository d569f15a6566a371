"""Sessions: streams, variables, attaching, and refusals."""

from __future__ import annotations

import gc
import weakref
from concurrent import futures

import numpy as np
import popart
import popxl
import pytest
from popxl import ops

from tensorflow_ipu.compiler import observers
from tensorflow_ipu.runtime import native
from tensorflow_ipu.runtime.native import Counts
from tests.support.checkout.source_lines import line_of, short_place_of


def counter(transfers=1, replicas=1):
    """Returns an Ir that stores its loaded value, doubled, and adds it to a variable."""
    ir = popxl.Ir(replicas)
    ir.num_host_transfers = transfers
    with ir.main_graph:
        x = popxl.h2d_stream((2,), popxl.float32, "x")
        y = popxl.d2h_stream((2,), popxl.float32, "y")
        total = popxl.variable(np.zeros(2, np.float32), name="total")
        with popxl.in_sequence():
            for _ in range(transfers):
                loaded = ops.host_load(x)
                ops.host_store(y, loaded * 2)
                total += loaded
    return ir, x, y, total


def test_run_stores_results_and_variables_keep_values():
    ir, x, y, total = counter()
    session = popxl.Session(ir, "ipu_model")
    assert session.expected_inputs() == {x}
    with session:
        assert session.is_attached and total.in_sync_with_ipu
        np.testing.assert_array_equal(session.run({x: [1, 2]})[y], [2, 4])
        assert not total.in_sync_with_ipu
        outputs = session.create_host_outputs()
        session.run_with_outputs({x: np.array([3.0, 4.0])}, outputs)
        np.testing.assert_array_equal(outputs[y], [6, 8])
        np.testing.assert_array_equal(session.get_tensor_data(total), [4, 6])
        session.write_variable_data(total, np.array([10, 20], np.float32))
        session.run({x: [1, 1]})
    assert not session.is_attached
    np.testing.assert_array_equal(session.get_tensor_data(total), [11, 21])
    with session, session:
        session.run({x: [1, 1]})
    np.testing.assert_array_equal(total.data, [12, 22])


def test_values_stay_after_error_or_on_request():
    ir, x, _, total = counter()
    with pytest.raises(KeyError), popxl.Session(ir) as session:
        session.run({x: [1, 1]})
        raise KeyError
    assert not session.is_attached
    with popxl.Session(ir, weights_to_host_on_exit=False) as session:
        session.run({x: [1, 1]})
    np.testing.assert_array_equal(total.data, [0, 0])


@pytest.mark.parametrize("transfers, replicas", [(3, 1), (1, 2), (2, 4)])
def test_arrays_have_transfer_and_replica_dimensions(transfers, replicas):
    ir, x, y, total = counter(transfers, replicas)
    shape = [n for n in (transfers, replicas) if n > 1] + [2]
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with popxl.Session(ir, "ipu_hw") as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run({x: data})[y], data * 2)
    first = data.reshape(transfers, replicas, 2)[:, 0]
    np.testing.assert_array_equal(total.data, 2 * first.sum(0))


def test_two_sessions_of_one_ir_share_the_variables():
    ir, x, _, total = counter()
    one, other = popxl.Session(ir), popxl.Session(ir)
    with one:
        one.run({x: [1, 2]})
    with other:
        other.run({x: [1, 2]})
    np.testing.assert_array_equal(total.data, [2, 4])


def echo(streams, transfers=1, replicas=1):
    """Returns an Ir that stores its loaded values: streams of the given shapes and types."""
    ir = popxl.Ir(replicas)
    ir.num_host_transfers = transfers
    with ir.main_graph, popxl.in_sequence():
        loaded = [popxl.h2d_stream(*stream) for stream in streams]
        stored = [popxl.d2h_stream(*stream) for stream in streams]
        for x, y in list(zip(loaded, stored)) * transfers:
            ops.host_store(y, ops.host_load(x))
    return ir, loaded, stored


def test_data_of_all_types_pass_streams_unchanged():
    names = "bool int8 uint8 int16 uint16 int32 uint32 float16 float32 float8_143 float8_152 int64"
    types = [getattr(popxl, name) for name in names.split()]
    ir, loaded, stored = echo([((3,), dtype) for dtype in types])
    codes = np.array([[0, 1, 255]], "uint8")
    data = [codes[0] if t.is_float8 else np.array([0, 1, -1]).astype(t.as_numpy()) for t in types]
    data[-1] = np.array([-5, 2**31 - 1, 2**40 + 3])  # the device has 32 bits
    with popxl.Session(ir) as session:
        found = session.run(dict(zip(loaded, data)), downcast_inputs=False)
    for stream, given in zip(stored, data):
        assert found[stream].dtype == np.dtype(stream.dtype.as_numpy())
        if stream.dtype.is_float8:
            given = given.view(stream.dtype.as_numpy())
        elif stream.dtype is popxl.int64:
            given = given.astype("int32")
        np.testing.assert_array_equal(found[stream], given)


def test_variables_of_types_and_sizes_move_both_ways():
    names = "bool int8 uint8 int16 uint16 int32 uint32 float16 float32 float8_143 float8_152"
    ir, first, later = popxl.Ir(), [], []
    with ir.main_graph, popxl.in_sequence():
        for name in names.split():
            for shape in ((), (3,), (2, 0)):
                dtype = getattr(popxl, name)
                kind = "uint8" if dtype.is_float8 else dtype.as_numpy()
                data = [np.full(shape, n, kind).view(dtype.as_numpy()) for n in (0, 5)]
                variable = popxl.variable(data[0], dtype)
                ops.var_updates.copy_var_update_(variable, variable)  # it may have changed
                first.append((variable, data[0]))
                later.append((variable, data[1]))
    with popxl.Session(ir) as session:
        for values in (first, later):
            session.write_variables_data(dict(values))
            session.run()
            for variable, value in values:
                found = session.get_tensor_data(variable)
                assert found.dtype == value.dtype
                np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("name", ["float64", "uint64"])
def test_streams_of_types_that_device_lacks_are_refused(name):
    ir, _, _ = echo([((2,), getattr(popxl, name))])
    with pytest.raises(popxl.errors.popart_exception, match=f"the device, which has no {name}"):
        popxl.Session(ir)


@pytest.mark.parametrize("transfers, replicas", [(1, 1), (3, 2)])
def test_streams_of_tensors_without_elements_move_nothing(transfers, replicas):
    ir, (x, z), (y, u) = echo([((0, 3), popxl.float32), ((), popxl.int32)], transfers, replicas)
    leading = tuple(n for n in (transfers, replicas) if n > 1)
    numbers = np.arange(transfers * replicas).reshape(leading)
    with popxl.Session(ir, "ipu_hw") as session:
        found = session.run({x: np.zeros((*leading, 0, 3)), z: numbers})
    assert found[y].shape == (*leading, 0, 3)
    np.testing.assert_array_equal(found[u], numbers)


def test_outputs_of_any_layout_are_filled():
    ir, (x, z), (y, u) = echo([((3,), popxl.float32), ((2,), popxl.float8_143)], 2)
    data, codes = np.arange(12.0).reshape(4, 3), np.arange(8, dtype="uint8").reshape(4, 2)
    wide = np.full((2, 6), -1, np.float32)
    with popxl.Session(ir) as session:
        for array, bare in (
            (np.full((4, 3), -1, np.float32), np.zeros((2, 2), "uint8")),  # rows that stay
            (np.full((3, 3), -1, np.int32), np.zeros((2, 2), popxl.float8_143.as_numpy())),
            (wide[:, ::2], np.zeros((2, 2), "uint8").T),
        ):
            session.run_with_outputs({x: data, z: codes}, {y: array, u: bare})
            np.testing.assert_array_equal(array[:2], data[:2])
            assert (array[2:] == -1).all()
            np.testing.assert_array_equal(bare.astype("uint8"), codes[:2])
    assert (wide[:, 1::2] == -1).all()


def test_data_may_change_after_run_made_variable():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.h2d_stream((64,), popxl.float32)
        w = popxl.variable(np.zeros(64, np.float32))
        ops.var_updates.copy_var_update_(w, ops.host_load(x))
    data = np.ones(64, np.float32)
    with popxl.Session(ir) as session:
        session.run({x: data})
        data[:] = 2
        np.testing.assert_array_equal(session.get_tensor_data(w), np.ones(64))


def test_run_that_fails_leaves_nothing_for_the_next():
    ir, x, y, total = counter(2)
    ir.num_host_transfers = 1
    broken = popxl.Session(ir)
    ir.num_host_transfers = 2
    whole = popxl.Session(ir)
    with broken:
        with pytest.raises(RuntimeError, match="loads more elements of a stream"):
            broken.run({x: [1, 2]})
        with pytest.raises(RuntimeError, match="loads more elements of a stream"):
            broken.run({x: [1, 2]})
    with whole:
        assert whole.run({x: [[1, 2], [3, 4]]})[y].tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({}, "Missing inputs: .*x"),
        ({"x": [1]}, "Shape mismatch"),
        ({"x": [1, 2], "other": [1]}, "Unexpected inputs: .*other"),
    ],
)
def test_run_refuses_other_streams_and_shapes(inputs, message):
    ir, x, _, _ = counter()
    with ir.main_graph:
        other = popxl.h2d_stream((1,), popxl.float32, "other")
    streams = {"x": x, "other": other}
    with popxl.Session(ir) as session, pytest.raises(ValueError, match=message):
        session.run({streams[name]: value for name, value in inputs.items()})


@pytest.mark.parametrize(
    "shape, message",
    [
        ((2, 4, 2), "is not large enough"),
        ((3, 2, 2), "is the wrong size"),
        ((3, 4, 3), "Shape mismatch"),
    ],
)
def test_run_refuses_arrays_for_other_transfers_and_replicas(shape, message):
    ir, x, y, _ = counter(3, 4)
    with popxl.Session(ir, "ipu_hw") as session:
        with pytest.raises(ValueError, match=message):
            session.run({x: np.zeros(shape)})
        with pytest.raises(ValueError, match=message):
            session.run_with_outputs({x: np.zeros((3, 4, 2))}, {y: np.zeros(shape)})


def test_run_has_at_most_num_host_transfers_elements():
    ir, x, _, _ = counter(2)
    ir.num_host_transfers = 1
    with popxl.Session(ir) as session, pytest.raises(RuntimeError, match="num_host_transfers=1"):
        session.run({x: [1, 2]})


def test_calls_that_need_a_device_say_so():
    ir, x, _, _ = counter()
    session = popxl.Session(ir)
    for call in (lambda: session.run({x: [1, 2]}), session.weights_to_host):
        with pytest.raises(ValueError, match="Must be attached to device"):
            call()


def test_wrong_tensors_types_and_shapes_are_refused():
    ir, _, _, total = counter()
    (t,) = ir.main_graph.ops[0].outputs
    session = popxl.Session(ir)
    with pytest.raises(TypeError, match="is not of type Constant or Variable"):
        session.get_tensor_data(t)
    with pytest.raises(TypeError, match="is not of type Variable"):
        session.write_variable_data(t, 1.0)
    with pytest.raises(TypeError, match="must match the equivalent type"):
        session.write_variable_data(total, np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="The shape of the input array"):
        session.write_variable_data(total, np.zeros(3, np.float32))


def test_sessions_without_ops_or_device_are_refused():
    with pytest.raises(ValueError, match="Incorrect device type provided"):
        popxl.Session(counter()[0], "gpu")
    with pytest.raises(ValueError, match="multiple devices"):
        popxl.Session(counter(1, 2)[0], "cpu")
    with pytest.raises(RuntimeError, match="has no graphs"):
        popxl.Session(popxl.Ir())


def test_an_ir_with_a_session_does_not_change():
    ir, _, _, total = counter()
    popxl.Session(ir)
    with ir.main_graph, pytest.raises(RuntimeError, match="already prepared"):
        ops.relu(total)
    with pytest.raises(RuntimeError, match="already prepared"):
        ir.replication_factor = 2


def test_sessions_attached_at_once_have_own_devices():
    (one, x, _, _), (two, z, _, total) = counter(), counter()
    first, second = popxl.Session(one), popxl.Session(two)
    with first, second:
        first.run({x: [1, 2]})
        second.run({z: [1, 2]})
        late = popxl.Session(counter()[0])
        with pytest.raises(RuntimeError, match="Could not attach to device"):
            late.__enter__()
    np.testing.assert_array_equal(total.data, [1, 2])


def test_unrunnable_replica_count_is_refused():
    session = popxl.Session(counter(1, 3)[0], "ipu_hw")
    with pytest.raises(RuntimeError, match=r"3 replica\(s\) of 1 IPU\(s\), and the device"):
        session.__enter__()
    assert not session.is_attached


def test_more_ipus_than_the_machine_has_are_refused():
    with pytest.raises(RuntimeError, match="Failed to acquire device: the program needs 32 IPUs"):
        popxl.Session(counter(1, 32)[0], "ipu_hw")


def test_a_model_has_more_ipus_than_the_machine():
    ir = popxl.Ir(256)
    data = np.arange(256, dtype=np.float32)
    with ir.main_graph:
        x = popxl.variable(data, replica_grouping=ir.replica_grouping(1, 1))
        out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(out, ops.collectives.replicated_all_reduce(x) - x)
    with popxl.Session(ir, "ipu_model") as session:
        np.testing.assert_array_equal(session.run()[out], data.sum() - data)


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_attached_device_attaches_its_session(replicas, popart_log):
    ir, x, y, total = counter(1, replicas)
    device = popart.DeviceManager().acquireAvailableDevice(replicas)
    session = popxl.Session(ir, device)
    assert session.is_attached
    data = np.ones((replicas, 2) if replicas > 1 else 2)
    session.run({x: data})
    with session:
        np.testing.assert_array_equal(session.run({x: data})[y], data * 2)
    assert session.is_attached
    assert popart_log().count("Starting compilation", "Writing weights from host, ") == (1, 1)
    device.detach()
    assert not session.is_attached
    with session:
        session.run({x: data})
    np.testing.assert_array_equal(total.data, [3, 3])
    assert not device.isAttached


def test_given_devices_that_do_not_fit_are_refused():
    manager = popart.DeviceManager()
    with (
        manager.createIpuModelDevice({"numIPUs": 2}) as device,
        pytest.raises(RuntimeError, match="needs 1 IPUs, and the given device has 2"),
    ):
        popxl.Session(counter()[0], device)
    session = popxl.Session(counter()[0], manager.createOfflineIPUDevice({"numIPUs": 1}))
    with pytest.raises(RuntimeError, match="Could not attach to device"):
        session.__enter__()
    with manager.createIpuModelDevice({"numIPUs": 32}) as device:
        ir, x, y, _ = counter(1, 32)
        with popxl.Session(ir, device) as session:
            np.testing.assert_array_equal(
                session.run({x: np.ones((32, 2))})[y], np.full((32, 2), 2)
            )


@pytest.fixture
def compiled_executables():
    found = []
    observers.observe(found.append)
    yield found
    observers.forget(found.append)


def test_listings_name_lines_and_count_graphs_once(compiled_executables):
    ir = popxl.Ir()
    with ir.main_graph:
        w = popxl.variable(np.ones((8, 8)), name="w")
        graph = ir.create_graph(lambda x, w: ops.exp(x @ w), w, w)  # the graph
        (x,) = ops.call(graph, w, w)
        (x,) = ops.call(graph, x, w)
        w += x  # the update
    with popxl.Session(ir) as session:
        session.run()
    (executable,) = compiled_executables
    assert [variable.name for variable in executable.variables] == ["w"]
    lines = {op.type: str(op.source) for op in executable.ops}
    here = test_listings_name_lines_and_count_graphs_once
    assert lines["MatMul"].startswith(f"test_session.py:{line_of(here, '# the graph')} ")
    for kind in ("AddV2", "AssignVariableOp"):
        assert lines[kind] == short_place_of(here, "# the update")
    assert sum(op.type == "MatMul" for op in executable.ops) == 2
    assert len({f.signature.name for f in executable.library.function}) == 2
    assert executable.plan.fits


def test_mapped_file_is_host_copy_of_its_variable(tmp_path):
    path = tmp_path / "weights"
    file = np.memmap(path, np.float32, "w+", shape=(3,))
    file[:] = [1, 2, 3]
    for mode in ("r+", "r"):
        ir = popxl.Ir("popdist")
        assert (ir.replication_factor, ir.instance_replication_factor) == (1, 1)
        with ir.main_graph:
            w = popxl.variable(np.memmap(path, np.float32, mode, shape=(3,)))
            w += 1.0
        with popxl.Session(ir, weights_to_host_on_exit=True) as session:
            session.run()
            if mode == "r":
                with pytest.raises(Exception, match="read-only memmap"):
                    session.weights_to_host()
            assert session.get_tensor_data(w).tolist() == [2, 3, 4]
        assert np.fromfile(path, np.float32).tolist() == [2, 3, 4]


def test_threads_do_not_mix_their_data():
    ir, (x,), (y,) = echo([((2,), popxl.float32)], 3)
    with popxl.Session(ir) as session:

        def runs(number):
            for i in range(40):
                data = np.full((3, 2), number * 100 + i)
                np.testing.assert_array_equal(session.run({x: data})[y], data)

        with futures.ThreadPoolExecutor(3) as threads:
            list(threads.map(runs, range(3)))


def test_a_run_that_fails_may_have_changed_variables():
    ir, x, _, total = counter(2)
    ir.num_host_transfers = 1
    with popxl.Session(ir) as session:
        with pytest.raises(RuntimeError, match="loads more elements of a stream"):
            session.run({x: [1, 2]})
        assert not total.in_sync_with_ipu


@pytest.mark.lifetimes
@pytest.mark.parametrize("replicas", [1, 2])
def test_what_a_session_has_goes_with_it(replicas):
    before = native.counts()
    ir, x, _, _ = counter(1, replicas)
    session = popxl.Session(ir, "ipu_hw")
    data = np.ones((replicas, 2) if replicas > 1 else 2)
    for _ in range(2):
        with session:
            for _ in range(3):
                session.run({x: data})
    assert native.counts() == Counts(*(n + 1 for n in before))._replace(launches=0)
    gone = weakref.ref(session), weakref.ref(ir)
    del session, ir, x, _
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert native.counts() == before


@pytest.mark.parametrize(
    "name", ["AccumulateOuterFragment", "OptimizerFromHostFragment", "Subgraph", "Normal"]
)
def test_ops_of_other_contexts_run_with_each_run(name):
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(2, np.float32))
        with popxl.context._execution_context(popxl.ExecutionContext[name]):
            ops.add_(v, popxl.constant([1.0, 2.0], popxl.float32))
    with popxl.Session(ir) as session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(v), [2.0, 3.0])
