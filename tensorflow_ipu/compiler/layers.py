"""The layer of an op: the name scope that its forward, backward and update ops share."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from tensorflow.python.framework import op_def_registry

# Scopes that TensorFlow, loops and pipelines put around what a user's program makes.
_AROUND = re.compile(
    r"(gradients|gradient_tape|while|cond|body|pipeline|repeat|Stateful(Partitioned)?Call|"
    r"StatefulPartitionedCall|PartitionedCall)(_\d+)?|_\d+"
)
# Scopes that functions of TensorFlow and Keras open for themselves, inside a layer, and ops of
# which several have such a name.
_INSIDE = re.compile(
    r".*_grad|.*_cell|batchnorm|moments|AssignMovingAvg|Regularizer|Tensordot|Read|Initializer|"
    r"(zeros|ones)(_like)?|strided_slice|range|truediv|floordiv|weighted_loss|num_elements|"
    r"(add|sub|mul|div|pow|neg|mod|sum|mean|concat|stack|split|transpose|grad_ys|packed|dims)|"
    r"random_(uniform|normal)|TensorArray.*|normalize_tensor|confusion_matrix|einsum|"
    r"(gradients|gradient_tape|while|cond)"
)
_NUMBER = re.compile(r"_\d+$")


class LayerNames:
    """Finds the layers of the ops of one program.

    Args:
        variables: names of the program's variables. The scope of a variable is a layer; that of an
            optimizer's state is the layer of the variable whose name is part of its own.
    """

    def __init__(self, variables: Iterable[str]) -> None:
        names = [name.split(":")[0] for name in variables]
        known = frozenset(names)
        self._of_variable = {name: path(_owner(name, known)) for name in names}
        self._prefixes: set[str] = set()

    def of_variable(self, name: str) -> str:
        """Returns the layer of a variable."""
        return self._of_variable.get(name.split(":")[0], "")

    def learn(self, op: str, variable: str) -> None:
        """Notes that an op reads a variable.

        Scopes around that of the variable are those of a model and belong to no layer. A variable
        without a scope belongs to the layer that uses it.

        Args:
            op: name of the op.
            variable: name of the variable.
        """
        scope, used = self.of_variable(variable), path(op)
        if not scope:
            self.assign(variable, used)
        elif used.endswith(f"/{scope}"):
            self._prefixes.add(used[: -len(scope)])

    def assign(self, variable: str, layer: str) -> None:
        """Notes the layer of a variable, if it was not known."""
        name = variable.split(":")[0]
        if not self._of_variable.get(name):
            self._of_variable[name] = layer

    def of_op(self, name: str) -> str:
        """Returns the layer of an op, empty for one outside of all scopes."""
        found = path(name)
        for end in range(len(found) - 1, 0, -1):
            if found[end - 1] == "/" and found[:end] in self._prefixes:
                return found[end:]
        return "" if f"{found}/" in self._prefixes else found


@functools.lru_cache(maxsize=65536)
def path(name: str) -> str:
    """Returns the scope of an op or variable, without what is added around and inside of layers.

    Args:
        name: its name, such as `gradients/dense_1/MatMul_grad/MatMul`.
    """
    parts = name.split("/")[:-1]
    while parts and _AROUND.fullmatch(parts[0]):
        parts = parts[1:]
    kept: list[str] = []
    for part in parts:
        if _is_inside(part) or kept[-1:] == [part]:
            break
        kept.append(part)
    return "/".join(kept)


@functools.lru_cache(maxsize=65536)
def is_backward(name: str) -> bool:
    """Returns whether an op's name says that TensorFlow made it for a gradient."""
    return any(_base(part) in ("gradients", "gradient_tape") for part in name.split("/")[:-1])


@functools.lru_cache(maxsize=65536)
def _is_inside(part: str) -> bool:
    """Whether a part of a name is inside of a layer: an op, such as `MatMul_1`, or its helper."""
    base = _base(part)
    if _INSIDE.fullmatch(base):
        return True
    return part[:1].isupper() and op_def_registry.get(base) is not None


def _base(part: str) -> str:
    """A part of a name without the number that makes it unique."""
    return _NUMBER.sub("", part)


def _owner(name: str, known: frozenset[str]) -> str:
    """The variable that an optimizer's state belongs to: its name is inside of the state's."""
    parts = name.split("/")
    for size in range(len(parts) - 1, 0, -1):
        for start in range(len(parts) - size + 1):
            inner = "/".join(parts[start : start + size])
            if inner in known:
                return inner
    return name
