"""Sizes of memory without tensors: code, vertex state, stacks, packet headers, gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.cost import FREE, Cost
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.planner.workload import Op

CONTROL = "control code"
VERTEX = "vertex code"
STATE = "vertex state"
EXCHANGE = "exchange code"
STACK = "stack"
HEADERS = "packet headers"
GAPS = "gaps"


class Part(NamedTuple):
    """Memory of one kind, of equal size on each tile.

    Args:
        name: of the category.
        num_bytes: on each tile.
        label: label of the bytes.
    """

    name: str
    num_bytes: int
    label: Label


def parts(
    ops: Sequence[tuple[Op, Cost]], chip: Chip, outlining: bool, host_exchange: bool = True
) -> tuple[Part, ...]:
    """Returns the bytes of code, stacks and gaps on each tile of an IPU.

    control code   = control_code_per_tile + control_code_per_op x (ops - 1)
    vertex code    = vertex_code_per_tile + vertex_code_per_codelet x (different codelets - 1)
    exchange code  = internal_exchange_code + host_exchange_code + exchange code of the ops
    vertex state   = vertex state of the ops

    With outlining, ops of the same type, operands and options are one op: the chip calls one
    function for all of them, whose vertices and code exist once. Copies of their operands for these
    calls are not counted. The chip's figures are for a program of one op, and for each further op,
    which is assumed.

    Args:
        ops: the ops of one IPU that do something there, with their costs.
        chip: the chip.
        outlining: whether equal ops share code and vertices.
        host_exchange: whether the IPU exchanges data with the host.
    """
    busy = [(op, cost) for op, cost in ops if cost is not FREE]
    distinct = {(op.type, id(cost)): cost for op, cost in busy} if outlining else None
    counted = [cost for _, cost in busy] if distinct is None else list(distinct.values())
    codelets = {name for cost in counted for name in cost.codelets}
    exchange = chip.internal_exchange_code + chip.host_exchange_code * host_exchange
    assumed, modelled = Label.ASSUMED, Label.MODELLED
    more_ops, more_codelets = max(len(counted) - 1, 0), max(len(codelets) - 1, 0)
    control = chip.control_code_per_tile + chip.control_code_per_op * more_ops
    vertex = chip.vertex_code_per_tile + chip.vertex_code_per_codelet * more_codelets
    return (
        Part(CONTROL, control, assumed if more_ops else modelled),
        Part(VERTEX, vertex, assumed if more_codelets else modelled),
        Part(EXCHANGE, exchange + sum(cost.exchange_code for cost in counted), modelled),
        Part(STATE, sum(cost.vertex_state for cost in counted), modelled),
        Part(STACK, chip.stack_per_tile, modelled),
        Part(HEADERS, chip.packet_headers_per_tile, modelled),
        Part(GAPS, chip.gap_per_tile, assumed),
    )
