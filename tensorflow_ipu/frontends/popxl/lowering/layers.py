"""Names the layer of an op for reports: open name scopes, and the owner of its variables."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence

from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor, Variable

# What the Ir adds to the name of a function or class to make the id of a graph.
_NUMBERED = re.compile(r"_subgraph\(\d+\).*|_bwd(_\d+)?$|\(\d+\)$")


def layer_of(op: Op) -> str:
    """Returns the layer of an op, within that of the calls of its graph.

    That are the name scopes in which it was made, and then what its variables have in common:
    `layer0.up.weight` and `layer0.up.bias` are of `layer0/up`, and so is `accum.layer0.up.bias`.
    Inputs of a graph that have such names stand for variables. A call without variables is named
    after its graph. The gradient of an op has the layer of the op.

    Args:
        op: the op.

    Returns:
        Names, separated by slashes; empty for none.
    """
    while op.original is not None:
        op = op.original
    owners = [owner for owner in map(owner_of, op.inputs) if owner]
    common = _common(owners)
    if op.called and not owners:
        common = tuple(filter(None, [_NUMBERED.sub("", op.called[0].id)]))
    scopes = tuple(part for scope in op.scopes for part in scope.split("/"))
    shared = common[len(scopes) :] if common[: len(scopes)] == scopes else common
    return "/".join([*scopes, *shared])


def owner_of(tensor: Tensor) -> tuple[str, ...]:
    """Returns the names before the last one of a variable, or of an input that stands for one.

    Args:
        tensor: any tensor.
    """
    if isinstance(tensor, Variable):
        return tuple(re.split(r"[./]", _weight_of(tensor))[:-1])
    is_input = tensor.producer is None and not isinstance(tensor, Constant)
    return tuple(re.split(r"[./]", tensor.name)[:-1]) if is_input else ()


def _weight_of(variable: Variable) -> str:
    """The variable whose name is in that of another, such as an accumulator; else its own name."""
    parts = variable.name.split(".")
    for size in range(len(parts) - 1, 1, -1):
        for start in range(len(parts) - size + 1):
            name = ".".join(parts[start : start + size])
            with contextlib.suppress(popart_exception):
                return variable.graph.get_tensor(name).name
    return variable.name


def _common(owners: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the names that all owners begin with."""
    return tuple(os.path.commonprefix([list(owner) for owner in owners]))
