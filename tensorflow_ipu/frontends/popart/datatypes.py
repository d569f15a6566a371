"""The types of elements under all their names: PopART's, NumPy's, ONNX's, TensorFlow's."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.common.enums import DataType
from tensorflow_ipu.frontends.popart.errors import popart_exception

_ONNX = onnx.TensorProto


@dataclasses.dataclass(frozen=True)
class Type:
    """A type of elements.

    Args:
        member: its member of `DataType`.
        lower_case: its name in lower case: that of NumPy where it has the type.
        numpy: its type in NumPy; None if it has none.
        onnx: its number in ONNX files.
        tf: its type in programs; None for types that the device lacks.
        carrier: its transfer type between host and device.
    """

    member: DataType
    lower_case: str
    numpy: Any
    onnx: int
    tf: Any = None
    carrier: Any = None

    @property
    def name(self) -> str:
        """Its name, such as "FLOAT"."""
        return self.member.name

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.numpy).itemsize if self.numpy else _OTHER_SIZES[self.member]


_D = DataType
_OTHER_SIZES = {_D.FLOAT8_143: 1, _D.FLOAT8_152: 1, _D.BFLOAT16: 2, _D.STRING: 0, _D.UNDEFINED: 0}

# Integers of 64 bits go between host and device as 32 bits; those that feeds lack as INT32.
TYPES = (
    Type(_D.UINT8, "uint8", np.uint8, _ONNX.UINT8, tf.uint8, np.uint8),
    Type(_D.INT8, "int8", np.int8, _ONNX.INT8, tf.int8, np.int8),
    Type(_D.FLOAT8_143, "float8_143", None, _ONNX.FLOAT8E4M3FNUZ),
    Type(_D.FLOAT8_152, "float8_152", None, _ONNX.FLOAT8E5M2FNUZ),
    Type(_D.UINT16, "uint16", np.uint16, _ONNX.UINT16, tf.uint16, np.int32),
    Type(_D.INT16, "int16", np.int16, _ONNX.INT16, tf.int16, np.int32),
    Type(_D.INT32, "int32", np.int32, _ONNX.INT32, tf.int32, np.int32),
    Type(_D.INT64, "int64", np.int64, _ONNX.INT64, tf.int64, np.int32),
    Type(_D.UINT32, "uint32", np.uint32, _ONNX.UINT32, tf.uint32, np.int32),
    Type(_D.UINT64, "uint64", np.uint64, _ONNX.UINT64, tf.uint64, np.int32),
    Type(_D.BOOL, "bool", np.bool_, _ONNX.BOOL, tf.bool, np.bool_),
    Type(_D.FLOAT, "float32", np.float32, _ONNX.FLOAT, tf.float32, np.float32),
    Type(_D.FLOAT16, "float16", np.float16, _ONNX.FLOAT16, tf.float16, np.float16),
    Type(_D.BFLOAT16, "bfloat16", None, _ONNX.BFLOAT16),
    Type(_D.DOUBLE, "float64", np.float64, _ONNX.DOUBLE),
    Type(_D.COMPLEX64, "complex64", np.complex64, _ONNX.COMPLEX64),
    Type(_D.COMPLEX128, "complex128", np.complex128, _ONNX.COMPLEX128),
    Type(_D.STRING, "string", None, _ONNX.STRING),
    Type(_D.UNDEFINED, "undefined", None, _ONNX.UNDEFINED),
)

_BY_MEMBER = {type_.member: type_ for type_ in TYPES}
_BY_NUMPY = {np.dtype(type_.numpy): type_ for type_ in TYPES if type_.numpy}
_BY_ONNX = {type_.onnx: type_ for type_ in TYPES}
_BY_TF = {type_.tf: type_ for type_ in TYPES if type_.tf is not None}


def of_member(member: DataType) -> Type:
    """Returns the type of a member of `DataType`."""
    return _BY_MEMBER[member]


def named(name: str) -> Type:
    """Returns the type of a name such as "FLOAT".

    Args:
        name: the name, in any case.

    Raises:
        popart_exception: If there is no such type.
    """
    try:
        return _BY_MEMBER[DataType[name.upper()]]
    except KeyError:
        names = ", ".join(member.name for member in DataType)
        raise popart_exception(f"No data type is called {name!r}. Expected one of: {names}.") from (
            None
        )


def of_numpy(dtype: Any) -> Type:
    """Returns the type of NumPy's.

    Args:
        dtype: the dtype.

    Raises:
        popart_exception: If there is no such type.
    """
    try:
        return _BY_NUMPY[np.dtype(dtype)]
    except KeyError:
        known = ", ".join(str(known) for known in _BY_NUMPY)
        raise popart_exception(
            f"No numpy type {np.dtype(dtype)} registered in map to DataType. Expected one of: "
            f"{known}."
        ) from None


def of_data(array: np.ndarray) -> Type:
    """Returns the type of an array that a user hands over.

    Args:
        array: the array.

    Raises:
        popart_exception: If the device has no such type.
    """
    found = of_numpy(array.dtype)
    if found.tf is None:
        raise popart_exception(
            f"No numpy type {array.dtype} registered in map to DataType for tensors: the device "
            "has no such type. Convert the array, say to float32."
        )
    return found


def of_onnx(number: int) -> Type:
    """Returns the type of a number in an ONNX file.

    Args:
        number: the number.

    Raises:
        popart_exception: If PopART has no such type.
    """
    try:
        return _BY_ONNX[number]
    except KeyError:
        name = _ONNX.DataType.Name(number) if number in _ONNX.DataType.values() else number
        raise popart_exception(f"Unsupported ONNX data type {name}.") from None


def of_tf(dtype: Any) -> Type:
    """Returns the type of a tensor of a program."""
    return _BY_TF[dtype]


def for_device(type_: Type) -> Type:
    """Returns a type that the device has.

    Args:
        type_: the type.

    Raises:
        popart_exception: If the device has no such type.
    """
    if type_.tf is None:
        raise popart_exception(
            f"Unsupported data type {type_.name} for IPUs. Convert the model first: see "
            "GraphTransformer."
        )
    return type_
