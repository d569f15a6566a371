"""The copies between IPUs in a compiled program.

The rules:

* A tensor is on the IPUs of the op that made it. It is copied to every other IPU that uses it:
  once in each execution of the function it is used in, however many ops use it there.
* Data from the host (arguments, results of ops outside compilation) go to the IPU of their first
  user, and from there to others.
* A variable is on the IPU of the first op that uses it. An op elsewhere that reads it copies the
  elements read; an op that writes it sends the new elements back.
* An argument of a function is where the value is in the caller. A value that a loop carries along
  stays where the loop's body makes it; an invariant value stays where it was, and is copied in
  every iteration to the other IPUs that use it there. The result of a conditional is where the
  first branch has it.
* Constants, and values computed from constants and static shapes alone, are known when the program
  is compiled, so each IPU has its own. Handles, lists (`TensorList`), and predicates of loops count
  nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tensorflow_ipu.compiler.ir.call_tree import Call
from tensorflow_ipu.compiler.ir.records import ArgumentSpec, CopyRecord, OpRecord
from tensorflow_ipu.compiler.listing.copy_values import Operands, PlacedTensor, PlacedVariable
from tensorflow_ipu.compiler.listing.copy_walk import CopyWalk
from tensorflow_ipu.util.text import aligned, human_bytes


class CopyTotal(NamedTuple):
    """The number and bytes of all copies of one launch of a program on one replica.

    Args:
        bytes: their sum. Copies in loops of unknown trip count are counted as if made once, all
            branches as if taken.
        unknown_sizes: number of copies whose size is unknown; they are not in the sum.
        unknown_runs: number of copies in loops of unknown trip count.
        conditional: whether any copy is in a branch.
    """

    bytes: int
    unknown_sizes: int
    unknown_runs: int
    conditional: bool


def list_copies(
    tree: Callable[[], Call],
    inputs: Sequence[ArgumentSpec],
    records: Sequence[OpRecord],
) -> tuple[CopyRecord, ...]:
    """Lists the copies between IPUs of a compiled program, in the order of its ops.

    Args:
        tree: returns the listing as a tree; not asked for when all is on one IPU.
        inputs: one description for each argument of the entry, captures included.
        records: the listing of the program, from `listing.list_ops`.

    Returns:
        The copies, one for each tensor, IPU that uses it, and function it is used in.
    """
    if len({ipu for record in records for ipu in record.ipus}) < 2:
        return ()
    arguments: Operands = [
        PlacedVariable(spec.name)
        if spec.is_variable
        else PlacedTensor(spec.name, spec.num_bytes, [])
        for spec in inputs
    ]
    walk = CopyWalk()
    walk.run(tree(), arguments)
    return tuple(walk.copies)


def copy_total(copies: Sequence[CopyRecord]) -> CopyTotal:
    """Adds up copies, each multiplied by how often it is made."""
    return CopyTotal(
        sum((copy.bytes or 0) * _runs(copy) for copy in copies),
        sum(copy.bytes is None for copy in copies),
        sum(copy.runs is None for copy in copies),
        any(copy.conditional for copy in copies),
    )


def format_copies(copies: Sequence[CopyRecord]) -> str:
    """Returns copies as an aligned table under a line with their total; empty without any."""
    if not copies:
        return ""
    total = copy_total(copies)
    lines = [f"copies between IPUs: {len(copies)}, {human_bytes(total.bytes)} in one launch"]
    rows = [("from", "to", "tensor", "bytes", "runs", "function")]
    rows += [
        (
            *(str(copy.source), str(copy.destination), copy.tensor),
            *(human_bytes(copy.bytes), "-" if copy.runs is None else str(copy.runs)),
            copy.function,
        )
        for copy in copies
    ]
    lines += aligned(rows, right=(0, 1, 3, 4))
    if total.unknown_sizes:
        lines.append(f"not in that number: {total.unknown_sizes} copies of unknown size")
    if total.unknown_runs:
        lines.append(f"counted once: {total.unknown_runs} copies in loops of unknown trip count")
    if total.conditional:
        lines.append("counted as taken: every branch of every conditional")
    return "\n".join(lines)


def _runs(copy: CopyRecord) -> int:
    """Returns the factor by which a copy is counted."""
    return 1 if copy.runs is None else copy.runs
