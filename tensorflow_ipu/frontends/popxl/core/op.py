"""`Op`: one use of an op in a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.compiler.source_map import SourceLocation
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.graph import Graph
    from tensorflow_ipu.frontends.popxl.tensor import Tensor


@dataclasses.dataclass(eq=False)
class Op:
    """One use of an op in a graph.

    Attributes:
        id: Number, unique in the Ir.
        kind: What it is.
        graph: The graph that it is in.
        inputs: Its inputs.
        attributes: What else it was made with, by name.
        outputs: Its outputs.
        scopes: Name scopes that were open.
        ipu: The IPU that it runs on.
        has_ipu: Whether the program says so; else that is 0.
        tile_set: "compute" or "io".
        planned: What only plans take of it: `exchange`, the number of the exchange in which it
            transfers data with others; `stage`, of a pipeline; `stash`, how many values of its
            input are kept; `pipeline`, for a loop that is one, the IPUs of its stages.
        execution_context: The program of the session that it is part of.
        after: Ops that the program orders before it, besides those it takes values from.
        site: The user's line.
        original: For an op of a gradient, the op that it is for; None for others.
        called: Graphs that it runs.
        modified: Positions of inputs that it modifies, besides those of its kind: inputs of a call
            by reference.
    """

    id: int
    kind: OpKind
    graph: Graph
    inputs: list[Tensor]
    attributes: dict[str, Any]
    outputs: list[Tensor] = dataclasses.field(default_factory=list)
    scopes: tuple[str, ...] = ()
    ipu: int = 0
    has_ipu: bool = True
    tile_set: str = "compute"
    planned: dict[str, Any] = dataclasses.field(default_factory=dict)
    execution_context: ExecutionContext = ExecutionContext.Normal
    after: Sequence[Op] = ()
    site: SourceLocation | None = None
    original: Op | None = None
    called: tuple[Graph, ...] = ()
    modified: set[int] = dataclasses.field(default_factory=set)

    def __repr__(self) -> str:
        return f"{self.kind.name}.{self.id}"

    def opType(self) -> str:  # noqa: N802
        """Returns the type of the op, such as "MatMul"."""
        return self.kind.name

    @property
    def source_ipu(self) -> int:
        """The IPU that it takes its inputs from."""
        source: int | None = self.attributes.get("source")
        return self.ipu if source is None else source

    def ipu_of_input(self, tensor: Tensor) -> int:
        """Returns the IPU that it takes an input from: for a loop, where ops in it take it.

        Args:
            tensor: the input.
        """
        if not self.kind.is_loop or tensor not in self.inputs:
            return self.source_ipu
        inside = self.called[0].inputs[self.inputs.index(tensor) - len(self.inputs)]
        return next((op.ipu_of_input(inside) for op in inside.consumers), self.source_ipu)

    @property
    def ipus(self) -> tuple[int, ...]:
        """The IPU of each output."""
        placed: tuple[int, ...] | None = self.attributes.get("ipus")
        return (self.ipu,) * len(self.outputs) if placed is None else placed

    @property
    def writes(self) -> list[int]:
        """Positions of all inputs that it modifies."""
        return sorted({*self.kind.writes, *self.modified})

    @property
    def is_view(self) -> bool:
        """Whether its first output shares the storage of inputs."""
        return self.kind.view is not None

    @property
    def fresh_outputs(self) -> list[Tensor]:
        """The outputs with storage of their own."""
        return self.outputs[1:] if self.is_view else self.outputs
