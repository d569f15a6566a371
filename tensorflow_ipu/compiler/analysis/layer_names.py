"""Layers of ops by name: the name scope of their forward, backward and update ops."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Iterable

from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.source_map import KerasFrames

NO_KERAS = KerasFrames()

# Scopes that TensorFlow, loops and pipelines put around the scopes of a user's program.
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
# Scopes that functions of TensorFlow open for themselves, but users may also choose for a layer:
# they are taken for the function's, unless Keras says that they are a layer's.
_FUNCTIONS = re.compile(
    r"matmul|MatVec|(Max|Avg)Pool[1-3]?[dD]?|embedding_lookup.*|convolution|separable_conv2d|"
    r"conv[123]d(_transpose)?|conv_transpose|l2_normalize|clip_by_\w+|global_norm|\w+_no_nan|"
    r"LeakyRelu|Gelu|CRelu|Relu6|LogSigmoid|ReduceLogSumExp|SequenceMask|count_nonzero|in_top_k|"
    r"xw_plus_b|adjoint|tuple|expand_dims|eye|linspace|saturate_cast|"
    r"cross_replica_sum|assume_equal_across_replicas"
)
# Scopes that are certainly functions, where Keras has said which scopes are layers.
_IN_LAYERS = re.compile(rf"{_FUNCTIONS.pattern}|dropout|norm|normalize|softmax|relu")
# Scopes of loss functions: they are a name for ops without another.
_LOSSES = re.compile(
    r"(Sparse)?SoftmaxCrossEntropyWithLogits|\w*softmax_cross_entropy_with_logits\w*|logistic_loss|"
    r"weighted_cross_entropy\w*|log_poisson_loss|ctc_loss\w*|nce_loss|sampled_softmax_loss"
)
# Scopes of layers and loops inside of a recurrent layer.
_IN_CELLS = re.compile(r".*_cell|while|cond|body|(Stateful)?PartitionedCall")
# Names of variables that nobody chose.
_UNNAMED = re.compile(r"(Variable|.*resource|unknown|args?)(_\d+)*|\d*")
_NUMBER = re.compile(r"_\d+$")


class LayerNames:
    """Layers of the ops of one program, by name scopes and variables.

    Args:
        variables: names of the program's variables. The scope of a variable is a layer; an
            optimizer's state is in the layer of the variable whose name is part of the state's
            name.
    """

    def __init__(self, variables: Iterable[str]) -> None:
        names = collections.Counter(name.split(":")[0] for name in variables)
        known = frozenset(names)
        self._of_variable = {name: scope_of_variable(_owner(name, known)) for name in names}
        self._shared = frozenset(name for name, count in names.items() if count > 1)
        self._prefixes: set[str] = set()

    def of_variable(self, name: str) -> str:
        """Returns the layer of a variable."""
        return self._of_variable.get(name.split(":")[0], "")

    def learn(
        self,
        op: str,
        variable: str,
        keras: KerasFrames = NO_KERAS,
        declared: str | None = None,
    ) -> None:
        """Records that an op reads a variable.

        Scopes around the variable's scope are the model's and belong to no layer. A variable
        without a scope belongs to the layer that uses it. If no layer does, it is a layer by
        itself.

        Args:
            op: name of the op.
            variable: name of the variable.
            keras: layer depth and part of Keras in which the op was made.
            declared: the layer that a front end declares for the op; None if none does.
        """
        scope = self.of_variable(variable)
        used = path(op, keras.layers) if declared is None else declared
        if not scope:
            name = variable.split(":")[0]
            self.assign(variable, used or keras.part or ("" if _UNNAMED.fullmatch(name) else name))
        elif used.endswith(f"/{scope}"):
            self._prefixes.add(used[: -len(scope)])

    def assign(self, variable: str, layer: str) -> None:
        """Records the layer of a variable, unless it has one or another variable has its name."""
        name = variable.split(":")[0]
        if not self._of_variable.get(name) and name not in self._shared:
            self._of_variable[name] = layer

    def of_op(self, name: str, keras: KerasFrames = NO_KERAS) -> str:
        """Returns the layer of an op, empty for one outside of all scopes.

        Args:
            name: its name.
            keras: layer depth and part of Keras in which it was made.
        """
        found = path(name, keras.layers)
        if keras.part and _LOSSES.fullmatch(found):
            return keras.part  # the loss that a user chose, not the function that it calls
        for end in range(len(found) - 1, 0, -1):
            if found[end - 1] == "/" and found[:end] in self._prefixes:
                return found[end:]
        return "" if f"{found}/" in self._prefixes else found


@functools.lru_cache(maxsize=65536)
def path(name: str, layers: int = 0) -> str:
    """Returns the scope of an op, without scopes that TensorFlow adds around and inside layers.

    Args:
        name: its name, such as `gradients/dense_1/MatMul_grad/MatMul`.
        layers: number of its scopes that are Keras layers, as far as that is known.
    """
    parts = _scopes(name)
    if len(parts) > layers == 0 and _LOSSES.fullmatch(parts[0]):
        return parts[0]
    kept: list[str] = []
    for index, part in enumerate(parts):
        if index < layers:
            inside = bool(_IN_CELLS.fullmatch(_base(part)))
        else:
            functions = _IN_LAYERS if layers else _FUNCTIONS
            inside = _is_inside(part) or kept[-1:] == [part]
            inside = inside or bool(functions.fullmatch(_base(part)))
        if inside:
            break
        kept.append(part)
    return "/".join(kept)


def scope_of_variable(name: str) -> str:
    """Returns the scope of a variable, as `path` does: functions of TensorFlow make none.

    Args:
        name: its name, such as `conv1d/kernel`.
    """
    kept: list[str] = []
    for part in _scopes(name):
        if _is_inside(part) or kept[-1:] == [part]:
            break
        kept.append(part)
    return "/".join(kept)


def _scopes(name: str) -> list[str]:
    """Returns the scopes of a name, without the outer ones that no user's code makes."""
    parts = name.split("/")[:-1]
    while parts and _AROUND.fullmatch(parts[0]):
        parts = parts[1:]
    return parts


@functools.lru_cache(maxsize=65536)
def _is_inside(part: str) -> bool:
    """Returns whether a scope is inside of a layer: an op such as `MatMul_1`, or a helper."""
    base = _base(part)
    if _INSIDE.fullmatch(base):
        return True
    return part[:1].isupper() and op_def_registry.get(base) is not None


def _base(part: str) -> str:
    """Returns a part of a name without its uniquifying number."""
    return _NUMBER.sub("", part)


def _owner(name: str, known: frozenset[str]) -> str:
    """Returns the variable of an optimizer's state: its name is inside of the state's."""
    parts = name.split("/")
    for size in range(len(parts) - 1, 0, -1):
        for start in range(len(parts) - size + 1):
            inner = "/".join(parts[start : start + size])
            if inner in known:
                return inner
    return name
