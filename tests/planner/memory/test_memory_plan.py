"""Memory plans by hand: a chain, a training step, a loop, branches, feeds, offloading, code."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tensorflow_ipu.configs.chips import MK1, MK2
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import FREE, Cost, Partition
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.workloads import Builder, chain, loop, pipeline, training_step

MIB = 1 << 20


@pytest.fixture
def free(monkeypatch):
    """Ops that need nothing but their operands and results."""
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: FREE)


def only(workload, **changes):
    """The memory of the first IPU."""
    return Planner(workload).memory(Settings(**changes))[0]


def curve(found, workload):
    """Live bytes by op."""
    return {workload.ops[op].name: n for op, n in zip(found.live_ops, found.live_bytes.tolist())}


def test_memory_of_a_chain_by_hand(free):
    workload = chain(1 << 20)
    found = only(workload)
    # x 4 MiB, a 8 MiB, b 16 MiB, c 4 MiB: each op has its operand and its result.
    assert curve(found, workload) == {"a": 12 * MIB, "b": 24 * MIB, "c": 20 * MIB}
    assert workload.ops[found.peak_op].name == "b"
    live = [entry for entry in found.at_peak if entry.category == "activations"]
    assert [(entry.name, entry.num_bytes, entry.source) for entry in live] == [
        ("b", 16 * MIB, "model.py:2 (step)"),
        ("a", 8 * MIB, "model.py:1 (step)"),
    ]
    # 65536 and 131072 blocks on 1472 tiles: the fullest has 45 + 90 of 128 B.
    assert found.live_worst.max() == (45 + 90) * 128


def test_elementwise_ops_work_in_place(free):
    make = Builder()
    x = make.op("Tile", [make.input("x", (8,))], (1024,), name="x")
    a = make.op("Relu", [x], (1024,), name="a")
    b = make.op("Relu", [a], (1024,), "float16", name="b")
    make.op("AddV2", [b, a], (1024,), name="c")
    workload = make.workload()
    # `a` takes the place of x; b is of another type; `c` takes the place of a.
    assert curve(only(workload), workload) == {
        "x": 32 + 4096,
        "a": 4096,
        "b": 4096 + 2048,
        "c": 4096 + 2048,
    }


def test_memory_of_a_training_step_by_hand(free):
    width, batch = 256, 64
    activation, weight = 4 * batch * width, 4 * width * width
    workload = training_step(width, batch, layers=3)
    found = only(workload)
    assert found.category("variables").total == 3 * weight
    assert found.category("optimizer state").total == 3 * weight
    live = curve(found, workload)
    # x and the results of the two layers are kept; Relu works in place.
    assert live["dense2/MatMul"] == 4 * activation
    # The loss works in place of nothing: the last layer's result is needed by its gradient.
    assert live["gradients/loss/sub"] == 5 * activation
    # An update comes as soon as its gradient is there, so one gradient lives at a time: with it
    # the three activations before it, the gradient of the result, at most one more.
    assert max(live.values()) == 5 * activation + weight
    in_program_order = dataclasses.replace(workload)
    kept = only(in_program_order, ordering="SHORTEST_PATH").live_bytes.max()
    assert max(live.values()) <= kept


def test_memory_of_a_loop_by_hand(free):
    n = 4 * (1 << 16)
    workload = loop(1 << 16)
    live = curve(only(workload), workload)
    # `outside` (2n) is needed in each iteration, `carried` (n) too and afterwards; `next` is what
    # the body returns.
    assert live == {
        "outside": 3 * n,
        "carried": 3 * n,
        "while": 3 * n,
        "inner": 7 * n,
        "next": 8 * n,
        "after": 3 * n,
    }


def test_branches_exclude_one_another(free):
    make = Builder()
    x = make.op("Tile", [make.input("x", (8,))], (64,), name="x")
    branch = make.begin("If", [x], name="if")
    for index, (name, size) in enumerate((("yes", 1000), ("no", 3000))):
        at = {"conditional": True, "branch": index}
        big = make.op("Tile", [x], (size,), name=f"{name}/big", **at)
        make.op("Max", [big], (), name=f"{name}/max", **at)
    make.end(branch)
    workload = make.workload()
    live = curve(only(workload), workload)
    # The result of the first branch is live to the end of the conditional.
    assert live["yes/big"] == 256 + 4000
    assert live["no/big"] == 256 + 12000 + 4


def test_tensors_of_other_ipus_are_copies(free):
    make = Builder(2)
    x = make.op("Tile", [make.input("x", (8,))], (1024,), name="x")
    make.op("Tile", [x], (2048,), name="y", ipu=1)
    workload = make.workload()
    first, second = Planner(workload).memory(Settings())
    assert curve(first, workload) == {"x": 32 + 4096}
    assert curve(second, workload) == {"y": 4096 + 8192}


def test_roles_of_variables_become_categories(free):
    make = Builder()
    for index, role in enumerate(("weight", "optimizer state", "accumulator", "other")):
        make.variable(f"v{index}", (10 ** (index + 1),), role=role)
    make.constant("c", (7,))
    found = only(make.workload())
    sizes = {
        name: (found.category(name).total, found.category(name).always_live)
        for name in ("variables", "optimizer state", "gradient accumulators", "constants")
    }
    assert sizes == {
        "variables": (40 + 40_000, True),
        "optimizer state": (400, True),
        "gradient accumulators": (4_000, True),
        "constants": (28, True),
    }
    assert found.category("variables").label is Label.EXACT
    assert found.category("stash") is None and found.peak_op is None
    assert not len(found.live_bytes)


def _with_momentum(**placement):
    make = Builder()
    weight = make.variable("w", (1000,))
    state = make.variable("m", (1000,), role="optimizer state", **placement)
    grad = make.op("Tile", [make.input("x", (8,))], (1000,), name="grad")
    make.op("ResourceApplyMomentum", [weight, state, grad], name="update")
    return make.workload()


@pytest.mark.parametrize(
    ("placement", "resident", "streamed"),
    [
        ({}, 4000, 0),
        ({"offloaded": True}, 0, 4000),
        # A third of 1000 elements, rounded up.
        ({"offloaded": True, "split": 3}, 0, 4 * 334),
        ({"split": 3}, 4 * 334, 0),
    ],
)
def test_offloaded_and_split_variables_take_less_memory(free, placement, resident, streamed):
    workload = _with_momentum(**placement)
    found = only(workload)
    state = found.category("optimizer state")
    assert (state.total if state else 0) == resident
    loaded = found.category("streamed")
    assert (loaded.total if loaded else 0) == streamed
    on_chip = only(_with_momentum())
    assert found.worst_bytes <= on_chip.worst_bytes and found.total <= on_chip.total


@pytest.mark.parametrize(("prefetch", "times"), [(True, 3), (False, 2)])
def test_feeds_need_buffers_for_their_prefetching(free, prefetch, times):
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], (1000,))
    make.op("IpuOutfeedEnqueue", [x])
    found = only(make.workload(), prefetch=prefetch)
    assert found.category("host streams").total == times * 4000


def test_feeds_are_on_io_tiles(free):
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], (1 << 16,))
    make.op("IpuOutfeedEnqueue", [x])
    found = only(make.workload(), io_tiles=32)
    streams = found.category("host streams").tiles
    assert not streams[:1440].any() and streams[1440:].sum() == 3 * (1 << 18)
    assert not found.category("activations").tiles[1440:].any()
    # Without room on the I/O tiles they are where the rest is.
    crowded = only(make.workload(), io_tiles=32, io_memory_proportion=0.0)
    assert not crowded.category("host streams").tiles[1440:].any()


def test_a_chip_of_io_tiles_only_is_refused():
    with pytest.raises(ValueError, match="of its 1472 tiles 1472 are I/O tiles"):
        only(chain(), io_tiles=1472)


def test_a_nearly_empty_program_needs_the_published_memory():
    """The published memory report of an addition on Mk1: 23,878,396 B with gaps."""
    make = Builder()
    a, b = make.input("a", (2,)), make.input("b", (2,))
    make.op("AddV2", [a, b], (2,))
    found = only(make.workload(), chip=MK1)
    assert found.total == pytest.approx(23_878_396, rel=0.02)
    without_gaps = found.total - found.category("gaps").total
    assert without_gaps == pytest.approx(5_350_728, rel=0.05)
    assert found.category("stack").total == 3_852_288


def test_reserved_memory_has_named_parts():
    for chip in (MK1, MK2):
        parts = (
            chip.stack_per_tile,
            chip.control_code_per_tile,
            chip.vertex_code_per_tile,
            chip.host_exchange_code,
            chip.internal_exchange_code,
            chip.packet_headers_per_tile,
        )
        assert sum(parts) == chip.reserved_memory_per_tile


def _products(count):
    make = Builder()
    x = make.op("Tile", [make.input("x", (8,))], (64, 64))
    for _ in range(count):
        x = make.op("MatMul", [x, x], (64, 64))
    return make.workload()


def test_outlining_shares_code():
    once, often = only(_products(1)), only(_products(8))
    apart = only(_products(8), outlining=False)
    for name in ("control code", "exchange code", "vertex code"):
        assert often.category(name).total == once.category(name).total
        assert apart.category(name).total >= often.category(name).total
    assert apart.category("control code").total == (
        once.category("control code").total + 1472 * 7 * MK2.control_code_per_op
    )


def _total(plan, name):
    return sum(found.category(name).total for found in plan if found.category(name))


def test_moved_stages_take_their_memory_along(free):
    workload = pipeline(4)
    before = Planner(workload).memory(Settings())
    after = Planner(workload).memory(Settings(stage_devices=(0, 1, 1, 0)))
    assert len(before) == 4 and len(after) == 2
    for name in ("variables", "gradient accumulators"):
        assert _total(before, name) == _total(after, name)
    # What stage 1 makes for stage 2 is now in one stash instead of two, of depth 4 and 2.
    assert _total(before, "stash") - _total(after, "stash") == 2 * 4 * 32 * 128
    described = dataclasses.replace(
        workload, pipeline=dataclasses.replace(workload.pipeline, device_mapping=(0, 1, 1, 0))
    )
    for one, other in zip(after, Planner(described).memory(Settings())):
        assert np.array_equal(one.peak, other.peak)


def test_a_wrong_number_of_stages_is_refused():
    with pytest.raises(ValueError, match="of which the program has 4; received 2"):
        Planner(pipeline(4)).memory(Settings(stage_devices=(0, 1)))
    with pytest.raises(ValueError, match="of which the program has 0; received 2"):
        Planner(chain()).memory(Settings(stage_devices=(0, 1)))


def test_variable_line_is_its_use_inside_loop():
    """Every variable is an input of the loop, whose line says nothing of it."""
    make = Builder()
    weight = make.variable("w", (64, 64))
    x = make.input("x", (8, 64))
    start = make.begin("While", [x, weight], name="while", trip_count=4, source="run.py:9 (main)")
    make.op("MatMul", [x, weight], (8, 64), runs=4, source="model.py:3 (layer)")
    make.end(start)
    (found,) = Planner(make.workload()).memory(Settings())
    assert {e.name: e.source for e in found.at_peak}["w"] == "model.py:3 (layer)"


@pytest.mark.parametrize(("rows", "tiles"), [(1, 4), (100, 400), (4096, 1472)])
def test_temporaries_are_on_tiles_that_an_op_uses(monkeypatch, rows, tiles):
    # An op of a tensor of 4 blocks per row, with 64 bytes more on each tile that has some of it.
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: Cost(1.0, temporary=64))
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], (rows, 128), name="in")
    make.op("Softmax", [x], (rows, 128), name="op")
    found = only(make.workload())
    temporaries = found.category("temporaries").tiles
    assert temporaries.sum() == 64 * tiles
    assert (temporaries[:tiles] == 64).all()
    at_peak = [entry for entry in found.at_peak if entry.category == "temporaries"]
    assert [entry.num_bytes for entry in at_peak] == [64 * tiles]


def test_temporaries_of_a_partition_are_on_its_tiles(monkeypatch):
    cost = Cost(1.0, temporary=64, partition=Partition((("rows", 3), ("columns", 5))))
    monkeypatch.setattr(catalogue, "cost_of", lambda spec, resources: cost)
    make = Builder()
    x = make.op("IpuInfeedDequeue", [], (4096, 128), name="in")
    make.op("MatMul", [x], (4096, 128), name="op")
    assert only(make.workload()).category("temporaries").total == 64 * 15
