"""Cases of slices, gathers and scatters of popops."""

from __future__ import annotations

import itertools

import numpy as np

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()

F32, F16, I32, U32 = np.float32, np.float16, np.int32, np.uint32


def _wrapped(shape, dims, sizes, offsets):
    """Returns the indices of a slice for each dimension, around the end of it."""
    indices = [np.arange(size) for size in shape]
    for d, size, offset in zip(dims, sizes, offsets):
        begin = offset if offset < shape[d] else 0
        indices[d] = (begin + np.arange(size)) % shape[d]
    return np.ix_(*indices)


@CASES.add
def dynamic_slices_of_random_shapes(session: Session) -> None:
    """Slices and updates in any dimensions, also around the end and beyond it."""
    choices = session.choices
    for _ in range(40):
        rank = choices.randint(1, 4)
        shape = [choices.randint(1, 5) for _ in range(rank)]
        dims = choices.sample(range(rank), choices.randint(0, rank))
        sizes = [choices.randint(1, shape[d]) for d in dims]
        offsets = [choices.randint(0, shape[d] + 1) for d in dims]
        dtype = choices.choice([F32, F16, I32, np.bool_, np.int64])
        x = session.rng.integers(0, 99, shape).astype(dtype)
        tensor = session.viewed(x)
        offset = session.tensor(np.array(offsets, U32))
        where = _wrapped(shape, dims, sizes, offsets)
        session.expect(session.call("dynamicSlice", tensor, offset, dims, sizes), x[where])
        result = session.call("dynamicSliceWithOutput", tensor, offset, dims, sizes)
        session.expect(result, x[where])
        update = session.rng.integers(0, 99, x[where].shape).astype(dtype)
        s = session.viewed(update)
        session.call("dynamicUpdate", tensor, s, offset, dims, sizes, result=False)
        x[where] = update
        session.expect(tensor, x)


@CASES.add
def sliceable_tensors_have_all_elements(session: Session) -> None:
    """Tensors of the library's own making."""
    t = session.call("createSliceableTensor", "float", [7, 40], [0], [1])
    session.call("iota", t, 0, result=False)
    x = np.arange(280, dtype=F32).reshape(7, 40)
    offset = session.tensor(np.array([3], U32))
    session.expect(session.call("dynamicSlice", t, offset, [0], [2]), x[3:5])
    table = np.ones((6, 5), F32)
    table[0] = 2
    expected = np.concatenate([table.ravel(), np.full(15, 3, F32), np.full(15, 2, F32)])
    session.expect(session.call("createSliceTensors"), expected)
    counts = [24, 24, 24, 18, 24, 48, 2 * 3 * 4]
    session.expect(session.call("createdInputs"), np.repeat(np.arange(7, dtype=F32), counts))


@CASES.add
def lookups_of_tables(session: Session) -> None:
    """multiSlice: rows, columns, windows, groups, padding and offsets beyond the table."""
    for dtype in (F32, F16, I32):
        table = session.rng.integers(1, 99, (9, 5)).astype(dtype)
        rows = np.array([3, 0, 8, 9, 3, 11], U32)[:, None]
        t, offsets = session.viewed(table), session.tensor(rows)
        expected = np.zeros((6, 1, 5), dtype)
        for k, row in enumerate(rows[:, 0]):
            if row < 9:
                expected[k, 0] = table[row]
        session.expect(session.call("multiSlice", t, offsets, [0], [1]), expected)
        result = session.call("multiSlice", t, offsets, [0], [1], "paddingIndexUsed")
        session.expect(result, expected)
        result = session.call("multiSlice", t, offsets, [0], [1], "remapOutOfBoundIndices")
        session.expect(result, table[np.where(rows < 9, rows, 0)])
    columns = session.tensor(np.array([[4], [1]], U32))
    result = session.call("multiSlice", t, columns, [1], [1])
    session.expect(result, np.stack([table[:, 4:5], table[:, 1:2]]))
    both = session.tensor(np.array([[1, 2], [4, 0]], U32))
    result = session.call("multiSlice", t, both, [0, 1], [2, 3])
    session.expect(result, np.stack([table[1:3, 2:5], table[4:6, 0:3]]))
    session.expect(session.call("multiSliceAt", t, [4, 4, 0], 0), table[[4, 4, 0]])
    session.expect(session.call("multiSliceAt", t, [2, 3], 1), table[:, 2:4])
    groups = session.rng.integers(0, 99, (2, 4, 3)).astype(F32)
    rows = np.array([[[1], [3], [0]], [[2], [2], [1]]], U32)
    result = session.call("groupedMultiSlice", session.tensor(groups), session.tensor(rows))
    expected = np.stack([groups[g, rows[g, :, 0]] for g in range(2)])[:, :, None]
    session.expect(result, expected)


@CASES.add
def updates_of_tables(session: Session) -> None:
    """multiUpdate and its kinds, with equal offsets and with offsets beyond the table."""
    functions = {"-": None, "max": np.maximum, "mul": np.multiply}
    for dtype, (name, function) in itertools.product((F32, F16, I32), functions.items()):
        table = session.rng.integers(-4, 4, (6, 5)).astype(dtype)
        rows = np.array([3, 0, 7, 5] if name == "-" else [3, 0, 7, 3], U32)
        slices = session.rng.integers(-4, 4, (4, 1, 5)).astype(dtype)
        t = session.viewed(table)
        arguments = (session.tensor(slices), session.tensor(rows[:, None]), name)
        session.call("multiUpdate", t, *arguments, result=False)
        for row, update in zip(rows, slices[:, 0]):
            if row < 6:
                table[row] = update if function is None else function(table[row], update)
        session.expect(t, table)
    for name, function in functions.items():
        tables = session.rng.integers(-4, 4, (2, 6, 5)).astype(F32)
        rows = np.array([[1, 2], [5, 0]], U32)
        slices = session.rng.integers(-4, 4, (2, 2, 1, 5)).astype(F32)
        t = session.tensor(tables)
        arguments = (session.tensor(slices), session.tensor(rows[..., None]), name)
        session.call("groupedMultiUpdate", t, *arguments, result=False)
        for g, k in itertools.product(range(2), range(2)):
            row, update = tables[g, rows[g, k]], slices[g, k, 0]
            row[:] = update if function is None else function(row, update)
        session.expect(t, tables)


@CASES.add
def updates_that_add(session: Session) -> None:
    """multiUpdateAdd: equal offsets add up; large ones run in parts."""
    for dtype in (F32, F16, I32):
        for shape, count in (((6, 5), 8), ((40, 300), 500)):
            table = session.rng.integers(-4, 4, shape).astype(dtype)
            rows = session.rng.integers(0, shape[0] + 1, count).astype(U32)
            slices = session.rng.integers(-2, 3, (count, 1, shape[1])).astype(dtype)
            scale = np.asarray(2, dtype)
            t = session.tensor(table)
            arguments = (session.tensor(slices), session.tensor(rows[:, None]))
            session.call(
                "multiUpdateAdd", t, *arguments, session.tensor(scale), [0], [1], result=False
            )
            for row, update in zip(rows, slices[:, 0]):
                if row < shape[0]:
                    table[row] += scale * update
            session.expect(t, table)
    table = session.rng.integers(-4, 4, (4, 3)).astype(F32)
    t, scale = session.tensor(table), session.tensor(np.asarray(0.5, F32))
    slices = session.rng.integers(-4, 4, (2, 3)).astype(F32)
    session.call("multiUpdateAddAt", t, session.tensor(slices), scale, [2, 2], 0, result=False)
    table[2] += F32(0.5) * (slices[0] + slices[1])
    session.expect(t, table)
    tables = session.rng.integers(-4, 4, (2, 4, 3)).astype(F32)
    t, rows = session.tensor(tables), np.array([[1, 1], [3, 0]], U32)
    slices = session.rng.integers(-4, 4, (2, 2, 1, 3)).astype(F32)
    arguments = (session.tensor(slices), session.tensor(rows[..., None]), scale)
    session.call("groupedMultiUpdateAdd", t, *arguments, result=False)
    for g, k in itertools.product(range(2), range(2)):
        tables[g, rows[g, k]] += F32(0.5) * slices[g, k, 0]
    session.expect(t, tables)


@CASES.add
def gathers_along_an_axis(session: Session) -> None:
    """Indices of any rank stand for the axis."""
    x = session.rng.integers(0, 99, (4, 5, 3)).astype(F32)
    for axis, shape in itertools.product(range(3), ((2,), (2, 3))):
        indices = session.rng.integers(0, x.shape[axis], shape).astype(U32)
        result = session.call("gather", session.viewed(x), session.tensor(indices), axis)
        session.expect(result, np.take(x, indices, axis))


@CASES.add
def gathers_and_scatters_of_windows(session: Session) -> None:
    """XLA's operations: windows that are moved inside, and those that are left out."""
    x = session.rng.integers(0, 99, (5, 6)).astype(I32)
    starts = np.array([[1, 2], [4, 5], [0, 0]], I32)
    tensor, indices = session.tensor(x), session.tensor(starts)
    result = session.call("gatherWindows", tensor, indices, 1, [1, 2], [2, 3], [], [0, 1])
    moved = np.minimum(starts, [3, 3])
    session.expect(result, np.stack([x[i : i + 2, j : j + 3] for i, j in moved]))
    # Windows of one row, whose dimension goes, at the front of the result.
    result = session.call("gatherWindows", tensor, indices, 1, [0], [1, 3], [0], [0, 1])
    windows = [x[i, j : j + 3] for i, j in np.minimum(starts, [4, 3])]
    session.expect(result, np.stack(windows, axis=1))
    updates = session.rng.integers(100, 199, (3, 2, 3)).astype(I32)
    arguments = (indices, session.viewed(updates), 1, [1, 2], [], [0, 1])
    session.call("scatter", tensor, *arguments, result=False)
    for (i, j), update in zip(starts, updates):
        if i <= 3 and j <= 3:
            x[i : i + 2, j : j + 3] = update
    session.expect(tensor, x)
    rows = session.tensor(np.array([3, 1], I32))
    updates = session.rng.integers(200, 299, (2, 6)).astype(I32)
    session.call("scatter", tensor, rows, session.tensor(updates), 1, [1], [0], [0], result=False)
    x[[3, 1]] = updates
    session.expect(tensor, x)


@CASES.add
def scatters_by_a_function(session: Session) -> None:
    """Windows that meet, whose dimension of rows goes, and one that is left out."""
    x = session.rng.integers(0, 99, (5, 6)).astype(F32)
    starts = np.array([[1, 2], [1, 3], [4, 5], [1, 2]], I32)
    updates = session.rng.integers(100, 199, (4, 3)).astype(F32)
    tensor = session.tensor(x)
    arguments = (session.tensor(starts), session.tensor(updates), 1, [1], [0], [0, 1])
    session.call("scatterByFunction", tensor, *arguments, result=False)
    for (i, j), update in zip(starts, updates):
        if j <= 3:
            x[i, j : j + 3] = x[i, j : j + 3] / 2 + update
    session.expect(tensor, x)


@CASES.add
def errors_of_slices(session: Session) -> None:
    """Dimensions, sizes, offsets and slices."""
    t, one = session.tensor(np.zeros((4, 3), F32)), session.tensor(np.zeros(1, U32))
    two, floats = session.tensor(np.zeros((2, 1), U32)), session.tensor(np.zeros((1, 3), F32))

    def error(function, *arguments, texts):
        session.expect_error("poplibs_error", *texts, function=function, arguments=arguments)

    error("dynamicSlice", t, one, [2], [1], texts=["dynamicSlice: dimension 2 does not exist"])
    error("dynamicSlice", t, one, [0], [5], texts=["a slice of size 5 is larger than dimension 0"])
    error("dynamicSlice", t, one, [0, 1], [1, 1], texts=["the offset has 1 elements for 2 dim"])
    error("dynamicSlice", t, floats, [0], [1], texts=["have to be of unsigned int, not of float"])
    error(
        "dynamicUpdate",
        t,
        one,
        one,
        [0],
        [1],
        texts=["dynamicUpdate: the slice has to be of float"],
    )
    error("dynamicUpdate", t, floats, one, [0], [2], texts=["the shape {2,3}, not {1,3}"])
    error(
        "multiSlice",
        t,
        one,
        [0],
        [1],
        texts=["multiSlice: offsets have the shape {1}", "slices,1}"],
    )
    error(
        "multiUpdate",
        t,
        floats,
        two,
        "-",
        texts=["multiUpdate: the slices has to have the shape {2,1,3}"],
    )
    error("multiSliceAt", t, [4], 0, texts=["offset 4 is beyond dimension 0 of shape {4,3}"])
    error("gather", t, one, 2, texts=["popops::gather: axis 2 does not exist"])
    session.expect_error(
        "invalid_option",
        "popops::multiSlice: there is no option 'unknown'",
        function="multiSlice",
        arguments=[t, two, [0], [1], "unknown"],
    )
