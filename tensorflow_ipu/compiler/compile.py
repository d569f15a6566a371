"""Compiling: what the engine asks for when a Cluster runs for the first time."""

from __future__ import annotations

import functools
import itertools
import threading
import traceback
from typing import Any

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import dtypes, errors, tensor_shape, tensor_spec

from tensorflow_ipu.compiler import cluster as cluster_lib
from tensorflow_ipu.compiler import (
    feed_check,
    fingerprint,
    host_evaluation,
    listing,
    outside_compilation,
    pipeline,
    sharding,
    source_map,
)
from tensorflow_ipu.compiler.cache import CACHE
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.program import Program
from tensorflow_ipu.compiler.target import Argument, Target
from tensorflow_ipu.configs import flags
from tensorflow_ipu.device import system
from tensorflow_ipu.runtime import events, native

_ids = itertools.count()
_lock = threading.Lock()


def compile_cluster(
    cluster: cluster_lib.Cluster, target: Target
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    """Compiles a Cluster.

    Args:
        cluster: The Cluster.
        target: Device, configuration and argument types.

    Returns:
        The Executable, and the library to run. An equal Executable that was compiled before is
        returned again; the library differs from its own in the names of feeds and functions.

    Raises:
        tf.errors.OpError: What the spec says of unsupported ops, devices and feeds.
    """
    program = Program.from_library(cluster.library(), cluster.entry)
    outside_compilation.check(program)
    pipeline.run(program, target)
    feed_check.check(program)
    ipus = sharding.ipus_used(program)
    replicas = system.replication_factor(target.ordinal, ipus)
    library = program.to_library()
    digest = fingerprint.fingerprint(program, target, _options())
    executable = CACHE.find(digest)
    if executable is None:
        executable = _finish(cluster, target, program, library, digest, ipus, replicas)
        CACHE.add(executable)
    return executable, library


def _finish(
    cluster: cluster_lib.Cluster,
    target: Target,
    program: Program,
    library: function_pb2.FunctionDefLibrary,
    digest: str,
    ipus: int,
    replicas: int,
) -> Executable:
    on_device = not host_evaluation.is_host_evaluated(program, target)
    with events.compiling(cluster.id, target.ordinal, on_device) as finished:
        executable = Executable(
            id=f"{cluster.id}.{next(_ids)}",
            name=cluster.id,
            fingerprint=digest,
            generation=target.generation,
            ordinal=target.ordinal,
            replicas=replicas,
            ipus_used=ipus,
            arguments=_argument_specs(program, target),
            results=tuple(
                tensor_spec.TensorSpec(output.shape, output.dtype)
                for output in cluster.graph.outputs
            ),
            library=library,
            entry=program.entry,
            on_device=on_device,
            sources=source_map.SourceMap(cluster.graph),
        )
        finished(executable)
    return executable


def _argument_specs(program: Program, target: Target) -> tuple[listing.ArgumentSpec, ...]:
    names = [argument.name for argument in program.functions[program.entry].signature.input_arg]
    return tuple(
        listing.ArgumentSpec(
            name=name,
            dtype=argument.dtype,
            shape=tuple(argument.shape.as_list()),
            is_variable=argument.is_variable,
        )
        for name, argument in zip(names, target.arguments)
    )


def _options() -> bytes:
    """Returns everything besides the Program that decides on the result."""
    options = system.current().options.SerializeToString(deterministic=True)
    return options + repr(flags.parsed()).encode()


def _read_request(request: int) -> tuple[cluster_lib.Cluster, Target]:
    """Decodes the engine's question."""
    head, *lines = native.request_text(request).splitlines()
    identifier, ordinal = head.rsplit(" ", 1)
    arguments = []
    for line in lines:
        variable, dtype, dims = line.split(" ")
        shape = tensor_shape.TensorShape([int(dim) for dim in dims.split(",") if dim])
        arguments.append(Argument(dtypes.as_dtype(int(dtype)), shape, variable == "1"))
    try:
        cluster = cluster_lib.find(identifier)
    except KeyError:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"The IPU program {identifier} cannot be compiled: the graph that it was traced in "
            "no longer exists. Build the graph again in this process.",
        ) from None
    generation = system.current().generation
    return cluster, Target(int(ordinal), generation, tuple(arguments))


def _answer(request: int) -> None:
    """Called by the engine, on any of its threads. Must not raise."""
    try:
        with _lock:
            cluster, target = _read_request(request)
            system.device(target.ordinal)
            executable, library = compile_cluster(cluster, target)
        native.reply(
            request,
            executable.id,
            library.SerializeToString(),
            cluster.entry,
            executable.replicas,
            executable.on_device,
        )
    except errors.OpError as error:
        native.reply_error(request, error.error_code, error.message)
    except (ValueError, TypeError) as error:
        native.reply_error(request, errors.INVALID_ARGUMENT, str(error))
    except BaseException:  # noqa: BLE001 - the engine's thread must get an answer
        message = "The IPU compiler failed. This is a bug in tensorflow_ipu.\n"
        native.reply_error(request, errors.INTERNAL, message + traceback.format_exc())


@functools.lru_cache(maxsize=None)
def ensure_registered() -> Any:
    """Makes this the engine's compiler, once. Returns what has to stay alive."""
    native.ops()
    callback = native.set_compiler(_answer)
    system.subscribe(CACHE.clear)
    system.subscribe(events.configure)
    return callback
