"""`PipelineStageOptions` and `OptimizerFunctionOutput`: arguments of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow.python.eager import backprop
from tensorflow.python.training import optimizer as v1_optimizer

from tensorflow_ipu.api.eager.backprop import GradientCaptureContext
from tensorflow_ipu.feeds import ipu_outfeed_queue
from tensorflow_ipu.util.short_repr import shows

# --- Checks of `OptimizerFunctionOutput` ---

_OUTPUT = "OptimizerFunctionOutput"


def checked_output(name: str, document: str, *checks: Callable[[str, Any, Any], None]) -> property:
    """Makes an attribute that is checked when it is set.

    Args:
        name: its name.
        document: its description.
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
    """Raises if a value is no optimizer."""
    if not isinstance(value, v1_optimizer.Optimizer) and not hasattr(value, "apply_gradients"):
        raise TypeError(
            f"{name} must be an optimizer: a tf.compat.v1.train.Optimizer or a Keras optimizer. "
            f"Received: {value!r}"
        )


def is_sequence(name: str, value: Any, _: Any) -> None:
    """Raises if a value is neither a list nor a tuple."""
    if not isinstance(value, (list, tuple, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a list or tuple. Received: {value!r}")


def is_dict(name: str, value: Any, _: Any) -> None:
    """Raises if a value is no dict."""
    if not isinstance(value, (dict, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a dict. Received: {value!r}")


def is_tape(name: str, value: Any, _: Any) -> None:
    """Raises if a value is no tape."""
    if not isinstance(value, (backprop.GradientTape, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a GradientTape. Received: {value!r}")


def is_context(name: str, value: Any, _: Any) -> None:
    """Raises if a value is no `GradientCaptureContext`."""
    _check_class(name, value, GradientCaptureContext)


def is_outfeed(name: str, value: Any, _: Any) -> None:
    """Raises if a value is no outfeed queue."""
    _check_class(name, value, ipu_outfeed_queue.IPUOutfeedQueue)


def _check_class(name: str, value: Any, wanted: type) -> None:
    if not isinstance(value, (wanted, type(None))):
        raise TypeError(f"{_OUTPUT}.{name} must be a {wanted.__name__}. Received: {value!r}")


def of_tensorflow_1_optimizers(name: str, value: Any, output: Any) -> None:
    """Raises if a field of TensorFlow 1 optimizers is set for a Keras optimizer."""
    if value and not isinstance(output.opt, v1_optimizer.Optimizer):
        raise ValueError(
            f"{_OUTPUT}.{name} may not be used with OptimizerV2 instances: compute_gradients is a "
            f"method of a tf.compat.v1.train.Optimizer. Received: {value!r} with a "
            f"{type(output.opt).__name__}"
        )


def of_keras_optimizers(name: str, value: Any, output: Any) -> None:
    """Raises if a field of Keras optimizers is set for a TensorFlow 1 optimizer."""
    if _is_given(value) and isinstance(output.opt, v1_optimizer.Optimizer):
        raise ValueError(
            f"{_OUTPUT}.{name} may only be used with OptimizerV2 instances, which are Keras "
            "optimizers. An optimizer of TensorFlow 1 trains all trainable variables, or those of "
            f"compute_gradients_kwargs={{'var_list': ...}}. Received: a {type(output.opt).__name__}"
        )


def without_variables(name: str, value: Any, output: Any) -> None:
    """Raises if a tape is given beside variables."""
    if value is not None and output.variables:
        raise ValueError(
            f"{_OUTPUT}.{name} may not be used when {_OUTPUT}.variables is nonempty: what a tape "
            "has watched is trained. Pass one of them."
        )


def without_tape(name: str, value: Any, output: Any) -> None:
    """Raises if variables are given beside a tape."""
    if _is_given(value) and getattr(output, "_tape", None) is not None:
        raise ValueError(
            f"{_OUTPUT}.{name} must be empty when {_OUTPUT}.tape is used: what a tape has watched "
            "is trained. Pass one of them."
        )


def _is_given(value: Any) -> bool:
    return value is not None and not (isinstance(value, (list, tuple)) and not value)


def check_complete(output: Any) -> None:
    """Checks that an output has all that training needs.

    Args:
        output: the result of the optimizer function.

    Raises:
        RuntimeError: If a Keras optimizer is not told what to train.
    """
    v1 = isinstance(output.opt, v1_optimizer.Optimizer)
    if not v1 and output.variables is None and output.tape is None:
        raise RuntimeError(
            "A Keras optimizer needs to know what it trains: pass `variables` or a `tape` to "
            f"{_OUTPUT}."
        )


# --- Types ---


class PipelineStageOptions:
    """Poplar options for the convolutions and matrix multiplications of one stage.

    They come before those of `IPUConfig.convolutions` and `IPUConfig.matmuls`.

    Attributes:
        convolution_options: Options of convolutions, by name.
        matmul_options: Options of matrix multiplications, by name.
    """

    def __init__(
        self,
        convolution_options: Mapping[str, Any] | None = None,
        matmul_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes the options of a stage.

        Args:
            convolution_options: options of convolutions; none when None.
            matmul_options: options of matrix multiplications; none when None.

        Raises:
            TypeError: If one of them is not a dict.
        """
        self.convolution_options = _options("convolution_options", convolution_options)
        self.matmul_options = _options("matmul_options", matmul_options)

    __repr__ = shows(vars)

    def to_dict(self) -> dict[str, dict[str, str]]:
        """Returns both as dicts of strings, for descriptions of the pipeline."""
        return {"convolutions": self.convolution_options, "matmuls": self.matmul_options}


def _options(name: str, value: Mapping[str, Any] | None) -> dict[str, str]:
    if not isinstance(value, (Mapping, type(None))):
        raise TypeError(
            f"{name} of PipelineStageOptions must be a dict from the name of an option to its "
            f"value. Received: {value!r}"
        )
    return {str(key): str(option) for key, option in (value or {}).items()}


class OptimizerFunctionOutput:
    """The result of a pipeline's optimizer function: the loss, the optimizer and their options.

    Attributes:
        loss: The loss of a mini-batch.
    """

    opt = checked_output("opt", "The optimizer.", is_optimizer)
    compute_gradients_args = checked_output(
        "compute_gradients_args",
        "Positional arguments for `compute_gradients`, after the loss.",
        is_sequence,
        of_tensorflow_1_optimizers,
    )
    compute_gradients_kwargs = checked_output(
        "compute_gradients_kwargs",
        "Keyword arguments for `compute_gradients`.",
        is_dict,
        of_tensorflow_1_optimizers,
    )
    apply_gradients_args = checked_output(
        "apply_gradients_args",
        "Positional arguments for `apply_gradients`, after the pairs.",
        is_sequence,
    )
    apply_gradients_kwargs = checked_output(
        "apply_gradients_kwargs", "Keyword arguments for `apply_gradients`.", is_dict
    )
    variables = checked_output(
        "variables",
        "What a Keras optimizer trains.",
        of_keras_optimizers,
        without_tape,
    )
    tape = checked_output(
        "tape",
        "Has watched the variables that a Keras optimizer trains.",
        is_tape,
        of_keras_optimizers,
        without_variables,
    )
    gradient_capture_context = checked_output(
        "gradient_capture_context",
        "Gets the captured gradients of a mini-batch.",
        is_context,
    )
    captured_gradient_outfeed = checked_output(
        "captured_gradient_outfeed",
        "Gets the captured gradients of each update.",
        is_outfeed,
    )

    def __init__(
        self,
        opt: Any,
        loss: Any,
        compute_gradients_args: Sequence[Any] | None = None,
        compute_gradients_kwargs: Mapping[str, Any] | None = None,
        apply_gradients_args: Sequence[Any] | None = None,
        apply_gradients_kwargs: Mapping[str, Any] | None = None,
        variables: Sequence[Any] | None = None,
        tape: Any = None,
        gradient_capture_context: GradientCaptureContext | None = None,
        captured_gradient_outfeed: ipu_outfeed_queue.IPUOutfeedQueue | None = None,
    ) -> None:
        """Makes the output of an optimizer function.

        Args:
            opt: a `tf.compat.v1.train.Optimizer`, or a Keras optimizer with `variables` or `tape`.
            loss: the loss of a mini-batch, a tensor.
            compute_gradients_args: positional arguments for `compute_gradients`, after the loss.
            compute_gradients_kwargs: keyword arguments for `compute_gradients`.
            apply_gradients_args: positional arguments for `apply_gradients`, after the pairs.
            apply_gradients_kwargs: keyword arguments for `apply_gradients`.
            variables: the variables that a Keras optimizer trains. With an optimizer of TensorFlow
                1 these are all trainable variables, or the `var_list` of
                `compute_gradients_kwargs`.
            tape: a `tf.GradientTape` that is recording the stages, for a Keras optimizer. Trained
                is what it has watched. A `GradientCaptureTape` is the capture context as well.
            gradient_capture_context: context for captured gradients. They are passed to
                `opt.apply_gradients`, if that has the argument `captured_grads`. When None there
                is one of the pipeline's own, if the optimizer or the outfeed wants them.
            captured_gradient_outfeed: outfeed for captured gradients: a dict by tag for each
                update, with what the optimizer gets.

        Raises:
            TypeError: If an argument is of another type.
            ValueError: If arguments do not go with the optimizer, or with each other.
        """
        self.opt = opt
        self.loss = loss
        self.compute_gradients_args = (
            () if compute_gradients_args is None else compute_gradients_args
        )
        self.compute_gradients_kwargs = (
            {} if compute_gradients_kwargs is None else compute_gradients_kwargs
        )
        self.apply_gradients_args = () if apply_gradients_args is None else apply_gradients_args
        self.apply_gradients_kwargs = (
            {} if apply_gradients_kwargs is None else apply_gradients_kwargs
        )
        self.variables = variables
        self.tape = tape
        self.gradient_capture_context = gradient_capture_context
        self.captured_gradient_outfeed = captured_gradient_outfeed

    __repr__ = shows(
        lambda self: {
            "opt": type(self.opt),
            "loss": self.loss,
            "variables": self.variables and len(self.variables),
            "captured_gradient_outfeed": self.captured_gradient_outfeed,
        }
    )
