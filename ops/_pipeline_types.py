"""What the arguments of a pipeline are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow.python.training import optimizer as v1_optimizer

from tensorflow_ipu import ipu_outfeed_queue
from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.ops import grad_util_ops

_Context = grad_util_ops.GradientCaptureContext
_Outfeed = ipu_outfeed_queue.IPUOutfeedQueue


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
            convolution_options: Options of convolutions; none when None.
            matmul_options: Options of matrix multiplications; none when None.

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
    """What the `optimizer_function` of a pipeline returns: what to minimise, and how.

    Attributes:
        opt: The optimizer.
        loss: The loss of a mini-batch, a tensor.
        compute_gradients_args: Positional arguments for `compute_gradients`, after the loss.
        compute_gradients_kwargs: Keyword arguments for `compute_gradients`.
        apply_gradients_args: Positional arguments for `apply_gradients`, after the pairs.
        apply_gradients_kwargs: Keyword arguments for `apply_gradients`.
        variables: What to train.
        tape: Has watched the variables that a Keras optimizer trains.
        gradient_capture_context: Gets the captured gradients of a mini-batch.
        captured_gradient_outfeed: Gets the captured gradients of each update.
    """

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
        gradient_capture_context: grad_util_ops.GradientCaptureContext | None = None,
        captured_gradient_outfeed: ipu_outfeed_queue.IPUOutfeedQueue | None = None,
    ) -> None:
        """Makes the output of an optimizer function.

        Args:
            opt: A `tf.compat.v1.train.Optimizer`, or a Keras optimizer with `variables` or `tape`.
            loss: The loss of a mini-batch, a tensor.
            compute_gradients_args: Positional arguments for `compute_gradients`, after the loss.
            compute_gradients_kwargs: Keyword arguments for `compute_gradients`.
            apply_gradients_args: Positional arguments for `apply_gradients`, after the pairs.
            apply_gradients_kwargs: Keyword arguments for `apply_gradients`.
            variables: What to train. When None, all trainable variables of the graph, or with a
                Keras optimizer all that the tape watched.
            tape: A `tf.GradientTape` that is recording the stages, for a Keras optimizer.
            gradient_capture_context: Context for captured gradients. They are passed to
                `opt.apply_gradients`, if that has the argument `captured_grads`. When None there
                is one of the pipeline's own, if the optimizer or the outfeed wants them.
            captured_gradient_outfeed: Outfeed for captured gradients: a dict by tag for each
                update, with what the optimizer gets.

        Raises:
            TypeError: If an argument is of another type.
            RuntimeError: If a Keras optimizer has neither `variables` nor a `tape`.
        """
        _check_sequence("compute_gradients_args", compute_gradients_args)
        _check_sequence("apply_gradients_args", apply_gradients_args)
        _check_dict("compute_gradients_kwargs", compute_gradients_kwargs)
        _check_dict("apply_gradients_kwargs", apply_gradients_kwargs)
        if not isinstance(opt, v1_optimizer.Optimizer):
            _check_keras(opt, variables, tape)
        _check_class("gradient_capture_context", gradient_capture_context, _Context)
        _check_class("captured_gradient_outfeed", captured_gradient_outfeed, _Outfeed)
        self.opt = opt
        self.loss = loss
        self.compute_gradients_args = tuple(compute_gradients_args or ())
        self.compute_gradients_kwargs = dict(compute_gradients_kwargs or {})
        self.apply_gradients_args = tuple(apply_gradients_args or ())
        self.apply_gradients_kwargs = dict(apply_gradients_kwargs or {})
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


def _check_class(name: str, value: Any, wanted: type) -> None:
    if not isinstance(value, (wanted, type(None))):
        raise TypeError(f"{name} must be of the class {wanted.__name__}. Received: {value!r}")


def _check_sequence(name: str, value: Any) -> None:
    if not isinstance(value, (list, tuple, type(None))):
        raise TypeError(f"{name} must be a list or tuple. Received: {value!r}")


def _check_dict(name: str, value: Any) -> None:
    if not isinstance(value, (dict, type(None))):
        raise TypeError(f"{name} must be a dict. Received: {value!r}")


def _check_keras(opt: Any, variables: Any, tape: Any) -> None:
    """Checks an optimizer that is not of TensorFlow 1."""
    if not hasattr(opt, "apply_gradients"):
        raise TypeError(
            "opt must be an optimizer: a tf.compat.v1.train.Optimizer or a Keras optimizer. "
            f"Received: {opt!r}"
        )
    if variables is None and tape is None:
        raise RuntimeError(
            "A Keras optimizer needs to know what it trains: pass `variables` or a `tape` to "
            "OptimizerFunctionOutput."
        )
