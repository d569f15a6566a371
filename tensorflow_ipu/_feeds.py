"""What infeed and outfeed queues share: names, devices, unsupported types, synthetic data."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import itertools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from absl import logging
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, dtypes, errors, ops, tensor_shape
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import synthetic_data
from tensorflow_ipu.configs import flags
from tensorflow_ipu.configs.enums import SyntheticDataCategory
from tensorflow_ipu.configs.notices import warn_once
from tensorflow_ipu.configs.ranges import INT32, Range, shown
from tensorflow_ipu.configs.short_repr import Shown
from tensorflow_ipu.runtime import native

#: Types of the tensors that can pass between host and device.
SUPPORTED_DTYPES = (
    dtypes.float32,
    dtypes.float16,
    dtypes.int32,
    dtypes.int64,
    dtypes.int8,
    dtypes.uint8,
    dtypes.bool,
)

_numbers = itertools.count()

#: Ordinals of devices.
_ORDINAL = Range(0, INT32, below="must be >= 0")

_Function = TypeVar("_Function", bound=Callable[..., Any])


def new_feed_id(kind: str) -> str:
    """Returns a name that no other feed of this process has.

    Args:
        kind: "infeed" or "outfeed".
    """
    return f"{kind}_{os.getpid()}_{next(_numbers)}"


def check_ordinal(device_ordinal: int | None) -> int:
    """Returns the TensorFlow device that a queue is for.

    Args:
        device_ordinal: `k` of `/device:IPU:k`, or None for the device of the current
            `IPUStrategy`, 0 outside one.

    Raises:
        ValueError: If it is not an integer, or negative.
    """
    if device_ordinal is None:
        from tensorflow_ipu import ipu_strategy  # strategies make queues

        return ipu_strategy.current_ordinal()
    if isinstance(device_ordinal, bool) or not hasattr(device_ordinal, "__index__"):
        raise ValueError(
            f"Device ordinal must be an integer {_ORDINAL}; received {shown(device_ordinal)}."
        )
    return _ORDINAL.whole("Device ordinal", device_ordinal)


def check_dtypes(queue: str, types: Sequence[dtypes.DType]) -> None:
    """Refuses types that cannot pass between host and device.

    Args:
        queue: What the tensors are for, for the message.
        types: Type of each tensor.

    Raises:
        tf.errors.FailedPreconditionError: If there is one.
    """
    for index, dtype in enumerate(types):
        if dtype not in SUPPORTED_DTYPES:
            supported = ", ".join(supported.name for supported in SUPPORTED_DTYPES)
            raise errors.FailedPreconditionError(
                None,
                None,
                f"Unsupported datatype {dtype.name} of tensor {index} of the {queue}. The IPU has "
                f"{supported}. Cast it on the host first: "
                "dataset.map(lambda x: tf.cast(x, tf.float32))",
            )


def on_host() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope for ops that run on the host."""
    scope: contextlib.AbstractContextManager[Any] = ops.device("/device:CPU:0")
    return scope


def without_autograph(function: _Function) -> _Function:
    """Decorates what a user's function may call, but AutoGraph has nothing to change in."""
    decorated: _Function = autograph.do_not_convert(function)
    return decorated


def warn_ignored(queue: str, arguments: dict[str, tuple[Any, Any]], instead: str) -> None:
    """Logs one warning for each deprecated argument that was given.

    Args:
        queue: Name of the class.
        arguments: Received value and default, by name.
        instead: What happens in place of what the arguments did.
    """
    for name, (received, default) in arguments.items():
        if received != default:
            warn_once("%s: the argument %s is deprecated and ignored. %s", queue, name, instead)


def structure_text(structure: Any) -> Shown | None:
    """Returns how a nest of tensor specs is shown: `(float32[8, 4], int32[8])`; None for None.

    Args:
        structure: Nest of `tf.TensorSpec`.
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
    return flags.parsed().null_data_feed or is_synthetic(SyntheticDataCategory.Infeed)


def synthetic_tensor(dtype: dtypes.DType, shape: tensor_shape.TensorShape) -> tensor_lib.Tensor:
    """Returns a constant to take the place of data that does not move.

    Args:
        dtype: Type of the tensor.
        shape: Its shape, fully defined.
    """
    return constant_op.constant(synthetic_data.values(dtype, tuple(shape.as_list())), dtype)


def delete_with(owner: object, delete: Callable[[], None]) -> None:
    """Arranges for a native queue to go when its Python owner does.

    Args:
        owner: The object that owns the queue.
        delete: Deletes the queue. Must not refer to `owner`.
    """
    weakref.finalize(owner, _delete_now, delete).atexit = False


def _delete_now(delete: Callable[[], None]) -> None:
    """Runs `delete` eagerly, whatever the garbage collector interrupted."""
    try:
        with context.eager_mode(), on_host():
            delete()
    except errors.NotFoundError:
        pass  # gone already: its device was reset
    except errors.FailedPreconditionError as error:
        logging.warning(
            "A queue went out of scope while in use; it stays until the IPU is reconfigured: %s",
            error.message,
        )


@functools.cache
def stop_at_exit() -> None:
    """Makes reading threads end before the interpreter, which they enter for Python datasets."""
    library = ctypes.CDLL(str(native.library_path()))
    atexit.register(library.tfipu_shut_down_feeds)
