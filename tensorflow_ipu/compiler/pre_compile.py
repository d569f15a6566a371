"""Pre-compilation: programs compiled and saved for a device that is not attached."""

from __future__ import annotations

import numpy as np
from absl import logging
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import dtypes, errors, tensor_shape, tensor_util

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program, node_tag
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.store import DiskCache


def check(program: Program, target: Target) -> None:
    """Checks that a Program can be compiled for later.

    Raises:
        tf.errors.FailedPreconditionError: If there is no cache to save it to, or a part of it runs
            on the host.
    """
    if not target.flags.executable_cache_path:
        raise errors.FailedPreconditionError(
            None,
            None,
            "The device is configured for pre-compilation, but there is no executable cache to "
            "save programs to. Set TF_POPLAR_FLAGS=--executable_cache_path=DIRECTORY.",
        )
    for function, node in program.nodes():
        if OUTSIDE_ATTRIBUTE in node.attr:
            raise errors.FailedPreconditionError(
                None,
                None,
                "The device is configured for pre-compilation, but "
                f"{node_tag(node.name, function.signature.name)} is in an outside compilation "
                "scope, which cannot be pre-compiled.",
            )


def zeros_instead(
    executable: Executable, library: function_pb2.FunctionDefLibrary
) -> function_pb2.FunctionDefLibrary:
    """Returns a library that runs instead of a pre-compiled program: all results are zeros.

    Each outfeed gets one element of zeros. Variables stay as they are and infeeds are not read.

    Args:
        executable: the program, which is in the cache.
        library: its functions, with the feeds of the graph that launches it.

    Raises:
        tf.errors.InvalidArgumentError: If the shape of a result is not known.
    """
    folder = DiskCache(executable.system.flags.executable_cache_path)
    logging.info(
        "A pre-compiled Poplar program has been saved to %s", folder.path(executable.fingerprint)
    )
    original = library.function[0]  # the entry
    function = function_pb2.FunctionDef()
    function.signature.CopyFrom(original.signature)
    del function.signature.control_output[:]
    for index, (name, result) in enumerate(zip(original.ret, executable.results)):
        function.ret[name] = _add_zeros(function, f"zeros_{index}", result.dtype, result.shape)
    for enqueue in _enqueues(library):
        _add_enqueue(function, enqueue)
    return function_pb2.FunctionDefLibrary(function=[function])


def _enqueues(library: function_pb2.FunctionDefLibrary) -> list[node_def_pb2.NodeDef]:
    return [
        node
        for function in library.function
        for node in function.node_def
        if node.op == op_names.OUTFEED
    ]


def _add_zeros(
    function: function_pb2.FunctionDef,
    name: str,
    dtype: dtypes.DType,
    shape: tensor_shape.TensorShape,
) -> str:
    """Adds a constant of zeros; returns how to refer to it."""
    if not shape.is_fully_defined():
        raise errors.InvalidArgumentError(
            None,
            None,
            f"A pre-compiled program gives zeros, but the shape {shape} of a result is not known. "
            "Give all inputs static shapes.",
        )
    node = function.node_def.add(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    value = tensor_util.make_tensor_proto(np.zeros(shape.as_list(), dtype.as_numpy_dtype))
    node.attr["value"].tensor.CopyFrom(value)
    return f"{name}:output:0"


def _add_enqueue(function: function_pb2.FunctionDef, enqueue: node_def_pb2.NodeDef) -> None:
    name = f"enqueue_{len(function.node_def)}"
    types = [dtypes.as_dtype(kind) for kind in enqueue.attr["T"].list.type]
    shapes = [tensor_shape.TensorShape(shape) for shape in enqueue.attr["shapes"].list.shape]
    inputs = [
        _add_zeros(function, f"{name}/zeros_{index}", dtype, shape)
        for index, (dtype, shape) in enumerate(zip(types, shapes))
    ]
    node = function.node_def.add(name=name, op=op_names.OUTFEED, input=inputs)
    for key in ("T", "feed_id", "mode", "shapes"):
        node.attr[key].CopyFrom(enqueue.attr[key])
    function.control_ret[name] = name
    function.signature.control_output.append(name)
