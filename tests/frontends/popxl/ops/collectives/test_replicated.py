"""Collectives over groups of replicas: values, gradients and errors, compared with NumPy."""

from __future__ import annotations

import math

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import collectives
from popxl.transforms import autodiff

from tests.support.popxl import popxl_programs

ERROR = popxl.errors.popart_exception
REDUCTIONS = {
    "add": lambda rows: rows.sum(0),
    "mean": lambda rows: rows.mean(0),
    "mul": lambda rows: rows.mean(0),  # as in the library
    "min": lambda rows: rows.min(0),
    "max": lambda rows: rows.max(0),
    "square_add": lambda rows: (rows**2).sum(0),
}
GROUPS = [(1, 1, 1), (2, 1, 2), (4, 1, 4), (4, 1, 2), (4, 2, 2), (8, 2, 2), (8, 1, 1), (8, 4, 2)]


def groups_of(replicas, stride, size):
    """Returns the members of the group of each replica, and its place among them."""
    stride = stride if size > 1 else 1
    found = []
    for replica in range(replicas):
        first = replica // (stride * size) * stride * size + replica % stride
        members = [first + i * stride for i in range(size)]
        found.append((members, members.index(replica)))
    return found


def data(replicas, *shape, dtype=np.float32):
    values = np.random.default_rng(replicas).normal(size=(replicas, *shape)).astype(dtype)
    return values if replicas > 1 else values[0]


@pytest.mark.parametrize("replicas, stride, size", GROUPS)
def test_reductions_and_parts_are_those_of_the_group(replicas, stride, size):
    x = data(replicas, size, 3)
    flags = data(replicas, 2) > 0

    def build(t, flag):
        group = popxl.gcg().ir.replica_grouping(stride, size)
        found = {op: collectives.replicated_all_reduce(t, op, group) for op in REDUCTIONS}
        found |= {op: collectives.replicated_all_reduce(flag, op, group) for op in ("and", "or")}
        shard = collectives.replicated_reduce_scatter(t, "add", group, True)
        assert shard.meta_shape == t.shape
        own = collectives.replica_sharded_slice(t, group)
        assert own.meta_shape == t.shape
        found |= {
            "scattered": collectives.replicated_reduce_scatter(t, "max", group),
            "whole": collectives.replicated_all_gather(shard + 0.0, group=group),
            "own": own,
            "slice": collectives.replicated_slice(t, 0, group),
            "rows": collectives.replicated_all_gather(t, 0, group, "new_axis"),
            "joined": collectives.replicated_all_gather(t, 1, group),
        }
        with popxl.in_sequence():
            copy = t + 0.0
            collectives.replicated_all_reduce_(copy, group=group)
            found["in_place"] = copy + 0.0
        return found

    found = popxl_programs.run(build, [x, flags], replicas=replicas)
    n = math.ceil(size * 3 / size)
    for replica, (members, place) in enumerate(groups_of(replicas, stride, size)):
        rows, own_flags = (x[members], flags[members]) if replicas > 1 else (x[None], flags[None])
        expected = {op: reduce(rows) for op, reduce in REDUCTIONS.items()}
        flat = lambda array: array.reshape(-1)[place * n : (place + 1) * n]  # noqa: B023, E731
        expected |= {
            "and": own_flags.all(0),
            "or": own_flags.any(0),
            "in_place": expected["add"],
            "whole": expected["add"],
            "scattered": flat(expected["max"]),
            "own": flat(rows[place]),
            "slice": rows[place][place] if size > 1 else rows[place],
            "rows": rows,
            "joined": np.concatenate(rows, 1),
        }
        for name, wanted in expected.items():
            array = found[name][replica] if replicas > 1 else found[name]
            np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("replicas, stride, size", [(1, 1, 1), (2, 1, 2), (4, 2, 2)])
def test_gradients_of_gathers_and_slices(replicas, stride, size):
    x = data(replicas, size * 2, 3)
    cases = {
        "gather": lambda t, g: collectives.replicated_all_gather(t, 1, g),
        "rows": lambda t, g: collectives.replicated_all_gather(t, 0, g, "new_axis"),
        "slice": lambda t, g: collectives.replicated_slice(t, 0, g),
        "thin": lambda t, g: collectives.replicated_slice(ops.slice(t, 0, size, axis=0), 0, g),
        "shard": lambda t, g: collectives.replica_sharded_slice(t, g),
        "meta": lambda t, g: collectives.replicated_all_gather(
            collectives.replica_sharded_slice(t, g), group=g
        ),
    }

    def build(t):
        ir = popxl.gcg().ir
        group = ir.replica_grouping(stride, size)
        found = {}
        for name, case in cases.items():
            graph = ir.create_graph(lambda t, case=case: case(t, group), t)
            info = autodiff(graph)
            forward = ops.call_with_info(graph, t)
            # The gradient differs between replicas, as what they pass in does.
            (start,) = forward.outputs[:1]
            ins = info.inputs_dict(forward)
            (found[name],) = ops.call(info.graph, start * 2.0, inputs_dict=ins)
        return found

    found = popxl_programs.run(build, [x], replicas=replicas)
    for replica in range(replicas):
        own = x[replica] if replicas > 1 else x
        (members, _) = groups_of(replicas, stride, size)[replica]
        rows = x[members] if replicas > 1 else x[None]
        whole = np.concatenate([r.reshape(size, -1)[k] for k, r in enumerate(rows)])
        whole = whole.reshape(own.shape)
        thin = np.zeros_like(own)
        thin[:size] = [rows[k][k] for k in range(size)]
        expected = {"gather": own, "rows": own, "slice": whole, "shard": whole, "meta": whole}
        for name, wanted in (expected | {"thin": thin}).items():
            array = found[name][replica] if replicas > 1 else found[name]
            np.testing.assert_allclose(array, 2 * wanted, rtol=1e-6, err_msg=name)


def test_half_sums_use_single_precision_except_integers():
    halves = np.float16([[40000.0], [30000.0], [-30000.0], [1.0]])
    numbers = np.int32([[7], [-2], [0], [2**20]])

    def build(t, i):
        ir = popxl.gcg().ir
        far = ir.replica_grouping(2)
        return {
            "near": collectives.replicated_all_reduce(t),
            "far": collectives.replicated_all_reduce(t, "mean", far),
            "sum": collectives.replicated_all_reduce(i, "add", far),
            "mean": collectives.replicated_all_reduce(i, "mean", far),
        }

    found = popxl_programs.run(build, [halves, numbers], replicas=4)
    assert found["near"].tolist() == [[np.float16(40001.0)]] * 4
    assert found["far"].ravel().tolist() == np.float16([5000, 15000.5] * 2).tolist()
    assert found["sum"].ravel().tolist() == [7, 2**20 - 2] * 2
    assert found["mean"].ravel().tolist() == [3, 2**19 - 1] * 2


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda t: collectives.replicated_all_reduce(t, "local"), ValueError, "Not a valid op"),
        (lambda t: collectives.replicated_all_gather(t, "x"), ValueError, "should be an int"),
        (
            lambda t: collectives.replicated_all_gather(t, output_shape="rows"),
            ValueError,
            "output_shape must equal one of",
        ),
        (lambda t: collectives.replicated_all_gather(t, 2), ERROR, "outside the acceptable"),
        (
            lambda t: collectives.replicated_all_gather(t, output_shape="meta_shape"),
            ERROR,
            "cannot be gathered to its meta shape",
        ),
        (lambda t: collectives.replicated_slice(t, 1), ValueError, "must equally divide axis"),
        (
            lambda t: collectives.replicated_all_reduce(
                t, group=t.ir.replica_grouping_from_assignments([0, 1, 1, 0, 0, 1, 0, 1])
            ),
            NotImplementedError,
            "non-constant stride",
        ),
        (
            lambda t: collectives.replicated_all_reduce(t, group=popxl.Ir(2).replica_grouping()),
            ValueError,
            "is for 2 replicas",
        ),
        (
            lambda t: collectives.replicated_all_reduce(ops.equal(t, t)),
            ERROR,
            "cannot be reduced",
        ),
        (lambda t: collectives.replicated_all_reduce(t, group=3), TypeError, "must be a"),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir(8).main_graph, pytest.raises(error, match=message):
        build(popxl.variable(np.zeros((8, 3))))


def test_groups_of_replicas_at_a_distance_fill_blocks():
    ir = popxl.Ir(12)
    group = ir.replica_grouping(4, 2)
    with ir.main_graph, pytest.raises(ValueError, match="divisible by the product"):
        collectives.replicated_all_reduce(popxl.variable([0.0]), group=group)


def test_descriptions_of_groups():
    ir = popxl.Ir(8)
    kinds = collectives.CommGroupType
    for kind, size, stride, members in [
        ("All", 0, 1, 8),
        ("Consecutive", 4, 1, 4),
        ("Orthogonal", 4, 2, 4),
        ("Ungrouped", 0, 1, 1),
    ]:
        group = collectives.CommGroup(kinds[kind], size)
        grouping = group.toReplicaGrouping(8)
        assert grouping == ir.replica_grouping(stride, members)
        again = collectives.CommGroup(grouping)
        assert (again.type, again.replicaGroupSize) == (kinds[kind], size)
    assert collectives.CommGroup().type is kinds.All and kinds(2).name == "Orthogonal"
    with pytest.raises(ValueError, match="factor of the number"):
        collectives.CommGroup(kinds.Consecutive, 3).toReplicaGrouping(8)
    with pytest.raises(ValueError, match="neither consecutive nor orthogonal"):
        collectives.CommGroup(ir.replica_grouping(2, 2))


@pytest.mark.parametrize(
    "assignment, finer, to_device, to_host",
    [
        ([0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1], [0, 1]),
        ([0, 1, 1, 0], [0, 1, 2, 3], [0, 1, 1, 0], [0, 1]),
        ([0, 1, 0, 1], [0, 1, 0, 1], None, None),
    ],
)
def test_groupings_of_no_constant_stride_are_divided(assignment, finer, to_device, to_host):
    grouping = popxl.Ir(len(assignment)).replica_grouping_from_assignments(assignment)
    assert grouping.const_rg.assignment == finer
    assert (grouping.to_device_map, grouping.to_host_map) == (to_device, to_host)


@pytest.mark.parametrize("replicas, stride, size", [(1, 1, 1), (2, 1, 2), (4, 2, 2)])
@pytest.mark.parametrize("identical_inputs", [False, True])
@pytest.mark.parametrize("identical_gradients", [False, True])
def test_reductions_that_autodiff_passes_through(
    replicas, stride, size, identical_inputs, identical_gradients
):
    x, slope = data(replicas, 3), data(replicas, 3) + 1

    def build(t, of_result):
        ir = popxl.gcg().ir
        group = ir.replica_grouping(stride, size)
        graph = ir.create_graph(
            lambda t: collectives.replicated_all_reduce_with_grad(
                t, "add", group, identical_inputs, identical_gradients
            ),
            t,
        )
        gradient = autodiff(graph).graph
        return {"value": ops.call(graph, t)[0], "gradient": ops.call(gradient, of_result)[0]}

    found = popxl_programs.run(build, [x, slope], replicas=replicas)
    rows = x.reshape(replicas, 3), slope.reshape(replicas, 3)
    for replica, (members, _) in enumerate(groups_of(replicas, stride, size)):
        kept = (identical_inputs, identical_gradients)
        for name, array, as_it_is in zip(("value", "gradient"), rows, kept):
            wanted = array[replica] if as_it_is else array[members].sum(0)
            own = found[name][replica] if replicas > 1 else found[name]
            np.testing.assert_allclose(own, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
