"""The host's copies of variables: what they hold, what is fetched into them, what is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorflow_ipu.frontends.popxl.lowering.weights import needs_lanes
from tensorflow_ipu.frontends.popxl.tensor import Constant, Variable


def is_writable(tensor: Constant | Variable) -> bool:
    """Returns whether the host's copy is no file that is open for reading only.

    Args:
        tensor: the variable or constant.
    """
    return not isinstance(tensor.data, np.memmap) or tensor.data.flags.writeable


def check_writable(variable: Variable) -> None:
    """Refuses to write into a file that is open for reading.

    Args:
        variable: the variable whose host copy may be such a file.

    Raises:
        Exception: If it is.
    """
    if not is_writable(variable):
        raise Exception(
            f"{variable!r} is a read-only memmap, so its value cannot be brought to the host. Open "
            "the file with mode='r+'."
        )


def update(variable: Variable, value: np.ndarray | None) -> None:
    """Gives the host's copy of a variable what was fetched.

    Args:
        variable: the variable.
        value: its value, or what each replica has; None for a variable that is not used.
    """
    variable.stale = False
    if value is None:
        return
    if needs_lanes(variable):
        variable.on_replicas, layout = value, variable.layout
        np.copyto(variable.data, layout.from_device(value), where=layout.is_on_device())
    else:
        variable.data[...] = value
    if isinstance(variable.data, np.memmap):
        variable.data.flush()


def host_value(tensor: Constant | Variable) -> np.ndarray:
    """Returns what the host has of a variable or constant.

    Args:
        tensor: the variable or constant.
    """
    if not isinstance(tensor, Variable) or not tensor.layout.returns_all_replicas:
        return tensor.data
    rows = tensor.on_replicas
    layout = tensor.layout
    return layout.of_replicas(layout.to_device(tensor.data) if rows is None else rows)


def value_for(tensor: Any, value: Any) -> np.ndarray:
    """Returns a value for a variable, of its shape and type.

    Args:
        tensor: the variable.
        value: what the user gives.

    Raises:
        TypeError: If it is no variable, or the type differs.
        ValueError: If the shape differs.
        NotImplementedError: If the values of all replicas come to the host.
    """
    if not isinstance(tensor, Variable):
        raise TypeError(
            f"Tensor {getattr(tensor, 'id', tensor)} is not of type Variable. Received: "
            f"{type(tensor).__name__}"
        )
    if tensor.layout.returns_all_replicas:
        raise NotImplementedError(
            f"Writing {tensor!r} is not yet supported: its retrieval_mode is 'all_replicas'. Make "
            "it with 'one_per_group'."
        )
    if isinstance(value, (bool, int, float)):
        if tensor.dtype.is_float8:
            raise TypeError(f"A number cannot be a value for {tensor!r}: pass codes.")
        value = np.array(value, tensor.dtype.as_numpy())
    array = value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)
    if array.dtype != np.dtype(tensor.dtype.as_numpy()):
        raise TypeError(
            f"The dtype of the array, {array.dtype}, must match the equivalent type of {tensor!r}."
        )
    if array.shape != tensor.shape_on_host:
        raise ValueError(
            f"The shape of the input array, {array.shape}, must be that of the variable on the "
            f"host: {tensor.shape_on_host}."
        )
    return array
