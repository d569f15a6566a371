"""An Executable: a Cluster compiled for one configuration."""

from __future__ import annotations

import dataclasses
import functools

from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import tensor_spec

from tensorflow_ipu.compiler import listing, source_map
from tensorflow_ipu.runtime import native


@dataclasses.dataclass(frozen=True, eq=False)
class Executable:
    """What the engine launches, and what is known of it.

    Attributes:
        id: Identifier, unique in the process.
        name: Name of the Cluster it was compiled from.
        fingerprint: Hash of everything that decides on the compiled program.
        generation: Configuration of the process that it was compiled for.
        ordinal: TensorFlow device `/device:IPU:<ordinal>`.
        replicas: How many copies run at once.
        ipus_used: IPUs of one replica.
        arguments: Inputs, in the order of the entry's arguments.
        results: Outputs.
        library: The functions after all passes.
        entry: Name of the function to run.
        on_device: False when the host evaluates the program.
        sources: Where the ops came from in the user's program.
    """

    id: str
    name: str
    fingerprint: str
    generation: int
    ordinal: int
    replicas: int
    ipus_used: int
    arguments: tuple[listing.ArgumentSpec, ...]
    results: tuple[tensor_spec.TensorSpec, ...]
    library: function_pb2.FunctionDefLibrary = dataclasses.field(repr=False)
    entry: str
    on_device: bool
    sources: source_map.SourceMap = dataclasses.field(repr=False)

    @functools.cached_property
    def ops(self) -> tuple[listing.OpRecord, ...]:
        """The ops in order, those of inner functions right after their caller."""
        return listing.list_ops(self.library, self.entry, self.arguments, self.sources)

    @property
    def launches(self) -> int:
        """How often the Executable was launched."""
        return native.statistics(self.id)[0]

    @property
    def seconds(self) -> float:
        """The host's wall time in all launches, in seconds. Says nothing of the chip's speed."""
        return native.statistics(self.id)[1]

    def __str__(self) -> str:
        """The whole program as text."""
        head = (
            f"Executable {self.name} on /device:IPU:{self.ordinal}: {self.replicas} replica(s) of "
            f"{self.ipus_used} IPU(s), fingerprint {self.fingerprint[:16]}\n"
        )
        arguments = "".join(
            f"  {'variable' if argument.is_variable else 'input'} {argument.name}: "
            f"{argument.dtype.name}{list(argument.shape)}\n"
            for argument in self.arguments
        )
        results = "".join(
            f"  result {index}: {result.dtype.name}{result.shape}\n"
            for index, result in enumerate(self.results)
        )
        return head + arguments + results + listing.format_listing(self.ops)
