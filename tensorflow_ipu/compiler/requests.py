"""Requests of compiled programs: by the engine at their first run, by callers ahead of it."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from absl import logging
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import dtypes, errors, tensor_shape, tensor_util
from tensorflow.python.ops import handle_data_util

from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler import error_text, observers, store
from tensorflow_ipu.compiler.analysis import small_ops
from tensorflow_ipu.compiler.cache import CACHE
from tensorflow_ipu.compiler.cluster import Cluster, PlacedCluster
from tensorflow_ipu.compiler.cluster import find as find_cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.runtime import events, interpreter, native, system
from tensorflow_ipu.util import op_names

# On the entry of a program that one thread is to run; native/engine/one_thread.cc reads it.
_ONE_THREAD_ATTRIBUTE = "_ipu_one_thread"
# Held while compiling: one program at a time. A handler of a signal may run a program meanwhile.
LOCK = threading.RLock()


@functools.cache
def ensure_registered() -> Any:
    """Registers this compiler with the engine, once. Returns the callbacks to keep alive."""
    native.ops()
    callbacks = native.set_compiler(_answer), native.set_error_writer(_explain)
    # A launch may end with an error when there is no interpreter any more.
    atexit.register(native.set_error_writer, None)
    system.subscribe(observers.configuring, first=True)
    system.subscribe(CACHE.clear)
    system.subscribe(events.configure)
    return callbacks


def target_in_force(ordinal: int, arguments: Iterable[Argument], to_file: bool = False) -> Target:
    """Returns the compilation target for the configuration in force.

    Only this function of the compiler reads the configuration. A compilation takes it from the
    Target.

    Args:
        ordinal: of the device `/device:IPU:<ordinal>`.
        arguments: types and shapes of the entry's arguments.
        to_file: whether the caller saves the Executable.

    Raises:
        ValueError: If POPLAR_ENGINE_OPTIONS is not a JSON object of strings.
    """
    return Target(ordinal, system.current().with_environment(), tuple(arguments), to_file=to_file)


def compile_ahead(
    cluster: Cluster, ordinal: int
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    """Compiles a Cluster before its first run, for the argument shapes of its trace.

    Args:
        cluster: the Cluster. The shapes of its inputs are fully defined, and the resources that it
            captures are variables.
        ordinal: for which device `/device:IPU:<ordinal>`.

    Returns:
        The Executable, and the library to run.

    Raises:
        tf.errors.OpError: As at the first run of a program.
    """
    ensure_registered()
    with LOCK:
        target = target_in_force(ordinal, _arguments(cluster), to_file=True)
        return compile_lib.compile_cluster(cluster, target)


def _arguments(cluster: Cluster) -> Iterator[Argument]:
    """Yields type and shape of each argument of a Cluster, as far as the trace has them."""
    captured = {id(inner): outer for outer, inner in cluster.graph.captures}
    for tensor in cluster.graph.inputs:
        if tensor.dtype == dtypes.resource:
            yield _variable(captured[id(tensor)])
        else:
            yield Argument(tensor.dtype, tensor.shape, False)


def _variable(handle: Any) -> Argument:
    """Returns type and shape of a variable as an argument, from its handle.

    Raises:
        tf.errors.InvalidArgumentError: If the handle is of another kind of resource.
    """
    data = handle_data_util.get_handle_data(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"The program uses {handle!r}, which is no variable, and programs on the IPU have no "
            "other resources. Use it on the host, and pass what comes of it to the program.",
        )
    (found,) = data.shape_and_type
    return Argument(dtypes.as_dtype(found.dtype), tensor_shape.TensorShape(found.shape), True)


# --- The engine's requests ---


def _read_request(request: int) -> tuple[Cluster, Target]:
    """Decodes the engine's question."""
    head, *lines = native.request_text(request).splitlines()
    identifier, ordinal = head.rsplit(" ", 1)
    arguments = []
    for line in lines:
        variable, dtype, dims = line.split(" ")
        shape = tensor_shape.TensorShape([int(dim) for dim in dims.split(",") if dim])
        arguments.append(Argument(dtypes.as_dtype(int(dtype)), shape, variable == "1"))
    try:
        cluster = find_cluster(identifier)
    except KeyError:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"The IPU program {identifier} cannot be compiled: the graph that it was traced in "
            "no longer exists. Build the graph again in this process.",
        ) from None
    return cluster, target_in_force(int(ordinal), arguments)


def _answer(request: int) -> None:
    """Called by the engine, on any of its threads. Must not raise."""
    try:
        with LOCK:
            cluster, target = _read_request(request)
            executable, library = compile_lib.compile_cluster(cluster, target)
        if executable.on_device and not isinstance(cluster, PlacedCluster):
            observers.launching(executable)
        library = _prepare_to_run(executable, library)
        _choose_threads(executable, library)
        configured = executable.system
        # A program that is only compiled has no other processes.
        instances = 1 if configured.pre_compiles else configured.process_count
        native.reply(
            request,
            executable.id,
            library.SerializeToString(),
            cluster.entry,
            executable.replicas // configured.process_count,
            instances,
            configured.process_index,
            executable.meeting_fingerprint,
            executable.on_device,
        )
    except errors.OpError as error:
        native.reply_error(request, error.error_code, error.message)
    except OSError as error:
        message = (
            f"A compiled IPU program could not be saved or found: {error}. Check the folders that "
            "the flag --executable_cache_path and the option serialization_output_folder name."
        )
        native.reply_error(request, errors.FAILED_PRECONDITION, message)
    except (ValueError, TypeError) as error:
        native.reply_error(request, errors.INVALID_ARGUMENT, str(error))
    except Exception:  # noqa: BLE001 - the engine's thread must get an answer
        message = "The IPU compiler failed. This is a bug in tensorflow_ipu.\n"
        native.reply_error(request, errors.INTERNAL, message + traceback.format_exc())
    except BaseException as error:  # noqa: BLE001 - of a handler of a signal: Ctrl-C, say
        interpreter.interrupted(error)
        native.reply_error(request, errors.CANCELLED, f"The compilation was stopped: {error!r}")


def _explain(request: int) -> None:
    """Called by the engine with an error of a launch, on any of its threads. Must not raise."""
    identifier, message = native.error_text(request)
    # The graph may be gone already, for a launch that is cancelled.
    with contextlib.suppress(KeyError):
        cluster = find_cluster(identifier)
        native.reply_error_text(request, error_text.explained(message, cluster))


def _prepare_to_run(
    executable: Executable, library: function_pb2.FunctionDefLibrary
) -> function_pb2.FunctionDefLibrary:
    """Returns the library that the engine runs, after checking that the device is attached."""
    if executable.system.pre_compiles:
        return _zeros_instead(executable, library)
    if executable.on_device or executable.system.has_device(executable.ordinal):
        system.ensure_attached(executable.ordinal)
    return library


def _choose_threads(executable: Executable, library: function_pb2.FunctionDefLibrary) -> None:
    """Marks the entry of the library to run if one thread is to run the whole program.

    These are loops of small ops with one replica.
    """
    if (
        executable.replicas == 1
        and small_ops.has_short_loops(library)
        and small_ops.are_small(executable.ops, os.cpu_count() or 1)
    ):
        library.function[0].attr[_ONE_THREAD_ATTRIBUTE].b = True


# --- Pre-compiled programs ---


def _zeros_instead(
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
    folder = store.DiskCache(executable.system.flags.executable_cache_path)
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
