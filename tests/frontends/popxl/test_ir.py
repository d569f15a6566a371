"""Building graphs: names, inputs and outputs, contexts, and refusals."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import pytest
from popxl import ops, transforms

ERROR = popxl.errors.popart_exception


def test_ids_have_scopes_and_names_and_are_unique():
    ir = popxl.Ir()
    with ir.main_graph:
        bias = [popxl.variable(0.0, name="bias") for _ in range(2)]
        with popxl.name_scope("outer") as one, popxl.name_scope("inner") as two:
            weight = popxl.variable(0.0, name="weight")
        again = popxl.constant(1, name="bias")
        graph = ir.create_graph(lambda x: x + 1, bias[0])
        unnamed = popxl.constant(2)
    assert (one, two) == (["outer"], ["outer", "inner"])
    assert [t.id for t in (*bias, again)] == ["bias", "bias__t0", "bias__t1"]
    assert (weight.id, weight.name, weight.scope) == ("outer/inner/weight", weight.id, "")
    (x,) = graph.inputs
    name = f"{test_ids_have_scopes_and_names_and_are_unique.__name__}.<lambda>_subgraph(0)"
    assert graph.id == graph.name == name
    assert (x.id, x.name, x.scope) == (f"{name}/x", "x", name)
    assert unnamed.id == "t"
    assert ir.create_empty_graph().id == "graph_subgraph(1)"
    assert repr(bias[1]) == "Variable[bias__t0 popxl.dtypes.float32 ()]"


def test_create_graph_makes_inputs_anywhere_in_signature():
    ir = popxl.Ir()
    spec = popxl.TensorSpec((2,), popxl.float32)

    def build(
        a: popxl.Tensor,
        refs: list[popxl.TensorByRef],
        *rest: popxl.TensorByRef,
        scale=2,
        options=None,
        **named: popxl.Tensor,
    ):
        assert isinstance(refs, list) and isinstance(rest, tuple) and scale == 2
        assert options == {"key": spec}
        extra = popxl.graph_input((), popxl.int32, "extra", by_ref=True)
        assert popxl.gcg().inputs[-1] is extra
        return [a, *named.values()]

    graph = ir.create_graph(build, spec, [spec, spec], spec, options={"key": spec}, k=spec)
    names = ["a", "refs_0", "refs_1", "rest_0", "k", "extra"]
    assert [t.name for t in graph.inputs] == names and list(graph.inputs_by_name) == names
    assert [t.by_ref for t in graph.inputs] == [False, True, True, True, False, True]
    assert graph.outputs == (graph.inputs[0], graph.inputs[4])
    assert (graph.inputs[0] in graph, graph.get_tensor(graph.inputs[0].id)) == (
        True,
        graph.inputs[0],
    )


def test_type_checker_annotations_leave_others_alone():
    def build(
        a: Unknown,  # noqa: F821
        b: popxl.TensorByRef,
        c: list[popxl.TensorByRef],
    ):
        return None

    spec = popxl.TensorSpec((), popxl.int32)
    graph = popxl.Ir().create_graph(build, spec, spec, [spec])
    assert [t.by_ref for t in graph.inputs] == [False, True, True]


def test_modules_are_called_in_place_or_make_graphs():
    class Linear(popxl.Module):
        def __init__(self, scale):
            self.scale = scale

        def build(self, x: popxl.Tensor):
            return x * self.scale

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        assert Linear(3)(x).producer.opType() == "Mul"
        graph = ir.create_graph(Linear(3), x)
        assert graph.id.endswith("Linear_subgraph(0)")
        with pytest.raises(NotImplementedError, match="must override `build`"):
            popxl.Module()()


@pytest.mark.parametrize(
    "fn, args, error, message",
    [
        (partial(abs), (1,), TypeError, "extends popxl.Module"),
        (lambda x: x, (), ValueError, "do not match the signature"),
        (lambda x: 3, (1,), ValueError, "Output of subgraph must be None, a Tensor or an iterable"),
        (lambda x: None, ([1, popxl.TensorSpec((), popxl.int32)],), TypeError, "a mixture of"),
    ],
)
def test_create_graph_refuses_what_is_no_graph(fn, args, error, message):
    with pytest.raises(error, match=message):
        popxl.Ir().create_graph(fn, *args)


def test_graphs_and_irs_compare_with_their_kind_only():
    ir, other = popxl.Ir(), popxl.Ir()
    assert ir == ir and ir != other and len({ir, other}) == 2
    assert ir.main_graph == ir.main_graph and ir.main_graph.main_graph is ir.main_graph
    for value in (ir, ir.main_graph):
        with pytest.raises(TypeError, match="must be of type"):
            value == 1  # noqa: B015
    with pytest.raises(TypeError, match="must be of type"):
        1 in ir.main_graph  # noqa: B015
    with pytest.raises(TypeError, match="using the constructor"):
        popxl.Graph()
    with pytest.raises(ERROR, match="No tensor"):
        ir.main_graph.get_tensor("x")


def test_current_graph_is_the_innermost_of_one_ir():
    ir, other = popxl.Ir(), popxl.Ir()
    with pytest.raises(RuntimeError, match="no graph has been selected"):
        popxl.gcg()
    with ir.main_graph as main, ir.create_empty_graph() as graph:
        assert (popxl.gcg(), popxl.gmg(), popxl.gir()) == (graph, main, ir)
        with main:
            assert popxl.get_current_graph() is main
        with pytest.raises(RuntimeError, match="previous context's Ir is different"):
            other.main_graph.__enter__()
        with pytest.raises(ValueError, match="within a graph"):
            popxl.variable(1)


def test_context_shows_what_is_open():
    from popart._internal import ir as internal

    ir, current, seen = popxl.Ir(), popxl.context.get_current_context(), []
    with pytest.raises(RuntimeError, match="no graph has been selected"):
        _ = current.graph
    with ir.main_graph as main, popxl.ipu(1), popxl.io_tiles(), popxl.in_sequence():
        assert (current.graph, current.main_graph, current.ir) == (main, main, ir)
        assert (current.ipu_id, current.io_tile_set, current.in_sequence) == (1, True, True)
        current.push_name_scope("outer")
        assert current.name_scopes == ["outer"]
        x = popxl.variable(1.0, name="x")
        current.pop_name_scope()
        handle = current.register_op_created_hook(seen.append)
        ir.create_graph(lambda x: ops.gelu(x) @ x.reshape((1, 1)), x.spec.with_shape((1, 1)))
        current.in_sequence = False
        ops.add_(x, x)
        current.remove_op_created_hook(handle)
        ops.host_load(popxl.h2d_stream((), popxl.float32))
    assert x.id == "outer/x"
    classes = [internal.op.GeluOp, internal.op.ReshapeOp, internal.op.MatMulOp, internal.op.AddOp]
    assert [[isinstance(op, cls) for cls in classes] for op in seen] == np.eye(4).tolist()
    assert isinstance(main.ops[-1], internal.op.exchange.HostLoadOp)
    with pytest.raises(ValueError, match="Unknown op created hook"):
        current.remove_op_created_hook(handle)


def test_checks_of_op_utilities_name_the_parameter():
    from popxl.ops import utils

    ir, other = popxl.Ir(), popxl.Ir()
    with ir.main_graph as main:
        x, y = popxl.variable([1.0, 2.0]), popxl.variable([1.0, 2.0])
        with popxl.ipu(1):
            z = y + 1.0
        x = x + 1.0
        assert utils.cast_if_needed(x, popxl.float32) is x
        assert utils.cast_if_needed(x, popxl.float16).dtype == popxl.float16
        assert (utils.handle_negative_axis(x, -1), utils.handle_negative_axis(x, 0)) == (0, 0)
        assert utils.convert_optional_float(None) is None
        utils.check_in_graph(main, t=x, X=y)
        utils.check_tensor_ipu_and_tile_set(t=x, X=x)
        with pytest.raises(ValueError, match="`lhs` and `rhs` are located on different IPUs"):
            utils.check_tensor_ipu_and_tile_set(lhs=x, rhs=z)
        with pytest.raises(TypeError, match="The input `t` is not a Tensor"):
            utils.check_in_graph(main, t=1)
        with pytest.raises(ValueError, match="The input tensor `t` is not in the current Graph"):
            utils.check_in_graph(other.main_graph, t=x)
        with pytest.raises(Exception, match="please specify all tensors as keyword arguments"):
            utils.check_in_graph(main, x)


def test_hooks_see_the_ops_of_their_graph():
    ir = popxl.Ir()
    seen = []
    with ir.main_graph as main:
        handle = main.register_op_created_hook(lambda op: seen.append(op.opType()))
        ops.exp(popxl.constant(1.0)) + 1
        main.remove_op_created_hook(handle)
        popxl.constant(1.0) + 1
    assert seen == ["Exp", "Add"]
    with pytest.raises(ValueError, match="Unknown op created hook"):
        main.remove_op_created_hook(handle)


def test_ops_are_where_the_contexts_say():
    with popxl.Ir().main_graph:
        x, y = popxl.variable(1.0), popxl.variable(1.0)
        with pytest.raises(popxl.errors.UndefinedValue, match="IPU is undefined"):
            x.ipu  # noqa: B018
        with pytest.raises(popxl.errors.UndefinedValue, match="tile set is undefined"):
            x.tile_set  # noqa: B018
        with popxl.ipu(2) as index, popxl.io_tiles():
            z = ops.exp(x)
        copied = y.copy_to_ipu(3, 1)
        assert index == z.ipu == x.ipu == 2 and z.tile_set == "io"
        assert (y.ipu, copied.ipu) == (1, 3)
        assert ops.io_tile_copy(copied).tile_set == "io"


def test_tensors_say_what_they_are():
    with popxl.Ir().main_graph:
        x = popxl.variable(np.zeros((2, 3, 4), np.float16), name="x")
        assert (x.shape, x.dtype, x.rank, x.nelms, len(x)) == ((2, 3, 4), popxl.half, 3, 24, 2)
        assert (x.strides(), x.strides((5, 6))) == ((24, 8, 2), (12, 2))
        assert dict(**x.spec) == {"shape": (2, 3, 4), "dtype": popxl.float16, "meta_shape": ()}
        assert x.spec == popxl.TensorSpec((2, 3, 4), popxl.float16) and hash(x.spec)
        assert x.meta_shape == () and x == x and x != popxl.constant(1)
        assert (1.0 + x).dtype is popxl.float16
        assert (np.ones(4) * x).shape == (2, 3, 4)
        for action in (iter, lambda t: 1 in t):
            with pytest.raises(TypeError):
                action(x)
        with pytest.raises(ValueError, match="doesn't have a length"):
            len(popxl.constant(1))
    for cls in (popxl.Tensor, popxl.Variable, popxl.Constant):
        with pytest.raises(RuntimeError, match="cannot be constructed directly"):
            cls()
    with pytest.raises(NotImplementedError):
        popxl.HostToDeviceStream()
    with pytest.raises(NotImplementedError, match="should only be used as an annotation"):
        popxl.TensorByRef()


def test_ops_in_sequence_run_after_each_other():
    with popxl.Ir().main_graph:
        x = popxl.constant(1.0)
        with popxl.in_sequence():
            a = ops.exp(x).producer
            with popxl.in_sequence(False):
                b, c = ops.exp(x).producer, ops.exp(x).producer
            with popxl.in_sequence("pass"):
                d = ops.exp(x).producer
            e = ops.exp(x).producer
        f = ops.exp(x).producer
        assert [list(op.after) for op in (a, b, c, d, e, f)] == [[], [a], [a], [], [b, c], []]
        with pytest.raises(TypeError, match="`None` cannot be passed"), popxl.in_sequence(None):
            pass
        with popxl.in_sequence("all"), pytest.raises(ValueError, match="mode not understood"):
            ops.exp(x)


@pytest.mark.parametrize(
    "build, ambiguous",
    [
        (lambda a, c: (a + 5, ops.add_(a, c)), True),
        (lambda a, c: ops.add_(a, a + c), False),
        (lambda a, c: ops.relu_(a) and ops.relu_(a), True),
        (lambda a, c: ops.relu_(ops.relu_(a)), False),
        (lambda a, c: (ops.exp(a.T_), ops.relu_(a)), True),
        (lambda a, c: (a.reshape_((2, 2)), ops.relu_(a)), False),
    ],
)
def test_modifications_need_an_order(build, ambiguous):
    for in_order in (False, True):
        ir = popxl.Ir()
        with ir.main_graph:
            a, c = popxl.variable(np.ones((2, 2))), popxl.variable(np.ones((2, 2)))
            with popxl.in_sequence(in_order):
                build(a, c)
        if ambiguous and not in_order:
            with pytest.raises(ERROR, match=r"Inplacing ambiguity detected.*test_ir.py"):
                popxl.Session(ir)
        else:
            popxl.Session(ir)


def test_outputs_belong_to_graph_and_occur_once():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        with ir.create_empty_graph("part") as graph:
            y = popxl.constant(1)
            popxl.graph_output(y)
            for tensor in (x, y):
                with pytest.raises(ValueError):
                    popxl.graph_output(tensor)
    assert graph.outputs == (y,) and graph.constants == (y,) and graph.variables == ()
    assert ir.main_graph.variables == (x,)


@pytest.mark.parametrize(
    "stride, size, assignment",
    [
        (1, 2, [0, 0, 1, 1, 2, 2, 3, 3]),
        (2, 2, [0, 1, 0, 1, 2, 3, 2, 3]),
        (2, 4, [0, 1, 0, 1, 0, 1, 0, 1]),
        (4, 2, [0, 1, 2, 3, 0, 1, 2, 3]),
        (3, 1, None),
    ],
)
def test_replica_groupings(stride, size, assignment):
    ir = popxl.Ir(8)
    if assignment is None:
        with pytest.raises(ValueError, match="factor of the number of replicas"):
            ir.replica_grouping(stride, size)
        return
    grouping = ir.replica_grouping(stride, size)
    assert (grouping.assignment, grouping.stride, grouping.group_size) == (assignment, stride, size)
    assert grouping.num_groups == 8 // size and grouping.is_const
    assert grouping == ir.replica_grouping_from_assignments(assignment)
    assert grouping.transpose().transpose() == grouping


def test_groupings_of_no_constant_stride_and_wrong_ones():
    ir = popxl.Ir(6)
    grouping = ir.replica_grouping_from_assignments([0, 1, 0, 0, 1, 1])
    assert not grouping.is_const and "assignment=[0, 1, 0, 0, 1, 1]" in repr(grouping)
    with pytest.raises(NotImplementedError, match="non-constant stride"):
        grouping.stride  # noqa: B018
    for assignment, message in (
        ([0, 0, 1, 1, 1, 1], "same size"),
        ([0, 0, 0, 2, 2, 2], "not numbered consecutively"),
        ([1, 1, 1, 0, 0, 0], "not monotonically increasing"),
        ([0, 0], "does not equal the number of replicas"),
    ):
        with pytest.raises(ValueError, match=message):
            ir.replica_grouping_from_assignments(assignment)
    for stride, size in ((0, 1), (1, 7)):
        with pytest.raises(ValueError, match="must be greater than zero"):
            ir.replica_grouping(stride, size)


def test_copy_has_location_and_other_ops_none():
    with popxl.Ir().main_graph:
        x, codes = popxl.variable(1.0), popxl.variable(1.0, popxl.float8_143)
        with popxl.ipu(2):
            x + 1
            ops.pow2scale_cast_from_fp8(codes, popxl.constant(0), popxl.float16)
        assert (x.ipu, codes.ipu) == (2, 2)
        ops.ipu_copy(x, 3, 1)
        assert x.ipu == 1


def test_ir_streams_are_those_used_in_graphs():
    ir = popxl.Ir()
    with ir.main_graph:
        loaded, inside, _ = (popxl.h2d_stream((), popxl.float32) for _ in range(3))
        stored = popxl.d2h_stream((), popxl.float32)
        ops.host_store(stored, ops.host_load(loaded))
        with ir.create_empty_graph():
            ops.host_load(inside)
    assert ir.get_all_h2d_streams() == {loaded, inside} and ir.get_all_d2h_streams() == {stored}
    assert popxl.Session(ir).expected_inputs() == {loaded}


def test_independent_exchanges_are_one_to_hooks():
    ir = popxl.Ir()
    seen = []
    with ir.main_graph as main:
        stream, out = popxl.h2d_stream((), popxl.float32), popxl.d2h_stream((), popxl.float32)
        buffer, x = popxl.remote_buffer((), popxl.float32, 2), popxl.constant(1.0)
        main.register_op_created_hook(lambda op: seen.append(op))
        with transforms.merge_exchange():
            a, b = ops.host_load(stream), ops.remote_load(buffer, 0)
            ops.remote_store(buffer, 1, x)
            ops.host_store(out, a * 2.0)
            ops.remote_store(buffer, 0, x)
        with transforms.io_tile_exchange():
            c = ops.remote_load_(buffer, 0, ops.init((), popxl.float32))
            ops.host_store(out, a)
        with transforms.io_tile_exchange(verify_overlap=False), popxl.in_sequence():
            ops.host_load(stream), ops.host_load(stream)
    merged = [op for op in seen if op.opType() == "MultiExchange"]
    types = [[part.opType() for part in op.attributes["parts"]] for op in merged]
    assert types == [
        ["HostLoad", "RemoteLoad", "RemoteStore"],
        ["HostStore", "RemoteStore"],
        ["RemoteLoadInplace", "HostStore"],
    ]
    assert merged[0].outputs == [a, b] and x in merged[0].inputs
    assert (a.tile_set, c.tile_set) == ("compute", "io")
    assert len({op.id for op in seen}) == len(seen) and not set(merged) & set(main.ops)


def _added(build):
    """Returns how many tensors of each kind a function adds to the main graph, with its result."""
    main = popxl.gmg()
    before = {t.id for t in main.tensors}, {t.id for t in main.constants}
    made = build()
    tensors = [t.id for t in main.tensors if t.id not in before[0]]
    return made, tensors, [t.id for t in main.constants if t.id not in before[1]]


def test_loads_fill_tensors_that_the_graph_has():
    with popxl.Ir().main_graph:
        buffer, t = popxl.remote_buffer((2,), popxl.float32), popxl.variable(np.ones(2), name="x")
        stream = popxl.h2d_stream((), popxl.float32, name="data")
        at = popxl.constant([0], name="at")
        for build, tensors, constants in (
            (
                lambda: ops.remote_load(buffer, 0),
                ["offset", "id_1_offset_offset_remote_load", "id_1_offset_offset_remote_loaded"],
                ["offset"],
            ),
            (
                lambda: ops.remote_load(buffer, at, "w"),
                ["w_remote_load", "w_remote_loaded"],
                [],
            ),
            (lambda: ops.remote_store(buffer, at, t), [], []),
            (lambda: ops.remote_load_(buffer, at, t), ["remote_load_inplace_out"], []),
            (lambda: ops.host_load(stream), ["data_init", "data_hostload"], []),
            (lambda: ops.host_load(stream, "y"), ["y_init", "y_hostload"], []),
        ):
            assert _added(build)[1:] == (tensors, constants)
        for use in (ops.remote_load_, ops.remote_store):
            (offset,) = _added(lambda use=use: use(buffer, 0, t))[2]
            assert offset.startswith("offset") and popxl.gmg().get_tensor(offset).dtype is (
                popxl.uint32
            )


def test_results_have_the_names_of_the_original():
    with popxl.Ir(2).main_graph:
        x = popxl.variable(np.ones((4, 4)), name="x")
        collectives = ops.collectives
        for result, name in (
            (x + x, "add_out"),
            (ops.add_(x, x), "add_lhs_inplace_out"),
            (x @ x, "matmul_out"),
            (ops.relu_(x), "relu_inplace_out"),
            (ops.logsumexp(x), "reduce_logsum_exp_out"),
            (ops.log2(x), "div_out"),
            (ops.cast(x, popxl.float16), "x_float16"),
            (ops.ipu_copy(x, 1, 0), "x_c1"),
            (collectives.replicated_all_gather(x), "x_all_gathered"),
            (collectives.replicated_all_reduce(x), "x_all_reduce"),
            (collectives.replicated_reduce_scatter(x), "x_reduce_scattered"),
            (collectives.replica_sharded_slice(x), "x_sliced"),
        ):
            assert result.id == name


def test_ops_add_the_tensors_of_the_original():
    with popxl.Ir().main_graph:
        x = popxl.variable(np.ones((4, 4)), name="x")
        w = popxl.variable(np.ones(4), name="w")
        step, seed = popxl.variable(1.0), popxl.constant([1, 2], popxl.uint32)
        n, b = popxl.constant(np.ones((4, 4), np.int32)), ops.isnan(x)
        r, labels = popxl.constant(np.float32(1)), popxl.constant([0, 1, 2, 3])
        updates = ops.var_updates
        for build, tensors, constants in (
            (lambda: updates.adam_updater(x, x, x, step, 0.1, 0.9, 0.99), 1, 0),
            (lambda: updates.lamb_updater(x, x, x, step, 0.1, 0.9, 0.99), 1, 0),
            (lambda: updates.adamax_updater(x, x, x, step, 0.1), 1, 0),
            (lambda: updates.adam_var_update(x, x, r, r, 0.1, 2.0), 1, 0),
            (lambda: updates.adam_var_update(x, x, r, r, 0.1), 1, 0),
            (lambda: updates.adam_var_update(x, x, r, r, None, 2.0), 1, 0),
            (lambda: updates.accumulate_(x, x, 0.5), 1, 0),
            (lambda: updates.accumulate_square_(x, x, 0.5), 1, 0),
            (lambda: updates.accumulate_moving_average_(x, x, 0.5), 1, 0),
            (lambda: updates.accumulate_moving_average_square_(x, x, 0.5), 1, 0),
            (lambda: updates.accumulator_scale_(x, 0.5), 1, 0),
            (lambda: updates.accumulate_mean_(x, x, 1), 2, 1),
            (lambda: ops.layer_norm(x, w, w), 3, 0),
            (lambda: ops.group_norm(x, w, w, 2), 3, 0),
            (lambda: ops.logical_and(x, n), 3, 0),
            (lambda: ops.logical_or(b, n), 2, 0),
            (lambda: ops.logical_not(x), 2, 0),
            (lambda: ops.logical_not(b), 1, 0),
            (lambda: ops.where(n, x, x), 2, 0),
            (lambda: ops.where(b, x, x), 1, 0),
            (lambda: ops.median(x, 0), 2, 0),
            (lambda: ops.cumsum(x, 1), 2, 1),
            (lambda: ops.log2(x), 4, 1),
            (lambda: ops.isfinite(x), 5, 0),
            (lambda: ops.split_random_seed(seed, 3), 6, 3),
            (lambda: ops.nll_loss_with_softmax_grad(x, labels, 2.0), 3, 1),
        ):
            made, found, of_them = _added(build)
            assert (len(found), len(of_them)) == (tensors, constants), (made, found)
        scale = popxl.constant(0)
        eight = ops.pow2scale_cast_to_fp8(x, scale, popxl.float8_143)
        assert [
            t.name
            for t in (
                ops.cast(x, popxl.float16),
                eight,
                ops.pow2scale_cast_from_fp8(eight, scale, popxl.float32),
                ops.ipu_copy(eight, 1),
            )
        ] == ["x_float16", "x_float8_143", "x_float8_143_float32", "x_float8_143_c1"]


@pytest.mark.parametrize(
    "assignment, divided",
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3]),
        ([0, 1, 1, 0, 0, 1, 1, 0], [*range(8)]),
        ([0, 1, 2, 3, 1, 2, 3, 0], [*range(8)]),
        ([0, 1, 0, 0, 1, 1, 0, 1], [*range(8)]),
    ],
)
def test_groupings_are_divided_at_larger_distances(assignment, divided):
    grouping = popxl.Ir(8).replica_grouping_from_assignments(assignment)
    assert grouping.const_rg.assignment == divided and grouping.const_rg.is_const
    first = [divided.index(group) for group in range(len(set(divided)))]
    assert grouping.to_device_map == [assignment[replica] for replica in first]


def test_session_options_set_the_number_of_replicas():
    ir = popxl.Ir(2)
    options = ir._pb_ir.getSessionOptions()
    assert (options.enableReplicatedGraphs, options.replicatedGraphCount) == (True, 2)
    ir.replication_factor = 1
    assert (options.enableReplicatedGraphs, options.replicatedGraphCount) == (False, 1)
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 4
    assert (ir.replication_factor, ir.instance_replication_factor) == (4, 4)
    with ir.main_graph:
        x = popxl.variable(np.ones(8, np.float32))
        assert ops.collectives.replicated_reduce_scatter(x).shape == (2,)
    ir = popxl.Ir()
    options = ir._pb_ir.getSessionOptions()
    options.enableDistributedReplicatedGraphs, options.globalReplicationFactor = True, 8
    assert (ir.replication_factor, ir.instance_replication_factor) == (8, 1)
    with ir.main_graph:
        x = popxl.variable(np.ones(8, np.float32))
        assert ops.collectives.replicated_all_gather(x).shape == (64,)
    with pytest.raises(RuntimeError, match="8 replicas, and 1 would run"):
        popxl.Session(ir, "ipu_hw")


def test_the_ipu_may_be_left_open():
    with popxl.Ir().main_graph:
        x = popxl.variable(1.0)
        with popxl.ipu(None):
            y = x + 1.0
        with pytest.raises(popxl.errors.UndefinedValue, match="IPU is undefined"):
            y.ipu  # noqa: B018
        with pytest.raises(ValueError, match="Could not infer the ipu"):
            ops.ipu_copy(y, 1)
        assert ops.ipu_copy(y, 1, 0).ipu == 1


def test_types_of_sums_are_checked_with_next_product():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 2)))
        for name in ("", "Half", "float"):
            ir._pb_ir.getSessionOptions().partialsTypeMatMuls = name
            ops.matmul(x, x)
        ir._pb_ir.getSessionOptions().partialsTypeMatMuls = "float64"
        ops.matmul(x, x, partials_type=popxl.float32)
        with pytest.raises(ValueError, match="type of partial sums"):
            ops.matmul(x, x)


def test_positions_of_outputs_name_the_branch():
    with popxl.Ir().main_graph as main:
        x = popxl.variable(1.0)
        graphs = [main.ir.create_graph(lambda x, n=n: x + n, x) for n in (1, 2)]
        site = ops.conditional_with_info(popxl.constant(True), *graphs, [x], [x])
    for then_branch in (True, False):
        assert site.parent_to_graph_output_index(0, then_branch) == 0
        with pytest.raises(IndexError):
            site.parent_to_graph_output_index(1, then_branch)


def test_mapped_files_of_distant_groups_are_copied(tmp_path, capfd):
    file = np.memmap(tmp_path / "w", np.float32, "w+", shape=(2, 3))
    ir = popxl.Ir(8)
    groups = ir.replica_grouping_from_assignments([0, 1, 1, 0, 0, 1, 1, 0])
    with ir.main_graph:
        made = popxl.variable(file, replica_grouping=groups)
        popxl.variable(file, replica_grouping=ir.replica_grouping(1, 4))
    assert not np.shares_memory(made.data, file)
    words = "you have passed np.memmap data and a non-const replica grouping"
    assert capfd.readouterr().err.count(words) == 1


def _given_back(x):
    return ops.relu_(x)


def _read(x):
    ops.relu_(x)
    return x + 1.0


def _by_reference(x: popxl.TensorByRef):
    ops.relu_(x)


def _lost(x):
    y = x + 1.0
    ops.add_(x, y)
    ops.relu_(x)
    return y


@pytest.mark.parametrize(
    "build, modified, warned",
    [
        (_given_back, False, False),
        (_read, False, False),
        (_by_reference, False, False),
        (_lost, True, False),
        (_lost, False, True),
    ],
)
@pytest.mark.parametrize("repeated", [False, True])
def test_writes_into_copies_warn_once(build, modified, warned, repeated, caplog):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x, y = popxl.variable(1.0), popxl.variable(2.0)
        graph = ir.create_graph(build, x)
        for t in (x, y):
            if repeated:
                site = ops.repeat_with_info(graph, 2, t)
            else:
                site = ops.call_with_info(graph, t)
            if modified:
                site.set_parent_input_modified(t)
    popxl.Session(ir)
    popxl.Session(ir)
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == warned and all("popxl.TensorByRef" in text for text in texts)
