"""Types of the elements of tensors: the module `popxl.dtypes`."""

from __future__ import annotations

import builtins
import enum
from typing import Any, Union

import numpy as np
import tensorflow as tf

_BY_NAME: dict[str, dtype] = {}
_OF_NUMPY: dict[np.dtype, dtype] = {}


class _Kind(enum.Enum):
    """Kinds of element types."""

    BOOL = "bool"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "float"
    COMPLEX = "complex number"


class dtype:  # noqa: N801
    """The type of the elements of a tensor. There is one object for each type.

    Attributes:
        name: The canonical name, such as "float32".
        is_int: Whether elements are whole numbers.
        is_floating_point: Whether elements are floating-point numbers.
        is_signed: Whether elements may be negative.
        is_complex: Whether elements are complex numbers.
    """

    name: str
    is_int: builtins.bool
    is_floating_point: builtins.bool
    is_signed: builtins.bool
    is_complex: builtins.bool
    _numpy: np.dtype
    _has_torch: builtins.bool

    def __init__(self) -> None:
        raise TypeError(
            "Cannot create popxl.dtype instances. Use one of those that exist, such as "
            "popxl.float32, or popxl.dtype.as_dtype(value)."
        )

    def __repr__(self) -> str:
        return f"popxl.dtypes.{self.name}"

    @classmethod
    def as_dtype(cls, type_like: Any) -> dtype:
        """Returns the type that a value stands for.

        Args:
            type_like: a `dtype`, a canonical name, a type of Python, NumPy or torch, or an object
                with the attribute `dtype`.

        Raises:
            ValueError: If there is no such type.
        """
        if isinstance(type_like, dtype):
            return type_like
        if isinstance(type_like, str) and type_like in _BY_NAME:
            return _BY_NAME[type_like]
        if isinstance(type_like, type) and type_like in _OF_PYTHON:
            return _OF_PYTHON[type_like]
        name = str(type_like)
        if name.startswith("torch.") and name.removeprefix("torch.") in _BY_NAME:
            return _BY_NAME[name.removeprefix("torch.")]
        if not isinstance(type_like, (type, np.dtype)) and hasattr(type_like, "dtype"):
            return cls.as_dtype(type_like.dtype)
        try:
            return _OF_NUMPY[np.dtype(type_like)]
        except (TypeError, KeyError):
            raise ValueError(
                "There is not a `popxl.dtype` that is compatible with value "
                f"'{type_like}'. Expected one of: {', '.join(_BY_NAME)}."
            ) from None

    @classmethod
    def from_name(cls, name: str) -> dtype:
        """Returns the type with a canonical name.

        Args:
            name: the name, such as "float32".

        Raises:
            ValueError: If there is none.
        """
        if name not in _BY_NAME:
            raise ValueError(
                f"There is not a `popxl.dtype` that has a name '{name}'. Expected one of: "
                f"{', '.join(_BY_NAME)}."
            )
        return _BY_NAME[name]

    def as_numpy(self) -> Any:
        """Returns the type of NumPy; a structured one for the 8-bit floats."""
        return self._numpy if self._numpy.names else self._numpy.type

    def as_torch(self) -> Any:
        """Returns the type of torch.

        Raises:
            TypeError: If torch has no such type.
            ModuleNotFoundError: If torch is not installed.
        """
        if not self._has_torch:
            raise TypeError(
                f"The `popxl.dtype` {self.name} does not have a corresponding torch type."
            )
        import importlib

        return getattr(importlib.import_module("torch"), self.name)

    @property
    def is_float8(self) -> builtins.bool:
        """Whether it is one of the two formats of 8-bit floats, held as codes."""
        return self._numpy.names is not None

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._numpy.itemsize


def _make(name: str, kind: _Kind, numpy: Any = None, torch: builtins.bool = True) -> dtype:
    """Makes a type and enters it into the tables."""
    made: dtype = object.__new__(dtype)
    made.name = name
    made.is_int = kind in (_Kind.SIGNED, _Kind.UNSIGNED)
    made.is_floating_point = kind is _Kind.FLOAT
    made.is_signed = kind in (_Kind.SIGNED, _Kind.FLOAT, _Kind.COMPLEX)
    made.is_complex = kind is _Kind.COMPLEX
    made._numpy = np.dtype(numpy or name)
    made._has_torch = torch
    _BY_NAME[name] = _OF_NUMPY[made._numpy] = made
    return made


bool = _make("bool", _Kind.BOOL, "bool_")  # noqa: A001
int8 = _make("int8", _Kind.SIGNED)
int16 = _make("int16", _Kind.SIGNED)
int32 = _make("int32", _Kind.SIGNED)
int64 = _make("int64", _Kind.SIGNED)
uint8 = _make("uint8", _Kind.UNSIGNED)
uint16 = _make("uint16", _Kind.UNSIGNED, torch=False)
uint32 = _make("uint32", _Kind.UNSIGNED, torch=False)
uint64 = _make("uint64", _Kind.UNSIGNED, torch=False)
float8_143 = _make("float8_143", _Kind.FLOAT, [("float8_143", "u1")], torch=False)
float8_152 = _make("float8_152", _Kind.FLOAT, [("float8_152", "u1")], torch=False)
float16 = half = _make("float16", _Kind.FLOAT)
float32 = float = _make("float32", _Kind.FLOAT)  # noqa: A001
float64 = double = _make("float64", _Kind.FLOAT)
complex64 = _make("complex64", _Kind.COMPLEX)
complex128 = _make("complex128", _Kind.COMPLEX)
_OF_PYTHON: dict[type, dtype] = {builtins.bool: bool, builtins.float: float32}
#: The structured types of NumPy that hold 8-bit floats as codes.
np_dtype_float8_143 = float8_143.as_numpy()
np_dtype_float8_152 = float8_152.as_numpy()
#: What may be given for a type: also a canonical name, or a type of Python, NumPy or torch.
DTypeLike = Union[dtype, str, type, np.dtype]


def of_device(type_like: DTypeLike) -> dtype:
    """Returns the type that a value stands for: `dtype.as_dtype`, but `int` of Python is int32.

    Args:
        type_like: the type as the user gives it.

    Raises:
        ValueError: If there is no such type.
    """
    return int32 if type_like is int else dtype.as_dtype(type_like)


def tf_type(data_type: dtype) -> tf.DType:
    """Returns the type that programs hold elements in: 8-bit floats are codes.

    Args:
        data_type: the type.
    """
    return tf.uint8 if data_type.is_float8 else tf.as_dtype(data_type.name)


def plain(array: np.ndarray) -> np.ndarray:
    """Returns an array as TensorFlow takes it: codes for 8-bit floats.

    Args:
        array: the array.
    """
    return array.view("uint8") if array.dtype.names else array
