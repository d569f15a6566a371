"""Helpers of both feeds: names, devices, unsupported types, synthetic data."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.framework import (
    constant_op,
    dtypes,
    errors,
    ops,
    tensor_shape,
)
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope, synthetic_data
from tensorflow_ipu.configs import flags
from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.configs.ranges import INT32, Range, shown
from tensorflow_ipu.util.notices import warn_once
from tensorflow_ipu.util.short_repr import Shown

#: Types of the tensors that an infeed sends to a device.
INFEED_DTYPES = (
    dtypes.float32,
    dtypes.float16,
    dtypes.int32,
    dtypes.int8,
    dtypes.uint8,
    dtypes.bool,
)
#: Types of the tensors that can pass between host and device, integers of 64 bits as 32 bits.
SUPPORTED_DTYPES = (*INFEED_DTYPES, dtypes.int64)

#: Ordinals of devices.
_ORDINAL = Range(0, INT32, below="must be >= 0")


class OrdinalInScope(int):
    """The ordinal of the current `IPUStrategy`; 0 outside one."""


#: Default ordinal of queues. It is the documented 0, but told from a 0 that a program passes.
ORDINAL_IN_SCOPE: Final = OrdinalInScope(0)

_Function = TypeVar("_Function", bound=Callable[..., Any])


def check_ordinal(device_ordinal: int | None) -> int:
    """Returns the TensorFlow device that a queue is for.

    Args:
        device_ordinal: `k` of `/device:IPU:k`. None and `ORDINAL_IN_SCOPE`: the device of the
            current `IPUStrategy`, 0 outside one.

    Raises:
        ValueError: If it is not an integer, or negative.
    """
    if device_ordinal is None or isinstance(device_ordinal, OrdinalInScope):
        return current_scope.current_ordinal()
    if isinstance(device_ordinal, bool) or not hasattr(device_ordinal, "__index__"):
        raise ValueError(
            f"Device ordinal must be an integer {_ORDINAL}; received {shown(device_ordinal)}."
        )
    return _ORDINAL.whole("Device ordinal", device_ordinal)


def check_dtypes(
    queue: str,
    types: Sequence[dtypes.DType],
    supported: Sequence[dtypes.DType] = SUPPORTED_DTYPES,
) -> None:
    """Raises for types that cannot pass between host and device.

    Args:
        queue: the queue in words, for the message.
        types: type of each tensor.
        supported: the types that can pass.

    Raises:
        tf.errors.FailedPreconditionError: If there is one.
    """
    for index, dtype in enumerate(types):
        if dtype not in supported:
            names = ", ".join(known.name for known in supported)
            raise errors.FailedPreconditionError(
                None,
                None,
                f"Unsupported datatype {dtype.name} on index {index} of feed operation {queue}. "
                f"The IPU has {names}. Cast it on the host first: "
                "dataset.map(lambda x: tf.cast(x, tf.float32))",
            )


def on_host() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope for ops that run on the host."""
    scope: contextlib.AbstractContextManager[Any] = ops.device("/device:CPU:0")
    return scope


def without_autograph(function: _Function) -> _Function:
    """Decorates a function that user code calls, so that AutoGraph does not convert it."""
    decorated: _Function = autograph.do_not_convert(function)
    return decorated


def warn_ignored(queue: str, arguments: dict[str, tuple[Any, Any]], instead: str) -> None:
    """Logs one warning for each deprecated argument that was given.

    Args:
        queue: name of the class.
        arguments: received value and default, by name.
        instead: the behaviour without the arguments, for the message.
    """
    for name, (received, default) in arguments.items():
        if received != default:
            warn_once("%s: the argument %s is deprecated and ignored. %s", queue, name, instead)


def structure_text(structure: Any) -> Shown | None:
    """Returns a nest of tensor specs as text: `(float32[8, 4], int32[8])`; None for None.

    Args:
        structure: nest of `tf.TensorSpec`.
    """
    if structure is None:
        return None
    texts = nest.map_structure(lambda s: Shown(f"{s.dtype.name}{s.shape.as_list()}"), structure)
    return Shown(repr(texts))


def is_synthetic(category: SyntheticDataCategory) -> bool:
    """Returns whether no data of this kind moves, by TF_POPLAR_FLAGS."""
    return flags.parsed().synthetic(category)


def infeed_is_off() -> bool:
    """Returns whether infeeds give made-up elements and leave their dataset alone."""
    parsed = flags.parsed()
    return parsed.null_data_feed or parsed.synthetic(SyntheticDataCategory.Infeed)


def synthetic_tensor(dtype: dtypes.DType, shape: tensor_shape.TensorShape) -> tensor_lib.Tensor:
    """Returns a constant instead of data that does not move.

    Args:
        dtype: type of the tensor.
        shape: its shape, fully defined.
    """
    initializer = flags.parsed().synthetic_data_initializer
    values = synthetic_data.values(dtype, tuple(shape.as_list()), initializer)
    return constant_op.constant(values, dtype)
