"""JSON texts inside trace events, from the listing of a program."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tensorflow_ipu.util import op_names

if TYPE_CHECKING:
    import tensorflow as tf

# Roles of an op in training, as readers of the events number them.
_NONE, _FORWARD, _BACKWARD, _WEIGHT_UPDATE = range(4)

_ELEMENT_TYPES = {"float32": "float", "float16": "half", "int32": "int", "uint32": "unsigned int"}
_ALIASES = frozenset({"Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "Snapshot"})
_PRODUCTS = ("MatMul", "BatchMatMul", "Einsum", "Conv", "DepthwiseConv")
# Scope that `tf.gradients` gives to the gradient of an op, for any name of them all.
_GRADIENT_OF_OP = "_grad/"


class ListedArgument(Protocol):
    """The argument of a program as events describe it; `ArgumentSpec` is one."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def num_bytes(self) -> int | None:
        """Its size in bytes, `None` when unknown."""

    @property
    def shape(self) -> Any:
        """Its dimensions."""

    @property
    def is_variable(self) -> bool:
        """Whether it is a variable."""


class Traced(Protocol):
    """The program as events describe it; an `Executable` is one."""

    @property
    def id(self) -> str:
        """The engine's name for it."""

    @property
    def name(self) -> str:
        """The name that events give it."""

    @property
    def arguments(self) -> Sequence[ListedArgument]:
        """Its inputs and variables."""

    @property
    def results(self) -> Sequence[tf.TensorSpec]:
        """Its outputs."""

    @property
    def ops(self) -> Sequence[Any]:
        """Its ops as `OpRecord`."""

    def tile_counts(self, dtype: str, shape: tuple[int, ...]) -> Sequence[tuple[int, int]]:
        """Returns the tiles of a result of an op, each with its number of elements."""


class Outline(NamedTuple):
    """The program as the engine's events describe it, without anything that would keep it.

    Args:
        id: the engine's name for it.
        name: the name that events give it.
        arguments: its inputs and variables.
        results: its outputs.
        ops: none.
    """

    id: str
    name: str
    arguments: tuple[ListedArgument, ...] = ()
    results: tuple[Any, ...] = ()
    ops: tuple[Any, ...] = ()

    @classmethod
    def of(cls, program: Traced) -> Outline:
        """Returns the outline of a program."""
        return cls(program.id, program.name, tuple(program.arguments), tuple(program.results))

    @classmethod
    def unknown(cls, identifier: str) -> Outline:
        """Returns the outline of a program that was compiled for another configuration.

        Args:
            identifier: the engine's name for it: the events' name with a number.
        """
        return cls(identifier, identifier.rsplit(".", 1)[0])

    def tile_counts(self, dtype: str, shape: tuple[int, ...]) -> Sequence[tuple[int, int]]:
        """Returns nothing: it has no ops."""
        del dtype, shape
        return ()


def arguments(program: Traced, variables: bool) -> str:
    """Returns the description of a transfer to the device.

    Args:
        program: the program the data is for.
        variables: whether the variables are moved with the inputs, as when a program is loaded.

    Returns:
        JSON with each tensor's name, index among the arguments and bytes, and the total.
    """
    return _transfer(
        (argument.name, index, argument.num_bytes)
        for index, argument in enumerate(program.arguments)
        if variables or not argument.is_variable
    )


def results(program: Traced, variables: bool) -> str:
    """Returns the description of a transfer to the host.

    Args:
        program: the program the data comes from.
        variables: whether the variables are moved, or else the results.

    Returns:
        JSON with each tensor's name, index among the outputs and bytes, and the total. Variables
        are outputs too, after the results.
    """
    outputs = len(program.results)
    if variables:
        moved = [argument for argument in program.arguments if argument.is_variable]
        return _transfer((a.name, outputs + i, a.num_bytes) for i, a in enumerate(moved))
    return _transfer(
        (spec.name or f"output_{index}", index, _num_bytes(spec))
        for index, spec in enumerate(program.results)
    )


def tensor_map(program: Traced, max_bytes: int = 0) -> str:
    """Returns the tile mapping of the results of all ops.

    Args:
        program: a compiled program.
        max_bytes: how long the text may be. It has no tiles if it would be longer, and with 0.

    Returns:
        JSON with a list for each function, and in it for each result: op, output index, shape,
        element type, whether it is constant, whether it aliases another, element count, and the
        pairs of tile and elements.
    """
    if max_bytes:
        text = _tensor_map(program, program.tile_counts, max_bytes)
        if text is not None:
            return text
    return _tensor_map(program, lambda dtype, shape: (), None) or ""


TileCounts = Callable[[str, "tuple[int, ...]"], "Sequence[tuple[int, int]]"]


def _tensor_map(program: Traced, tile_counts: TileCounts, max_bytes: int | None) -> str | None:
    """Returns the text; None if it is too long. Equal tensors share their tiles' text."""
    pairs: dict[tuple[str, tuple[int, ...]], str] = {}
    mappings: dict[str, list[str]] = {}
    length = 0
    for record in program.ops:
        entries = mappings.setdefault(record.function, [])
        for index, output in enumerate(record.outputs):
            known = output.shape is not None and None not in output.shape
            key = (output.dtype, tuple(output.shape) if known else ())
            if known and key not in pairs:
                pairs[key] = json.dumps(list(tile_counts(*key)), separators=(",", ":"))
            entries.append(_map_entry(record, index, output, pairs[key] if known else "[]"))
            length += len(entries[-1]) + 2
        if max_bytes is not None and length > max_bytes:
            return None
    functions = (f"{json.dumps(name)}: [{', '.join(e)}]" for name, e in mappings.items())
    return f'{{"mappings": {{{", ".join(functions)}}}}}'


def _map_entry(record: Any, index: int, output: Any, pairs: str) -> str:
    """Returns the entry of a result, with the text of its pairs of tile and elements."""
    shape = list(output.shape or ())
    known = output.shape is not None and None not in shape
    facts = [
        record.name,
        index,
        shape,
        _ELEMENT_TYPES.get(output.dtype, output.dtype),
        record.type == "Const",
        record.type in _ALIASES,
        math.prod(shape) if known else 0,
    ]
    return f"{json.dumps(facts)[:-1]}, {pairs}]"


def instruction_info(program: Traced) -> str:
    """Returns the role of each op in training.

    Args:
        program: a compiled program.

    Returns:
        JSON with a number for each op, 0 none, 1 forward, 2 backward (data), 3 weight update. Only
        matrix products, convolutions and updates of variables have a role. Names of ops in loops,
        branches and calls begin with their function's name.
    """
    weights = {tuple(a.shape) for a in program.arguments if a.is_variable}
    return json.dumps(
        {
            "ml_types": {
                (f"{record.function}/" if record.depth else "") + record.name: _role(
                    record, weights
                )
                for record in program.ops
            }
        }
    )


def _role(record: Any, weights: set[tuple[int | None, ...]]) -> int:
    """Returns the role of an op: a gradient's product with a weight's shape is a weight update."""
    if op_names.is_optimizer_update(record.type):
        return _WEIGHT_UPDATE
    if not record.type.startswith(_PRODUCTS):
        return _NONE
    if "BackpropFilter" in record.type:
        return _WEIGHT_UPDATE
    if not op_names.is_backward(record.name) and _GRADIENT_OF_OP not in record.name:
        return _FORWARD
    return _WEIGHT_UPDATE if record.outputs[0].shape in weights else _BACKWARD


def _num_bytes(spec: tf.TensorSpec) -> int | None:
    """Returns the size of a result."""
    count = spec.shape.num_elements()
    return None if count is None else int(count) * spec.dtype.size


def _transfer(tensors: Iterable[tuple[str, int, int | None]]) -> str:
    """Returns the text of one transfer, given as (name, index, bytes)."""
    listed, total = [], 0
    for name, index, size in tensors:
        entry = {"name": name, "parameter_index": index, "flat_tensor_index": 0, "size": size or 0}
        listed.append(entry)
        total += size or 0
    return json.dumps({"tensors": listed, "total_size": total})
