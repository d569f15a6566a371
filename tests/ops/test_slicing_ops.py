"""Tests of copying runs of rows."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import loops
from tensorflow_ipu.ops.slicing_ops import (
    sequence_slice,
    sequence_slice_pack,
    sequence_slice_unpack,
)
from tests.support.programs import replicas

tf1 = tf.compat.v1
SIX = [[i] * 6 for i in range(6)]

# num_elems, src_offsets, dst_offsets; with `src` of 7 rows and `dst` of 9.
RUNS = {
    "one": ([3], [2], [4]),
    "apart": ([2, 1, 3], [0, 6, 3], [6, 4, 0]),
    "source twice": ([3, 3], [1, 2], [0, 5]),
    "overlapping": ([4, 4, 2], [3, 0, 5], [2, 4, 3]),
    "same place": ([2, 2], [0, 4], [3, 3]),
    "empty ones": ([0, 2, 0], [7, 1, 0], [0, 7, 9]),
    "none": ([0], [0], [0]),
    "all": ([7], [0], [1]),
}


def reference(dst, src, counts, src_offsets, dst_offsets, zero_unused):
    result = np.zeros_like(dst) if zero_unused else dst.copy()
    for count, source, place in zip(counts, src_offsets, dst_offsets):
        result[place : place + count] = src[source : source + count]
    return result


def reference_gradients(upstream, rows, counts, src_offsets, dst_offsets, zero_unused):
    """Moves each row of the gradient to where the row of the result came from."""
    of_src = np.zeros([rows, *upstream.shape[1:]], upstream.dtype)
    origins = np.full(len(upstream), -1)
    for count, source, place in zip(counts, src_offsets, dst_offsets):
        origins[place : place + count] = np.arange(source, source + count)
    for row, origin in enumerate(origins):
        if origin >= 0:
            of_src[origin] += upstream[row]
    keep = (origins < 0) & (not zero_unused)
    return np.where(keep.reshape([-1] + [1] * (upstream.ndim - 1)), upstream, 0), of_src


def arrays(inner=(3,), dtype="float32"):
    generator = np.random.default_rng(3)
    return [generator.normal(size=(n, *inner)).astype(dtype) for n in (9, 7)]


class TestDocumentedExamples:
    """Output of the reference."""

    def test_sequence_slice_gives_the_documented_rows(self):
        dst = sequence_slice(tf.zeros([6, 6]), SIX, [2, 2], [2, 1], [0, 4], False)
        np.testing.assert_array_equal(dst, [[row] * 6 for row in (2, 3, 0, 0, 1, 2)])
        assert dst.dtype == tf.float32

    def test_unpack_gives_the_documented_rows(self):
        dst = sequence_slice_unpack(SIX, [2, 2], [2, 1], 4)
        np.testing.assert_array_equal(dst, [[row] * 6 for row in (2, 3, 1, 2)])

    def test_pack_gives_the_documented_rows(self):
        src = [[row] * 6 for row in (2, 3, 1, 2)]
        dst = sequence_slice_pack(tf.zeros([6, 6]), src, [2, 2], [2, 1], False)
        np.testing.assert_array_equal(dst, [[row] * 6 for row in (0, 1, 2, 3, 0, 0)])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("zero_unused", [False, True])
@pytest.mark.parametrize("runs", RUNS.values(), ids=RUNS)
class TestSequenceSlice:
    """Against NumPy, forward and gradient."""

    @pytest.mark.parametrize("inner", [(3,), (2, 3), (1, 1, 1)])
    def test_slices_and_gradients_equal_the_reference_eagerly(
        self, runs, zero_unused, dtype, inner
    ):
        dst, src = map(tf.constant, arrays(inner, dtype))
        upstream = arrays(inner, dtype)[0]
        with tf.GradientTape() as tape:
            tape.watch([dst, src])
            result = sequence_slice(dst, src, *runs, zero_unused)
        np.testing.assert_array_equal(
            result, reference(dst.numpy(), src.numpy(), *runs, zero_unused)
        )
        gradients = tape.gradient(result, [dst, src], tf.constant(upstream))
        for actual, expected in zip(
            gradients, reference_gradients(upstream, 7, *runs, zero_unused)
        ):
            np.testing.assert_allclose(tf.convert_to_tensor(actual), expected, rtol=2e-3)

    def test_runs_computed_in_a_session(self, runs, zero_unused, dtype):
        """Offsets that are known only when the graph runs."""
        dst, src = arrays(dtype=dtype)
        with tf.Graph().as_default(), tf1.Session() as session:
            feeds = [tf1.placeholder(tf.int32, [len(run)]) for run in runs]
            result = sequence_slice(tf.constant(dst), tf.constant(src), *feeds, zero_unused)
            assert result.shape == dst.shape
            actual = session.run(result, dict(zip(feeds, runs)))
        np.testing.assert_array_equal(actual, reference(dst, src, *runs, zero_unused))


@pytest.mark.parametrize("in_session", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
class TestPrograms:
    """On the device, with offsets that differ between replicas."""

    def test_slices_and_gradients_equal_reference_in_a_program(self, dtype, in_session):
        dst, src = arrays(dtype=dtype)
        runs = [RUNS["apart"], ([2, 2, 1], [0, 3, 6], [3, 4, 8])]

        def program():
            x, y = tf.constant(dst), tf.constant(src)
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                result = sequence_slice(x, y, *map(replicas.own_row, zip(*runs)), False)
            gradients = tape.gradient(result, [x, y], tf.constant(dst))
            return [result, *map(tf.convert_to_tensor, gradients)]

        results = replicas.run(2, program, in_session)
        for replica, run in enumerate(runs):
            expected = [reference(dst, src, *run, False), *reference_gradients(dst, 7, *run, False)]
            for actual, wanted in zip(results, expected):
                np.testing.assert_allclose(actual[replica], wanted, rtol=2e-3)

    def test_unpack_and_pack_equal_reference_in_a_program(self, dtype, in_session):
        _, src = arrays(dtype=dtype)
        counts, offsets = [[2, 1, 3], [1, 1, 2]], [[4, 0, 1], [6, 2, 3]]

        def program():
            own_counts, own_offsets = replicas.own_row(counts), replicas.own_row(offsets)
            unpacked = sequence_slice_unpack(src, own_counts, own_offsets, 6)
            packed = sequence_slice_pack(
                tf.constant(src) + 1, unpacked, own_counts, own_offsets, True
            )
            return unpacked, packed

        unpacked, packed = replicas.run(2, program, in_session)
        for replica in range(2):
            runs = list(zip(counts[replica], offsets[replica]))
            rows = [src[offset : offset + count] for count, offset in runs]
            rows.append(np.zeros([6 - sum(counts[replica]), 3], dtype))
            np.testing.assert_array_equal(unpacked[replica], np.concatenate(rows))
            inside = np.zeros([7, 1], bool)
            for count, offset in runs:
                inside[offset : offset + count] = True
            np.testing.assert_array_equal(packed[replica], np.where(inside, src, 0))


def test_a_window_is_moved_in_a_loop():
    """Moves a window along, one row each iteration."""
    src = tf.range(12.0)[:, tf.newaxis]

    def program():
        def body(i, dst):
            return i + 1, sequence_slice(dst, src, [2], [i], [i // 2], False)

        return loops.repeat(4, body, [0, tf.zeros([5, 1])])[1]

    np.testing.assert_array_equal(replicas.run(1, program)[0], [[1], [3], [4], [0], [0]])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_pack_and_unpack_are_gradients_of_each_other(dtype):
    """The two are each other's gradient where no rows overlap."""
    _, src = arrays(dtype=dtype)
    runs = [2, 3], [4, 0]
    src, upstream = tf.constant(src), tf.constant(arrays(dtype=dtype)[0][:5])
    with tf.GradientTape() as tape:
        tape.watch(src)
        unpacked = sequence_slice_unpack(src, *runs, 5)
    gradient = tf.convert_to_tensor(tape.gradient(unpacked, src, upstream))
    zeros = tf.zeros_like(src)
    np.testing.assert_array_equal(gradient, sequence_slice_pack(zeros, upstream, *runs, True))
    with tf.GradientTape() as tape:
        tape.watch(upstream)
        packed = sequence_slice_pack(zeros, upstream, *runs, True)
    gradient = tf.convert_to_tensor(tape.gradient(packed, upstream, src))
    np.testing.assert_array_equal(gradient, sequence_slice_unpack(src, *runs, 5))


def test_integer_tensors_and_int64_offsets_are_accepted():
    dst = sequence_slice(
        np.zeros([4, 1], np.int32), [[5], [6]], *(np.array([n], np.int64) for n in (1, 1, 2)), True
    )
    np.testing.assert_array_equal(dst, [[0], [0], [6], [0]])


class TestErrors:
    """Mistakes of the user."""

    DST, SRC = tf.zeros([9, 3]).numpy(), tf.zeros([7, 3]).numpy()

    @pytest.mark.parametrize(
        "runs", [([1], [0, 0], [0]), ([1, 1], [0], [0]), ([], [], []), (1, 0, 0), ([[1]], [0], [0])]
    )
    def test_shapes_of_the_runs(self, runs):
        runs = [np.array(run, np.int32) for run in runs]
        match = "matching, nonzero shapes of rank 1. Received: num_elems of shape"
        with pytest.raises(ValueError, match=match):
            sequence_slice(self.DST, self.SRC, *runs, False)
        if len({run.shape for run in runs[:2]}) == 1 and runs[0].shape == (1,):
            return
        with pytest.raises(ValueError, match=match):
            sequence_slice_unpack(self.SRC, *runs[:2], 3)
        with pytest.raises(ValueError, match=match):
            sequence_slice_pack(self.DST, self.SRC, *runs[:2], False)

    def test_inner_shapes_that_differ_are_refused(self):
        for call in (
            lambda: sequence_slice(self.DST, tf.zeros([7, 4]), [1], [0], [0], False),
            lambda: sequence_slice_pack(self.DST, tf.zeros([7, 3, 1]), [1], [0], False),
        ):
            with pytest.raises(ValueError, match="src and dst inner shapes must match."):
                call()

    def test_ranks_below_two_are_refused(self):
        with pytest.raises(ValueError, match="src must be of rank 2 or more"):
            sequence_slice_unpack(tf.zeros([3]), [1], [0], 2)
        with pytest.raises(ValueError, match="dst must be of rank 2 or more"):
            sequence_slice(tf.zeros([3]), self.SRC, [1], [0], [0], True)

    def test_wrong_types_are_refused(self):
        with pytest.raises(ValueError, match="src of float16 and dst of float32. Cast"):
            wrong = tf.zeros([7, 3], tf.float16)
            sequence_slice(tf.constant(self.DST), wrong, [1], [0], [0], True)
        with pytest.raises(ValueError, match="src_offsets must be integers"):
            sequence_slice(self.DST, self.SRC, [1], [0.0], [0], True)

    @pytest.mark.parametrize(
        ("runs", "match"),
        [
            (([3], [5], [0]), "src_offsets and num_elems must stay within the 7 rows of src"),
            (([1], [-1], [0]), "src_offsets and num_elems must stay within"),
            (([3], [0], [7]), "dst_offsets and num_elems must stay within the 9 rows of dst"),
            (([1, 1], [0, 0], [0, -1]), r"Received: dst_offsets=\[0, -1\], num_elems=\[1, 1\]"),
            (([-1], [0], [0]), r"num_elems must not be negative. Received: num_elems=\[-1\]"),
        ],
    )
    def test_runs_beyond_the_tensors(self, runs, match):
        with pytest.raises(ValueError, match=match):
            sequence_slice(self.DST, self.SRC, *runs, False)

    def test_too_small_a_total_is_refused(self):
        with pytest.raises(ValueError, match="at least the sum of num_elems, 4.*_elements=3"):
            sequence_slice_unpack(self.SRC, [2, 2], [0, 0], 3)
        with pytest.raises(ValueError, match="total_elements must be an int.*_elements=-1"):
            sequence_slice_unpack(self.SRC, [2, 2], [0, 0], -1)

    def test_too_few_rows_to_pack_are_refused(self):
        with pytest.raises(ValueError, match="stay within the 7 rows of src"):
            sequence_slice_pack(self.DST, self.SRC, [4, 4], [0, 4], False)
