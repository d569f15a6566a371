"""Tests of transfers of IPUs, and of the time that is waited for them."""

from __future__ import annotations

import dataclasses

import pytest

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.costs.chip.exchange import host_cycles, network_cycles, streaming_cycles
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.planning import Planner
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.settings import Settings
from tests.support.planner.priced_workloads import op, prices  # noqa: F401
from tests.support.planner.workloads import Builder

pytestmark = pytest.mark.usefixtures("prices")

SETTINGS = Settings(BOW)
BYTES = 1 << 20
SHAPE = (BYTES // 4,)
HOST = host_cycles(BYTES, BOW)
# What the machine has already.
NEAR = host_cycles(BYTES, BOW, ahead=True)


def fed(work, runs=10):
    """A loop that takes from an infeed, works, and gives to an outfeed."""
    make = Builder()
    start = make.begin("While", trip_count=runs)
    value = make.op("IpuInfeedDequeue", [], SHAPE, name="in", runs=runs)
    op(make, work, [value], runs=runs)
    make.op("IpuOutfeedEnqueue", [value], name="out", runs=runs)
    make.end(start)
    return make.workload()


def test_cycles_of_feeds_by_hand():
    workload = fed(1e6)
    waiting = Planner(workload).timeline(SETTINGS.replace(prefetch=False))
    assert waiting.cycles == pytest.approx(10 * (1e6 + 2 * HOST))
    # What the host does is hidden, and not the way from the machine to the IPU.
    ahead = Planner(workload).timeline(SETTINGS)
    assert ahead.cycles == pytest.approx(10 * (1e6 + HOST + NEAR))
    # With I/O tiles the first fetch and the last result cannot be hidden.
    io = SETTINGS.replace(io_tiles=32, place_ops_on_io_tiles=True)
    beside = Planner(workload).timeline(io)
    assert beside.cycles == pytest.approx(10 * 1e6 + 2 * HOST)
    assert {t.name: (t.kind, t.num_bytes, t.runs, t.overlapped) for t in beside.transfers} == {
        "in": ("host in", BYTES, 10, True),
        "out": ("host out", BYTES, 10, True),
    }


def test_launch_is_no_shorter_than_what_host_sends():
    make = Builder()
    make.op("IpuInfeedDequeue", [], SHAPE, name="in", runs=10)
    made = Planner(make.workload()).timeline(SETTINGS)
    assert made.cycles == pytest.approx(10 * network_cycles(BYTES, BOW))
    assert made.cycles > 10 * NEAR


def test_a_launch_is_no_shorter_than_its_transfers():
    io = SETTINGS.replace(io_tiles=32, place_ops_on_io_tiles=True)
    made = Planner(fed(1.0)).timeline(io)
    assert made.cycles == pytest.approx(9 * HOST)
    assert made.by_kind["host"] == pytest.approx(made.cycles - 10)
    assert sum(made.by_kind.values()) == pytest.approx(made.cycles)


def test_arguments_come_first_and_variables_stay():
    make = Builder()
    x = make.input("x", SHAPE)
    w = make.variable("w", SHAPE)
    op(make, 5, [x, w])
    made = Planner(make.workload()).timeline(SETTINGS)
    assert made.cycles == pytest.approx(HOST + 5)
    assert [t.name for t in made.transfers] == ["x"]


def test_tables_on_the_host_are_waited_for():
    make = Builder()
    ids = make.constant("ids", (16,))
    rows = make.op("IpuHostEmbeddingLookup", [ids], (16, 64), name="lookup")
    make.op("IpuHostEmbeddingUpdate", [ids, rows], name="update")
    made = Planner(make.workload()).timeline(SETTINGS)
    sizes = (16 * 4, 16 * 64 * 4, 16 * 4 + 16 * 64 * 4)
    assert made.cycles == pytest.approx(sum(host_cycles(size, BOW) for size in sizes))
    assert [(t.kind, t.num_bytes) for t in made.transfers] == [
        ("host out", sizes[0]),
        ("host in", sizes[1]),
        ("host out", sizes[2]),
    ]


def sums(number=3, elements=1024, dtype="float32", **attributes):
    """Sums over replicas of some gradients."""
    make = Builder()
    for index in range(number):
        value = make.op("Work", [], (elements,), dtype, name=f"gradient{index}")
        make.op(
            "IpuCrossReplicaSum", [value], (elements,), dtype, name=f"sum{index}",
            attributes=attributes,
        )  # fmt: skip
    return make.workload()


def test_sums_over_replicas_by_hand():
    made = Planner(sums()).timeline(SETTINGS.replace(replicas=16))
    each = collectives.all_reduce(4096, 16, 1, BOW).cycles
    assert made.cycles == pytest.approx(3 * each)
    assert made.by_kind == {"collective": pytest.approx(3 * each)}
    assert Planner(sums()).timeline(SETTINGS).cycles == 0  # one replica has nobody to ask


@pytest.mark.parametrize(("limit", "groups"), [(0, [1, 1, 1]), (8192, [2, 1]), (12288, [3])])
def test_sums_are_merged_up_to_the_option(limit, groups):
    merged = {"maximum_cross_replica_sum_buffer_size": limit}
    made = Planner(sums()).timeline(SETTINGS.replace(replicas=16, merged_bytes=merged))
    expected = sum(collectives.all_reduce(4096 * n, 16, 1, BOW).cycles for n in groups)
    assert made.cycles == pytest.approx(expected)
    assert len(made.transfers) == 3


def test_groups_of_replicas_sum_among_themselves():
    made = Planner(sums(1, replica_group_size=4)).timeline(SETTINGS.replace(replicas=16))
    assert made.cycles == pytest.approx(collectives.all_reduce(4096, 4, 1, BOW).cycles)


@pytest.mark.parametrize(
    ("op_type", "formula", "size"),
    [
        ("IpuReduceScatter", collectives.reduce_scatter, 4096),
        ("IpuAllGather", collectives.all_gather, 16384),
        ("IpuAllToAll", collectives.all_to_all, 4096),
        ("IpuReplicaBroadcast", collectives.broadcast, 4096),
    ],
)
def test_collectives_count_the_whole_tensor(op_type, formula, size):
    make = Builder()
    value = make.constant("value", (1024,))
    make.op(op_type, [value], (4096,), attributes={"replication_factor": 4})
    made = Planner(make.workload()).timeline(SETTINGS.replace(replicas=4))
    assert made.cycles == pytest.approx(formula(size, 4, 1, BOW).cycles)


def state_off_chip(split=1):
    """A weight on the chip, whose momentum is in streaming memory."""
    make = Builder()
    w = make.variable("w", SHAPE)
    m = make.variable("m", SHAPE, role="optimizer state", offloaded=True, split=split)
    op(make, 5, [w], runs=10)
    make.op("ResourceApplyMomentum", [w, m], runs=2, phase="update")
    return make.workload()


@pytest.mark.parametrize("split", [1, 4])
def test_state_off_chip_moves_once_per_update(split):
    made = Planner(state_off_chip(split)).timeline(SETTINGS.replace(replicas=4))
    each = streaming_cycles(BYTES / split, BOW)
    assert made.by_kind["streaming"] == pytest.approx(2 * 2 * each)
    assert {t.kind: (t.num_bytes, t.runs) for t in made.transfers} == {
        "streaming in": (BYTES // split, 2),
        "streaming out": (BYTES // split, 2),
    }
    assert made.label is Label.ASSUMED  # the bandwidth of streaming memory is uncertain
    kinds = [segment.kind for segment in made.segments]
    assert kinds == ["compute", "streaming", "streaming"]


def test_streaming_goes_on_beside_computation_with_io_tiles():
    io = SETTINGS.replace(io_tiles=32, place_ops_on_io_tiles=True)
    made = Planner(state_off_chip()).timeline(io)
    assert made.by_kind["streaming"] == pytest.approx(2 * streaming_cycles(BYTES, BOW))
    assert all(t.overlapped for t in made.transfers)


def test_weights_split_over_replicas_are_gathered_before_use():
    make = Builder()
    w = make.variable("w", SHAPE, split=4)
    op(make, 5, [w], runs=10)
    made = Planner(make.workload()).timeline(SETTINGS.replace(replicas=4))
    gather = collectives.all_gather(BYTES, 4, 1, BOW).cycles
    assert made.by_kind == {
        "collective": pytest.approx(10 * gather),
        "compute": pytest.approx(50),
    }


@pytest.mark.parametrize("serialized", [1, 2])
def test_batch_serialization_fetches_once_for_several_mini_batches(serialized):
    make = Builder(2)
    w = make.variable("w", SHAPE, offloaded=True)
    start = make.begin("While", trip_count=8)
    op(make, 5, [w], stage=0, runs=8)
    op(make, 5, stage=1, ipu=1, runs=8)
    make.end(start)
    described = PipelineDescription(
        (0, 1), 8 // serialized, False, batch_serialization_iterations=serialized
    )
    made = Planner(make.workload(pipeline=described)).timeline(SETTINGS)
    each = streaming_cycles(BYTES, BOW)
    assert made.by_kind["streaming"] == pytest.approx(8 / serialized * each)


def test_feeds_of_pipelines_are_fetched_ahead():
    make = Builder(2)
    start = make.begin("While", trip_count=8)
    value = make.op("IpuInfeedDequeue", [], SHAPE, name="in", stage=0, runs=8)
    op(make, 1e6, [value], stage=0, runs=8)
    op(make, 1e6, stage=1, ipu=1, runs=8)
    make.end(start)
    workload = make.workload(pipeline=PipelineDescription((0, 1), 8, training=False))
    ahead = Planner(workload).timeline(SETTINGS)
    waiting = Planner(workload).timeline(SETTINGS.replace(prefetch=False))
    assert waiting.cycles - ahead.cycles == pytest.approx(8 * (HOST - NEAR))


def test_ops_on_the_host_exchange_what_ipus_have():
    make = Builder()
    value = make.op("Work", [], SHAPE, name="made")
    make.op("Outside", [value], SHAPE, name="outside", ipu=None)
    workload = make.workload()
    buffers = (*workload.buffers[:-1], workload.buffers[-1]._replace(ipu=0))
    made = Planner(dataclasses.replace(workload, buffers=buffers)).timeline(SETTINGS)
    assert made.cycles == pytest.approx(2 * HOST)
