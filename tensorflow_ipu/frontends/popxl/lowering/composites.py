"""Ops that a program computes with several of TensorFlow's, and a plan takes for one op."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from tensorflow_ipu.compiler.ir import composite_calls
from tensorflow_ipu.frontends.popxl.core.op import Op


def said_of(op: Op) -> Mapping[str, Any] | None:
    """Returns what a plan takes an op for, as `COMPOSITE_ATTRIBUTE` says it; None for itself.

    Args:
        op: the op.
    """
    if op.kind.composite is None:
        return None
    specs = [tensor.spec for tensor in op.inputs]
    found: Mapping[str, Any] | None = op.kind.composite(specs, **op.attributes)
    return found


def call(op: Op, said: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """Puts what an op computes into a function of its own, and calls that in the one in scope.

    Args:
        op: the op, which only computes.
        said: what a plan takes it for.
        inputs: what its inputs hold.

    Returns:
        The results, as `OpKind.compute` returns them.
    """
    compute = op.kind.compute
    if compute is None:
        raise AssertionError(f"{op!r} has no `compute` to put into a function.")
    name = f"popxl_{op.kind.type}_{op.graph.ir.id}_{op.id}"
    computed = functools.partial(compute, **op.attributes)
    return composite_calls.call(name, computed, inputs, lambda _: said)
