"""Cases of sorting, loops, padding and layouts of popops."""

from __future__ import annotations

import numpy as np

from tests.support.poplar.cases import Cases
from tests.support.poplar.session import Session

CASES = Cases()

F32, F16, I32, U32 = np.float32, np.float16, np.int32, np.uint32
NONE, ASCENDING, DESCENDING = range(3)


@CASES.add
def sorts_along_any_dimension(session: Session) -> None:
    """New tensors and in place, alone and with values."""
    for dtype in (F32, F16, I32, U32):
        for shape, dim in (((9,), 0), ((5, 4), 0), ((5, 4), 1), ((3, 4, 2), 1)):
            x = session.rng.permutation(np.prod(shape)).reshape(shape).astype(dtype)
            values = session.rng.integers(-99, 99, shape).astype(I32)
            expected = np.sort(x, dim)
            moved = np.take_along_axis(values, np.argsort(x, dim, kind="stable"), dim)
            session.expect(session.call("sort", session.viewed(x), dim), expected)
            keys, tv = session.viewed(x), session.viewed(values)
            session.expect(session.call("sortKeyValue", keys, tv, dim), moved)
            session.call("sortKeyValueInPlace", keys, tv, dim, result=False)
            session.expect(keys, expected)
            session.expect(tv, moved)
            in_place = session.viewed(x)
            session.call("sortInPlace", in_place, dim, result=False)
            session.expect(in_place, expected)


@CASES.add
def first_elements_of_rows(session: Session) -> None:
    """topK: largest and smallest, in each order, with ties."""
    for dtype in (F32, F16, I32, U32):
        x = session.rng.integers(0, 7, (4, 9)).astype(dtype)
        values = session.rng.integers(-99, 99, (4, 9)).astype(F32)
        signed = x.astype(np.int64)
        for largest in (0, 1):
            order = np.argsort(-signed if largest else signed, axis=1, kind="stable")
            for k in (1, 3, 9):
                for sort_order in (ASCENDING, DESCENDING):
                    chosen = order[:, :k]
                    if (sort_order == ASCENDING) == bool(largest):
                        by = signed if sort_order == ASCENDING else -signed
                        picked = np.take_along_axis(by, chosen, 1)
                        again = np.argsort(picked, axis=1, kind="stable")
                        chosen = np.take_along_axis(chosen, again, 1)
                    params = (k, largest, sort_order)
                    tensor, tv = session.viewed(x), session.tensor(values)
                    result = session.call("topK", tensor, *params)
                    session.expect(result, np.take_along_axis(x, chosen, 1))
                    result = session.call("topKWithPermutation", tensor, *params)
                    session.expect(result, chosen.astype(U32))
                    result = session.call("topKKeyValue", tensor, tv, *params)
                    session.expect(result, np.take_along_axis(values, chosen, 1))


@CASES.add
def counted_loops(session: Session) -> None:
    """Sums of indices, slices in a loop, and counters of the caller."""
    for begin, end, step in ((0, 5, 1), (2, 9, 3), (4, 4, 1)):
        total = session.tensor(np.zeros(1, U32))
        session.call("countedLoop", total, begin, end, step, result=False)
        session.expect(total, np.array([sum(range(begin, end, step))], U32))
    x = session.rng.integers(0, 99, (5, 3)).astype(F32)
    out = session.tensor(np.zeros((5, 3), F32))
    session.call("countedLoopOfSlices", session.tensor(x), out, result=False)
    session.expect(out, x[::-1])
    for begin, limit, step in ((0, 4, 1), (9, -3, -4), (5, 5, 1)):
        total, count, end = (session.tensor(np.array([n], I32)) for n in (0, 0, limit))
        session.call("countedForLoop", total, count, end, begin, step, result=False)
        session.expect(total, np.array([sum(range(begin, limit, step))], I32))
    count, limit = session.tensor(np.array([2], I32)), session.tensor(np.array([8], I32))
    for expected in (True, False):
        goes_on = session.call("addForLoopCounterVertex", count, limit, 3)
        session.expect(goes_on, np.array(expected))
    session.expect(count, np.array([8], I32))


@CASES.add
def padding_of_tensors(session: Session) -> None:
    """Constants, edges, mirrored elements, and negative numbers."""
    x = session.rng.uniform(-9, 9, (4, 5)).astype(F32)
    tensor = session.viewed(x)
    for dtype in (F32, F16, I32):
        y = x.astype(dtype)
        result = session.call("pad", session.tensor(y), [1, 0], [2, 3], 2)
        session.expect(result, np.pad(y, [(1, 2), (0, 3)], constant_values=2))
    value = session.tensor(np.asarray(1.5, F32))
    result = session.call("padWithTensor", tensor, value, [-1, 2], [2, -3])
    session.expect(result, np.pad(x[1:, :2], [(0, 2), (2, 0)], constant_values=1.5))
    result = session.call("padByType", tensor, [1, -1], [2, 3], "edge")
    session.expect(result, np.pad(x[:, 1:], [(1, 2), (0, 3)], mode="edge"))
    result = session.call("padByType", tensor, [3, 0], [1, 4], "reflect")
    session.expect(result, np.pad(x, [(3, 1), (0, 4)], mode="reflect"))


@CASES.add
def layouts_keep_values(session: Session) -> None:
    """Regrouping and transposing."""
    x = session.rng.uniform(-9, 9, (2, 4, 5)).astype(F32)
    tensor = session.tensor(x)
    session.expect(session.call("regroupIfBeneficial", tensor, tensor), x)
    session.expect(session.call("partialTranspose", tensor), x.transpose(0, 2, 1))


@CASES.add
def errors_of_orders(session: Session) -> None:
    """Dimensions, numbers of elements and types."""
    t, flags = session.tensor(np.zeros((2, 3), F32)), session.tensor(np.zeros(3, np.bool_))

    def error(function, *arguments, texts):
        session.expect_error("poplibs_error", *texts, function=function, arguments=arguments)

    error("sort", t, 2, texts=["popops::sort: dimension 2 does not exist in shape {2,3}"])
    error("sort", flags, 0, texts=["elements of bool have no order"])
    error("sortKeyValue", t, flags, 0, texts=["the values has to have the shape {2,3}, not {3}"])
    error("topK", t, 4, 1, 0, texts=["popops::topK: k is 4, and the last dimension has 3"])
    error("countedLoop", t, 5, 1, 1, texts=["countedLoop: the loop begins at 5, after its end 1"])
    error("countedForLoop", t, t, t, 0, 1, texts=["the counter has to be of int or unsigned int"])
    error("pad", t, [1], [1, 1], 0, texts=["popops::pad: 1 lower and 2 upper numbers"])
    error("pad", t, [-2, 0], [-1, 0], 0, texts=["more than the 2 elements of dimension 0"])
    error(
        "padByType", t, [2, 0], [0, 0], "reflect", texts=["too few elements (2) for a padding of 2"]
    )
