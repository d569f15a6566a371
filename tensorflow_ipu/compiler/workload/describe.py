"""Workload and Settings of an Executable: the entry to this folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis.layer_names import LayerNames
from tensorflow_ipu.compiler.gc_pause import without_collections
from tensorflow_ipu.compiler.ir.program import API_ATTRIBUTE, SETTINGS_ATTRIBUTE
from tensorflow_ipu.compiler.ir.records import ArgumentSpec, CopyRecord, OpRecord
from tensorflow_ipu.compiler.listing import variable_placement
from tensorflow_ipu.compiler.workload import ops as describe_ops
from tensorflow_ipu.compiler.workload.buffers import HANDLES, Value
from tensorflow_ipu.compiler.workload.draft import UPDATE, Draft
from tensorflow_ipu.compiler.workload.settings import settings_of
from tensorflow_ipu.compiler.workload.walk import WorkloadWalk
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Copy, Variable, Workload

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.executable import Executable


def workload(executable: Executable) -> Workload:
    """Describes the program of an Executable.

    Args:
        executable: the Executable.

    Returns:
        The program as data that needs neither TensorFlow nor the Executable.
    """
    with without_collections():
        return _workload(executable)


def settings(executable: Executable) -> Settings:
    """Returns the Settings of an Executable.

    Args:
        executable: the Executable.

    Returns:
        Settings of the configuration that it was compiled for, with the program's own changes.
    """
    configured = settings_of(
        executable.system, executable.ordinal, executable.replicas, executable.pipeline
    )
    asked = _said(executable, SETTINGS_ATTRIBUTE)
    return configured.replace(**json.loads(asked)) if asked else configured


def _said(executable: Executable, attribute: str) -> str:
    """Returns a mark of the program as a whole, which one of its ops has; empty without it."""
    nodes = (node for function in executable.library.function for node in function.node_def)
    said = (node.attr[attribute].s.decode() for node in nodes if attribute in node.attr)
    return next(said, "")


def _workload(executable: Executable) -> Workload:
    """Describes the program of an Executable."""
    variables = [_variable(record) for record in executable.variables]
    layers = LayerNames(variable.name for variable in variables)
    batch = _batch(executable.ops, executable.arguments)
    walk = WorkloadWalk(variables, _program_variables(executable), layers, batch)
    walk.run(executable.tree, _arguments(executable.arguments, walk, batch))
    ops = describe_ops.finish(walk.drafts, layers, variables)
    roles = describe_ops.roles(walk.drafts, variables)
    buffers = walk.buffers.all()
    pipeline = executable.pipeline
    return Workload(
        name=executable.name,
        ops=ops,
        buffers=buffers,
        variables=tuple(
            variable._replace(ipu=buffer.ipu or 0, role=role)
            for variable, role, buffer in zip(
                variables, roles, buffers
            )  # theirs are the first buffers
        ),
        copies=_copies(executable.copies, walk.drafts),
        ipus=executable.ipus_used,
        pipeline=None if pipeline is None else pipeline.schedule.description,
        stage_names=() if pipeline is None else tuple("+".join(s) for s in pipeline.stages),
        batch=batch,
        fingerprint=executable.fingerprint,
        api=_said(executable, API_ATTRIBUTE),
    )


def _variable(record: variable_placement.VariableRecord) -> Variable:
    """Returns a variable, on an IPU that is not known before its first use."""
    return Variable(
        name=record.name,
        dtype=record.dtype,
        shape=tuple(1 if size is None else size for size in record.shape),
        role=record.role,
        ipu=0,
        offloaded=record.memory == variable_placement.REMOTE,
        split=record.split,
        entries=record.entries,
    )


def _program_variables(executable: Executable) -> dict[tuple[str, str], int]:
    """Returns the index of each variable of a run, by the function and name of its op.

    The records of variables come in the order of the library, those without users left out.
    """
    position = sum(argument.is_variable for argument in executable.arguments)
    found = {}
    for function in executable.library.function:
        for node in function.node_def:
            known = position < len(executable.variables)
            if node.op == op_names.PROGRAM_VARIABLE and known:
                if executable.variables[position].name == node.name:
                    found[function.signature.name, node.name] = position
                    position += 1
    return found


def _arguments(
    arguments: Sequence[ArgumentSpec], walk: WorkloadWalk, batch: int | None
) -> list[Value]:
    """Returns the arguments of the program as values: variables, and tensors from the host."""
    values = []
    variables = 0
    for argument in arguments:
        if argument.is_variable:
            values.append(walk.variable(variables))
            variables += 1
            continue
        shape = tuple(1 if size is None else size for size in argument.shape)
        value = Value(argument.dtype.name, shape, exact=None not in argument.shape)
        if shape[:1] == (batch,):
            value.batched = 0
        if value.dtype not in HANDLES:
            value.buffer = walk.buffers.input(argument.name, value)
        values.append(value)
    return values


def _batch(ops: Sequence[OpRecord], arguments: Sequence[ArgumentSpec]) -> int | None:
    """Returns the size of the first dimension of the program's inputs."""
    fed = [tensor.shape for op in ops if op.type == op_names.INFEED for tensor in op.outputs]
    fed += [argument.shape for argument in arguments if not argument.is_variable]
    return next((shape[0] for shape in fed if shape and shape[0] is not None), None)


def _copies(copies: Sequence[CopyRecord], drafts: Sequence[Draft]) -> tuple[Copy, ...]:
    """Returns the copies between IPUs.

    A result of an op is copied in its stage and phase. A variable is copied for the function that
        uses it: in the function of the weight update, as often as weights are updated.
    """
    if not copies:
        return ()
    makers = {(draft.record.function, draft.record.name): draft for draft in drafts}
    updates = {draft.record.function: draft.every for draft in drafts if draft.phase == UPDATE}
    found = []
    for copy in copies:
        maker = makers.get((copy.function, copy.tensor.split(":")[0]))
        every = updates.get(copy.function, 1)
        exact = copy.label == Label.EXACT.value or (every > 1 and copy.bytes is not None)
        phase = UPDATE if every > 1 else ""
        found.append(
            Copy(
                tensor=copy.tensor,
                source=copy.source,
                destination=copy.destination,
                num_bytes=copy.bytes or 0,
                runs=1 if copy.runs is None else copy.runs // every,
                stage=None if maker is None else maker.record.stage,
                phase=phase if maker is None else maker.phase,
                label=Label.EXACT if exact else Label.ASSUMED,
            )
        )
    return tuple(found)
