"""Tests of liveness against a simulation that keeps a set of live buffers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tensorflow_ipu.planner.memory import liveness
from tensorflow_ipu.planner.program import accesses as access
from tensorflow_ipu.planner.program import placed_workload
from tensorflow_ipu.planner.workload import TENSOR
from tests.support.planner.workloads import Builder, loop, training_step, workloads

FAST = settings(max_examples=60, derandomize=True, deadline=None)


def found_curves(workload, in_place=False):
    """Live bytes at each op, by IPU, in the order of the program."""
    placed = placed_workload.place(workload).placement
    found = access.find(workload, placed)
    pairs = liveness.in_place_pairs(workload, found)
    order = liveness.in_order(np.arange(len(workload.ops), dtype=np.int32), found.end)
    stretches = liveness.intervals(found, order, pairs if in_place else pairs[:0])
    curves = []
    for ipu in range(placed.ipus):
        here = stretches.where(found.instance_ipu[stretches.instance] == ipu)
        curves.append(
            liveness.curve(len(workload.ops), here, found.num_bytes[here.instance]).tolist()
        )
    return curves


def simulated(workload):
    """The same by hand: for each buffer and IPU, the ops that need it there."""
    ops, count = workload.ops, len(workload.ops)
    curves = [[0] * count for _ in range(workload.ipus)]
    enclosing = {
        i: [w for w in range(i) if ops[w].end > i] for i in range(count)
    }  # outermost first
    for index, buffer in enumerate(workload.buffers):
        writers = [i for i, op in enumerate(ops) if has(op.outputs, index)]
        readers = [i for i, op in enumerate(ops) if has(op.inputs, index)]
        made = writers[0] if writers and buffer.kind == TENSOR else None
        for ipu in range(workload.ipus):
            needed = set()
            for i in sorted({*writers, *readers}):
                is_parent = ops[i].end > i + 1
                if (buffer.ipu if is_parent else ops[i].ipu) != ipu:
                    continue
                needed.add(i)
                for w in [*enclosing[i], *([i] if is_parent else [])]:
                    inside = made is not None and w < made < ops[w].end
                    if ops[w].type == "While" and not inside:
                        needed.add(ops[w].end - 1)
                result = made is not None and len(ops[i].outputs) == 1 and not readers
                if result and not any(needed_loops(ops, enclosing[i], i, made)):
                    inner = enclosing[i][-1:] or [None]
                    needed.add(count - 1 if inner[0] is None else ops[inner[0]].end - 1)
            if not needed or (buffer.kind in ("variable", "constant") and ipu == buffer.ipu):
                continue
            first = 0 if buffer.kind == "input" else min(needed)
            for i in range(first, max(needed) + 1):
                curves[ipu][i] += buffer.num_bytes
    return curves


def needed_loops(ops, loops, i, made):
    """Loops around an access in which the buffer is not made."""
    return [w for w in loops if ops[w].type == "While" and not w < made < ops[w].end]


def has(operands, buffer):
    return any(operand.buffer == buffer for operand in operands)


@given(workload=workloads())
@FAST
def test_memory_over_time_equals_a_simulation(workload):
    assert found_curves(workload) == simulated(workload)


@given(workload=workloads())
@FAST
def test_working_in_place_never_raises_memory(workload):
    for without, with_it in zip(found_curves(workload), found_curves(workload, in_place=True)):
        assert all(a >= b for a, b in zip(without, with_it))


def test_programs_by_hand_against_the_simulation():
    for workload in (loop(), training_step()):
        assert found_curves(workload) == simulated(workload)


def test_by_products_die_at_once():
    make = Builder()
    x = make.op("Tile", [make.input("x", (8,))], (256,), name="x")
    # Two results: one that is read, one that is not.
    extra = make.buffer("extra", (512,))
    y = make.op("Split", [x], (256,), more=[extra], name="split")
    make.op("Tile", [y], (1024,), name="z")
    (curve,) = found_curves(make.workload())
    assert curve == [32 + 1024, 1024 + 1024 + 2048, 1024 + 4096]
