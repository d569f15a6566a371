"""Arguments of the steps of an exported model: names, types and shapes."""

from __future__ import annotations

import dataclasses
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager.polymorphic_function.concrete_function import ConcreteFunction
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.util import nest


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of a step: names, types and shapes.

    Attributes:
        structure: Nest of `tf.TensorSpec`: a tuple of positional, or a dict of keyword arguments.
        specs: The same in one list, each with a name that no other has.
    """

    structure: Any
    specs: tuple[tensor_lib.TensorSpec, ...]

    @classmethod
    def of(cls, structure: Any, parameters: Sequence[str] = ()) -> Arguments:
        """Creates arguments from a signature, a dataset's element or another step's results.

        Args:
            structure: specs or tensors: a list or tuple of positional arguments, a dict of keyword
                arguments, or one value.
            parameters: names of the step's positional parameters.
        """
        if not isinstance(structure, (list, tuple, Mapping)) or hasattr(structure, "_fields"):
            structure = (structure,)
        if isinstance(structure, Mapping):
            structure = dict(structure)
            named = list(structure.items())
        else:
            structure = tuple(structure)
            named = [
                (parameters[index] if index < len(parameters) else f"input_{index}", value)
                for index, value in enumerate(structure)
            ]
        # In the order of the nest: for dicts, of their keys.
        named = sorted(named) if isinstance(structure, dict) else named
        specs = _named_specs([leaf for name, value in named for leaf in _leaves(name, value)])
        return cls(nest.pack_sequence_as(structure, specs), tuple(specs))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tensors."""
        return tuple(str(spec.name) for spec in self.specs)

    def pack(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns flat tensors as positional and keyword arguments."""
        packed = nest.pack_sequence_as(self.structure, list(tensors))
        return ((), packed) if isinstance(packed, dict) else (packed, {})

    def flatten(self, results: Any, role: str) -> list[Any]:
        """Returns the results of the step before, in the order of `specs`.

        Args:
            results: a nest of tensors: a list or tuple goes to positional arguments, a dict to
                arguments by name.
            role: both steps in words, for the message.

        Raises:
            ValueError: If the tensors do not match the arguments.
        """
        flat = nest.flatten(results)
        if isinstance(results, Mapping) and set(results) == set(self.names):
            flat = [results[name] for name in self.names]
        if len(flat) != len(self.specs) or not all(map(_fits, flat, self.specs)):
            raise ValueError(
                f"{role} must fit together. The second takes {_describe(self.specs)}. Received "
                f"from the first: {_describe(flat)}"
            )
        return flat


def resolve(
    role: str,
    step: Callable[..., Any],
    signature: Any,
    dataset: Any = None,
    skip: int = 0,
) -> Arguments | None:
    """Returns the arguments of a step, from the only source that describes them.

    Args:
        role: name of the step, such as "predict_step".
        step: the function.
        signature: its signature from the user, or None.
        dataset: a dataset with elements like its inputs, or None.
        skip: number of the step's first arguments that are given otherwise.

    Returns:
        The arguments, or None if there is no source.

    Raises:
        TypeError: If a source is of another type.
        ValueError: If there is more than one, or it is empty.
    """
    sources: dict[str, Any] = {}
    own = _own_signature(step)
    if own is not None:
        sources[f"the input_signature of the tf.function {role}"] = (
            own if isinstance(own, dict) else own[skip:]
        )
    if signature is not None:
        sources[f"{role}_signature"] = _checked(role, signature)
    if dataset is not None:
        if not isinstance(dataset, dataset_ops.DatasetV2):
            raise TypeError(f"input_dataset must be a tf.data.Dataset. Received: {dataset!r}")
        sources["input_dataset"] = dataset.element_spec
    if len(sources) > 1:
        raise ValueError(
            f"The input signature of {role} must come from exactly one source. Received: "
            f"{' and '.join(sources)}. Leave out all but one."
        )
    return next((Arguments.of(v, _parameters(step)[skip:]) for v in sources.values()), None)


def required(role: str, found: Arguments | None) -> Arguments:
    """Returns arguments, after a check that there are any.

    Raises:
        ValueError: If there are none.
    """
    if found is not None and found.specs:
        return found
    problem = "is empty" if found is not None else "is not known"
    raise ValueError(
        f"The input signature of {role} {problem}. Pass exactly one of: a tf.function with an "
        f"input_signature, {role}_signature, input_dataset."
    )


def _own_signature(step: Any) -> Any:
    """Returns the signature that a `tf.function` was made with; None if it has none."""
    if isinstance(step, Function):
        return step.input_signature
    if isinstance(step, ConcreteFunction):
        positional, named = step.structured_input_signature
        return positional if positional or not named else named
    return None


def _checked(role: str, signature: Any) -> Any:
    """Returns a signature that a user passed."""
    if not isinstance(signature, (list, tuple)) or not all(
        isinstance(spec, tensor_lib.TensorSpec) for spec in signature
    ):
        raise TypeError(
            f"{role}_signature must be a list or tuple of tf.TensorSpec, one for each argument of "
            f"{role}. Received: {signature!r}"
        )
    if not signature:
        raise ValueError(
            f"{role}_signature must not be empty: a model that takes nothing cannot be served."
        )
    return signature


def _parameters(step: Any) -> list[str]:
    """Returns the names of the positional parameters of a step."""
    try:
        parameters = inspect.signature(getattr(step, "python_function", step)).parameters
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, parameter in parameters.items() if parameter.kind in kinds]


def _leaves(name: str, value: Any) -> list[tuple[str, Any]]:
    """Returns the tensors of one argument, with names."""
    leaves = nest.flatten(value)
    single = len(leaves) == 1
    named = [name if single else f"{name}_{index}" for index in range(len(leaves))]
    if isinstance(value, Mapping):
        named = [str(key) for key in sorted(value)] if len(value) == len(leaves) else named
    return list(zip(named, leaves))


def _named_specs(leaves: Sequence[tuple[str, Any]]) -> list[tensor_lib.TensorSpec]:
    """Returns specs with names that are unique and valid for Python parameters."""
    used: set[str] = set()
    specs = []
    for name, leaf in leaves:
        given = getattr(leaf, "name", None) if isinstance(leaf, tensor_lib.TensorSpec) else None
        wanted = re.sub(r"\W", "_", given or name)
        if not wanted.isidentifier() or keyword.iskeyword(wanted):
            wanted = f"input_{wanted}"
        unique, number = wanted, 0
        while unique in used:
            number += 1
            unique = f"{wanted}_{number}"
        used.add(unique)
        specs.append(tensor_lib.TensorSpec(leaf.shape, leaf.dtype, unique))
    return specs


def _fits(tensor: Any, spec: tensor_lib.TensorSpec) -> bool:
    return bool(tensor.dtype == spec.dtype and tensor.shape.is_compatible_with(spec.shape))


def _describe(tensors: Sequence[Any]) -> str:
    described = [f"{tensor.dtype.name}{tensor.shape}" for tensor in tensors]
    return ", ".join(described) or "nothing"
