"""`PipelineStageOptions` and `OptimizerFunctionOutput`: arguments of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow_ipu.api.eager.backprop import GradientCaptureContext
from tensorflow_ipu.feeds import ipu_outfeed_queue
from tensorflow_ipu.ops.pipeline import optimizer_output as _checks
from tensorflow_ipu.util.short_repr import shows


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
    """The result of the optimizer function of a pipeline: what to minimize, and how.

    Attributes:
        loss: The loss of a mini-batch.
    """

    opt = _checks.checked("opt", "The optimizer.", _checks.is_optimizer)
    compute_gradients_args = _checks.checked(
        "compute_gradients_args",
        "Positional arguments for `compute_gradients`, after the loss.",
        _checks.is_sequence,
        _checks.of_tensorflow_1_optimizers,
    )
    compute_gradients_kwargs = _checks.checked(
        "compute_gradients_kwargs",
        "Keyword arguments for `compute_gradients`.",
        _checks.is_dict,
        _checks.of_tensorflow_1_optimizers,
    )
    apply_gradients_args = _checks.checked(
        "apply_gradients_args",
        "Positional arguments for `apply_gradients`, after the pairs.",
        _checks.is_sequence,
    )
    apply_gradients_kwargs = _checks.checked(
        "apply_gradients_kwargs", "Keyword arguments for `apply_gradients`.", _checks.is_dict
    )
    variables = _checks.checked(
        "variables",
        "What a Keras optimizer trains.",
        _checks.of_keras_optimizers,
        _checks.without_tape,
    )
    tape = _checks.checked(
        "tape",
        "Has watched the variables that a Keras optimizer trains.",
        _checks.is_tape,
        _checks.of_keras_optimizers,
        _checks.without_variables,
    )
    gradient_capture_context = _checks.checked(
        "gradient_capture_context",
        "Gets the captured gradients of a mini-batch.",
        _checks.is_context,
    )
    captured_gradient_outfeed = _checks.checked(
        "captured_gradient_outfeed",
        "Gets the captured gradients of each update.",
        _checks.is_outfeed,
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
            variables: what a Keras optimizer trains. With an optimizer of TensorFlow 1 these are
                all trainable variables, or the `var_list` of `compute_gradients_kwargs`.
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
