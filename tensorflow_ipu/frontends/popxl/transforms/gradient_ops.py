"""The kinds of ops that only gradient graphs have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tensorflow as tf

from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient, OpKind, register
from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.lowering.gradients import Derivation

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.lowering.graphs import Lowering


SUM = register(OpKind("Sum", shapes.elementwise("Sum"), lambda *ts: tf.add_n(list(ts))))


_kinds: dict[OpKind, OpKind] = {}


def _gradient_spec(specs: shapes.Specs, derivation: Derivation) -> list[TensorSpec]:
    return list(derivation.specs)


def _lower_gradient(lowering: Lowering, op: Op) -> None:
    """Puts the gradient of an op into the program."""
    derivation: Derivation = op.attributes["derivation"]
    lowering.define_outputs(op, derivation.build(lowering.read_inputs(op)))


def gradient_kind(kind: OpKind) -> OpKind:
    """Returns the kind of the op that is the gradient of one."""
    if kind not in _kinds:
        _kinds[kind] = OpKind(
            f"{kind.type}Grad", _gradient_spec, gradient=Gradient.REFUSED, lower=_lower_gradient
        )
    return _kinds[kind]
