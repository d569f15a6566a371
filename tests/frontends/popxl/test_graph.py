"""Building graphs: names, inputs and outputs, contexts, and what is refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import pytest
from popxl import ops, transforms

ERROR = popxl.errors.popart_exception


def test_ids_have_graph_scopes_and_names_and_are_unique():
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
    name = f"{test_ids_have_graph_scopes_and_names_and_are_unique.__name__}.<lambda>_subgraph(0)"
    assert graph.id == graph.name == name
    assert (x.id, x.name, x.scope) == (f"{name}/x", "x", name)
    assert unnamed.id == "t"
    assert ir.create_empty_graph().id == "graph_subgraph(1)"
    assert repr(bias[1]) == "Variable[bias__t0 popxl.dtypes.float32 ()]"


def test_create_graph_makes_inputs_of_tensors_wherever_the_signature_has_them():
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


def test_annotations_that_only_type_checkers_know_leave_the_others_alone():
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


def test_the_current_graph_is_the_innermost_of_one_ir():
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
        assert (x.strides(), x.strides((5, 6))) == ([24, 8, 2], [12, 2])
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
            with pytest.raises(ERROR, match=r"Inplacing ambiguity detected.*test_graph.py"):
                popxl.Session(ir)
        else:
            popxl.Session(ir)


def test_outputs_are_tensors_of_the_graph_and_each_is_one_once():
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


def test_a_copy_says_where_a_variable_is_and_other_ops_where_there_is_none():
    with popxl.Ir().main_graph:
        x, codes = popxl.variable(1.0), popxl.variable(1.0, popxl.float8_143)
        with popxl.ipu(2):
            x + 1
            ops.pow2scale_cast_from_fp8(codes, popxl.constant(0), popxl.float16)
        assert (x.ipu, codes.ipu) == (2, 2)
        ops.ipu_copy(x, 3, 1)
        assert x.ipu == 1


def test_streams_of_an_ir_are_those_that_ops_of_any_graph_use():
    ir = popxl.Ir()
    with ir.main_graph:
        loaded, inside, _ = (popxl.h2d_stream((), popxl.float32) for _ in range(3))
        stored = popxl.d2h_stream((), popxl.float32)
        ops.host_store(stored, ops.host_load(loaded))
        with ir.create_empty_graph():
            ops.host_load(inside)
    assert ir.get_all_h2d_streams() == {loaded, inside} and ir.get_all_d2h_streams() == {stored}
    assert popxl.Session(ir).expected_inputs() == {loaded}


def test_exchanges_that_do_not_depend_on_each_other_are_one_to_hooks():
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
    assert merged[0].outputs == [a, b] and merged[0].inputs == [x]
    assert (a.tile_set, c.tile_set) == ("compute", "io")
    assert len({op.id for op in seen}) == len(seen) and not set(merged) & set(main.ops)
