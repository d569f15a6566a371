"""The memory that each variable is in, whole or split over replicas.

The options of gradient accumulations and pipelines decide. `None` leaves the choice to the
compiler:

* variables that only the weight update uses go to remote memory if there is any: they are needed
  once for many mini-batches;
* accumulators and weights are used with every mini-batch, so they stay in the processor, except
  that weights that are to be split over replicas are kept in remote memory, and the other way
  round;
* a program may say itself where a variable is kept, by a mark on the ops that use it;
* the entries of a remote buffer are in remote memory: the program loads and stores them itself;
* a pipeline that serialises batches splits its weights over the replicas if there is remote memory.

A variable smaller than `optimizations.minimum_remote_tensor_size` stays in the processor, for any
options. Results never depend on any of this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import dtypes, tensor_shape

from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.ir import dataflow
from tensorflow_ipu.compiler.ir.program import (
    ACCUMULATION_ATTRIBUTE,
    FIFO_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    REMOTE_BUFFER_ATTRIBUTE,
    VARIABLE_ATTRIBUTE,
    Program,
)
from tensorflow_ipu.compiler.ir.records import ArgumentSpec
from tensorflow_ipu.util import op_names
from tensorflow_ipu.util.text import aligned, human_bytes

IN_PROCESSOR = "in-processor"
REMOTE = "remote"

WEIGHT = "weight"
OPTIMIZER_STATE = "optimizer state"
ACCUMULATOR = "accumulator"
OTHER = "other"


class VariableRecord(NamedTuple):
    """One variable of a compiled program.

    Args:
        name: name of the argument, or of the op that makes a variable of one run.
        dtype: name of its type.
        shape: its dimensions.
        role: `weight` if the forward or backward pass uses it, `optimizer state` if only the
            weight update does, `accumulator` for sums over mini-batches, else `other`.
        memory: `in-processor` or `remote`.
        split: over how many replicas it is split; 1 when each has all of it.
        in_processor_bytes: bytes that one replica has of it in the memory of its IPUs.
        remote_bytes: bytes that one replica has of it in remote memory, padding included.
        entries: for a remote buffer, how many entries it has; else 0.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    role: str
    memory: str
    split: int
    in_processor_bytes: int
    remote_bytes: int
    entries: int = 0


def place(
    library: function_pb2.FunctionDefLibrary,
    entry: str,
    arguments: Sequence[ArgumentSpec],
    replicas: int,
    remote: pipeline_plan.RemoteMemory,
) -> tuple[VariableRecord, ...]:
    """Returns the memory and split of each variable of a compiled program.

    Args:
        library: the functions after all passes.
        entry: name of the function to run.
        arguments: name, type and shape of each argument of the entry.
        replicas: number of replicas of the program.
        remote: options for remote memory.

    Returns:
        The variables that are arguments, in their order, then those that live as long as a run.
    """
    program = Program({f.signature.name: f for f in library.function}, entry)
    uses: dict[dataflow.Resource, list[node_def_pb2.NodeDef]] = {}
    for resource, node in dataflow.resource_uses(program):
        uses.setdefault(resource, []).append(node)
    placer = _Placer(pipeline_plan.of_pipeline(program), replicas, remote)
    records = [
        placer.record(argument, _role(users), users)
        for index, argument in enumerate(arguments)
        if argument.is_variable
        for users in [uses.get(("argument", index), [])]
    ]
    for function, node in program.nodes():
        users = uses.get(("node", function.signature.name, node.name), [])
        if node.op == op_names.PROGRAM_VARIABLE and users:
            marks = {ACCUMULATION_ATTRIBUTE, PIPELINE_ATTRIBUTE, FIFO_ATTRIBUTE} & set(node.attr)
            role = OTHER if marks else ACCUMULATOR
            offload = FIFO_ATTRIBUTE in marks and node.attr[FIFO_ATTRIBUTE].b
            records.append(placer.record(_description(node), role, users, offload))
    return tuple(records)


def format_variables(records: Sequence[VariableRecord]) -> str:
    """Returns a table of variables, with the bytes that one replica keeps of each.

    Args:
        records: the variables of a program.
    """
    rows = [("variable", "type", "role", "memory", "split", "in processor", "remote")]
    rows += [
        (
            record.name,
            f"{record.dtype}{list(record.shape)}",
            record.role,
            record.memory,
            str(record.split),
            human_bytes(record.in_processor_bytes),
            human_bytes(record.remote_bytes),
        )
        for record in records
    ]
    inside = human_bytes(sum(record.in_processor_bytes for record in records))
    outside = human_bytes(sum(record.remote_bytes for record in records))
    total = f"variables of one replica: {inside} in processor, {outside} remote"
    return "\n".join([*aligned(rows, right=(4, 5, 6)), "", total])


def _description(node: node_def_pb2.NodeDef) -> ArgumentSpec:
    """Returns a variable of a run, described like an argument."""
    shape = tensor_shape.TensorShape(node.attr["shape"].shape)
    dtype = dtypes.as_dtype(node.attr["dtype"].type)
    return ArgumentSpec(node.name, dtype, tuple(shape.as_list()), is_variable=True)


def _role(users: Sequence[node_def_pb2.NodeDef]) -> str:
    """Returns the role of an argument: weight, optimizer state, or a role that the program sets."""
    if not users:
        return OTHER
    said: str | None = _said(users).get("role")
    if said is not None:
        return said
    return OPTIMIZER_STATE if all(map(_is_update, users)) else WEIGHT


def _said(users: Sequence[node_def_pb2.NodeDef]) -> Mapping[str, Any]:
    """Returns the properties that a program's mark gives a variable, empty without a mark."""
    for node in users:
        if VARIABLE_ATTRIBUTE in node.attr:
            said: Mapping[str, Any] = json.loads(node.attr[VARIABLE_ATTRIBUTE].s)
            return said
    return {}


def _is_remote_buffer(users: Sequence[node_def_pb2.NodeDef]) -> bool:
    """Returns whether a program marks a variable as a remote buffer, for any size."""
    return bool(users) and all(REMOTE_BUFFER_ATTRIBUTE in node.attr for node in users)


def _is_update(node: node_def_pb2.NodeDef) -> bool:
    phase = node.attr[PHASE_ATTRIBUTE].s if PHASE_ATTRIBUTE in node.attr else b""
    return phase == b"update" or op_names.is_optimizer_update(node.op)


class _Placer:
    """Memory and split of the variables of one program.

    Args:
        pipeline: memory options of its pipeline; empty when it has none.
        replicas: number of replicas of the program.
        remote: options for remote memory.
    """

    def __init__(
        self, pipeline: pipeline_plan.Options, replicas: int, remote: pipeline_plan.RemoteMemory
    ) -> None:
        self._pipeline = pipeline
        self._replicas = replicas
        self._remote = remote

    def record(
        self,
        variable: ArgumentSpec,
        role: str,
        users: Sequence[node_def_pb2.NodeDef],
        offload: bool = False,
    ) -> VariableRecord:
        """Returns the record of a variable; `offload` asks for remote memory, if there is any."""
        whole = variable.num_bytes or 0
        offloaded, sharded = self._wishes(role, users)
        offloaded = offloaded or (offload and self._remote.available)
        offloaded = offloaded and whole >= self._remote.minimum_bytes
        offloaded = offloaded or _is_remote_buffer(users)
        split = self._replicas if offloaded and sharded else 1
        said = _said(users)
        if said:
            offloaded, split = said["remote"], said["split"]
        item = dtypes.as_dtype(variable.dtype).size
        share = -(-whole // item // split) * item if whole else 0
        return VariableRecord(
            variable.name,
            dtypes.as_dtype(variable.dtype).name,
            tuple(variable.shape),
            role,
            REMOTE if offloaded else IN_PROCESSOR,
            split,
            0 if offloaded else share,
            share if offloaded else 0,
            (variable.shape[0] or 1) if _is_remote_buffer(users) else 0,
        )

    def _wishes(self, role: str, users: Sequence[node_def_pb2.NodeDef]) -> tuple[bool, bool]:
        """Returns whether to offload a variable, and whether to split it then."""
        if role == OPTIMIZER_STATE:
            found = [pipeline_plan.of_update(node) for node in users]
            return all(self._offloads(m) for m in found), all(self._shards(m) for m in found)
        if role == ACCUMULATOR:
            return bool(self._pipeline.get("offload_gradient_accumulation_buffers")), False
        if role == WEIGHT:
            return self._weights()
        return False, False

    def _offloads(self, memory: pipeline_plan.Options | None) -> bool:
        """Returns whether an update keeps its variables in remote memory."""
        if memory is None:
            return False
        wanted = memory.get("offload_weight_update_variables")
        return self._remote.available if wanted is None else wanted

    def _shards(self, memory: pipeline_plan.Options | None) -> bool:
        """Returns whether an update splits its variables: by default, if it offloads them."""
        wanted = (memory or {}).get("replicated_optimizer_state_sharding")
        return self._offloads(memory) if wanted is None else wanted

    def _weights(self) -> tuple[bool, bool]:
        offload = self._pipeline.get("offload_weights")
        shard = self._pipeline.get("replicated_weight_sharding")
        if shard is None:
            shard = bool(offload) or bool(self._pipeline.get("serialized"))
        offload = self._remote.available if offload is None else offload
        return offload and shard, shard
