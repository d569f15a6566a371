"""Runtime of compiled applications: the public module `ipu.embedded_runtime`.

`ipu.application_compile_op` compiles a function to a file. An engine runs such a file, with
variables of its own, and answers calls:

    context = embedded_runtime.embedded_runtime_start("model.poplar_exec", [], "model")
    (prediction,) = embedded_runtime.embedded_runtime_call([image], context)

A call is one batch: the tensors of an element of each infeed of the program, and what the program
sends to each outfeed for it. Without outfeeds, the results of the program are what a call gets. The
process needs neither the function nor a configuration. An engine runs until the process ends, on
IPUs of its own; any number of threads, sessions and engines may call at once.

In graph mode both functions add operations to the graph: the engine is started when the first call
runs, with the values that the inputs have then.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.python.framework import dtypes, ops, tensor_shape, tensor_util
from tensorflow.python.framework import tensor as tensor_lib

from tensorflow_ipu.configs.ranges import INT32, Range
from tensorflow_ipu.runtime import interpreter, native
from tensorflow_ipu.serving import host_step
from tensorflow_ipu.serving.application import Application, Signature, Specs, load_application
from tensorflow_ipu.serving.application import start as start_engine
from tensorflow_ipu.util.short_repr import shows

__all__ = [
    "EmbeddedRuntimeContext",
    "embedded_runtime_call",
    "embedded_runtime_start",
    "embedded_runtime_start_and_call",
    "embedded_runtime_stop",
]

_DEFAULT_TIMEOUT = 5000  # microseconds
_TIMEOUT = Range(0, INT32, "microseconds")


@dataclasses.dataclass(frozen=True, eq=False)
class EmbeddedRuntimeContext:
    """The handle of a running engine, for calls."""

    _name: str
    _start_output: tensor_lib.Tensor
    _signature: Signature

    __repr__ = shows(lambda self: {"": self._name, "signature": self._signature})

    def name(self) -> str:
        """Returns the name of the engine."""
        return self._name

    def start_output(self) -> tensor_lib.Tensor:
        """Returns the name of the engine as a tensor, which is there once the engine runs."""
        return self._start_output

    def signature(self) -> Signature:
        """Returns the names, types and shapes of inputs and outputs."""
        return self._signature

    def output_types(self) -> list[dtypes.DType]:
        """Returns the types of the tensors that a call gives."""
        return [spec.dtype for spec in self._signature.streamed_outputs]


def embedded_runtime_start(
    executable_file: Any,
    inputs: Sequence[Any] | Mapping[str, Any],
    name: str,
    timeout: int | None = None,
) -> EmbeddedRuntimeContext:
    """Starts an engine that runs a compiled application.

    Where there is one of that name in this process, it goes on as it is, with its own inputs.

    Args:
        executable_file: path of the file that `experimental_application_compile_op` wrote, or a
            tensor with it. A `.popef` file of `ipu.serving` is one, too.
        inputs: values of the inputs: those of the function, then its variables that were not
            frozen. A list or tuple in this order, or a dict from the names of the inputs
            (`XLA_Args/<name of the variable>`) to their values.
        name: name of the engine.
        timeout: how long to wait for the next batch, in microseconds, while a call waits for an
            answer that the program only gives after more batches, such as those for its other
            replicas. Then it gets zeros. The default is 5000.

    Returns:
        The context, for `embedded_runtime_call`.

    Raises:
        Exception: If an input is missing, or has another type or shape than expected.
        OSError: If the file cannot be read.
        ValueError: If it is no compiled application, or `timeout` is negative.
        tf.errors.AlreadyExistsError: If the engine of that name runs another program. In graph
            mode, when run.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"An engine needs a name. Received: name={name!r}")
    microseconds = _TIMEOUT.whole("timeout", _DEFAULT_TIMEOUT if timeout is None else timeout)
    application = load_application(_path(executable_file))
    expected = application.signature.inputs
    given = _as_tensors(_in_order(inputs, expected), expected)
    _check_count("Embedded application runtime", given, expected)
    _check_shapes(given, expected)
    for index, (tensor, spec) in enumerate(zip(given, expected)):
        if tensor.dtype != spec.dtype:
            raise Exception(_wrong_type(index, tensor, spec))
    return EmbeddedRuntimeContext(
        name, _started(application, name, given, microseconds), application.signature
    )


def embedded_runtime_call(
    inputs: Sequence[Any], context: EmbeddedRuntimeContext
) -> list[tensor_lib.Tensor]:
    """Processes one batch in an engine.

    Args:
        inputs: the tensors of one element of each infeed, in one list, in the order in which the
            queues were made.
        context: the result of `embedded_runtime_start`.

    Returns:
        The tensors that the program sends for this batch to its outfeeds, in one list.

    Raises:
        Exception: If there are more or fewer inputs than expected, or one has another shape.
        TypeError: If one has another type.
        tf.errors.OpError: When run: the error that the program ends with at this batch. The next
            call starts it again.
    """
    expected = context.signature().streamed_inputs
    given = _as_tensors(_as_list(inputs), expected)
    _check_count("Embedded application call", given, expected)
    _check_shapes(given, expected)
    for index, (tensor, spec) in enumerate(zip(given, expected)):
        if tensor.dtype != spec.dtype:
            raise TypeError(_wrong_type(index, tensor, spec))
    outputs = context.signature().streamed_outputs
    with ops.device("/device:CPU:0"):
        called: Any = interpreter.call(
            native.ops().ipu_application_call,
            context.start_output(),
            given,
            output_types=[spec.dtype for spec in outputs],
            output_shapes=[spec.shape for spec in outputs],
        )
    # Without outputs, in eager mode None and else the operation.
    return list(called) if outputs else []


def embedded_runtime_start_and_call(
    executable_file: Any,
    startup_inputs: Sequence[Any] | Mapping[str, Any],
    call_inputs: Sequence[Any],
    name: str,
) -> tuple[list[tensor_lib.Tensor], EmbeddedRuntimeContext]:
    """Starts an engine, unless it runs, and has it process one batch.

    Args:
        executable_file: as for `embedded_runtime_start`.
        startup_inputs: the `inputs` of `embedded_runtime_start`.
        call_inputs: the `inputs` of `embedded_runtime_call`.
        name: name of the engine.

    Returns:
        What the call gives, and the context for more calls.

    Raises:
        Exception: As for both.
    """
    context = embedded_runtime_start(executable_file, startup_inputs, name)
    return embedded_runtime_call(call_inputs, context), context


def embedded_runtime_stop(context: EmbeddedRuntimeContext) -> None:
    """Raises an error: engines run until the process ends.

    Args:
        context: the result of `embedded_runtime_start`.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        f"embedded_runtime_stop is not implemented: the engine {context.name()!r} runs until the "
        "process ends. An engine without calls does nothing; for another program, start an engine "
        "with another name."
    )


def _path(executable_file: Any) -> str:
    """Returns the path of a file, which may come in a tensor."""
    if isinstance(executable_file, tensor_lib.Tensor):
        value = tensor_util.constant_value(executable_file)
        if value is None:
            raise ValueError(
                "The file of an application has to be known when its engine is put into a graph, "
                "because the file says what calls take and give. Run the operation that compiles "
                f"it first, and pass the path that it gives. Received: {executable_file}"
            )
        executable_file = np.asarray(value).item()
    return os.fsdecode(executable_file)


def _in_order(inputs: Any, expected: Specs) -> list[Any]:
    """Returns the inputs in the order of the application."""
    if not isinstance(inputs, Mapping):
        return _as_list(inputs)
    for spec in expected:
        if spec.name not in inputs:
            raise Exception(
                f"Failed to find input tensor with name '{spec.name}' in input dictionary. "
                f"Received: {sorted(inputs)}"
            )
    return [inputs[spec.name] for spec in expected]


def _as_list(inputs: Any) -> list[Any]:
    if not isinstance(inputs, (list, tuple)):
        raise Exception(f"Expected the inputs to be a list. Received: {type(inputs).__name__}")
    return list(inputs)


def _as_tensors(inputs: list[Any], expected: Specs) -> list[tensor_lib.Tensor]:
    """Returns tensors. Lists and numbers of Python, which have no type, get the one expected."""
    hints = [spec.dtype for spec in expected] + [None] * len(inputs)
    return [
        ops.convert_to_tensor(value, preferred_dtype=None if hasattr(value, "dtype") else hint)
        for value, hint in zip(inputs, hints)
    ]


def _check_count(what: str, given: list[tensor_lib.Tensor], expected: Specs) -> None:
    if len(given) != len(expected):
        names = ", ".join(f"'{spec.name}'" for spec in expected) or "none"
        raise Exception(
            f"{what} expects {len(expected)} inputs, but {len(given)} were provided. It takes: "
            f"{names}"
        )


def _check_shapes(given: list[tensor_lib.Tensor], expected: Specs) -> None:
    for index, (tensor, spec) in enumerate(zip(given, expected)):
        if not spec.shape.is_compatible_with(tensor.shape):
            raise Exception(
                f"Mismatched input shape at position {index} ('{spec.name}'). Expected "
                f"{_shown(spec.shape)}, but input {index} has shape {_shown(tensor.shape)}."
            )


def _shown(shape: tensor_shape.TensorShape) -> str:
    return "of any rank" if shape.rank is None else str(shape.as_list())


def _wrong_type(index: int, tensor: tensor_lib.Tensor, spec: tensor_lib.TensorSpec) -> str:
    return (
        f"Mismatched input dtype at position {index} ('{spec.name}'). Expected {spec.dtype}, "
        f"but input {index} has dtype {tensor.dtype.name}."
    )


def _started(
    application: Application, name: str, inputs: list[tensor_lib.Tensor], timeout: int
) -> tensor_lib.Tensor:
    """Returns the name of the engine as a tensor that has it started."""

    def start(*values: Any) -> str:
        start_engine(application, name, list(values), timeout)
        return name

    return host_step.run(start, inputs, "embedded_runtime_start")
