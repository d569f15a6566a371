"""Checks the arguments of the setters in `OptionSetters`."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import Any

from tensorflow_ipu.compiler.analysis import memory_options
from tensorflow_ipu.configs.ranges import COUNT, shown
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUInfeedQueue, check_prefetch_depth
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue, check_buffer_depth
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.optimizers.gradient_accumulation_optimizer import (
    GradientAccumulationOptimizerV2,
)


def positive_integer(name: str, value: Any) -> int:
    """Returns a number of steps.

    Args:
        name: name of the argument, for the error.
        value: what the user passed.

    Raises:
        ValueError: If it is no integer, or less than 1.
    """
    try:
        return COUNT.whole(name, value)
    except ValueError as error:
        raise ValueError(
            f"Expected `{name}` to be a positive integer, but got {shown(value)} instead. {error}"
        ) from None


def device_mapping(value: Any) -> list[int]:
    """Returns a copy of a device mapping.

    Args:
        value: what the user passed: a list with the IPU of each stage.

    Raises:
        ValueError: If it is no list of integers.
    """
    if not isinstance(value, list) or not all(
        isinstance(ipu, numbers.Integral) and not isinstance(ipu, bool) for ipu in value
    ):
        raise ValueError(
            "Expected `device_mapping` to be a list of integers, the IPU of each pipeline stage. "
            f"Received: {value!r}"
        )
    return [int(ipu) for ipu in value]


_AUTOMATIC = "This argument is automatically set by Keras: leave it out."
_INCOMPATIBLE = "This argument is not compatible with Keras: leave it out."


def _set_instead(argument: str, setter: str = "set_pipelining_options") -> str:
    return f"Set the `{argument}` argument to `{setter}` instead."


_METHOD = "gradient_accumulation_reduction_method"
_STEPS = "gradient_accumulation_steps_per_replica"

# For each setter with further arguments: what takes them, and which of its arguments are refused.
_REFUSED: dict[str, tuple[Callable[..., Any], dict[str, str]]] = {
    "gradient_accumulation_optimizer_kwargs": (
        GradientAccumulationOptimizerV2.__init__,
        {
            "opt": _AUTOMATIC,
            "num_mini_batches": _set_instead(_STEPS, "set_gradient_accumulation_options"),
            "experimental_normalize_gradients": "It has been removed. Set the "
            "`gradient_accumulation_reduction_method` argument to 'mean' instead.",
            "reduction_method": _set_instead(_METHOD, "set_gradient_accumulation_options"),
        },
    ),
    "pipelining_kwargs": (
        pipelining_ops.pipeline,
        {
            "gradient_accumulation_count": _set_instead(_STEPS),
            "device_mapping": _set_instead("device_mapping"),
            "accumulate_outfeed": _set_instead("accumulate_outfeed"),
            "reduction_method": _set_instead(_METHOD),
            **dict.fromkeys(
                (
                    "computational_stages",
                    "repeat_count",
                    "inputs",
                    "infeed_queue",
                    "outfeed_queue",
                    "optimizer_function",
                ),
                _AUTOMATIC,
            ),
            **dict.fromkeys(
                ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations"), _INCOMPATIBLE
            ),
        },
    ),
    "infeed_kwargs": (
        IPUInfeedQueue.__init__,
        dict.fromkeys(("dataset", "infeed_spec", "element_spec", "device_ordinal"), _AUTOMATIC),
    ),
    "outfeed_kwargs": (
        IPUOutfeedQueue.__init__,
        dict.fromkeys(("outfeed_mode", "device_ordinal"), _AUTOMATIC),
    ),
}


# Arguments that say where variables are kept.
_MEMORY = (
    "offload_weight_update_variables",
    "replicated_optimizer_state_sharding",
    "offload_activations",
    "offload_gradient_accumulation_buffers",
    "replicated_weight_sharding",
    "offload_weights",
)

# What checks arguments that are numbers.
_NUMBERS: dict[str, Callable[[Any], object]] = {
    "prefetch_depth": check_prefetch_depth,
    "buffer_depth": check_buffer_depth,
}


def checked_kwargs(option: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of the further arguments that a setter got.

    Args:
        option: name of the option that they become: an attribute of `ModelOptions`.
        kwargs: the arguments.

    Raises:
        TypeError: If what they are for has no such argument, or a memory option is no bool.
        ValueError: If one of them is not for users of Keras to set, a number is out of its range,
            or memory options contradict each other.
        tf.errors.UnimplementedError: If weights are to be split, but not in remote memory.
    """
    function, refused = _REFUSED[option]
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    accepted = [name for name in names if name not in refused]
    for name in kwargs:
        if name in refused:
            raise ValueError(f"Found `{name}` key in `{option}`. {refused[name]}")
        if name not in accepted:
            raise TypeError(
                f"Found `{name}` key in `{option}`, which there is no such argument for. Expected "
                f"some of {', '.join(accepted)}."
            )
    for name, check in _NUMBERS.items():
        if name in kwargs:
            check(kwargs[name])
    memory = {name: kwargs[name] for name in _MEMORY if name in kwargs}
    memory_options.check_options(memory)
    return dict(kwargs)
