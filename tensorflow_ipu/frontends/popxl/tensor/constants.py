"""`Constant`: a tensor whose value never changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl import context, dtypes, utils
from tensorflow_ipu.frontends.popxl.core.kinds import function, tensor_method
from tensorflow_ipu.frontends.popxl.tensor.host_data import HostTensor, add_tensor
from tensorflow_ipu.frontends.popxl.tensor.tensors import Tensor


class Constant(Tensor):
    """A tensor whose value never changes.

    Attributes:
        data: The value.
    """

    data: np.ndarray

    def copy_to_ipu(self, destination: int, source: int) -> Tensor:  # type: ignore[override]
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)


def constant(
    data: HostTensor | float | int,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Constant:
    """Makes a constant of the current graph.

    Args:
        data: the value.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN (default).

    Raises:
        TypeError: If the data are codes of 8-bit floats and `dtype` is not given.
    """
    if dtype is None and getattr(getattr(data, "dtype", None), "names", None):
        raise TypeError(
            "For data of 8-bit floats explicitly set the data type: dtype=popxl.float8_143 or "
            "popxl.float8_152."
        )
    array = utils.to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    made: Constant = add_tensor(context.get_current_graph(), Constant, array, name)
    return made


@tensor_method()
def as_tensor(value: Any, dtype: dtypes.DTypeLike | None = None) -> Tensor:
    """Returns a tensor for an operand: itself, or a constant of the current graph.

    Args:
        value: a tensor, a number or an array.
        dtype: the type of the constant; that of the value by default.

    Raises:
        ValueError: If the value has no elements.
    """
    if isinstance(value, Tensor):
        return value
    array = utils.to_numpy(value, dtype)
    if array.size == 0:
        raise ValueError(f"The value has 0 elements. Received: {value!r}")
    return constant(array, dtype)


@tensor_method()
def operand_for(tensor: Tensor, value: Any) -> Tensor:
    """Returns the other operand of an operator: a constant of the same type for what is no tensor.

    Args:
        tensor: the operand that is a tensor.
        value: the other one.

    Raises:
        ValueError: If the value has no elements.
    """
    return as_tensor(value, tensor.dtype)
