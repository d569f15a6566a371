"""`CompiledProgram`: the data of an Executable, and the lists of its ops, copies and variables."""

from __future__ import annotations

import dataclasses
import functools

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import tensor_spec

from tensorflow_ipu.compiler import source_map as sources_lib
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.ir import function_graphs, records
from tensorflow_ipu.compiler.listing import copies as copies_lib
from tensorflow_ipu.compiler.listing import program_listing, variable_placement
from tensorflow_ipu.runtime import attachment


@dataclasses.dataclass(frozen=True, eq=False)
class CompiledProgram:
    """A Cluster compiled for one configuration, with its ops, copies and variables.

    Attributes:
        id: Identifier, unique in the process.
        name: Name of the Cluster it was compiled from.
        fingerprint: Hash of all inputs of the compilation.
        ordinal: TensorFlow device `/device:IPU:<ordinal>`.
        replicas: Number of replicas.
        ipus_used: IPUs of one replica.
        arguments: Inputs, in the order of the entry's arguments.
        results: Outputs.
        library: The functions after all passes.
        entry: Name of the function to run.
        on_device: False when the host evaluates the program.
        system: The configuration that it was compiled for.
        sources: Where the ops came from in the user's program. Call `keep_sources` before the
            Cluster can go.
        pipeline: Its pipeline with its schedule; None without one.
        meeting_fingerprint: Hash that is equal in processes that run the same program; empty if
            its collectives do not leave the process.
    """

    id: str
    name: str
    fingerprint: str
    ordinal: int
    replicas: int
    ipus_used: int
    arguments: tuple[program_listing.ArgumentSpec, ...]
    results: tuple[tensor_spec.TensorSpec, ...]
    library: function_pb2.FunctionDefLibrary = dataclasses.field(repr=False)
    entry: str
    on_device: bool
    system: attachment.System = dataclasses.field(repr=False)
    sources: sources_lib.Sources = dataclasses.field(repr=False)
    pipeline: pipeline_plan.PipelinePlan | None = dataclasses.field(default=None, repr=False)
    meeting_fingerprint: str = ""

    @property
    def generation(self) -> int:
        """Number of the configuration, in this process, of its compilation."""
        return self.system.generation

    @functools.cached_property
    def remote_memory(self) -> pipeline_plan.RemoteMemory:
        """The options of the configuration for memory outside of the IPUs."""
        return pipeline_plan.RemoteMemory.of(self.system)

    def keep_sources(self) -> None:
        """Makes the source locations of the ops last as long as the Executable."""
        self.sources.keep(self.library)

    @functools.cached_property
    def ops(self) -> tuple[program_listing.OpRecord, ...]:
        """The ops in execution order, the ops of a callee right after their caller."""
        importer = self._importer
        found = program_listing.list_ops(
            self.library, self.entry, self.arguments, self.sources, importer
        )
        importer.forget_graphs()  # they take more memory than all else
        return found

    @functools.cached_property
    def tree(self) -> records.Call:
        """The ops as a tree of functions."""
        return records.call_tree(self._importer, self.entry, self.ops)

    @functools.cached_property
    def _importer(self) -> function_graphs.FunctionImporter:
        """The importer of the library's functions that `ops` and `tree` share."""
        return function_graphs.FunctionImporter(self.library)

    @functools.cached_property
    def copies(self) -> tuple[records.CopyRecord, ...]:
        """The tensors that one replica copies from IPU to IPU, in the order of the ops."""
        return copies_lib.list_copies(lambda: self.tree, self.arguments, self.ops)

    @functools.cached_property
    def variables(self) -> tuple[variable_placement.VariableRecord, ...]:
        """The memory that each variable is in: arguments first, then variables of a run."""
        return variable_placement.place(
            self.library, self.entry, self.arguments, self.replicas, self.remote_memory
        )
