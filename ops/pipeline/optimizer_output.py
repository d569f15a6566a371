"""Checks the parts of an `OptimizerFunctionOutput` when they are set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import backprop
from tensorflow.python.training import optimizer as v1_optimizer

from tensorflow_ipu.api.eager.backprop import GradientCaptureContext
from tensorflow_ipu.feeds import ipu_outfeed_queue

_OUTPUT = "OptimizerFunctionOutput"


def checked(name: str, document: str, *checks: Callable[[str, Any, Any], None]) -> property:
    """Makes an attribute that is checked when it is set.

    Args:
        name: its name.
        document: what it is.
        *checks: functions of the name, the value, and the object it is set on, in this order.
    """

    def read(self: Any) -> Any:
        return getattr(self, f"_{name}")

    def write(self: Any, value: Any) -> None:
        for check in checks:
            check(name, value, self)
        setattr(self, f"_{name}", value)

    return property(read, write, doc=document)


def is_optimizer(name: str, value: Any, _: Any) -> None:
    """Refuses what is no optimizer."""
    if not isinstance(value, v1_optimizer.Optimizer) and not hasattr(value, "apply_gradients"):
        raise TypeError(
            f"{name} must be an optimizer: a tf.compat.v1.train.Optimizer or a Keras optimizer. "
            f"Received: {value!r}"
        )


def is_sequence(name: str, value: Any, _: Any) -> None:
    """Refuses what is neither a list nor a tuple."""
    if not isinstance(value, (list, tuple, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a list or tuple. Received: {value!r}")


def is_dict(name: str, value: Any, _: Any) -> None:
    """Refuses what is no dict."""
    if not isinstance(value, (dict, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a dict. Received: {value!r}")


def is_tape(name: str, value: Any, _: Any) -> None:
    """Refuses what is no tape."""
    if not isinstance(value, (backprop.GradientTape, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a GradientTape. Received: {value!r}")


def is_context(name: str, value: Any, _: Any) -> None:
    """Refuses what does not capture gradients."""
    _check_class(name, value, GradientCaptureContext)


def is_outfeed(name: str, value: Any, _: Any) -> None:
    """Refuses what is no outfeed queue."""
    _check_class(name, value, ipu_outfeed_queue.IPUOutfeedQueue)


def _check_class(name: str, value: Any, wanted: type) -> None:
    if not isinstance(value, (wanted, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a {wanted.__name__}. Received: {value!r}")


def of_tensorflow_1_optimizers(name: str, value: Any, output: Any) -> None:
    """Refuses for Keras optimizers what these do not have."""
    if value and not isinstance(output.opt, v1_optimizer.Optimizer):
        raise ValueError(
            f"{_OUTPUT}.{name} may not be used with OptimizerV2 instances: compute_gradients is a "
            f"method of a tf.compat.v1.train.Optimizer. Received: {value!r} with a "
            f"{type(output.opt).__name__}"
        )


def of_keras_optimizers(name: str, value: Any, output: Any) -> None:
    """Refuses for optimizers of TensorFlow 1 what these do not take."""
    if _is_given(value) and isinstance(output.opt, v1_optimizer.Optimizer):
        raise ValueError(
            f"{_OUTPUT}.{name} may only be used with OptimizerV2 instances, which are Keras "
            "optimizers. An optimizer of TensorFlow 1 trains all trainable variables, or those of "
            f"compute_gradients_kwargs={{'var_list': ...}}. Received: a {type(output.opt).__name__}"
        )


def without_variables(name: str, value: Any, output: Any) -> None:
    """Refuses a tape beside variables."""
    if value is not None and output.variables:
        raise ValueError(
            f"{_OUTPUT}.{name} may not be used when {_OUTPUT}.variables is nonempty: what a tape "
            "has watched is trained. Pass one of them."
        )


def without_tape(name: str, value: Any, output: Any) -> None:
    """Refuses variables beside a tape."""
    if _is_given(value) and getattr(output, "_tape", None) is not None:
        raise ValueError(
            f"{_OUTPUT}.{name} must be empty when {_OUTPUT}.tape is used: what a tape has watched "
            "is trained. Pass one of them."
        )


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, (list, tuple)) and not value)


def check_complete(output: Any) -> None:
    """Checks what a pipeline is about to train with.

    Args:
        output: what the optimizer function returned.

    Raises:
        RuntimeError: If a Keras optimizer is not told what to train.
    """
    v1 = isinstance(output.opt, v1_optimizer.Optimizer)
    if not v1 and output.variables is None and output.tape is None:
        raise RuntimeError(
            "A Keras optimizer needs to know what it trains: pass `variables` or a `tape` to "
            f"{_OUTPUT}."
        )
