"""Cost of an op: tensors and resources, cycles and bytes, partition, and the rule of a type."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.label import Label, worst
from tensorflow_ipu.costs.releases import CURRENT, Release

# --- Tensors, resources and cost ---


class Partition(NamedTuple):
    """Division of an op over the tiles of an IPU.

    Args:
        parts: in how many parts each dimension is, by name, such as `(("rows", 24), ("columns", 1),
            ("indices", 50))`.
        serial: parts that are done one after the other because memory is short.
        partials: element type of partial sums; empty if the op has none.
    """

    parts: tuple[tuple[str, int], ...]
    serial: int = 1
    partials: str = ""

    @property
    def tiles(self) -> int:
        """Tiles that take part."""
        return math.prod(count for _, count in self.parts)

    def __str__(self) -> str:
        """Returns the divided dimensions, such as `rows 24, indices 50; partials float32`."""
        divided = ", ".join(f"{name} {count}" for name, count in self.parts if count > 1)
        serial = f"{self.serial} serial parts" if self.serial > 1 else ""
        partials = f"partials {self.partials}" if self.partials else ""
        return "; ".join(text for text in (divided or "1 tile", serial, partials) if text)


# Bytes of an element in the chip's memory. 64-bit integers and floats exist on the host only, but
# programs may hold them, so they count what they are; strings and handles take no room.
_SIZES = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8", "float8_e4m3fn"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}


class UnknownCostError(ValueError):
    """Error of a rule that cannot price an op.

    The op has other operands, shapes, attributes or options than its rule knows. A shape of unknown
    rank looks like that of a single number, so this happens to ops of any type.
    """


class TensorType(NamedTuple):
    """Type and shape of a tensor.

    Args:
        dtype: name of the element type, such as `float16`.
        shape: dimensions; unknown ones count as 1 and make a cost `assumed`.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def element_size(self) -> int:
        """Bytes of one element, 0 for handles and strings."""
        return _SIZES.get(self.dtype, 0)

    @property
    def num_bytes(self) -> int:
        """Size in bytes."""
        return self.elements * self.element_size

    def dimension(self, axis: int) -> int:
        """Returns the length of a dimension.

        Args:
            axis: number of the dimension, counted from the end if negative.

        Raises:
            UnknownCostError: the shape has no such dimension.
        """
        if not -len(self.shape) <= axis < len(self.shape):
            raise UnknownCostError(f"Expected a dimension {axis}; received the shape {self.shape}.")
        return self.shape[axis]

    def dimensions(self, rank: int) -> tuple[int, ...]:
        """Returns the shape, after a check of its number of dimensions.

        Args:
            rank: number of dimensions.

        Raises:
            UnknownCostError: the shape has another number of dimensions.
        """
        if len(self.shape) != rank:
            raise UnknownCostError(f"Expected {rank} dimensions; received the shape {self.shape}.")
        return self.shape


class OpSpec(NamedTuple):
    """The facts of an op that its cost depends on.

    Args:
        type: op type of TensorFlow, such as `Conv2D`.
        inputs: its data inputs; a variable's handle stands as the variable's type and shape.
        outputs: its results.
        attributes: the op's attributes that are numbers, texts, booleans or lists of them.
    """

    type: str
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    attributes: Mapping[str, Any]

    def input(self, index: int) -> TensorType:
        """Returns a data input.

        Args:
            index: number of the input, counted from the end if negative.

        Raises:
            UnknownCostError: the op has no such input.
        """
        return _item(self.inputs, index, f"{self.type}: expected an input")

    def output(self, index: int = 0) -> TensorType:
        """Returns a result.

        Args:
            index: number of the result, counted from the end if negative.

        Raises:
            UnknownCostError: the op has no such result.
        """
        return _item(self.outputs, index, f"{self.type}: expected a result")

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Returns an attribute that is a list of integers; None if the op does not have it.

        Args:
            name: name of the attribute.

        Raises:
            UnknownCostError: the attribute is something else.
        """
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, (tuple, list)) or not all(isinstance(i, int) for i in value):
            raise UnknownCostError(
                f"{self.type}: expected {name} to be a list of integers; received {value!r}."
            )
        return tuple(value)

    def integer(self, name: str, default: int) -> int:
        """Returns an attribute that is an integer.

        Args:
            name: name of the attribute.
            default: what the attribute is if the op does not have it.

        Raises:
            UnknownCostError: the attribute is something else.
        """
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise UnknownCostError(
                f"{self.type}: expected {name} to be an integer; received {value!r}."
            )
        return value


def _item(tensors: tuple[TensorType, ...], index: int, expected: str) -> TensorType:
    """Returns one of some tensors."""
    if not -len(tensors) <= index < len(tensors):
        raise UnknownCostError(f"{expected} {index}; received {len(tensors)}.")
    return tensors[index]


@dataclasses.dataclass(frozen=True)
class Resources:
    """Chip, tiles and options available to the op.

    Attributes:
        chip: The chip.
        tiles: Tiles that compute, at most those of the chip.
        memory_proportion: Part of a tile's memory that temporaries of the op should not exceed
            (`availableMemoryProportion`).
        partials: Type of sums of float16 products, `float16` or `float32`.
        replicas: Copies of the program, for collectives.
        release: Release of the SDK that compiles the program.
        allocated: Whether operands have the layout that the library allocates for the op.
    """

    chip: Chip
    tiles: int
    memory_proportion: float = 0.6
    partials: str = "float32"
    replicas: int = 1
    release: Release = CURRENT
    allocated: bool = True


@dataclasses.dataclass(frozen=True)
class Cost:
    """Cycles, memory and code that one execution of an op takes on one IPU.

    Attributes:
        compute: Cycles of the slowest tile in its workers.
        exchange: Cycles of exchange between tiles.
        sync: Cycles of synchronization.
        temporary: Bytes on the fullest tile that are needed only while the op runs, besides inputs
            and results.
        codelets: Names of the vertex types it uses; their code is on a tile once, however many
            ops use them.
        vertex_state: Bytes of vertex descriptions per tile.
        exchange_code: Bytes of exchange code per tile.
        label: How far the cycles can be trusted.
        partition: How it is divided over the tiles, where that was chosen; of several steps that of
            the longest one.
    """

    compute: float = 0.0
    exchange: float = 0.0
    sync: float = 0.0
    temporary: int = 0
    codelets: tuple[str, ...] = ()
    vertex_state: int = 0
    exchange_code: int = 0
    label: Label = Label.MODELLED
    partition: Partition | None = None

    @property
    def cycles(self) -> float:
        """All cycles together."""
        return self.compute + self.exchange + self.sync

    def __add__(self, other: Cost) -> Cost:
        """Returns the cost of one after the other."""
        longest = max((self, other), key=lambda cost: (cost.partition is not None, cost.cycles))
        return Cost(
            self.compute + other.compute,
            self.exchange + other.exchange,
            self.sync + other.sync,
            max(self.temporary, other.temporary),
            tuple(dict.fromkeys(self.codelets + other.codelets)),
            self.vertex_state + other.vertex_state,
            self.exchange_code + other.exchange_code,
            worst((self.label, other.label)),
            longest.partition,
        )

    def times(self, count: int) -> Cost:
        """Returns the cost of several executions in a row, which share code and state."""
        return dataclasses.replace(
            self,
            compute=self.compute * count,
            exchange=self.exchange * count,
            sync=self.sync * count,
        )


FREE = Cost(label=Label.EXACT)


# --- Memory bound ---

# The least part of a tile's memory that temporaries can be bound to.
_LEAST_PROPORTION = 1 / 64


def memory_bound(resources: Resources) -> float:
    """Returns the bytes of a tile that temporaries of an op should not exceed.

    Proportion x bytes per tile (`availableMemoryProportion`). Source: poplibs.

    Args:
        resources: what the op has at its disposal.

    Raises:
        UnknownCostError: the proportion is negative.
    """
    if not resources.memory_proportion >= 0:
        raise UnknownCostError(
            f"Expected a memory proportion of 0 or more, such as 0.6; received "
            f"{resources.memory_proportion}."
        )
    proportion = max(resources.memory_proportion, _LEAST_PROPORTION)
    return proportion * resources.chip.memory_per_tile


# --- Rule ---


class Rule(NamedTuple):
    """Rule that prices op types.

    Args:
        cost: gives it; pure. Raises `UnknownCostError`, and nothing else, for an op whose operands,
            shapes, attributes or options it does not know.
        reads: attributes that it reads: no others may change it.
    """

    cost: Callable[[OpSpec, Resources], Cost]
    reads: tuple[str, ...] = ()


def rules(
    cost: Callable[[OpSpec, Resources], Cost], types: str, reads: str = ""
) -> dict[str, Rule]:
    """Returns the same rule for several op types.

    Args:
        cost: gives the cost.
        types: op types, separated by blanks.
        reads: attributes that it reads, separated by blanks.
    """
    return dict.fromkeys(types.split(), Rule(cost, tuple(reads.split())))


def largest(tensors: Sequence[TensorType]) -> TensorType:
    """Returns the tensor with the most elements.

    Args:
        tensors: inputs or results of an op.

    Raises:
        UnknownCostError: there is none.
    """
    if not tensors:
        raise UnknownCostError("Expected one or more tensors; received none.")
    return max(tensors, key=lambda tensor: tensor.elements)
