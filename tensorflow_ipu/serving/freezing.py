"""Exported steps with their variables as constants."""

from __future__ import annotations

import dataclasses
from typing import Any

from absl import logging
from tensorflow.python.framework import convert_to_constants, dtypes
from tensorflow.python.util import nest

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.resource_uses import find
from tensorflow_ipu.serving.steps import TracedStep

# A SavedModel's graph is one protocol buffer, which has at most two of these.
_LARGEST_BYTES = 1 << 30


@dataclasses.dataclass(frozen=True)
class FrozenStep(TracedStep):
    """A step without variables.

    Attributes:
        structure: The traced structure of its results.
    """

    structure: Any = None

    @property
    def results(self) -> Any:
        """The results of the step: a nest of symbolic tensors, with types and shapes."""
        return nest.pack_sequence_as(self.structure, list(self.concrete.outputs))


def frozen(step: TracedStep) -> TracedStep:
    """Returns a step with the values that its variables have now, as constants.

    Steps that write variables, or use other objects from outside, stay as they are. So do those
    whose variables are too large for a graph.

    Args:
        step: the step.
    """
    variables = step.concrete.graph.variables
    shapes_known = all(tensor.shape.is_fully_defined() for tensor in step.concrete.outputs)
    if not variables and shapes_known:
        return step
    if any(tensor.dtype == dtypes.variant for tensor in step.concrete.captured_inputs):
        return step
    if not _only_reads(step):
        return step
    size = sum(variable.shape.num_elements() * variable.dtype.size for variable in variables)
    if size > _LARGEST_BYTES:
        logging.info(
            "The variables of the exported %s have %d bytes, too many for constants of a graph: "
            "they stay variables. Load the model in the scope of an IPUStrategy to run it there.",
            step.name,
            size,
        )
        return step
    # Functions are inlined, so that all shapes are known; loops and branches stay.
    concrete = convert_to_constants.convert_variables_to_constants_v2(
        step.concrete, lower_control_flow=False
    )
    return FrozenStep(step.name, step.arguments, concrete, step.results)


def _only_reads(step: TracedStep) -> bool:
    """Returns whether a step uses resources only to read variables of its own."""
    handles = {id(variable.handle) for variable in step.concrete.graph.variables}
    captured = [one for one in step.concrete.captured_inputs if one.dtype == dtypes.resource]
    if any(id(handle) not in handles for handle in captured):
        return False
    cluster = Cluster.from_graph(step.concrete.graph, "frozen", owner=step.concrete)
    uses = find(Program.from_library(cluster.library(), cluster.entry))
    return all(node.op in op_names.READS for _, node in uses)
