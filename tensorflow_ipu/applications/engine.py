"""Engines that run applications in the native library until the process ends."""

from __future__ import annotations

import threading
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import constant_op, ops
from tensorflow.python.ops import resource_variable_ops

from tensorflow_ipu.applications.application import Application, ApplicationArgument
from tensorflow_ipu.runtime import interpreter, native

# One engine is started at a time, so that each is started once.
_LOCK = threading.Lock()


def start(application: Application, name: str, inputs: list[Any], timeout: int) -> None:
    """Starts an engine, unless one of that name is running, which goes on unchanged.

    Args:
        application: the application to run.
        name: name of the engine.
        inputs: a NumPy array for each input.
        timeout: microseconds to wait for a batch before the program is flushed.

    Raises:
        tf.errors.AlreadyExistsError: If the engine of that name runs another program.
    """
    infeeds, outfeeds = application.infeeds, application.outfeeds
    outputs = [spec for outfeed in outfeeds for spec in outfeed]
    streamed = application.signature.streamed_inputs
    with interpreter.TRACING, _LOCK, context.eager_mode(), ops.device("/device:CPU:0"):
        # The engine has references of its own to the variables.
        values = [_value(argument, value) for argument, value in application.bound(inputs)]
        native.ops().ipu_application_start(
            name,
            application.fingerprint,
            application.library.SerializeToString(),
            application.entry,
            application.replicas,
            timeout,
            [getattr(value, "handle", value) for value in values],
            num_results=len(application.results),
            infeed_sizes=list(map(len, infeeds)),
            input_types=[spec.dtype for spec in streamed],
            input_shapes=[spec.shape for spec in streamed],
            outfeed_sizes=list(map(len, outfeeds)),
            output_types=[spec.dtype for spec in outputs],
            output_shapes=[spec.shape for spec in outputs],
        )


def _value(argument: ApplicationArgument, value: Any) -> Any:
    """Returns a variable or a tensor on the host."""
    tensor = constant_op.constant(value, argument.spec.dtype)
    if not argument.is_variable:
        return tensor
    return resource_variable_ops.ResourceVariable(tensor, trainable=False)
