"""Counts floating-point operations of programs; the module `popxl_addons.performance_utils`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensorflow_ipu.frontends import popxl

__all__ = [
    "FLOPS_FNS",
    "elementwise_binary_flops",
    "evaluate_FLOPs",
    "evaluate_ir_FLOPs",
    "format_flops_scientific",
    "group_norm_flops",
    "matmul_flops",
    "print_FLOPs",
    "total_FLOPs",
]

_TOTAL = "TOT"
_PREFIXES = ("", "K", "M", "G", "T", "P", "E")


def matmul_flops(op: Any) -> int:
    """Returns the number of operations of a product: a multiplication and a sum for each pair.

    Args:
        op: the op.
    """
    return int(2 * op.inputs[0].shape[-1] * op.outputs[0].nelms)


def elementwise_binary_flops(op: Any) -> int:
    """Returns the number of operations of a sum, difference, product or quotient of elements.

    Args:
        op: the op.
    """
    return int(op.outputs[0].nelms)


def group_norm_flops(op: Any) -> int:
    """Returns the number of operations of a normalization over groups.

    There are two sums, and `(x - mean) * scale * weight + bias`.

    Args:
        op: the op.
    """
    return int(8 * op.inputs[0].nelms)


# Returns the number of operations of an op, by its type. Those of other types have none.
FLOPS_FNS: dict[str, Callable[[Any], int]] = {
    "MatMul": matmul_flops,
    "GroupNormalization": group_norm_flops,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), elementwise_binary_flops),
}


def evaluate_FLOPs(graph: popxl.Graph) -> dict[str, Any]:  # noqa: N802
    """Counts the operations of a graph, with those that it calls.

    Args:
        graph: the graph.

    Returns:
        By type of op the numbers of its ops by their ids, dictionaries like this one by name of
        called graph, and the sum as "TOT". Loops count their graph once for each repetition.
    """
    found: dict[str, Any] = {_TOTAL: 0}
    for op in graph.ops:
        times = op.attributes.get("repeat_count", 1)
        for called in op.called:
            inner = evaluate_FLOPs(called)
            scaled = _scaled(inner, times)
            known = found.get(called.name)
            found[called.name] = _sum(known, scaled) if known else scaled
            found[_TOTAL] += scaled[_TOTAL]
        count = FLOPS_FNS.get(op.opType(), lambda _: 0)(op)
        if count:
            found.setdefault(op.opType(), {})[op.id] = count
            found[_TOTAL] += count
    return found


def evaluate_ir_FLOPs(ir: popxl.Ir) -> dict[str, Any]:  # noqa: N802
    """Counts the operations of one run of a program, over all its replicas.

    Args:
        ir: the program.
    """
    return _scaled(evaluate_FLOPs(ir.main_graph), ir.replication_factor)


def total_FLOPs(ir: popxl.Ir) -> int:  # noqa: N802
    """Returns the number of operations of one run of a program, over all its replicas.

    Args:
        ir: the program.
    """
    return int(evaluate_ir_FLOPs(ir)[_TOTAL])


def print_FLOPs(  # noqa: N802
    flops_breakdown: dict[str, Any], mode: str = "type", numerical_format: str = "nearest3"
) -> None:
    """Prints numbers of operations.

    Args:
        flops_breakdown: the result of `evaluate_FLOPs`.
        mode: "type" for a line for each type of op in each graph, "flat" for one for each type.
        numerical_format: as for `format_flops_scientific`.

    Raises:
        ValueError: If the mode is unknown.
    """
    if mode not in ("type", "flat"):
        raise ValueError(f"mode must be 'type' or 'flat'. Received: {mode!r}")
    counts = _by_type(flops_breakdown)
    _print(_flat(counts) if mode == "flat" else counts, "", numerical_format)


def format_flops_scientific(val: float, format: str = "nearest3") -> str:  # noqa: A002
    """Returns a number of operations as text.

    Args:
        val: the number.
        format: "nearest3" for a letter for thousands, millions and so on; else a format of Python.
    """
    if format != "nearest3":
        return f"{val:{format}}"
    power = min(int(math.log10(val) // 3), len(_PREFIXES) - 1) if val >= 1 else 0
    return f"{val / 1000**power:.3f} {_PREFIXES[power]}FLOPs"


def _scaled(counts: dict[str, Any], times: int) -> dict[str, Any]:
    return {
        name: _scaled(count, times) if isinstance(count, dict) else count * times
        for name, count in counts.items()
    }


def _sum(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _sum(count, other[name]) if isinstance(count, dict) else count + other[name]
        for name, count in one.items()
    }


def _by_type(counts: dict[str, Any]) -> dict[str, Any]:
    """Returns numbers of operations with one for all ops of a type."""
    found: dict[str, Any] = {}
    for name, count in counts.items():
        if isinstance(count, dict):  # a called graph has a sum, ops of a type have none
            found[name] = _by_type(count) if _TOTAL in count else sum(count.values())
        else:
            found[name] = count
    return found


def _flat(counts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, count in counts.items():
        parts = _flat(count) if isinstance(count, dict) else {name: count}
        for part, number in parts.items():
            if isinstance(count, dict) and part == _TOTAL:
                continue
            found[part] = found.get(part, 0) + number
    return found


def _print(counts: dict[str, Any], indent: str, numerical_format: str) -> None:
    for name, count in counts.items():
        if isinstance(count, dict):
            print(f"{indent}{name}:")
            _print(count, indent + "  ", numerical_format)
        else:
            print(f"{indent}{name}: {format_flops_scientific(count, numerical_format)}")
