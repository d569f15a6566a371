"""`View`: the tables and trees of a report, each made when it is first asked for."""

from __future__ import annotations

import functools

from tensorflow_ipu.planner import details
from tensorflow_ipu.planner.details import Details
from tensorflow_ipu.planner.plan import Plan
from tensorflow_ipu.profiler.views import layer_tree, operations, program_tree, spans
from tensorflow_ipu.profiler.views.layer_tree import LayerNode
from tensorflow_ipu.profiler.views.operations import Operation
from tensorflow_ipu.profiler.views.program_tree import ProgramNode
from tensorflow_ipu.profiler.views.spans import IpuSpans
from tensorflow_ipu.util.short_repr import short_repr


class View:
    """The tables and trees of a plan.

    Args:
        plan: memory and time of a program.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __repr__(self) -> str:
        """Shows the program."""
        return short_repr(type(self).__name__, {"": self.plan.workload.name})

    @functools.cached_property
    def details(self) -> Details:
        """The summands of the plan: ops in order, tensors of each step and tile."""
        return details.details(self.plan)

    @functools.cached_property
    def operations(self) -> tuple[Operation, ...]:
        """The ops and transfers of a launch, the most expensive first."""
        return operations.operations(self.plan, self.details)

    @functools.cached_property
    def layers(self) -> tuple[LayerNode, ...]:
        """The layers as a tree; the first is the whole program."""
        return layer_tree.layer_tree(self.plan, self.operations)

    @functools.cached_property
    def program(self) -> tuple[ProgramNode, ...]:
        """The tree of a launch in order of execution; the first is the whole program."""
        return program_tree.program_tree(self.plan, self.details.order, self.operations)

    def spans(self, most: int = spans.MOST_SPANS) -> tuple[IpuSpans, ...]:
        """Returns the spans of each IPU in a launch.

        Args:
            most: limit of spans; beyond it, neighbors too short to be visible are merged.
        """
        return spans.spans(self.plan, self.operations, self.layers, most)
