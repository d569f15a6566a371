"""Requests to the original's compiler: patterns, layouts, and memory of matrix products.

They change memory and time on the original's hardware, and no values. Here the compiler simplifies
and lays out every program, so only the memory of products has an effect: on plans.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.common.enums import PatternsLevel
from tensorflow_ipu.frontends.popxl import ops

__all__ = [
    "apply_pre_alias_patterns",
    "disable_fc_pass",
    "enable_fc_pass",
    "linear_layout",
    "patterns_level",
    "set_available_memory_proportion_by_ipu",
    "set_graph_available_memory_proportion_by_ipu",
]


# Attributes of ops: of products, and of convolutions in their three passes.
_PROPORTIONS = ("memory_proportion", "memory_proportions")
patterns_level = {
    "no_patterns": PatternsLevel.NoPatterns,
    "minimal": PatternsLevel.Minimal,
    "default": PatternsLevel.Default,
    "all": PatternsLevel.All,
}


def linear_layout(t: popxl.Tensor, bs: int = 1) -> popxl.Tensor:
    """Returns a tensor as it is: plans place all tensors evenly over the tiles.

    Args:
        t: the tensor.
        bs: how many elements stay on one tile; without effect.
    """
    del bs
    return ops.identity(t)


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: Sequence[float]) -> None:
    """Says which part of a tile's memory products may use; values do not depend on it.

    Args:
        ir: the program.
        proportions: the part for each IPU of a replica; that of IPU 0 counts for IPUs without one.

    Raises:
        ValueError: If there are none, or one is not in (0, 1].
    """
    set_graph_available_memory_proportion_by_ipu(ir.main_graph, proportions)


def set_graph_available_memory_proportion_by_ipu(
    graph: popxl.Graph, proportions: Sequence[float]
) -> None:
    """Says which part of a tile's memory the products of a graph, and of those it calls, may use.

    Args:
        graph: the graph.
        proportions: the part for each IPU of a replica; that of IPU 0 counts for IPUs without one.

    Raises:
        ValueError: If there are none, or one is not in (0, 1].
    """
    if not len(proportions) or not all(0 < proportion <= 1 for proportion in proportions):
        raise ValueError(f"Proportions must be in (0, 1]. Received: {list(proportions)}")
    graphs = [graph]
    for caller in graphs:  # grows meanwhile
        graphs.extend(called for called in caller.called_graphs if called not in graphs)
        for op in caller.ops:
            value = proportions[op.ipu if op.ipu < len(proportions) else 0]
            for name in _PROPORTIONS:
                if name in op.attributes:
                    op.attributes[name] = [value] * 3 if name.endswith("s") else value


def disable_fc_pass(ir: popxl.Ir) -> None:
    """Does nothing: products are not laid out for training as fully connected layers here.

    Args:
        ir: the program.
    """


def enable_fc_pass(ir: popxl.Ir) -> None:
    """Does nothing: products are not laid out for training as fully connected layers here.

    Args:
        ir: the program.
    """


def apply_pre_alias_patterns(ir: popxl.Ir, level: str = "default") -> None:
    """Does nothing: a program is simplified when it is compiled.

    Args:
        ir: the program.
        level: which patterns: "no_patterns", "minimal", "default" or "all".

    Raises:
        ValueError: If the level is unknown.
    """
    if level not in patterns_level:
        raise ValueError(f"level must be one of {list(patterns_level)}. Received: {level!r}")
