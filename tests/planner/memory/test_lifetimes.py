"""The order of a program is chosen by the memory that it takes in that order."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.enums import SchedulingAlgorithm
from tensorflow_ipu.planner.memory import lifetimes, liveness
from tensorflow_ipu.planner.memory.lifetimes import effect, graph
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.program.placed_workload import place
from tensorflow_ipu.util import op_names
from tests.support.planner.workloads import Builder, pipeline, pipelines, training_step, workloads

# --- Tests of ops with side effects, which keep their order ---


@pytest.mark.parametrize("op_type", sorted(op_names.COLLECTIVES))
def test_collectives_stay_in_order(op_type):
    make = Builder()
    for name in ("first", "second"):
        make.op(op_type, [make.input(f"{name} value", (4,))], (4,), name=name)
    workload = make.workload()
    (region,) = graph(workload, place(workload).accesses).regions
    assert [list(before) for before in region.before] == [[], [0]]


def test_plain_ops_have_no_effect():
    make = Builder()
    make.op("Add", [make.input("x", (4,))], (4,))
    assert effect(make.workload().ops[0]) == ""


# --- Orders of ops: each is allowed, and the best one is no worse than any other ---

FAST = settings(max_examples=30, derandomize=True, deadline=None)
NAMES = [algorithm.name for algorithm in SchedulingAlgorithm]


def ordered(workload, algorithm):
    """The order of a program's ops."""
    placed = placed_workload.place(workload)
    return lifetimes.best(lifetimes.find(placed, algorithm), recompute=False).order


def names(workload, algorithm):
    return [workload.ops[op].name for op in ordered(workload, algorithm).ops]


def check(workload, found):
    """Checks that ops stay in their functions and after their dependences."""
    ops = found.ops.tolist()
    assert sorted(ops) == list(range(len(workload.ops)))
    for index, op in enumerate(workload.ops):
        at = int(found.position[index])
        assert sorted(ops[at : at + op.end - index]) == list(range(index, op.end))
        assert found.last[index] == at + op.end - index - 1
    for buffer in range(len(workload.buffers)):
        writes = [i for i, op in enumerate(workload.ops) if _has(op.outputs, buffer)]
        for index, op in enumerate(workload.ops):
            if not _has(op.inputs, buffer):
                continue
            # Each reader sees the same last writer as in the program.
            before = [w for w in writes if w < index and workload.ops[w].end <= index]
            after = [w for w in writes if w > index and w >= op.end]
            place = found.position[index]
            assert all(found.position[w] < place for w in before)
            assert all(found.position[w] > place for w in after)


def _has(operands, buffer):
    return any(operand.buffer == buffer for operand in operands)


@pytest.mark.parametrize("algorithm", NAMES)
@given(workload=workloads())
@FAST
def test_orders_are_allowed(algorithm, workload):
    check(workload, ordered(workload, algorithm))


@pytest.mark.parametrize("algorithm", NAMES)
@pytest.mark.parametrize("make", [training_step, pipeline], ids=["training", "pipeline"])
def test_orders_of_training_are_allowed(algorithm, make):
    check(make(), ordered(make(), algorithm))


@pytest.mark.parametrize("recompute", [False, True])
@given(workload=st.one_of(workloads(), pipelines()))
@FAST
def test_the_best_order_has_the_lowest_peak(recompute, workload):
    placed = placed_workload.place(workload)

    def peak(algorithm):
        return lifetimes.best(lifetimes.find(placed, algorithm), recompute).peak(recompute)

    program = liveness.in_order(np.arange(len(workload.ops), dtype=np.int32), placed.accesses.end)
    others = [peak(name) for name in NAMES if name != "CHOOSE_BEST"]
    lowest = min(others + [lifetimes.Lifetimes(placed, program).peak(recompute)])
    assert peak("CHOOSE_BEST") == lowest


def _two_chains():
    """Two chains, each by way of a large tensor to a small one, side by side, and their sum."""
    make = Builder()
    x = make.input("x", (8,))
    large = [make.op("Tile", [x], (4096,), name=f"large{i}") for i in range(2)]
    small = [make.op("Max", [value], (8,), name=f"small{i}") for i, value in enumerate(large)]
    make.op("AddV2", small, (8,), name="sum")
    return make.workload()


@pytest.mark.parametrize("algorithm", ["CHOOSE_BEST", "POST_ORDER", "LOOK_AHEAD", "CLUSTERING"])
def test_chains_run_one_after_the_other(algorithm):
    # In the order of the program both large tensors are there at once.
    assert names(_two_chains(), algorithm) == ["large0", "small0", "large1", "small1", "sum"]


def test_ops_nearest_to_a_result_run_first():
    make = Builder()
    x = make.input("x", (8,))
    far = make.op("Tile", [x], (8,), name="far")
    make.op("Max", [make.op("Tile", [far], (8,), name="middle")], (), name="end")
    make.op("Max", [x], (), name="near")
    assert names(make.workload(), "SHORTEST_PATH")[0] == "near"


def test_updates_come_when_gradient_is_ready():
    found = names(training_step(layers=4), "CHOOSE_BEST")
    for layer in range(4):
        gradient = found.index(f"gradients/dense{layer}/MatMul_1")
        assert found.index(f"update{layer}") <= gradient + 2


@pytest.mark.parametrize("algorithm", NAMES)
def test_side_effects_keep_their_order(algorithm):
    make = Builder()
    x = make.input("x", (8,))
    for index in range(4):
        size = 8 << (4 - index)
        sent = make.op("Tile", [x], (size,), name=f"make{index}")
        make.op("IpuOutfeedEnqueue", [sent], name=f"send{index}")
        made = make.op("IpuCrossReplicaSum", [x], (size,), name=f"all{index}")
        make.op("Max", [made], (), name=f"max{index}")
    found = names(make.workload(), algorithm)
    for kind in ("send", "all"):
        kept = [name for name in found if re.fullmatch(kind + r"\d", name)]
        assert kept == [f"{kind}{index}" for index in range(4)]


@pytest.mark.parametrize("algorithm", NAMES)
def test_variables_are_read_before_they_change(algorithm):
    make = Builder()
    weight = make.variable("w", (64,))
    change = make.op("Tile", [make.input("x", (8,))], (64,), name="change")
    make.op("Max", [weight], (), name="before")
    make.op("AssignAddVariableOp", [weight, change], name="assign")
    make.op("Max", [weight], (), name="after")
    found = names(make.workload(), algorithm)
    assert found.index("before") < found.index("assign") < found.index("after")


def test_phases_of_a_pipeline_stay_apart():
    workload = pipeline(3)
    for algorithm in NAMES:
        phases = []
        for op in ordered(workload, algorithm).ops.tolist():
            phase = (workload.ops[op].stage, workload.ops[op].phase)
            if phase[0] is not None and phase[1] != "update" and phase not in phases[-1:]:
                phases.append(phase)
        forward = [(s, "") for s in range(3)]
        assert phases == forward + [(s, "backward") for s in (2, 1, 0)]


@pytest.mark.parametrize("algorithm", NAMES)
def test_branches_stay_apart(algorithm):
    make = Builder()
    x = make.input("x", (8,))
    start = make.begin("If", [x])
    for branch in range(3):
        values = [
            make.op("Tile", [x], (8 << i,), name=f"{branch}{i}", conditional=True, branch=branch)
            for i in range(4)
        ]
        make.op("Concat", values, (64,), name=f"{branch}end", conditional=True, branch=branch)
    make.end(start)
    found = names(make.workload(), algorithm)[1:]
    assert [name[0] for name in found] == sorted(name[0] for name in found)


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ValueError, match="must be one of CHOOSE_BEST, CLUSTERING"):
        ordered(training_step(), "FASTEST")
