"""Cases of poputil: the harness has 16 tiles."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()

TILES, WORKERS = 16, 6


def _ints(rows, columns: int) -> np.ndarray:
    return np.array(list(rows), np.int32).reshape(-1, columns)


def _parts(elements: int, least: int, grain: int, most: int) -> list[tuple[int, int]]:
    """Returns the parts of a linear mapping, by the rule of the specification."""
    grains = -(-elements // grain)
    if grains == 0:
        return []
    limit = max(1, grains // max(1, -(-least // grain)))
    largest = max(-(-grains // most), -(-grains // limit))
    parts = -(-grains // largest)
    bounds = [i * grains // parts * grain for i in range(parts)] + [elements]
    return list(zip(bounds, bounds[1:]))


def _linear(elements, least, grain, offset=0, ascending=True) -> np.ndarray:
    rows = []
    for i, (begin, end) in enumerate(_parts(elements, least, grain, TILES)):
        tile = (offset + i) % TILES
        rows.append((tile if ascending else TILES - 1 - tile, begin, end))
    return _ints(sorted(rows), 3)


@CASES.add
def linear_mappings(session: Session) -> None:
    """Random sizes with defaults and with all arguments."""
    for kind, least, grain in ((np.float32, 32, 2), (np.float16, 64, 4), (np.bool_, 128, 8)):
        for elements in (1, 7, 33, 100, 1000, 4099):
            t = session.tensor(np.zeros(elements, kind))
            width = 2 if kind == np.float32 else 4
            if kind != np.bool_:
                expected = _linear(elements, least, width)
                session.expect(session.call("mapTensorLinearly", t), expected)
                for offset, ascending in ((3, 1), (20, 0)):
                    result = session.call("mapTensorLinearlyWithOffset", t, offset, ascending)
                    session.expect(result, _linear(elements, least, width, offset, ascending))
            result = session.call("mapTensorLinearly", t, least, grain)
            session.expect(result, _linear(elements, least, grain))
    for _ in range(50):
        shape = [session.choices.randint(0, 40) for _ in range(2)]
        least, grain = session.choices.randint(0, 50), session.choices.randint(1, 9)
        offset, ascending = session.choices.randint(0, 40), session.choices.randint(0, 1)
        result = session.call("calcLinearTileMapping", shape, least, grain, offset, ascending)
        session.expect(result, _linear(shape[0] * shape[1], least, grain, offset, ascending))


@CASES.add
def places_of_tensors(session: Session) -> None:
    """Indices of tiles, imbalance, splits and operands."""
    for ascending in (0, 1):
        there = (5 + 14) % TILES
        there = there if ascending else TILES - 1 - there
        result = session.call("transformTileIndex", 5, TILES, 14, ascending)
        session.expect(result, _ints([(there, 5)], 2))
    t = session.tensor(np.zeros((16, 4), np.float32))
    session.call("setTiles", t, *range(16), result=False)  # a row on each of four tiles
    session.expect(session.call("getTileImbalance", t), _ints([16 - 4], 1))
    session.expect(session.call("dimIsSplitOverTiles", t, 0), _ints([(1, 0)], 2))
    session.expect(session.call("dimIsSplitOverTiles", t, 1), _ints([(0, 0)], 2))
    rows = [(tile, row, row + 1) for tile in range(4) for row in range(tile, 16, 4)]
    session.expect(session.call("createBroadcastOperand", t, 0), _ints(rows, 3))
    session.expect(session.call("createBroadcastOperand", t, 1), _ints([(0, 0, 4)], 3))
    # Elements 4 and 5 are used by both, 9 by none.
    rows = [(2, 0, 5), (5, 5, 10)]
    session.expect(session.call("TensorUseTracker"), _ints(rows, 3))


@CASES.add
def splits_of_regions(session: Session) -> None:
    """Random intervals are cut by the rule of linear mappings over their elements."""
    for _ in range(60):
        ends = sorted(session.choices.sample(range(200), 2 * session.choices.randint(1, 5)))
        elements = [n for b, e in zip(ends[::2], ends[1::2]) for n in range(b, e)]
        grain, least = session.choices.randint(1, 8), session.choices.randint(0, 20)
        for most in (WORKERS, session.choices.randint(1, 12)):
            rows = []
            for i, (begin, end) in enumerate(_parts(len(elements), least, grain, most)):
                part = elements[begin:end]
                for _, run in itertools.groupby(enumerate(part), lambda p: p[1] - p[0]):
                    run = [n for _, n in run]
                    rows.append((i, run[0], run[-1] + 1))
            if most == WORKERS:
                result = session.call("splitRegionsBetweenWorkers", ends, grain, least)
            else:
                result = session.call("splitRegions", ends, grain, most, least)
            session.expect(result, _ints(rows, 3))
    # Twelve elements in two parts: the second one begins within the second list.
    result = session.call("splitLists", [0, 4], [10, 14, 20, 24], 100)
    session.expect(result, _ints([(0, 12, 14), (0, 20, 24)], 3))
    result = session.call("splitLists", [0, 4], [10, 14, 20, 24], 3)
    session.expect(result, _ints([(0, 12, 14), (0, 20, 21), (1, 21, 24)], 3))


@CASES.add
def intervals_and_indices(session: Session) -> None:
    """Merged and unshuffled intervals, coordinates, and balanced parts."""
    result = session.call("mergeAdjacentRegions", [5, 7, 0, 2, 2, 4, 7, 8])
    session.expect(result, _ints([(0, 0, 4), (0, 5, 8)], 3))
    result = session.call("calculateUnshufflingIntervals", [5, 8, 0, 2, 9, 10])
    session.expect(result, _ints([(0, 3, 5), (0, 0, 3), (0, 5, 6)], 3))
    for index in (0, 17, 59):
        where = np.unravel_index(index, (3, 4, 5))
        session.expect(session.call("unflattenIndex", [3, 4, 5], index), _ints([*where, index], 4))
    session.expect(session.call("balancedPartition", 11, 4), _ints([3, 3, 3, 2], 4))


@CASES.add
def copies_and_views(session: Session) -> None:
    """Duplicates, clones, factored and broadcast dimensions."""
    x = session.rng.integers(0, 99, (4, 6)).astype(np.int32)
    t = session.viewed(x)
    session.expect(session.call("duplicate", t), x)
    session.expect(session.call("copiesToIpu", t), np.stack([x] * 4))
    session.expect(session.call("cloneN", t, 3), np.zeros((3, 4, 6), np.int32))
    repeated = session.view(session.tensor(x[:1]), "broadcast", 12, 0)
    result = session.call("cloneAndExpandAliasing", repeated)
    session.expect(result, _linear(72, 32, 2, 3))
    expected = x.reshape(2, 2, 2, 3).transpose(0, 2, 1, 3)
    session.expect(session.call("factorDims", t, [2, 3], 0), expected)
    session.expect(session.call("factorDims", t, [3], 1), x.reshape(4, 2, 3))
    a = session.rng.integers(0, 99, (2, 1, 3)).astype(np.int32)
    b = session.rng.integers(0, 99, (5, 1)).astype(np.int32)
    both = [np.broadcast_to(y, (2, 5, 3)) for y in (a, b)]
    ta, tb = session.tensor(a), session.tensor(b)
    session.expect(session.call("broadcastToMatch", ta, tb), np.concatenate(both))
    result = session.call("broadcastThree", ta, tb, ta)
    session.expect(result, np.concatenate([*both, both[0]]))
    result = session.call("broadcastToShape", tb, [2, 5, 3])
    session.expect(result, both[1])


@CASES.add
def groupings_in_memory(session: Session) -> None:
    """Runs of dimensions that lie together on a tile."""
    t = session.tensor(np.zeros((4, 6), np.float32))
    session.call("mapTensorLinearly", t, 1000, 1)  # all on one tile
    session.expect(session.call("detectInnermostGrouping", t), _ints([6], 1))
    session.expect(session.call("detectDimGroupings", t), _ints([(1, 6), (0, 4)], 2))
    shuffled = session.view(t, "shuffle", [1, 0])
    session.expect(session.call("detectInnermostGrouping", shuffled), _ints([1], 1))
    session.expect(session.call("detectDimGroupings", shuffled), _ints([(0, 6), (1, 4)], 2))
    # Blocks of two by three: {2, 2, 2, 3} of memory as {4, 6}.
    blocks = session.tensor(np.zeros((2, 2, 2, 3), np.float32))
    session.call("mapTensorLinearly", blocks, 1000, 1)
    view = session.view(blocks, "shuffle", [0, 2, 1, 3])
    view = session.view(view, "reshape", [4, 6])
    session.expect(session.call("detectInnermostGrouping", view), _ints([3], 1))
    result = session.call("detectDimGroupings", view)
    session.expect(result, _ints([(1, 3), (0, 2), (1, 2), (0, 2)], 2))
    # Rows of eight on tiles of their own.
    rows = session.tensor(np.zeros((8, 8), np.float32))
    session.call("mapTensorLinearly", rows, 8, 8)
    session.expect(session.call("detectDimGroupings", rows), _ints([(1, 8)], 2))
    for shape, parts in (([4, 6], [2, 3]), ([5, 7], [2, 2]), ([3], [5])):
        result = session.call("createPartitionableTensor", shape, parts)
        index = sum(
            np.expand_dims(np.arange(n) // -(-n // p), tuple(range(1, len(shape) - d)))
            for d, (n, p) in enumerate(zip(shape, parts))
        )
        session.expect(result, index.astype(np.int32))


@CASES.add
def functions_of_graphs(session: Session) -> None:
    """Called twice with other tensors, inlined and not; debug information; halves."""
    x = session.rng.integers(0, 99, (4, 3)).astype(np.int32)
    for inlined in (0, 1):
        tensors = [session.tensor(row) for row in x]
        session.call("VoidFunction", inlined, *tensors, result=False)
        for t, row in zip(tensors, x[[1, 0, 3, 2]]):
            session.expect(t, row)
    session.expect(session.call("TensorFunction", session.tensor(x[0])), np.tile(x[0], 2))
    target = session.tensor(x[1])
    session.call("ProgramFunction", session.tensor(x[2]), target, result=False)
    session.expect(target, x[2])
    t = session.tensor(x)
    session.expect(session.call("PoplibsOpDebugInfo", t), x)
    session.expect(session.call("cyclesTables"), _ints([5, 9], 2))
    session.expect(session.call("createMetadataTensors"), np.full(2, 5, np.uint8))
    for value in (0.1, 0.5):
        half = np.float32(np.float16(value))
        result = session.call("castToDeviceHalfValue", value)
        session.expect(result, np.array([half, value == half], np.float32))


@CASES.add
def errors_of_poputil(session: Session) -> None:
    """Shapes, dimensions and factors."""
    t, odd = session.tensor(np.zeros((2, 3), np.int32)), session.tensor(np.zeros(4, np.int32))

    def error(function, *arguments, texts):
        session.expect_error("poplibs_error", *texts, function=function, arguments=arguments)

    error("broadcastThree", t, t, odd, texts=["broadcastToMatch: the shape {4} cannot", "{2,3}"])
    error("broadcastToShape", t, [3], texts=["the shape {2,3} cannot be broadcast to match {3}"])
    error(
        "factorDims", t, [2], 1, texts=["factorDims: dimension 1", "{2,3} cannot be divided by 2"]
    )
    error("createBroadcastOperand", t, 2, texts=["dimension 2 does not exist in shape {2,3}"])
    error("unflattenIndex", [2, 3], 6, texts=["unflattenIndex: the index is beyond the shape"])
