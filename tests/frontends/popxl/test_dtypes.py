"""Types, and data of the host."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.utils import table_to_string, to_numpy


@pytest.mark.parametrize(
    "value, expected",
    [
        ("float32", popxl.float32),
        (float, popxl.float32),
        (bool, popxl.bool),
        (int, popxl.int64),
        ("float", popxl.float64),
        (np.float16, popxl.half),
        (np.dtype("uint8"), popxl.uint8),
        (np.zeros(1, np.int16), popxl.int16),
        (popxl.double, popxl.float64),
        (np.dtype([("float8_143", "u1")]), popxl.float8_143),
    ],
)
def test_types_are_found_by_what_stands_for_them(value, expected):
    assert popxl.dtype.as_dtype(value) is expected


def test_types_say_what_they_are():
    assert repr(popxl.float) == "popxl.dtypes.float32" and popxl.half.name == "float16"
    flags = {
        popxl.bool: (False, False, False, False),
        popxl.int8: (True, False, True, False),
        popxl.uint32: (True, False, False, False),
        popxl.float8_152: (False, True, True, False),
        popxl.complex64: (False, False, True, True),
    }
    for dtype, expected in flags.items():
        found = (dtype.is_int, dtype.is_floating_point, dtype.is_signed, dtype.is_complex)
        assert found == expected
        assert popxl.dtype.from_name(dtype.name) is dtype
        assert popxl.dtype.as_dtype(dtype.as_numpy()) is dtype


def test_unknown_types_are_refused():
    with pytest.raises(TypeError, match="Cannot create"):
        popxl.dtype()
    for call in (popxl.dtype.from_name, popxl.dtype.as_dtype):
        with pytest.raises(ValueError, match="There is not a `popxl.dtype` that"):
            call("half_float")
    with pytest.raises(ValueError, match="has a name"):
        popxl.dtype.from_name("half")
    with pytest.raises(TypeError, match="does not have a corresponding"):
        popxl.uint32.as_torch()


@pytest.mark.parametrize(
    "value, dtype",
    [(1, "int32"), (1.0, "float32"), (True, "bool"), ([1.5], "float32"), (np.uint64(3), "uint32")],
)
def test_data_of_64_bits_becomes_that_of_32(value, dtype):
    assert to_numpy(value).dtype == dtype
    assert to_numpy(value, downcast=False).dtype == np.asarray(value).dtype


def test_arrays_are_copied_in_c_order_by_default():
    array = np.ones((2, 3), np.float32)
    assert not np.shares_memory(to_numpy(array), array)
    assert np.shares_memory(to_numpy(array, copy=False), array)
    assert to_numpy(array.T, copy=False).flags.c_contiguous
    assert to_numpy([1, 2], popxl.float16).dtype == np.float16
    with pytest.raises(RuntimeError, match="Non-default value for"):
        to_numpy([1.0], popxl.float32, log2_scale=1)


def test_mapped_files_are_shared_and_never_converted(tmp_path):
    file = np.memmap(tmp_path / "w", np.float32, "w+", shape=(4, 2))
    assert to_numpy(file) is file
    with pytest.raises(ValueError, match="parameter must be None or the same"):
        to_numpy(file, popxl.float16)
    with pytest.raises(ValueError, match="C-ordered and aligned form"):
        to_numpy(file.T)
    with pytest.raises(ValueError, match="requires downcasting"):
        to_numpy(np.memmap(tmp_path / "d", np.float64, "w+", shape=(2,)))


@pytest.mark.parametrize(
    "given, dtype",
    [
        (np.float16, popxl.float16),
        (np.dtype("int32"), popxl.int32),
        ("float32", popxl.float32),
        (float, popxl.float32),
        (int, popxl.int32),
        (bool, popxl.bool),
    ],
)
def test_types_of_numpy_and_python_are_taken(given, dtype):
    ir = popxl.Ir(2)
    with ir.main_graph:
        made = [popxl.constant([1, 0], given), popxl.variable([1, 0], given)]
        made.append(popxl.replica_sharded_variable([1, 0], given)[0])
        made.append(ops.cast(made[0], given))
        made.append(ops.init((2,), given))
        made.append(popxl.h2d_stream((2,), given))
        made.append(popxl.remote_buffer((2,), given).spec)
        with ir.create_empty_graph():
            made.append(popxl.graph_input((2,), given))
        assert {t.dtype for t in made} == {dtype} and {t.shape for t in made} == {(2,)}
        for t in made[:2]:
            assert t.data.dtype == dtype.as_numpy() and t.data.tolist() == [1, 0]
            assert t.strides() == t.data.strides
        if dtype.is_floating_point:
            square = popxl.constant(np.ones((2, 2)), given)
            assert ops.matmul(square, square, output_type=given, partials_type=given).dtype is dtype


def test_tables_have_aligned_columns():
    rows = [("a", "long"), ("bcd", 1)]
    assert table_to_string(rows) == "a   | long\n" + "-" * 11 + "\nbcd | 1   \n"
    assert table_to_string(rows, " ", header=False) == "a   long\nbcd 1   \n"
