"""Gradients that stages of a pipeline add to an accumulator by themselves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.program.placed_workload import Rematerialized
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder

SHAPE = (512, 256)
BYTES = 4 * 512 * 256


def tied(change="", parts=2, kind="AddN"):
    """A variable of the first and of later stages, all on one IPU, whose gradients are added up."""
    make = Builder(1)
    role = "weight" if change == "weight" else "accumulator"
    accumulator = make.variable("sum", SHAPE, role=role)
    start = make.begin("While", trip_count=8)
    x = make.op("IpuInfeedDequeue", [], (8, 8), name="x", stage=0)
    gradients = []
    for stage in range(parts - 1, -1, -1):
        at = {"stage": 0 if change == "one stage" else stage, "phase": "backward"}
        shape = (512, 1) if change == "spread" and stage else SHAPE
        made = make.op("MatMul", [x], shape, name=f"gradient_{stage}", **at)
        if stage:
            make.op("Identity", [made], alias=made, name=f"passed_{stage}", **at)
        if stage and change == "read":
            make.op("Max", [made], (), name="largest", **at)
        gradients.append(made)
    back = {"stage": 0, "phase": "backward"}
    total = make.op(kind, gradients, SHAPE, name="total", stage=None, phase="backward")
    if change == "norm":
        make.op("Max", [total], (), name="norm", **back)
    make.op("AssignAddVariableOp", [accumulator, total], name="accumulate", **back)
    make.end(start)
    pipeline = None if change == "no pipeline" else PipelineDescription((0,) * parts, 8)
    return make.workload(pipeline=pipeline)


def names(workload):
    """The parts that are found, with the ops that make them."""
    return [
        (workload.buffers[part.buffer].name, workload.ops[part.maker].name)
        for part in placed_workload.find_partial_gradients(workload)
    ]


@pytest.mark.parametrize("kind", ["AddN", "AddV2"])
def test_each_stage_adds_its_own_gradient(kind):
    # That of the last one to come, which accumulates, is there then anyway.
    assert names(tied(kind=kind)) == [("gradient_1", "gradient_1")]


def test_any_number_of_stages():
    assert [name for name, _ in names(tied(parts=4))] == [f"gradient_{s}" for s in (3, 2, 1)]


@pytest.mark.parametrize("change", ["no pipeline", "weight", "one stage", "read", "norm", "spread"])
def test_gradients_that_have_to_wait(change):
    assert names(tied(change)) == []


def test_such_a_gradient_does_not_wait_for_others(monkeypatch):
    workload = tied(parts=3)

    def waiting():
        (found,) = Planner(workload).memory(Settings(ordering="POST_ORDER"))
        at = [workload.ops[op].name for op in found.live_ops.tolist()].index("gradient_0")
        return found.live_bytes[at]

    alone = waiting()
    monkeypatch.setattr(placed_workload, "find_partial_gradients", lambda workload: ())
    assert waiting() - alone == 2 * BYTES


# --- Elementwise results that take no memory where activations are computed again ---

FAST = settings(max_examples=30, derandomize=True, deadline=None)
WIDE = (64, 128)
FIRST, BACK = {"ipu": 0, "stage": 0}, {"ipu": 0, "stage": 0, "phase": "backward"}


def program(body, stages=2, training=True):
    """A pipeline whose ops `body` makes; without training, the same ops in no pipeline."""
    make = Builder(stages)
    start = make.begin("While", trip_count=8)
    x = make.op("IpuInfeedDequeue", [], WIDE, "float16", name="x", ipu=0, stage=0)
    body(make, x)
    make.end(start)
    found = PipelineDescription(tuple(range(stages)), 8) if training else None
    return make.workload(pipeline=found)


def rematerialized(workload):
    """Names of the results that take no memory."""
    return {workload.buffers[i].name for i in placed_workload.find_rematerialized(workload).buffers}


def wide(make, x, **at):
    """A chain in float32 between two casts, as GELU is: its values, and its result."""
    values = [make.op("Cast", [x], WIDE, name="wide", **at)]
    values.append(make.op("Tanh", [values[0]], WIDE, name="tanh", **at))
    values.append(make.op("Mul", values, WIDE, name="product", **at))
    return values, make.op("Cast", values[-1:], WIDE, "float16", name="narrow", **at)


def gelu(make, x):
    values, y = wide(make, x, **FIRST)
    z = make.op("MatMul", [y], WIDE, "float16", name="z", ipu=1, stage=1)
    g = make.op("MatMul", [z, y], WIDE, "float16", name="g", **BACK)
    made = make.op("Mul", [g, values[1]], WIDE, name="gradient", **BACK)
    make.op("Cast", [made], WIDE, "float16", name="end", **BACK)


def test_chain_in_float32_needs_its_float16_input_only():
    # What the backward pass makes of two float16 tensors takes as much as both.
    assert rematerialized(program(gelu)) == {"wide", "tanh", "product", "gradient"}


def test_readers_of_result_read_its_operands():
    workload = program(gelu)
    reads = {
        (workload.ops[op].name, workload.buffers[buffer].name)
        for op, buffer in placed_workload.find_rematerialized(workload).reads
    }
    forward = {(name, "x") for name in ("tanh", "product", "narrow", "gradient")}
    assert reads == forward | {("end", "x"), ("end", "g")}


def mask(make, x):
    seed = make.op("IpuRandomSeed", [], (2,), "int64", name="seed", **FIRST)
    drawn = make.op("StatelessRandomUniform", [seed], WIDE, name="drawn", **FIRST)
    kept = make.op("GreaterEqual", [drawn], WIDE, "bool", name="mask", **FIRST)
    y = make.op("SelectV2", [kept, x], WIDE, "float16", name="y", **FIRST)
    z = make.op("MatMul", [y], WIDE, "float16", name="z", ipu=1, stage=1)
    make.op("SelectV2", [kept, z], WIDE, "float16", name="gradient", **BACK)


def moments(make, x):
    mean = make.op("MatMul", [x], (64, 1), name="mean", **FIRST)
    whole = make.op("BroadcastTo", [mean], WIDE, name="whole", **FIRST)
    same = make.op("Mean", [whole], WIDE, name="same", **FIRST)
    y = make.op("Sub", [x, same], WIDE, "float16", name="y", **FIRST)
    make.op("MatMul", [y], WIDE, "float16", name="z", ipu=1, stage=1)
    make.op("Mul", [same, y], WIDE, "float16", name="gradient", **BACK)


@pytest.mark.parametrize(
    ("body", "names"), [(mask, {"drawn", "mask"}), (moments, {"whole", "same"})]
)
def test_masks_need_seed_and_broadcasts_small_tensor(body, names):
    assert rematerialized(program(body)) == names


def _chain(change):
    """A program with a cast `wide`, which could be made again but for the change."""

    def body(make, x):
        last = {"ipu": 1, "stage": 1}
        at = last if change == "last stage" else FIRST
        inputs = [x]
        if change == "variable":
            inputs.append(make.variable("w", WIDE, "float16"))
        if change == "larger":
            inputs.append(make.op("MatMul", [x], WIDE, name="other", **at))
        w = make.op("Mul", inputs, WIDE, name="wide", **at)
        if change == "checkpoint":
            make.op("Identity", [w], alias=w, name="recomputation_checkpoint", **at)
        if change == "changed":
            make.op("InplaceAdd", [w], alias=w, name="changed", **at)
        if change == "no map":
            make.op("MatMul", [w], WIDE, name="product", **at)
        if change == "other stage":
            make.op("Tanh", [w], WIDE, name="copied", **last)
        if change == "other size":
            make.op("Mul", [w], (3, *WIDE), name="repeated", **at)
        if change == "in a function":
            inner = make.begin("If", [w], **at)
            make.op("Tanh", [w], WIDE, name="inside", conditional=True, **at)
            make.end(inner)
        if change == "update":
            make.op("Tanh", [w], WIDE, name="late", **{**at, "phase": "update"})
        make.op("Tanh", [w], WIDE, "float16", name="end", **{**BACK, **at})

    return body


def test_wide_result_of_one_tensor_is_made_again():
    assert "wide" in rematerialized(program(_chain("")))


@pytest.mark.parametrize(
    "change",
    """variable larger checkpoint changed no_map other_stage other_size in_a_function last_stage
    update""".split(),
)
def test_what_is_kept(change):
    assert "wide" not in rematerialized(program(_chain(change.replace("_", " "))))


def test_without_a_pipeline_nothing_is_made_again_so():
    assert placed_workload.find_rematerialized(program(gelu, training=False)) == Rematerialized()


def test_a_pipeline_that_keeps_its_activations_keeps_these(monkeypatch):
    workload = program(gelu)
    found = [Planner(workload).plan(Settings(recompute=again)) for again in (False, True)]
    monkeypatch.setattr(placed_workload, "find_rematerialized", lambda workload: Rematerialized())
    before = [Planner(workload).plan(Settings(recompute=again)) for again in (False, True)]
    peaks = [[plan.memory[0].live_bytes.max() for plan in plans] for plans in (found, before)]
    assert peaks[0][0] == peaks[1][0]
    assert peaks[0][1] < peaks[1][1]
    # It is about memory: the chain takes the time that it took.
    assert found[1].timeline.cycles == before[1].timeline.cycles


_TYPES = st.sampled_from(["Cast", "Mul", "Tanh", "AddV2", "MatMul", "Identity", "BroadcastTo"])
_DTYPES = st.sampled_from(["float16", "float32", "bool"])
_SHAPES = st.sampled_from([WIDE, WIDE, WIDE, (64, 1)])


@st.composite
def chains(draw):
    """Random elementwise chains in a stage, and a backward pass that reads any of them."""

    def body(make, x):
        values = [x]
        for number in range(draw(st.integers(1, 14))):
            back = number > 6 and {"phase": "backward"}
            taken = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
            kind = draw(_TYPES)
            alias = taken[0] if kind == "Identity" else None
            shape = None if kind == "Identity" else draw(_SHAPES)
            at = {**FIRST, **(back or {})}
            values.append(make.op(kind, taken, shape, draw(_DTYPES), alias=alias, **at))
        make.op("MatMul", values[-2:], WIDE, ipu=1, stage=1)

    return program(body)


@given(workload=chains())
@FAST
def test_making_results_again_never_raises_the_peak(workload):
    wanted = Settings(recompute=True, ordering="POST_ORDER")
    found = Planner(workload).memory(wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placed_workload, "find_rematerialized", lambda workload: Rematerialized())
        before = Planner(workload).memory(wanted)
    for ipu, old in zip(found, before):
        assert ipu.worst_bytes <= old.worst_bytes


@pytest.mark.parametrize("length", [50, 200])
def test_the_reads_grow_with_the_program_only(length):
    def body(make, x):
        values = [x]
        for _ in range(length):
            values.append(make.op("Mul", values[-8:], WIDE, "float16", **FIRST))
        make.op("MatMul", values[-1:], WIDE, ipu=1, stage=1)

    workload = program(body)
    reads = placed_workload.find_rematerialized(workload).reads
    assert 0 < len(reads) <= 8 * sum(len(op.inputs) for op in workload.ops)
