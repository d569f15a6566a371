"""Workload and Settings of an Executable: the entry to this folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.compiler.analysis.layer_names import LayerNames
from tensorflow_ipu.compiler.analysis.pipeline_plan import PipelinePlan
from tensorflow_ipu.compiler.ir.program import API_ATTRIBUTE, SETTINGS_ATTRIBUTE
from tensorflow_ipu.compiler.ir.records import ArgumentSpec, CopyRecord, OpRecord
from tensorflow_ipu.compiler.listing import variable_placement
from tensorflow_ipu.compiler.listing.variable_placement import OPTIMIZER_STATE, WEIGHT
from tensorflow_ipu.compiler.workload import op_layers
from tensorflow_ipu.compiler.workload.buffers import HANDLES, Value
from tensorflow_ipu.compiler.workload.walk import UPDATE, Draft, WorkloadWalk
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.costs.cost import TensorType
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.memory import tile_mapping
from tensorflow_ipu.planner.settings import Settings
from tensorflow_ipu.planner.workload import Copy, Op, Variable, Workload
from tensorflow_ipu.runtime.attachment import System
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.gc_pause import without_collections

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.compiled_program import CompiledProgram


def finish(
    drafts: Sequence[Draft], layers: LayerNames, variables: Sequence[Variable]
) -> tuple[Op, ...]:
    """Returns the ops, with their layers and phases.

    Args:
        drafts: drafts of the ops, in order.
        layers: layers by variable, from all ops that read variables.
        variables: the program's variables.
    """
    op_layers.assign(drafts, layers, variables)
    _number_branches(drafts)
    return tuple(draft.op() for draft in drafts)


def _number_branches(drafts: Sequence[Draft]) -> None:
    """Numbers the branches of each conditional by the functions that its ops are in."""
    found: dict[int, dict[str, int]] = {}
    for draft in drafts:
        if draft.caller is None:
            continue
        caller = drafts[draft.caller]
        if op_names.is_conditional(caller.record.type):
            functions = found.setdefault(draft.caller, {})
            draft.branch = functions.setdefault(draft.record.function, len(functions))
        else:
            draft.branch = caller.branch


def roles(drafts: Sequence[Draft], variables: Sequence[Variable]) -> list[str]:
    """Returns the role of each variable: variables that only updates use are optimizer state.

    Args:
        drafts: the ops, finished.
        variables: the program's variables.
    """
    used = {name for d in drafts if d.phase != UPDATE for name in d.variables}
    updated = {name for d in drafts if d.phase == UPDATE for name in d.variables} - used
    return [
        OPTIMIZER_STATE if v.role == WEIGHT and v.name in updated else v.role for v in variables
    ]


# --- The planner's Settings for a configuration ---

#: Options that merge transfers, as `Settings.merged_bytes` names them.
MERGING = (
    "maximum_cross_replica_sum_buffer_size",
    "maximum_reduce_scatter_buffer_size",
    "maximum_inter_ipu_copies_buffer_size",
    "maximum_send_recv_cluster_size",
    "maximum_reduce_many_buffer_size",
    "maximum_all_gather_buffer_size",
)
_PROPORTION = "availableMemoryProportion"
_UPDATE = "update"


def settings_of(
    system: System, ordinal: int, replicas: int, pipeline: PipelinePlan | None
) -> Settings:
    """Returns the planner's Settings for a program.

    Args:
        system: the configuration that the program was compiled for.
        ordinal: of the device `/device:IPU:<ordinal>` that it was compiled for.
        replicas: its replicas in all processes.
        pipeline: its pipeline, None without one.
    """
    config = system.settings
    return Settings(
        chip=system.device(ordinal).chip,
        replicas=replicas,
        instances=system.process_count,
        io_tiles=system.num_io_tiles,
        place_ops_on_io_tiles=system.place_ops_on_io_tiles,
        io_memory_proportion=config.io_tiles.available_memory_proportion,
        recompute=system.allow_recompute,
        ordering=config.scheduling.algorithm.name,
        stage_options={} if pipeline is None else stage_options(pipeline),
        offload_activations=pipeline is not None and pipeline.offload_activations,
        outlining=config.optimizations.enable_graph_outlining,
        merged_bytes={name: getattr(config.optimizations, name) for name in MERGING},
        prefetch=config.optimizations.prefetch_data_streams,
        minimum_remote_bytes=config.optimizations.minimum_remote_tensor_size,
        **_proportions(config),
        **_partials(system),
    )


def stage_options(pipeline: PipelinePlan) -> dict[tuple[int, str], dict[str, str]]:
    """Returns the library options of each part of a pipeline that has some.

    An option has the name of its library in front of it, `convolutions.` or `matmuls.`.

    Args:
        pipeline: the pipeline. The options of its update hold for the update of each stage.
    """
    found = {}
    for phase, stages in pipeline.options.items():
        parts = [stages] * len(pipeline.stages) if phase == _UPDATE else stages
        for stage, part in enumerate(parts):
            options = {
                f"{library}.{name}": value
                for library, given in part.items()
                for name, value in given.items()
            }
            if options:
                found[stage, phase] = options
    return found


def _proportions(config: IPUConfig) -> dict[str, Any]:
    """Returns arguments of Settings for the memory of ops, where an option sets it."""
    given = {
        "convolution_proportion": config.convolutions.poplar_options.get(_PROPORTION),
        "matmul_proportion": config.matmuls.poplar_options.get(_PROPORTION),
        "slice_proportion": config.slices.poplar_options.get(_PROPORTION),
    }
    return {name: float(value) for name, value in given.items() if value is not None}


def _partials(system: System) -> dict[str, Any]:
    """Returns arguments of Settings for the types of sums, where an option sets it."""
    given = {
        "convolution_partials": system.partials_type("convolutions"),
        "matmul_partials": system.partials_type("matmuls"),
    }
    return {name: value for name, value in given.items() if value is not None}


# --- Tiles ---


def tile_counts(dtype: str, shape: tuple[int, ...], tiles: int) -> list[tuple[int, int]]:
    """Returns the tiles that have a part of a result, each with its number of elements.

    Args:
        dtype: type of the result.
        shape: its dimensions.
        tiles: tiles that compute.
    """
    return [
        (interval.tile, interval.elements)
        for interval in tile_mapping.linear(TensorType(dtype, shape), tiles)
    ]


# --- Workload and Settings of an Executable ---


def workload(program: CompiledProgram) -> Workload:
    """Describes a compiled program.

    Args:
        program: the program.

    Returns:
        The program as data that needs no TensorFlow.
    """
    with without_collections():
        return _workload(program)


def settings(program: CompiledProgram) -> Settings:
    """Returns the Settings of a compiled program.

    Args:
        program: the program.

    Returns:
        Settings of the configuration that it was compiled for, with the program's own changes.
    """
    configured = settings_of(program.system, program.ordinal, program.replicas, program.pipeline)
    asked = _said(program, SETTINGS_ATTRIBUTE)
    return configured.replace(**json.loads(asked)) if asked else configured


def _said(program: CompiledProgram, attribute: str) -> str:
    """Returns an attribute of the whole program, which one of its ops has; empty without it."""
    nodes = (node for function in program.library.function for node in function.node_def)
    said = (node.attr[attribute].s.decode() for node in nodes if attribute in node.attr)
    return next(said, "")


def _workload(program: CompiledProgram) -> Workload:
    """Describes a compiled program."""
    variables = [_variable(record) for record in program.variables]
    layers = LayerNames(variable.name for variable in variables)
    batch = _batch(program.ops, program.arguments)
    walk = WorkloadWalk(variables, _program_variables(program), layers, batch)
    walk.run(program.tree, _arguments(program.arguments, walk, batch))
    ops = finish(walk.drafts, layers, variables)
    found_roles = roles(walk.drafts, variables)
    buffers = walk.buffers.all()
    pipeline = program.pipeline
    return Workload(
        name=program.name,
        ops=ops,
        buffers=buffers,
        variables=tuple(
            variable._replace(ipu=buffer.ipu or 0, role=role)
            for variable, role, buffer in zip(
                variables, found_roles, buffers
            )  # theirs are the first buffers
        ),
        copies=_copies(program.copies, walk.drafts),
        ipus=program.ipus_used,
        pipeline=None if pipeline is None else pipeline.schedule.description,
        stage_names=() if pipeline is None else tuple("+".join(s) for s in pipeline.stages),
        batch=batch,
        fingerprint=program.fingerprint,
        api=_said(program, API_ATTRIBUTE),
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


def _program_variables(program: CompiledProgram) -> dict[tuple[str, str], int]:
    """Returns the index of each variable of a run, by the function and name of its op.

    The records of variables come in the order of the library, those without users left out.
    """
    position = sum(argument.is_variable for argument in program.arguments)
    found = {}
    for function in program.library.function:
        for node in function.node_def:
            known = position < len(program.variables)
            if node.op == op_names.PROGRAM_VARIABLE and known:
                if program.variables[position].name == node.name:
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
