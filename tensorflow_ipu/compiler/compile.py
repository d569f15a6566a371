"""Compilation of a Cluster when the engine runs it for the first time."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import itertools
import threading
import time
import traceback
import weakref
from collections.abc import Iterable
from typing import Any

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import dtypes, errors, tensor_shape, tensor_spec

from tensorflow_ipu.compiler import cluster as cluster_lib
from tensorflow_ipu.compiler import (
    error_text,
    fingerprint,
    observers,
    passes,
    placed_clusters,
    pre_compile,
    refusals,
    store,
)
from tensorflow_ipu.compiler.analysis import (
    host_evaluation,
    memory_options,
    outside_compilation,
    pipeline_plan,
)
from tensorflow_ipu.compiler.analysis.constants import Constants
from tensorflow_ipu.compiler.cache import CACHE
from tensorflow_ipu.compiler.checks import (
    accumulation,
    capacity,
    dropped_checks,
    placement,
    replica_uniform,
    updates,
    user_ops,
)
from tensorflow_ipu.compiler.checks import operators as operator_check
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir import collectives, function_nodes
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.compiler.listing import program_listing
from tensorflow_ipu.compiler.observers import Progress
from tensorflow_ipu.compiler.passes import runner
from tensorflow_ipu.compiler.sources import source_map
from tensorflow_ipu.device import system
from tensorflow_ipu.runtime import events, interpreter, native

_ids = itertools.count()
# Held while compiling: one program at a time. A handler of a signal may run a program meanwhile.
LOCK = threading.RLock()


def target_in_force(ordinal: int, arguments: Iterable[Argument]) -> Target:
    """Returns the compilation target for the configuration in force.

    Only this function of the compiler reads the configuration. A compilation takes it from the
    Target.

    Args:
        ordinal: of the device `/device:IPU:<ordinal>`.
        arguments: types and shapes of the entry's arguments.

    Raises:
        ValueError: If POPLAR_ENGINE_OPTIONS is not a JSON object of strings.
    """
    return Target(ordinal, system.current().with_environment(), tuple(arguments))


def compile_cluster(
    cluster: cluster_lib.Cluster, target: Target, to_file: bool = False
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    """Compiles a Cluster.

    Args:
        cluster: the Cluster.
        target: device, configuration and argument types.
        to_file: whether the caller saves the Executable. If so, a device that is configured for
            pre-compilation needs no cache for it.

    Returns:
        The Executable, and the library to run. An equal Executable that was compiled before is
        returned again; the library differs from its own in the names of feeds and functions.

    Raises:
        tf.errors.OpError: If the device lacks an op or is not attached, or a feed is wrong. Ops are
            named with the user's lines.
    """
    with error_text.explained_errors(cluster):
        return _compiled(cluster, target, to_file)


def _compiled(
    cluster: cluster_lib.Cluster, target: Target, to_file: bool
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    began = time.time()
    program = Program.from_library(cluster.library(), cluster.entry)
    outside_compilation.check(program)
    if target.system.pre_compiles and not to_file:
        pre_compile.check(program, target)
    target = _with_replicas(program, target, to_file)
    refusals.check(program)
    placement.check_collective_inputs(program)
    checks = dropped_checks.find(program)
    progress = Progress(cluster.id, 1 + len(passes.PIPELINE), target.flags.show_progress_bar)
    runner.run(program, target, progress)
    placement.check_feeds(program)
    user_ops.check(program, target)
    collectives.check_groups(program, target.replicas)
    replica_uniform.check(program, target.replicas)
    digest = fingerprint.fingerprint(program, target.key)
    library = program.to_library()
    executable = CACHE.find(digest)
    if executable is None:
        executable = _executable(cluster, target, program, library, digest)
        dropped_checks.mention(checks, cluster.sources)
        _compile_once(executable, target, began)
    CACHE.add(executable, cluster)
    runner.lower(program, target)
    return executable, program.to_library()


def _with_replicas(program: Program, target: Target, to_file: bool) -> Target:
    """Returns the target with the number of replicas, which passes may depend on."""
    passes.PIPELINE["prune"](program, target)  # unused ops need no IPU
    needs_device = to_file or not host_evaluation.is_host_evaluated(program, target)
    if not needs_device and not target.is_configured:
        return target
    ipus = function_nodes.ipus_used(program)
    replicas = target.system.replication_factor(target.ordinal, ipus) * target.system.process_count
    return dataclasses.replace(target, replicas=replicas)


def _compile_once(executable: Executable, target: Target, began: float) -> None:
    """Records the compilation, unless another process did it; writes to the folders configured."""
    events.STORE.remember(executable)
    cache_folder = target.flags.executable_cache_path
    if cache_folder:
        disk = store.DiskCache(cache_folder)
        with disk.locked(executable.fingerprint) as known:
            if not known:
                _record(executable, began)
                # Pre-compilation has no other result than the file.
                disk.save(executable, required=target.system.pre_compiles)
    else:
        _record(executable, began)
    serialization_folder = target.system.settings.serialization_output_folder
    if serialization_folder:
        store.serialize(executable, serialization_folder)


def _record(executable: Executable, began: float) -> None:
    if events.STORE.enabled:
        executable.keep_sources()  # its event is made when it is read
    with events.compiling(
        executable.name,
        executable.ordinal,
        executable.on_device,
        began=began,
        max_report_bytes=events.report_bytes(executable.system),
    ) as finished:
        finished(executable)


def _executable(
    cluster: cluster_lib.Cluster,
    target: Target,
    program: Program,
    library: function_pb2.FunctionDefLibrary,
    digest: str,
) -> Executable:
    remote_memory = memory_options.RemoteMemory.of(target.system)
    memory_options.check(program, remote_memory)
    updates.check(program, target)
    executable = Executable(
        id=f"{cluster.id}.{next(_ids)}",
        name=cluster.id,
        fingerprint=digest,
        ordinal=target.ordinal,
        replicas=target.replicas,
        ipus_used=function_nodes.ipus_used(program),
        arguments=_argument_specs(cluster, program, target),
        results=tuple(
            tensor_spec.TensorSpec(output.shape, output.dtype) for output in cluster.graph.outputs
        ),
        library=library,
        entry=program.entry,
        on_device=not host_evaluation.is_host_evaluated(program, target),
        pipeline=pipeline_plan.plan(program, target.system),
        sources=source_map.Sources(cluster),
        remote_memory=remote_memory,
        system=target.system,
        meeting_fingerprint=_meeting_fingerprint(program, target),
    )
    if executable.on_device:
        constants = Constants(program, cluster.constant_arguments())
        policy = target.flags.operator_policy
        operator_check.check(program, constants, cluster.sources, policy)
    weakref.finalize(executable, native.forget_executable, executable.id).atexit = False
    accumulation.check(program, lambda: executable.ops)
    observers.compiled(executable)  # a program that does not fit has a report, too
    report = observers.write_reports(executable)
    capacity.check(executable, cluster.graph, report)
    return executable


def _meeting_fingerprint(program: Program, target: Target) -> str:
    """Returns a hash of a program that has to be equal in all processes that run it together."""
    if not collectives.reach_other_processes(program, target.replicas, target.system.process_count):
        return ""
    # Not the options, some of which differ between processes: indices, folders of reports.
    return fingerprint.structural_fingerprint(
        program, repr((target.replicas, target.arguments)).encode()
    )


def _prepare_to_run(
    executable: Executable, library: function_pb2.FunctionDefLibrary
) -> function_pb2.FunctionDefLibrary:
    """Returns the library that the engine runs, after checking that the device is attached."""
    if executable.system.pre_compiles:
        return pre_compile.zeros_instead(executable, library)
    if executable.on_device or executable.system.has_device(executable.ordinal):
        system.ensure_attached(executable.ordinal)
    return library


def _argument_specs(
    cluster: cluster_lib.Cluster, program: Program, target: Target
) -> tuple[program_listing.ArgumentSpec, ...]:
    names = [argument.name for argument in program.functions[program.entry].signature.input_arg]
    variables = cluster.variable_names()
    return tuple(
        program_listing.ArgumentSpec(
            name=variables.get(index, name),
            dtype=argument.dtype,
            shape=tuple(argument.shape.as_list()),
            is_variable=argument.is_variable,
        )
        for index, (name, argument) in enumerate(zip(names, target.arguments))
    )


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
        cluster = placed_clusters.find(identifier)
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
            executable, library = compile_cluster(cluster, target)
        library = _prepare_to_run(executable, library)
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
        cluster = placed_clusters.find(identifier)
        native.reply_error_text(request, error_text.explained(message, cluster))


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
