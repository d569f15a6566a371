"""Compilation of a function to a file: the public module `ipu.application_compile_op`.

`ipu.embedded_runtime` runs such a file, in this process or in another one.
"""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import errors, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops
from tensorflow.python.util import nest

from tensorflow_ipu.api.ipu_compiler import Results
from tensorflow_ipu.compiler import current_scope
from tensorflow_ipu.compiler import trace as trace_lib
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.serving import application, host_step
from tensorflow_ipu.serving.application import save_application

__all__ = ["experimental_application_compile_op"]

tensorflow_hooks.install()

_SUFFIX = ".poplar_exec"


def experimental_application_compile_op(
    func: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    output_path: str | None = None,
    freeze_variables: bool = False,
    name: str | None = None,
) -> tensor_lib.Tensor:
    """Makes an operation that compiles a function for the IPU and saves the application.

    The function is not run. The file has all that is needed to run it, with
    `ipu.embedded_runtime`, in a process without the function: instead of infeeds it gets the
    inputs of calls, and the elements of outfeeds are what calls return. Infeed queues need not be
    initialized. It is compiled for the IPU in scope, or `/device:IPU:0`.

    Args:
        func: a Python function or a `tf.function`. Returns tensors, operations or nothing; may use
            infeeds, outfeeds, loops, pipelines, and tensors and variables from outside. The values
            that these tensors have when the operation runs become part of the file.
        inputs: what to pass to `func`: their types and shapes count, the values are given when the
            application is started. None for nothing.
        output_path: the file to write; a new temporary file when None.
        freeze_variables: whether the values that variables have when the operation runs become part
            of the file. Otherwise each variable is an input that has to be given when the
            application is started, called `XLA_Args/<name of the variable>`.
        name: name of the operation, "application_compile" by default.

    Returns:
        The path of the file, a scalar. In eager mode the function is compiled at once.

    Raises:
        TypeError: If there are too few `inputs` for `func`.
        tf.errors.InternalError: When run: if the file cannot be written.
        tf.errors.InvalidArgumentError: When run: if the device lacks an operation or a type, or the
            function needs what another process does not have, such as Python code on the host.
        tf.errors.FailedPreconditionError: When run: if all of the function is constant or
            elementwise on scalars, so that there is no program for the device.
        tf.errors.OpError: When run: what compiling raises.
    """
    structure = [] if inputs is None else inputs
    structure = list(structure) if isinstance(structure, (list, tuple)) else [structure]
    parameters = _parameters(func, len(structure))
    flat = [ops.convert_to_tensor(value) for value in nest.flatten(structure)]
    cluster = _trace(func, structure, flat)
    captures = host_step.CapturedValues(cluster, len(flat), freeze_variables)
    names = _names(parameters, structure)
    ordinal = _ordinal()

    def compile_to_file(*captured: Any) -> str:
        bound = dict(zip(captures.positions, captured))
        compiled = application.build(cluster, ordinal, bound, names)
        return _save(compiled, output_path)

    return host_step.run(compile_to_file, captures.read(), name or "application_compile")


def _parameters(func: Callable[..., Any], given: int) -> list[str]:
    """Returns the names of the positional parameters of a function.

    Raises:
        TypeError: If it cannot be called with that many arguments.
    """
    try:
        signature = inspect.signature(getattr(func, "python_function", func))
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [one for one in signature.parameters.values() if one.kind in kinds]
    required = [one.name for one in positional if one.default is inspect.Parameter.empty]
    missing = required[given:]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise TypeError(
            f"{getattr(func, '__name__', 'func')}() missing {len(missing)} required positional "
            f"argument{plural}: {', '.join(missing)}. Pass a list with a value for each as "
            f"`inputs`. Received: {given} inputs."
        )
    return [one.name for one in positional]


def _names(parameters: list[str], structure: list[Any]) -> dict[int, str]:
    """Returns the names of the explicit arguments of the program, by position."""
    names: dict[int, str] = {}
    for index, value in enumerate(structure):
        parameter = parameters[index] if index < len(parameters) else f"input_{index}"
        leaves = len(nest.flatten(value))
        for leaf in range(leaves):
            names[len(names)] = parameter if leaves == 1 else f"{parameter}_{leaf}"
    return names


def _ordinal() -> int:
    """Returns the ordinal of the IPU in scope; 0 when there is none."""
    device = current_scope.current_device()
    if current_scope.is_ipu(device):
        return current_scope.ordinal(device)
    return current_scope.current_ordinal()


def _trace(
    func: Callable[..., Any], structure: list[Any], flat: Sequence[tensor_lib.Tensor]
) -> Cluster:
    """Traces the function as programs are: with the rules of TensorFlow 1 where these are on."""
    with_v2_rules = ops.executing_eagerly_outside_functions()
    outer = ops.get_default_graph()
    name = trace_lib.cluster_name(func)

    def build(
        *placeholders: tensor_lib.Tensor,
    ) -> tuple[list[tensor_lib.Tensor], list[ops.Operation]]:
        current_scope.inherit_attributes(ops.get_default_graph(), outer)
        arguments = nest.pack_sequence_as(structure, list(placeholders))
        function = tensorflow_hooks.converted(func) if with_v2_rules else func
        return Results().take(function(*arguments))

    if not with_v2_rules:
        return trace_lib.trace(build, flat, name)

    def body(*placeholders: tensor_lib.Tensor) -> list[tensor_lib.Tensor]:
        tensors, operations = build(*placeholders)
        with ops.control_dependencies(operations):
            return [array_ops.identity(tensor) for tensor in tensors]

    specs = [tensor_lib.TensorSpec.from_tensor(tensor) for tensor in flat]
    whole = polymorphic_function.function(body, input_signature=specs)
    with trace_lib.cluster_scope(), current_scope.without_reductions():
        concrete = whole.get_concrete_function()
    return Cluster.from_graph(concrete.graph, name, owner=(whole, concrete), inputs=flat)


def _save(compiled: application.Application, output_path: str | None) -> str:
    """Writes a file; returns its path.

    Raises:
        tf.errors.InternalError: If it cannot be written.
    """
    path = output_path
    try:
        if path is None:
            name = "application"
            descriptor, path = tempfile.mkstemp(_SUFFIX, f"{name}_")
            os.close(descriptor)
        save_application(compiled, path)
    except OSError as error:
        raise errors.InternalError(
            None,
            None,
            f"Failed to open file for writing: {path or tempfile.gettempdir()} "
            f"({error.strerror or error}). Make its folder before, or pass another output_path.",
        ) from error
    return os.fspath(path)
