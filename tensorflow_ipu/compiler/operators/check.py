"""Check that the chip can run a Program: supported ops and fixed shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tensorflow.core.framework import node_def_pb2
from tensorflow.python.framework import errors

from tensorflow_ipu import op_names
from tensorflow_ipu.compiler.analysis import outside_compilation
from tensorflow_ipu.compiler.ir.program import OUTSIDE_ATTRIBUTE, Program
from tensorflow_ipu.compiler.operators import advice, rules
from tensorflow_ipu.compiler.operators.constants import Constants
from tensorflow_ipu.compiler.sources.source_map import SourceMap
from tensorflow_ipu.util.notices import warn_once

# Prefix of TensorFlow's internal ops, which users do not write.
_INTERNAL = "_"
_SHOWN = 5


class UnsupportedOp(NamedTuple):
    """An op of a Program that the chip could not run.

    Args:
        function: name of the function it is in.
        node: the op.
        reason: why not.
    """

    function: str
    node: node_def_pb2.NodeDef
    reason: str


def check(program: Program, constants: Constants, sources: SourceMap, policy: str) -> None:
    """Warns of ops that run here and would not compile for the chip, or refuses them.

    Args:
        program: the Program, without checks of values, which the chip drops.
        constants: its compile-time constants.
        sources: where its ops came from.
        policy: `--operator_policy` of TF_POPLAR_FLAGS: "warn", "raise", or "allow" for neither.

    Raises:
        tf.errors.InvalidArgumentError: The policy is to refuse, and there are such ops.
    """
    if policy == "allow":
        return
    found: dict[str, UnsupportedOp] = {}
    for finding in find(program, constants):
        found.setdefault(finding.node.op, finding)
    texts = [_text(finding, sources) for finding in found.values()]
    if texts and policy == "raise":
        more = f" There are {len(texts) - _SHOWN} more." if len(texts) > _SHOWN else ""
        raise errors.InvalidArgumentError(
            None,
            None,
            "Detected unsupported operations when trying to compile graph, which "
            f"--operator_policy=raise refuses. {' '.join(texts[:_SHOWN])}{more}",
        )
    for text in texts:
        warn_once(
            "%s (--operator_policy=raise in TF_POPLAR_FLAGS makes this an error, "
            "--operator_policy=allow silences it. docs/operators.md lists all ops.)",
            text,
        )


def find(program: Program, constants: Constants) -> Iterator[UnsupportedOp]:
    """Yields the ops of a Program that the chip could not run, without the host's ops.

    Args:
        program: the Program.
        constants: its compile-time constants.
    """
    on_host = outside_compilation.functions_run(program)
    for name, function in program.functions.items():
        if name in on_host:
            continue
        for node in function.node_def:
            if op_names.is_own(node.op) or node.op.startswith(_INTERNAL):
                continue
            if node.op in program.functions:
                continue
            if OUTSIDE_ATTRIBUTE in node.attr:
                continue
            reason = rules.problem(name, node, constants)
            if reason is not None:
                yield UnsupportedOp(name, node, reason)


def _text(finding: UnsupportedOp, sources: SourceMap) -> str:
    """Returns the message about an op: line, type, reason and advice."""
    node = finding.node
    source = sources.lookup(finding.function, node.name)
    place = f"{source}: " if source is not None else ""
    return (
        f"{place}{node.op} ({node.name}) runs here, and would not compile for the chip: "
        f"{finding.reason}. What to do: {advice.mend(node.op)}."
    )
