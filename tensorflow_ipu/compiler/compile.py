"""Compilation of a Cluster for a Target: `TABLE` lists all checks and passes in their order."""

from __future__ import annotations

import dataclasses
import itertools
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import tensor_spec

from tensorflow_ipu.compiler import error_text, fingerprint, observers, store
from tensorflow_ipu.compiler.analysis import constants, pipeline_plan
from tensorflow_ipu.compiler.cache import CACHE
from tensorflow_ipu.compiler.checks import (
    accumulation,
    capacity,
    operators,
    placement,
    refusals,
    replica_checks,
    target_limits,
    user_programs,
    verify,
)
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir import effects, function_nodes
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.records import ArgumentSpec
from tensorflow_ipu.compiler.ir.target import Target
from tensorflow_ipu.compiler.passes import (
    drop_ops,
    execution_order,
    host_once,
    numerics,
    place_ops,
    random_streams,
    remote_entries,
    simplify,
    specialize,
    synthetic_inputs,
    user_ops,
)
from tensorflow_ipu.compiler.source_map import Sources
from tensorflow_ipu.runtime import native


class Pass(NamedTuple):
    """A change of the Program in place. The docstring of `run` is its contract.

    Args:
        name: name of the pass, unique in the table.
        run: changes the Program. It is legal before and after.
        drops: whether ops with effects may go: unused ops, checks of values.
    """

    name: str
    run: Callable[[Program, Target], None]
    drops: bool = False


class Check(NamedTuple):
    """A check of the Program, which it does not change.

    Args:
        name: name of the check, unique in the table.
        run: raises a `tf.errors.OpError`.
    """

    name: str
    run: Callable[[Program, Target], None]


class ExecutableCheck(NamedTuple):
    """A check of a Program that needs its Executable.

    Args:
        name: name of the check, unique in the table.
        run: raises a `tf.errors.OpError`, or warns.
    """

    name: str
    run: Callable[[Program, Executable, Cluster], None]


Step = Check | Pass | ExecutableCheck

# All checks and passes, in the order in which they run. After each pass the Program is verified: it
# is whole, and has lost no effect (`checks/verify.py`).
TABLE: dict[str, tuple[Step, ...]] = {
    # The program as the user wrote it. The number of replicas follows from the IPUs it then needs.
    "traced": (
        Check("outside_compilation", placement.check_outside_compilation),
        Check("pre_compilation", target_limits.check_pre_compilation),
        Pass("prune", drop_ops.prune, drops=True),
    ),
    # The program of the device. Equal ones share one Executable, which is compiled once.
    "device": (
        Check("refusals", refusals.check),
        Check("collective_inputs", placement.check_collective_inputs),
        Check("arguments", target_limits.check_arguments),
        Pass("round_trips", simplify.remove_round_trips),
        Pass("prune_after_round_trips", drop_ops.prune, drops=True),
        Pass("drop_checks", drop_ops.drop_checks, drops=True),
        Pass("ungate_gradients", simplify.ungate_gradients),
        Pass("prune_after_checks", drop_ops.prune, drops=True),
        Pass("replica_constants", specialize.fix_replicas),
        Pass("sequential_loops", execution_order.run_iterations_in_turn),
        Pass("random_streams", random_streams.run),
        Pass("host_once", host_once.run),
        Pass("host_placement", place_ops.clear_devices),
        Pass("place_ops", place_ops.place),
        Pass("order_collectives", execution_order.order_collectives),
        Check("supported", operators.check_kernels),
        Check("feeds", placement.check_feeds),
        Pass("user_ops", user_ops.run),
        Check("collective_groups", replica_checks.check_groups),
        Check("replica_uniform", replica_checks.check_uniform),
    ),
    # A program that is compiled for the first time.
    "new": (
        Check("remote_memory", target_limits.check_remote_memory),
        Check("update_types", target_limits.check_update_types),
    ),
    # The Executable of a new program, before its report is written ...
    "executable": (
        ExecutableCheck("user_programs", user_programs.check),
        ExecutableCheck("operators", operators.check_chip),
        ExecutableCheck("accumulation", accumulation.check),
    ),
    # ... and after it: a program that does not fit has a report, too.
    "reported": (
        ExecutableCheck("capacity", capacity.check),
        ExecutableCheck("dropped_checks", drop_ops.warn),
    ),
    # The program that the host runs. Listings and plans are of the program without these passes.
    "host": (
        Pass("user_collectives", user_ops.use_collectives),
        Pass("synthetic_parameters", synthetic_inputs.replace_parameters),
        Pass("synthetic_indices", synthetic_inputs.limit_indices),
        Pass("remote_entries", remote_entries.run),
        Pass("numerics", numerics.lower),
        Pass("mask_labels", numerics.mask_labels),
        Pass("negations", simplify.move_negations),
        Pass("argument_types", specialize.annotate_arguments),
        Pass("keep_effects", execution_order.keep_effects),
    ),
}

_ids = itertools.count()


def compile_cluster(
    cluster: Cluster, target: Target
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    """Compiles a Cluster.

    Args:
        cluster: the Cluster.
        target: device, configuration and argument types.

    Returns:
        The Executable, and the library to run. An equal Executable that was compiled before is
        returned again; the library differs from its own in the names of feeds and functions.

    Raises:
        tf.errors.OpError: If the device lacks an op or is not attached, or a feed is wrong. Ops are
            named with the user's lines.
    """
    with error_text.explained_errors(cluster):
        return _Compilation(cluster, target).run()


class _Compilation:
    """One way of a Cluster through the table.

    Args:
        cluster: the Cluster.
        target: the Target; its number of replicas is found on the way.
    """

    def __init__(self, cluster: Cluster, target: Target) -> None:
        self._began = time.time()
        self._cluster = cluster
        self._target = target
        self._program = Program.from_library(cluster.library(), cluster.entry)
        steps = len(TABLE["traced"]) + len(TABLE["device"])
        self._progress = observers.Progress(cluster.id, steps, target.flags.show_progress_bar)

    def run(self) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
        """Returns the Executable, and the library to run."""
        verify.check_structure(self._program)
        self._notify("traced", "input", "as traced")
        self._run("traced")
        self._target = _with_replicas(self._program, self._target)
        self._run("device")
        digest = fingerprint.fingerprint(self._program, self._target.key)
        executable = CACHE.find(digest) or self._new_executable(digest)
        CACHE.add(executable, self._cluster)
        self._run("host")
        verify.check_effects(self._program)
        return executable, self._program.to_library()

    def _new_executable(self, digest: str) -> Executable:
        """Makes the Executable; checks, reports, records and saves it."""
        self._run("new")
        executable = _executable(self._cluster, self._target, self._program, digest)
        weakref.finalize(executable, native.forget_executable, executable.id).atexit = False
        self._run("executable", executable)
        observers.compiled(executable)
        observers.reported(executable, store.write_reports(executable))
        self._run("reported", executable)
        store.record(executable, self._began)
        return executable

    def _run(self, phase: str, executable: Executable | None = None) -> None:
        """Runs the steps of a phase, and notifies observers after each."""
        for step in TABLE[phase]:
            if isinstance(step, Pass):
                self._run_pass(step)
            elif isinstance(step, Check):
                step.run(self._program, self._target)
            elif executable is not None:
                step.run(self._program, executable, self._cluster)
            if phase in ("traced", "device"):
                self._progress.advance()
            self._notify(phase, "pass" if isinstance(step, Pass) else "check", step.name)

    def _run_pass(self, one_pass: Pass) -> None:
        """Runs a pass, and verifies that the Program is whole and has lost no effect."""
        before = None if one_pass.drops else effects.counted(self._program)
        one_pass.run(self._program, self._target)
        verify.check_structure(self._program)
        if before is not None:
            verify.check_nothing_lost(one_pass.name, before, self._program)

    def _notify(self, phase: str, kind: str, name: str) -> None:
        device = f"/device:IPU:{self._target.ordinal}"
        done = observers.StepDone(self._cluster.id, device, phase, kind, name)
        observers.stepped(done, self._program)


def _with_replicas(program: Program, target: Target) -> Target:
    """Returns the target with the number of replicas, which passes may depend on."""
    needs_device = target.to_file or not constants.is_host_evaluated(program, target)
    if not needs_device and not target.is_configured:
        return target
    ipus = function_nodes.ipus_used(program)
    replicas = target.system.replication_factor(target.ordinal, ipus) * target.system.process_count
    return dataclasses.replace(target, replicas=replicas)


def _executable(cluster: Cluster, target: Target, program: Program, digest: str) -> Executable:
    """Makes the Executable of a Program."""
    return Executable(
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
        library=program.to_library(),
        entry=program.entry,
        on_device=not constants.is_host_evaluated(program, target),
        pipeline=pipeline_plan.plan(program, target.system),
        sources=Sources(weakref.ref(cluster)),
        system=target.system,
        meeting_fingerprint=_meeting_fingerprint(program, target),
    )


def _meeting_fingerprint(program: Program, target: Target) -> str:
    """Returns a hash of a program that has to be equal in all processes that run it together."""
    if not effects.reach_other_processes(program, target.replicas, target.system.process_count):
        return ""
    # Not the options, some of which differ between processes: indices, folders of reports.
    return fingerprint.structural_fingerprint(
        program, repr((target.replicas, target.arguments)).encode()
    )


def _argument_specs(cluster: Cluster, program: Program, target: Target) -> tuple[ArgumentSpec, ...]:
    """Returns the arguments of the entry. Variables have the names that the user gave them."""
    names = [argument.name for argument in program.functions[program.entry].signature.input_arg]
    variables = cluster.variable_names()
    return tuple(
        ArgumentSpec(
            name=variables.get(index, name),
            dtype=argument.dtype,
            shape=tuple(argument.shape.as_list()),
            is_variable=argument.is_variable,
        )
        for index, (name, argument) in enumerate(zip(names, target.arguments))
    )
