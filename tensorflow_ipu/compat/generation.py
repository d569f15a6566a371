"""Detection of the TensorFlow and the Keras optimizers that a program was written for.

`tensorflow` and `tf.keras.optimizers` mean other things in TensorFlow 1.15, 2.6 and 2.15 under the
same names. The uses in a program decide: a name that only TensorFlow 1 has, a class derived from an
optimizer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorflow_ipu.compat import bindings
from tensorflow_ipu.compat.rows import KERAS_2, canonical, is_below, of_keras_2
from tensorflow_ipu.compat.tables import contrib_names, tensorflow1_names


class Generation(NamedTuple):
    """The TensorFlow and the Keras optimizers that a program was written for.

    Args:
        tensorflow: 1 or 2.
        old_optimizers: whether it relies on the Keras optimizers of TensorFlow 2.6.
    """

    tensorflow: int = 2
    old_optimizers: bool = False


OPTIMIZERS = "tensorflow.keras.optimizers"
LEGACY = "tensorflow.keras.optimizers.legacy"
LOSS_SCALE = "tensorflow.keras.mixed_precision.LossScaleOptimizer"
#: The class that can be derived from.
OLD_LOSS_SCALE = f"{KERAS_2}.src.mixed_precision.loss_scale_optimizer.LossScaleOptimizer"
#: The optimizers that both generations have.
CLASSES = ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "SGD")

# Attributes and arguments that only optimizers of the old generation have.
_ATTRIBUTES = frozenset(
    """_create_hypers _create_slots _decayed_lr _get_hyper _prepare_local _resource_apply_dense
    _resource_apply_sparse _set_hyper _resource_apply_sparse_duplicate_indices add_slot get_slot
    get_updates""".split()
)
# The same, where the name says that it is of an optimizer: models have these, too.
_OPTIMIZER_ATTRIBUTES = frozenset("get_gradients get_weights set_weights weights".split())
_ARGUMENTS = frozenset(("decay", "gradient_aggregator", "gradient_transformers", "lr"))
# Base classes of the old generation, by their last names: only programs for it use them.
_BASES = frozenset(("BaseOptimizerV2", "OptimizerV2"))
_EXPERIMENTAL = "tensorflow.keras.mixed_precision.experimental"

# Functions for graphs only, and functions that tell whether there are graphs.
_GRAPHS = frozenset(
    ("InteractiveSession", "Session", "global_variables_initializer", "placeholder")
)
_BEHAVIORS = frozenset(
    f"{verb}able_{what}" for verb in ("dis", "en") for what in ("eager_execution", "v2_behavior")
)

# Modules below `tensorflow` that are the same for TensorFlow 1 and 2: its code, and the subjects of
# the tables.
_SHARED = ("compat", "compiler", "contrib", "core", "examples", "pywrap_tensorflow", "python")


def of_program(trees: Iterable[ast.Module]) -> Generation:
    """Returns the generation of TensorFlow and Keras that a program was written for.

    Args:
        trees: of its files.
    """
    found = [(tree, bindings.uses(tree)) for tree in trees]
    is_1 = any(_is_tensorflow_1(uses) for _, uses in found)
    is_1 = is_1 or _relies_on_graphs([uses for _, uses in found])
    old = any(_has_old_optimizers(tree, uses) for tree, uses in found)
    return Generation(1 if is_1 else 2, old and not is_1)


def _names(uses: bindings.Uses) -> Iterable[str]:
    """Yields the full names that a file uses, unresolved."""
    for reference in uses.references:
        yield reference.name
    for statement in uses.imports:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        else:
            yield from (target for _, target in bindings.targets(statement))


def _is_tensorflow_1(uses: bindings.Uses) -> bool:
    """Returns whether a file uses a name of `tensorflow` that only TensorFlow 1 had."""
    for name in _names(uses):
        if is_below(name, contrib_names.ROOT):
            return True
        parts = name.split(".")
        if any(".".join(parts[:count]) in tensorflow1_names.NAMES for count in (2, 3)):
            return True
    return False


def _relies_on_graphs(program: Sequence[bindings.Uses]) -> bool:
    """Returns whether a program uses `tensorflow.compat.v1` without enabling its behavior.

    In TensorFlow 1.15, too, there is a module of that name. Programs for later releases say which
    behaviour they want, or import `tensorflow` besides.
    """
    version_1 = "tensorflow.compat.v1."
    names = {name for uses in program for name in _names(uses)}
    used = {name[len(version_1) :] for name in names if name.startswith(version_1)}
    return "tensorflow" not in names and bool(used & _GRAPHS) and not used & _BEHAVIORS


def _has_old_optimizers(tree: ast.Module, uses: bindings.Uses) -> bool:
    """Returns whether a file uses features of old optimizers only."""
    names = {id(reference.nodes[-1]): canonical(reference.name) for reference in uses.references}
    for name in _names(uses):
        if is_below(canonical(name), _EXPERIMENTAL) or name.rpartition(".")[2] in _BASES:
            return True
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if any(is_optimizer(names.get(id(base), "")) for base in node.bases):
                return True
        elif isinstance(node, ast.Call) and is_optimizer(names.get(id(node.func), "")):
            if any(keyword.arg in _ARGUMENTS for keyword in node.keywords):
                return True
        elif isinstance(node, ast.FunctionDef) and node.name in _ATTRIBUTES:
            return True
        elif isinstance(node, ast.Attribute) and _is_old_attribute(node):
            return True
    return False


def _is_old_attribute(node: ast.Attribute) -> bool:
    if node.attr in _ATTRIBUTES:
        return True
    owner = node.value
    name = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
    return node.attr in _OPTIMIZER_ATTRIBUTES and "opt" in str(name).lower()


def is_optimizer(name: str) -> bool:
    """Returns whether a full name is an optimizer with another class in Keras 2.15."""
    name = canonical(name)
    return name == LOSS_SCALE or old_optimizer(name) != name


def old_optimizer(name: str) -> str:
    """Returns the full name of the class of TensorFlow 2.6, or the name itself if it is unchanged.

    Args:
        name: full name.
    """
    name = canonical(name)
    if name == LOSS_SCALE:
        return OLD_LOSS_SCALE
    prefix, _, last = name.rpartition(".")
    return f"{LEGACY}.{last}" if prefix == OPTIMIZERS and last in CLASSES else name


def today(name: str, wanted: Generation) -> str:
    """Returns today's full name of a module that exists under another name without a row.

    Args:
        name: full name.
        wanted: the generation that the program was written for.
    """
    return of_keras_2(version_1(name) if wanted.tensorflow == 1 else name)


def version_1(name: str) -> str:
    """Returns the module of TensorFlow 2.15 for a module of TensorFlow 1.15.

    Args:
        name: full name, such as `tensorflow.keras.layers`.
    """
    parts = name.split(".")
    if parts[0] != "tensorflow" or (len(parts) > 1 and parts[1] in _SHARED):
        return name
    return ".".join(["tensorflow", "compat", "v1", *parts[1:]])
