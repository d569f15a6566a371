"""`layer_tree`: layers as nested name scopes, with cycles, work and bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.op_groups import group
from tensorflow_ipu.planner.plan import Plan, median_label
from tensorflow_ipu.profiler.breakdown import NO_LAYER, activations, layers_of_variables
from tensorflow_ipu.profiler.views.operations import Operation

# Numbers of a layer that are sums over its operations and over the layers in it.
_SUMS = (
    *("cycles", "forward", "backward", "update", "compute", "exchange", "sync", "transfer"),
    *("flops", "ops", "variable_bytes", "activation_bytes"),
)
_OF_OPERATIONS = ("cycles", "compute", "exchange", "sync", "transfer")


class LayerNode(NamedTuple):
    """A layer in a tree, with all layers in it.

    Args:
        name: last part of its name scope; empty for the root.
        path: its name scope, as `encoder/layer_0/attention`; for ops in no layer its stand-in, as
            in `LayerRow`.
        parent: position of the layer around it, None for the root.
        end: position one past the last layer in it.
        depth: layers around it.
        cycles: of one launch of a replica, on all IPUs.
        own_cycles: cycles of operations that are in no inner layer.
        share: its part of the cycles of all operations, 0 to 1.
        forward: its cycles in the forward pass.
        backward: its cycles in the backward pass.
        update: its cycles in weight updates.
        compute: cycles that tiles compute.
        exchange: cycles that tiles exchange data.
        sync: cycles that tiles wait for each other.
        transfer: cycles that data come from host, streaming memory and other IPUs, or go there.
        flops: floating-point operations of one launch, as far as there are formulas.
        ops: number of ops.
        variable_bytes: bytes of its variables on one replica.
        activation_bytes: results of its forward ops, each counted once.
        temporary: most bytes of temporaries on a tile, of one of its ops.
        label: median label of the cycles.
    """

    name: str
    path: str
    parent: int | None
    end: int
    depth: int
    cycles: float
    own_cycles: float
    share: float
    forward: float
    backward: float
    update: float
    compute: float
    exchange: float
    sync: float
    transfer: float
    flops: int
    ops: int
    variable_bytes: int
    activation_bytes: int
    temporary: int
    label: str


class _Draft:
    """Builder of a layer."""

    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.inner: dict[str, _Draft] = {}
        self.sums: dict[str, float] = dict.fromkeys(_SUMS, 0)
        self.own = 0.0
        self.temporary = 0
        self.labels: dict[Label, float] = {}

    def include(self, other: _Draft) -> None:
        """Adds the numbers of an inner layer."""
        for name in _SUMS:
            self.sums[name] += other.sums[name]
        self.temporary = max(self.temporary, other.temporary)
        for label, cycles in other.labels.items():
            self.labels[label] = self.labels.get(label, 0.0) + cycles


@functools.lru_cache(maxsize=4096)
def path(layer: str) -> str:
    """Returns the path of the layer that has a name: its scopes without empty ones.

    Args:
        layer: name of a layer, or its stand-in.
    """
    return "/".join(_scopes(layer))


def _scopes(layer: str) -> list[str]:
    """Returns the scopes of a layer from the outermost; a function of the program is one scope."""
    return [layer] if layer.endswith(")") else [part for part in layer.split("/") if part]


def layer_tree(plan: Plan, operations: Iterable[Operation]) -> tuple[LayerNode, ...]:
    """Returns the layers of a program as a tree.

    Args:
        plan: memory and time of a program.
        operations: its operations with their cycles.

    Returns:
        Layers in the order of the program, inner layers after their outer one. The first is the
        program.
    """
    root = _Draft("", "")
    _add_program(root, plan)
    for row in operations:
        draft = _find(root, row.layer)
        for name in _OF_OPERATIONS:
            draft.sums[name] += getattr(row, name)
        draft.sums[row.phase] += row.cycles
        draft.own += row.cycles
        draft.temporary = max(draft.temporary, row.temporary)
        label = Label(row.label)
        draft.labels[label] = draft.labels.get(label, 0.0) + row.cycles
    _accumulate(root)
    nodes: list[LayerNode] = []
    _flatten(root, None, 0, root.sums["cycles"], nodes)
    return tuple(nodes)


def positions(nodes: Sequence[LayerNode]) -> dict[str, int]:
    """Returns the positions of layers in a tree by their paths.

    Args:
        nodes: the result of `layer_tree`.
    """
    return {node.path: position for position, node in enumerate(nodes) if position}


def _add_program(root: _Draft, plan: Plan) -> None:
    """Adds the numbers that do not depend on the chip: ops, work and bytes."""
    workload = plan.workload
    for op in workload.ops:
        sums = _find(root, group(op) or NO_LAYER).sums
        sums["ops"] += 1
        sums["flops"] += (op.flops or 0) * op.runs
    for variable, layer in layers_of_variables(workload).items():
        found = _find(root, layer or NO_LAYER)
        found.sums["variable_bytes"] += workload.variables[variable].share
    for layer, num_bytes in activations(workload):
        _find(root, layer or NO_LAYER).sums["activation_bytes"] += num_bytes


def _find(root: _Draft, layer: str) -> _Draft:
    """Returns the draft of a layer, creating it and its outer layers if needed."""
    draft = root
    for name in _scopes(layer):
        inner = draft.inner.get(name)
        if inner is None:
            path = f"{draft.path}/{name}" if draft.path else name
            inner = draft.inner[name] = _Draft(name, path)
        draft = inner
    return draft


def _accumulate(draft: _Draft) -> None:
    """Adds the numbers of inner layers to each layer."""
    for inner in draft.inner.values():
        _accumulate(inner)
        draft.include(inner)


def _flatten(
    draft: _Draft, parent: int | None, depth: int, total: float, nodes: list[LayerNode]
) -> None:
    """Appends a layer and its inner layers."""
    position = len(nodes)
    sums = draft.sums
    node = LayerNode(
        name=draft.name,
        path=draft.path,
        parent=parent,
        end=position,
        depth=depth,
        own_cycles=draft.own,
        share=sums["cycles"] / total if total else 0.0,
        temporary=draft.temporary,
        label=median_label(draft.labels).value,
        **sums,  # type: ignore[arg-type]
    )
    nodes.append(node)
    for inner in draft.inner.values():
        _flatten(inner, position, depth + 1, total, nodes)
    nodes[position] = node._replace(end=len(nodes))
