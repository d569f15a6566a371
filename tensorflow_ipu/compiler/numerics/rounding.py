"""Rounding and trap checks of the results of floating-point ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tensorflow_ipu.compiler.ir.function_editor import FunctionEditor
from tensorflow_ipu.compiler.ir.program import node_tag
from tensorflow_ipu.compiler.numerics.behavior import FloatBehavior, Overflow
from tensorflow_ipu.compiler.numerics.catalogue import Arithmetic


@dataclasses.dataclass(frozen=True)
class Result:
    """One result of a node, with the rounding and the checks that it needs.

    Attributes:
        name: Name of the node.
        op: Its type.
        arithmetic: How the op rounds, and where it traps.
        raw: The result as it was computed: in float32, unless the node adds in float16.
        half: Whether the device has it in float16.
        operands: Operands of the node.
        operand_types: Their types.
        rounding: Whether it is rounded stochastically, and whether alike on all replicas.
    """

    name: str
    op: str
    arithmetic: Arithmetic
    raw: str
    half: bool
    operands: tuple[str, ...]
    operand_types: tuple[int, ...]
    rounding: tuple[bool, bool]


class ResultFinisher:
    """Rewriter that adds checks and rounding of results to a function."""

    def __init__(
        self,
        editor: FunctionEditor,
        behavior: FloatBehavior,
        next_stream: Callable[[], int],
    ) -> None:
        """Stores the function's editor and the behaviour.

        Args:
            editor: of the function.
            behavior: floating-point behaviour of the configuration.
            next_stream: gives a number for the random bits of an op.
        """
        self._editor = editor
        self._behavior = behavior
        self._next_stream = next_stream

    def finish(self, result: Result) -> str:
        """Adds the nodes that check and round a result; returns its final value."""
        final = self._check(result) if self._behavior.traps else result.raw
        return self._round(result, final) if result.half else final

    def _check(self, result: Result) -> str:
        behavior, arithmetic = self._behavior, result.arithmetic
        # The operands tell why a result is infinite; for NaN alone they are not needed.
        wanted = behavior.oflo or (behavior.div0 and arithmetic.pole)
        node = self._editor.add(
            f"{result.name}/ipu_check",
            "IpuCheckNumerics",
            [result.raw, *(result.operands if wanted else ())],
            Toperands=result.operand_types if wanted else (),
            checked_name=node_tag(result.name, self._editor.function.signature.name),
            checked_op=result.op,
            inv=behavior.inv,
            div0=behavior.div0,
            oflo=behavior.oflo,
            to_half=result.half,
            **_description(arithmetic),
        )
        return f"{node.name}:output:0"

    def _round(self, result: Result, value: str) -> str:
        arithmetic = result.arithmetic
        stochastic, same = result.rounding
        # The operands tell overflows of float32 from infinities that are right.
        wanted = arithmetic.overflows_float or arithmetic.divides
        wanted = wanted and self._behavior.overflow is not Overflow.INFINITE
        node = self._editor.add(
            f"{result.name}/ipu_round",
            "IpuRoundStochastically" if stochastic else "IpuRoundToHalf",
            [value, *(result.operands if wanted else ())],
            Toperands=result.operand_types if wanted else (),
            overflow=self._behavior.overflow.value,
            divides=arithmetic.divides,
            **_description(arithmetic),
        )
        if stochastic:
            node.attr["stream"].i = self._next_stream()
            node.attr["same_on_all_replicas"].b = same
        return f"{node.name}:output:0"


def _description(arithmetic: Arithmetic) -> dict[str, bool | str | int]:
    """Returns the facts of an op that the engine's checks need."""
    return {
        "elementwise": arithmetic.elementwise,
        "pole": arithmetic.pole,
        "pole_operand": arithmetic.pole_operand,
    }
