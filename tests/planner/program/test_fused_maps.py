"""Which elementwise ops are one map, and that maps never cost more than their ops."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1
from tensorflow_ipu.costs.cost import FREE
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import fused_maps
from tensorflow_ipu.planner.program.fused_maps import FusedMaps
from tensorflow_ipu.planner.program.resources import costs_of
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder

# --- The ops of a GELU and of its gradient, as TensorFlow writes them, are one vertex ---

SHAPE = (512, 512)


class Gelu:
    """A GELU in float32 of a product in float16, with its ops by name."""

    def __init__(self, form="tanh", shape=SHAPE):
        self.make = make = Builder()
        self.shape = shape
        self.half, self.one, self.factor = (make.constant(name, ()) for name in "abc")
        weight = make.variable("w", shape, "float16")
        self.product = make.op("MatMul", [weight, weight], shape, "float16")
        self.x = make.op("Cast", [self.product], shape)
        if form != "halved last":
            self.halved = self.op("Mul", self.half, self.x)
        if form == "erf":
            self.inner = self.op("RealDiv", self.x, self.factor)
            self.outer = self.op("Erf", self.inner)
        else:
            self.cube = self.op("Mul", self.factor, self.op("Pow", self.x, self.factor))
            self.inner = self.op("Mul", self.factor, self.op("AddV2", self.x, self.cube))
            self.outer = self.op("Tanh", self.inner)
        self.sum = self.op("AddV2", self.one, self.outer)
        if form == "halved last":
            self.result = self.op("Mul", self.op("Mul", self.x, self.sum), self.half)
        else:
            self.result = self.op("Mul", self.halved, self.sum)
        self.narrow = make.op("Cast", [self.result], shape, "float16")
        make.op("MatMul", [self.narrow, weight], shape, "float16")

    def op(self, op_type, *inputs, dtype="float32", **rest):
        return self.make.op(op_type, inputs, self.shape, dtype, **rest)

    def gradient(self):
        """Adds the ops of TensorFlow's gradient, and an unrelated op."""

        def op(op_type, *inputs, dtype="float32"):
            return self.op(op_type, *inputs, dtype=dtype, phase="backward")

        upstream = op("Cast", op("MatMul", self.narrow, self.narrow, dtype="float16"))
        by_half = op("Mul", op("Mul", upstream, self.sum), self.half)
        inner = op("TanhGrad", self.outer, op("Mul", upstream, self.halved))
        inner = op("Mul", inner, self.factor)
        square = op("Mul", op("Pow", self.x, self.factor), self.factor)
        by_cube = op("Mul", op("Mul", inner, self.factor), square)
        total = op("Cast", op("AddN", by_half, inner, by_cube), dtype="float16")
        op("AddN", total, self.product, dtype="float16")
        return self


def types(workload):
    return {
        found.vertex: sorted(workload.ops[index].type for index in found.ops)
        for found in fused_maps.find_gelu(workload)
    }


@pytest.mark.parametrize("form", ["tanh", "halved last"])
def test_the_tanh_form_is_one_vertex(form):
    workload = Gelu(form).make.workload()
    expected = ["AddV2", "AddV2", "Cast", "Cast", *["Mul"] * 4, "Pow", "Tanh"]
    assert types(workload) == {fused_maps.GELU: expected}
    assert len(fused_maps.find_gelu(workload)) == 1


def test_the_erf_form_is_one_vertex():
    workload = Gelu("erf").make.workload()
    assert types(workload) == {
        fused_maps.GELU: ["AddV2", "Cast", "Cast", "Erf", "Mul", "Mul", "RealDiv"]
    }


def test_the_gradient_is_one_vertex_of_its_own():
    workload = Gelu().gradient().make.workload()
    found = types(workload)
    assert set(found) == {fused_maps.GELU, fused_maps.GELU_GRADIENT}
    assert found[fused_maps.GELU_GRADIENT] == sorted(
        ["AddN", "Cast", "Cast", "Pow", "TanhGrad", *["Mul"] * 7]
    )


def test_its_last_op_has_cost_of_vertex():
    workload = Gelu().gradient().make.workload()
    costs = costs_of(workload, Settings(BOW))
    for found in fused_maps.find_gelu(workload):
        assert found.type.dtype == "float16"
        assert all(costs[index] is FREE for index in found.ops[:-1])
        # 5 cycles for each 4 elements, on 6 workers in turns; 30 cycles of each of these besides.
        elements = 512 * 512 / BOW.tiles
        assert costs[found.ops[-1]].compute == pytest.approx(elements * 5 / 4, abs=500)
        assert found.ops[-1] in fused_maps.find(workload).ops


@pytest.mark.parametrize(
    "change", [{"stage": 1}, {"phase": "backward"}, {"runs": 2}, {"ipu": None}], ids=str
)
def test_ops_that_are_not_run_together_are_none(change):
    workload = Gelu().make.workload()
    (found,) = fused_maps.find_gelu(workload)
    tanh = next(i for i in found.ops if workload.ops[i].type == "Tanh")
    ops = list(workload.ops)
    ops[tanh] = dataclasses.replace(ops[tanh], **change)
    assert not fused_maps.find_gelu(dataclasses.replace(workload, ops=tuple(ops)))


def test_a_tanh_of_anything_else_is_none():
    make = Builder()
    one, weight = make.constant("one", ()), make.variable("w", SHAPE)
    product = make.op("MatMul", [weight, weight], SHAPE)
    other = make.op("MatMul", [weight, product], SHAPE)
    for inner in (product, make.op("Mul", [one, product], SHAPE)):
        activation = make.op("Tanh", [inner], SHAPE)
        make.op("Mul", [make.op("AddV2", [one, activation], SHAPE), other], SHAPE)
    assert fused_maps.find_gelu(make.workload()) == ()


# --- Which elementwise ops are one map, and that maps never cost more than their ops ---

NONE = FusedMaps({}, frozenset())
SMALL = settings(max_examples=60, deadline=None, derandomize=True)


def fused(make, op_type, inputs, shape=None):
    """Adds an op of an update."""
    return make.op(op_type, inputs, shape, phase="update")


def adam():
    """Adam written out, as Keras does: the first and second moment, and the weights."""
    make = Builder()
    weight, first, second = (make.variable(name, SHAPE) for name in ("w", "m", "v"))
    one = make.constant("rate", ())
    gradient = make.op("MatMul", [weight, weight], SHAPE)
    for state in (first, second):
        value = gradient if state == first else fused(make, "Square", [gradient], SHAPE)
        difference = fused(make, "Sub", [value, state], SHAPE)
        change = fused(make, "Mul", [difference, one], SHAPE)
        fused(make, "AssignAddVariableOp", [state, change])
    scaled = fused(make, "Mul", [first, one], SHAPE)
    root = fused(make, "AddV2", [fused(make, "Sqrt", [second], SHAPE), one], SHAPE)
    fused(make, "AssignSubVariableOp", [weight, fused(make, "RealDiv", [scaled, root], SHAPE)])
    return make.workload()


def test_optimizer_is_map_for_each_variable_it_writes():
    workload = adam()
    maps = fused_maps.find(workload)
    types = {tuple(workload.ops[index].type for index in ops) for ops in maps.ops.values()}
    assert types == {
        ("Sub", "Mul", "AssignAddVariableOp"),
        ("Square", "Sub", "Mul", "AssignAddVariableOp"),
        ("Mul", "Sqrt", "AddV2", "RealDiv", "AssignSubVariableOp"),
    }


def test_map_costs_its_expression_at_last_op():
    workload = adam()
    costs = costs_of(workload, Settings(BOW))
    by_themselves = costs_of(workload, Settings(BOW), NONE)
    for last, members in fused_maps.find(workload).ops.items():
        assert all(costs[index] is FREE for index in members[:-1])
        assert costs[last].sync == BOW.sync_cycles
        saved = sum(by_themselves[index].cycles for index in members) - costs[last].cycles
        # Each op but one: its sync, compute set, start and the workers' overhead.
        assert saved > (len(members) - 1) * 300


def test_what_stays_in_registers_takes_no_memory():
    workload = adam()
    maps = fused_maps.find(workload)
    names = {workload.buffers[buffer].name for buffer in maps.kept_in_registers}
    # The second moment's are in the place of the gradient, which is gone after its square.
    kinds = sorted(name.split("_")[0] for name in names)
    assert kinds == ["AddV2", "Mul", "Mul", "RealDiv", "Sqrt", "Sub"]
    peak = Planner(workload).memory(Settings(BOW))[0]
    live = {item.name for item in peak.at_peak}
    assert not live & names


@pytest.mark.parametrize(
    "change",
    [
        {"ipu": 1},
        {"phase": "backward"},
        {"runs": 2},
        {"stage": 1},
        {"branch": 1},
    ],
    ids=str,
)
def test_ops_not_run_together_are_no_map(change):
    make = Builder(ipus=2)
    x = make.input("x", SHAPE)
    fused(make, "Mul", [fused(make, "AddV2", [x, x], SHAPE), x], SHAPE)
    workload = make.workload()
    assert fused_maps.find(workload).ops == {1: (0, 1)}
    ops = (workload.ops[0], dataclasses.replace(workload.ops[1], **change))
    assert not fused_maps.find(dataclasses.replace(workload, ops=ops)).ops


def test_layer_functions_are_no_maps_but_assignments_are():
    make = Builder()
    x, moving = make.input("x", SHAPE), make.variable("moving", SHAPE)
    make.op("Mul", [make.op("AddV2", [x, x], SHAPE), x], SHAPE)
    change = make.op("Mul", [make.op("Sub", [x, moving], SHAPE), x], SHAPE)
    make.op("AssignAddVariableOp", [moving, change], phase="")
    assert fused_maps.find(make.workload()).ops == {4: (2, 3, 4)}


def test_what_is_assigned_and_read_besides_is_made():
    make = Builder()
    gradient, moment = make.input("x", SHAPE), make.variable("moment", SHAPE)
    new = make.op("AddV2", [moment, make.op("Square", [gradient], SHAPE)], SHAPE)
    make.op("AssignVariableOp", [moment, new], phase="")
    make.op("Transpose", [new], SHAPE)
    assert fused_maps.find(make.workload()).ops == {1: (0, 1)}


def test_a_result_that_is_read_twice_is_made():
    make = Builder()
    x = make.input("x", SHAPE)
    twice = fused(make, "AddV2", [x, x], SHAPE)
    fused(make, "Mul", [twice, x], SHAPE)
    fused(make, "Sub", [twice, x], SHAPE)
    assert not fused_maps.find(make.workload()).ops


def test_a_sum_or_another_shape_ends_a_map():
    make = Builder()
    x = make.input("x", SHAPE)
    row = make.op("Sum", [fused(make, "Square", [x], SHAPE)], (512,))
    fused(make, "AddV2", [x, fused(make, "Sqrt", [row], (512,))], SHAPE)
    assert not fused_maps.find(make.workload()).ops


def test_a_map_has_one_op_that_broadcasts():
    make = Builder()
    x, scale, offset = make.input("x", SHAPE), make.input("s", (512,)), make.input("o", (512,))
    scaled = fused(make, "Mul", [x, scale], SHAPE)
    fused(make, "AddV2", [scaled, offset], SHAPE)
    assert not fused_maps.find(make.workload()).ops


def test_ops_across_loop_border_are_no_map():
    make = Builder()
    x = make.input("x", SHAPE)
    outside = fused(make, "Neg", [x], SHAPE)
    start = make.begin("While", [], trip_count=1)
    fused(make, "Abs", [outside], SHAPE)
    make.end(start)
    assert not fused_maps.find(make.workload()).ops


_UNARY = ("Neg", "Sqrt", "Square", "Exp", "Cast", "Tanh", "Relu")
_BINARY = ("AddV2", "Mul", "RealDiv", "Maximum", "SquaredDifference")
_SHAPES = st.sampled_from([(), (64,), (33, 64), (300, 64)])


@st.composite
def elementwise_programs(draw):
    """Random elementwise ops of several shapes and types, some assigned to variables."""
    make = Builder()
    values = [make.input(f"x{i}", draw(_SHAPES)) for i in range(3)]
    values.append(make.op("MatMul", [values[0]], (300, 64)))
    shapes = {value: make.workload().buffers[value].shape for value in values}
    for _ in range(draw(st.integers(1, 16))):
        # Mostly of what was made last, so that there are chains.
        recent = st.sampled_from(values[-2:])
        first = draw(recent)
        second = draw(st.one_of(recent, st.sampled_from(values)))
        shape = max(shapes[first], shapes[second], key=lambda s: (len(s), s))
        if draw(st.booleans()):
            shape = shapes[first]
            made = fused(make, draw(st.sampled_from(_UNARY)), [first], shape)
        else:
            made = fused(make, draw(st.sampled_from(_BINARY)), [first, second], shape)
        shapes[made] = shape
        values.append(made)
        if draw(st.integers(0, 3)) == 0:
            kind = draw(st.sampled_from(["AssignVariableOp", "AssignSubVariableOp"]))
            fused(make, kind, [make.variable(f"v{made}", shape), made])
    return make.workload()


@SMALL
@given(
    workload=elementwise_programs(), chip=st.sampled_from((MK1, BOW)), io=st.sampled_from((0, 64))
)
def test_a_map_never_costs_more_than_its_ops(workload, chip, io):
    plan_of = Settings(chip, io_tiles=io)
    costs, apart = costs_of(workload, plan_of), costs_of(workload, plan_of, NONE)
    for last, members in fused_maps.find(workload).ops.items():
        ops = [apart[index] for index in members]
        assert costs[last].cycles <= sum(cost.cycles for cost in ops)
        assert costs[last].temporary <= max(cost.temporary for cost in ops)
        assert costs[last].vertex_state <= sum(cost.vertex_state for cost in ops)
        assert costs[last].exchange_code <= sum(cost.exchange_code for cost in ops)
        assert set(costs[last].codelets) <= {name for cost in ops for name in cost.codelets}


@SMALL
@given(workload=elementwise_programs())
def test_maps_need_no_more_time_or_memory(workload):
    planner, apart = Planner(workload), Planner(workload)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused_maps, "find", lambda _: NONE)
        before = apart.plan(Settings(BOW))
    after = planner.plan(Settings(BOW))
    assert after.timeline.cycles <= before.timeline.cycles
    assert after.memory[0].live_bytes.max() <= before.memory[0].live_bytes.max()
    # Ops that are alike share code; a map that is like no other has a call of its own.
    calls = len(fused_maps.find(workload).ops) * BOW.control_code_per_op
    assert after.memory[0].peak.max() <= before.memory[0].peak.max() + calls
