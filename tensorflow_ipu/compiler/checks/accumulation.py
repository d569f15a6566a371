"""Check that loops that accumulate gradients end with an update."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tensorflow.python.framework import errors

from tensorflow_ipu.compiler.ir.program import ACCUMULATION_ATTRIBUTE, Program, at_node
from tensorflow_ipu.compiler.ir.records import OpRecord
from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cluster import Cluster
    from tensorflow_ipu.compiler.executable import Executable


class _Loop(NamedTuple):
    """The innermost loop around an op.

    Args:
        trip_count: its iterations, None where that is not a constant.
    """

    trip_count: int | None


def check(program: Program, executable: Executable, cluster: Cluster) -> None:
    """Checks the gradient accumulations of a Program.

    Where the number of iterations is known only when the program runs, nothing can be said here:
    the engine checks at the end of the run.

    Args:
        program: the Program.
        executable: its Executable, whose ops are listed only if there is something to check.
        cluster: the Cluster.

    Raises:
        tf.errors.FailedPreconditionError: If one is not the outermost optimizer, is not in a loop,
            or the loop's iterations are no multiple of its mini-batches.
    """
    del cluster
    found = {
        (function.signature.name, node.name): json.loads(node.attr[ACCUMULATION_ATTRIBUTE].s)
        for function, node in program.nodes()
        if ACCUMULATION_ATTRIBUTE in node.attr
    }
    for (function, node), description in found.items():
        description["place"] = at_node(node, function)
        _check_outermost(description)
    counted = {key: value for key, value in found.items() if value["num_mini_batches"] > 1}
    if not counted:
        return
    for key, loop in _loops_around(executable.ops, set(counted)):
        _check_loop(counted[key], loop)


def outside_loop(description: dict[str, Any]) -> str:
    """Returns the message for an accumulation that has no loop.

    Args:
        description: of the accumulation, as in its attribute.
    """
    return (
        f"{_title(description)} accumulates gradients in a place which is not inside a training "
        f"loop: {description['num_mini_batches']} mini-batches make an update, and there is one. "
        "Call its apply_gradients or minimize in the body of ipu.loops.repeat or another loop "
        "that runs on the device."
    )


def _check_outermost(description: dict[str, Any]) -> None:
    if description["wrapped_by"] is not None:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"{_title(description)} must not be wrapped by any other optimizer, but it is wrapped "
            f"by a {description['wrapped_by']}. Make it the outermost: let it wrap the "
            f"{description['wrapped_by']}, and that the optimizer inside.{description['place']}",
        )


def _check_loop(description: dict[str, Any], loop: _Loop | None) -> None:
    if loop is None:
        raise errors.FailedPreconditionError(
            None, None, outside_loop(description) + description["place"]
        )
    count = description["num_mini_batches"]
    if loop.trip_count is not None and loop.trip_count % count:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"Detected a gradient accumulation operation with {count} number of mini batches "
            f"inside a loop with {loop.trip_count} iterations. {_title(description)} makes one "
            f"update for {count} mini-batches, which do not evenly divide the iterations: the "
            "gradients after the last update would be lost. Let the loop run a multiple of "
            f"{count} iterations.{description['place']}",
        )


def _title(description: dict[str, Any]) -> str:
    """Returns the title of an accumulation: its class, and its name if it differs."""
    optimizer, name = description["optimizer"], description["name"]
    return f"The {optimizer}" if name == optimizer else f"The {optimizer} {name!r}"


def _loops_around(
    records: Sequence[OpRecord], keys: set[tuple[str, str]]
) -> list[tuple[tuple[str, str], _Loop | None]]:
    """Finds the innermost loop around ops that are given by function and name.

    A record is followed by the records of the functions it runs, which are one level deeper.
    """
    path: list[OpRecord] = []
    found: list[tuple[tuple[str, str], _Loop | None]] = []
    for record in records:
        del path[record.depth :]
        key = (record.function, record.name)
        if key in keys:
            loop = next((outer for outer in reversed(path) if op_names.is_loop(outer.type)), None)
            found.append((key, None if loop is None else _Loop(loop.trip_count)))
        path.append(record)
    return found
