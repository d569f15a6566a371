"""`OpKind`: the record of an op, and the registry of PopXL; families of ops register theirs.

A record has all facts of an op that other modules need: none of them lists ops by name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends.common.op_registry import GradientRule, OpRegistry
from tensorflow_ipu.frontends.popxl.core import views
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.core.views import View

Attributes = Mapping[str, Any]
Infer = Callable[..., Sequence[TensorSpec]]
Compute = Callable[..., Any]

# Types whose words a name of an output joins.
_COMPOUNDS = re.compile("MatMul|OneHot|ArgMax|ArgMin|CumSum|TopK|IsInf|IsNaN|LogSum|SumSquare")


@dataclasses.dataclass(frozen=True, eq=False)
class OpKind:
    """Registry entry of an op: type, shape rule, computation and gradient.

    Attributes:
        type: Its type, such as "MatMul"; no other kind has it.
        infer: Takes the specs of the inputs and the attributes by name; returns those of the
            outputs, or raises the error that the op documents.
        compute: Takes TensorFlow tensors and the attributes by name; returns one tensor, or a
            sequence: the outputs that are not views, then the new value of each input in
            `writes`. None for ops that `lower` handles.
        gradient: A `GradientRule`, or a function that makes the gradients. It takes the inputs, the
            outputs and their gradients as lists, and the attributes by name. It returns a gradient
            or None for each input.
        writes: Positions of the inputs that it modifies.
        view: The shared storage of the first output and inputs, if any. It takes the specs of the
            inputs and the attributes by name, and returns a `View`.
        effect: Whether it does more than compute: such ops run in the order of the program.
        is_loop: Whether it is a loop, whose graph may be spread over IPUs. Its operands are the
            last inputs of that graph.
        lower: Puts the op into the program, if `compute` does not suffice. It takes the lowering of
            the graph (`lowering.graphs.GraphLowering`) and the op.
        composite: The op that a plan costs instead, if the chip has one that TensorFlow lacks. It
            takes the specs of the inputs and the attributes by name. It returns the `type`,
            `attributes` and `flops` of that op, or None for the computed op.
        keeps_all: Whether its gradient counts as reading all operands and the result. In the
            original, gradients of binary elementwise ops do, even if they compute without some.
        differentiate: Makes the gradient ops itself: takes the state of autodiff
            (`transforms.differentiation.Backward`) and the op.
        listed: The name in listings, if not the type: there ops of several kinds share a name.
    """

    type: str
    infer: Infer
    compute: Compute | None = None
    gradient: GradientRule | Compute = GradientRule.DERIVED
    writes: tuple[int, ...] = ()
    view: Callable[..., View] | None = None
    effect: bool = False
    is_loop: bool = False
    lower: Callable[[Any, Any], None] | None = None
    keeps_all: bool = False
    differentiate: Callable[[Any, Any], None] | None = None
    composite: Callable[..., Mapping[str, Any] | None] | None = None
    listed: str | None = None

    def __repr__(self) -> str:
        return f"OpKind({self.type})"

    @property
    def name(self) -> str:
        """The name in listings."""
        return self.listed or self.type

    @property
    def output_name(self) -> str:
        """Default name of its outputs: "add_lhs_inplace_out" for "AddLhsInplace"."""
        words = _COMPOUNDS.sub(lambda found: found.group().capitalize(), self.name)
        return re.sub("(?<=[a-z0-9])(?=[A-Z])", "_", words).lower() + "_out"


REGISTRY: OpRegistry[str, OpKind] = OpRegistry()
# Implementations of methods of tensors and Irs, by name. The classes of the IR know of no op.
_functions: dict[str, Callable[..., Any]] = {}


def register(kind: OpKind) -> OpKind:
    """Registers an op.

    Args:
        kind: the record of the op.

    Returns:
        The record.

    Raises:
        ValueError: If there is an op of this type.
    """
    REGISTRY.add(kind.type, kind)
    return kind


def in_place(kind: OpKind, infer: Infer | None = None, listed: str | None = None) -> OpKind:
    """Registers the form of an op that writes its result into the first input.

    Args:
        kind: the op.
        infer: the rule for its output, if that is not the same.
        listed: its name in listings, if not its type.

    Returns:
        The kind, whose output is a view of that input.
    """
    return register(
        dataclasses.replace(
            kind,
            type=f"{kind.type}Inplace",
            listed=listed,
            infer=infer or kind.infer,
            gradient=GradientRule.REFUSED,
            writes=(0,),
            view=views.whole,
        )
    )


def ir_method(name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: makes a function the implementation of a method of the IR (`function`).

    Args:
        name: name of the method; the name of the function by default.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _functions[name or function.__name__] = function
        return function

    return enter


def function(name: str) -> Callable[..., Any]:
    """Returns the function of `popxl.ops` that an operator or method stands for.

    Args:
        name: its name.
    """
    return _functions[name]
