"""Variables, constants and inputs of graphs; the modules `popxl.tensor` and `popxl.typing_`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.logs import Logger
from tensorflow_ipu.frontends.popxl import context, dtypes, utils
from tensorflow_ipu.frontends.popxl.core import tensor_ops
from tensorflow_ipu.frontends.popxl.core.kinds import ir_method
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.core.tensor_ops import HostScalarTensor, HostTensor, ScalarType
from tensorflow_ipu.frontends.popxl.ir import Constant, Tensor, TensorLike, Variable
from tensorflow_ipu.frontends.popxl.replica_grouping import (
    HostLayout,
    ReplicaGrouping,
    check_retrieval_mode,
)

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.ir import Graph

__all__ = [
    "Constant",
    "HostScalarTensor",
    "HostTensor",
    "NewAliasAnnotation",
    "ScalarType",
    "Tensor",
    "TensorByRef",
    "TensorLike",
    "TensorSpec",
    "Variable",
    "constant",
    "graph_input",
    "graph_output",
    "variable",
]


class NewAliasAnnotation:
    """An annotation that stands for a type, and is an object of its own."""

    def __init__(self, name: str, tp: Any) -> None:
        """Makes an annotation.

        Args:
            name: its name.
            tp: the type that it stands for.
        """
        self.__name__ = name
        self.__supertype__ = tp

    def __repr__(self) -> str:
        return self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuses calls.

        Args:
            *args: anything.
            **kwargs: anything.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{self.__name__} should only be used as an annotation.")


def constant(
    data: HostTensor | float | int,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Constant:
    """Makes a constant of the current graph.

    Args:
        data: the value.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN (default).

    Raises:
        TypeError: If the data are codes of 8-bit floats and `dtype` is not given.
    """
    if dtype is None and getattr(getattr(data, "dtype", None), "names", None):
        raise TypeError(
            "For data of 8-bit floats explicitly set the data type: dtype=popxl.float8_143 or "
            "popxl.float8_152."
        )
    array = utils.to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    made: Constant = _add_tensor(context.get_current_graph(), Constant, array, name)
    return made


@ir_method()
def as_tensor(value: Any, dtype: dtypes.DTypeLike | None = None) -> Tensor:
    """Returns a tensor for an operand: itself, or a constant of the current graph.

    Args:
        value: a tensor, a number or an array.
        dtype: the type of the constant; that of the value by default.

    Raises:
        ValueError: If the value has no elements.
    """
    if isinstance(value, Tensor):
        return value
    array = utils.to_numpy(value, dtype)
    if array.size == 0:
        raise ValueError(f"The value has 0 elements. Received: {value!r}")
    return constant(array, dtype)


@ir_method()
def operand_for(tensor: Tensor, value: Any) -> Tensor:
    """Returns the other operand. A number or array becomes a constant of the same type.

    Args:
        tensor: the operand that is a tensor.
        value: the other one.

    Raises:
        ValueError: If the value has no elements.
    """
    return as_tensor(value, tensor.dtype)


def _add_tensor(
    graph: Graph,
    cls: type[Tensor],
    array: np.ndarray,
    name: str | None,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """Adds a tensor with data of the host to a graph.

    Args:
        graph: the graph.
        cls: `Variable` or `Constant`.
        array: the data.
        name: name of the tensor.
        shape: its shape; that of the data by default.

    Returns:
        The tensor.
    """
    shape = array.shape if shape is None else shape
    spec = TensorSpec(shape, dtypes.dtype.as_dtype(array.dtype))
    tensor: Any = cls.create(graph, graph.new_id(name), spec)
    tensor.data = array
    return graph.add_tensor(tensor)


#: The annotation of an argument that a graph takes by reference.
TensorByRef = NewAliasAnnotation("popxl.TensorByRef", Tensor)


def graph_input(
    shape: Iterable[int],
    dtype: dtypes.DTypeLike,
    name: str | None = None,
    by_ref: bool = False,
    meta_shape: Iterable[int] | None = None,
) -> Tensor:
    """Adds an input to the current graph.

    Args:
        shape: its shape.
        dtype: type of its elements.
        name: its name.
        by_ref: whether what the graph writes into it changes the tensor that is passed in.
        meta_shape: for a shard, the shape of the whole.

    Returns:
        The input.
    """
    graph = context.get_current_graph()
    spec = TensorSpec(tuple(shape), dtypes.of_device(dtype), tuple(meta_shape or ()))
    tensor = graph.new_tensor(name, spec)
    tensor.by_ref = by_ref
    return graph.add_input(tensor)


def graph_output(t: Tensor) -> None:
    """Makes a tensor the next output of the current graph.

    Args:
        t: the tensor.

    Raises:
        ValueError: If it is in another graph, or an output already.
    """
    context.get_current_graph().add_output(t)


def variable(
    data: HostTensor | float | int,
    dtype: dtypes.DTypeLike | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Any = None,
    retrieval_mode: str | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Makes a variable of the main graph, which has to be the current graph.

    Args:
        data: the initial value, copied unless it is a `numpy.memmap`, and its groups are at equal
            distances. If there are several groups,
            those of all groups, along a first dimension.
        dtype: type of the elements; that of the data by default.
        name: its name.
        downcast: whether data of 64 bits becomes data of 32 bits.
        replica_grouping: which replicas have the same value; all by default.
        retrieval_mode: whose values come to the host: "one_per_group" (default) or
            "all_replicas".
        log2_scale: for 8-bit floats only: the data is multiplied by 2 to this power.
        nan_on_overflow: for 8-bit floats only: whether what is too large becomes NaN (default).

    Raises:
        ValueError: If the current graph is not the main graph, the retrieval mode is unknown, or
            the grouping does not fit the replicas.
        popart.popart_exception: If there are several groups, and the data is not that of each.
    """
    graph = context.get_current_graph()
    if graph is not graph.main_graph:
        raise ValueError(
            "You cannot initialise a variable tensor within a graph other than the main graph. "
            f"The current graph is {graph.id}: make the variable in `with ir.main_graph:`, and "
            "pass it to the graph as an input."
        )
    mode = check_retrieval_mode(retrieval_mode)
    grouping = _grouping(graph, replica_grouping)
    array = _initial_value(data, dtype, downcast, log2_scale, nan_on_overflow)
    shape = _shape_on_replica(array, grouping)
    if isinstance(array, np.memmap) and not grouping.is_const:
        array = np.array(array)
        Logger("ir").warn(
            "For a variable you have passed np.memmap data and a non-const replica grouping. The "
            "data is copied: it has another order on the device."
        )
    made: Variable = _add_tensor(graph, Variable, array, name, shape)
    made.start_on_host(HostLayout(shape, grouping, mode))
    return made


def _initial_value(
    data: Any,
    dtype: dtypes.DTypeLike | None,
    downcast: bool,
    log2_scale: int | None,
    nan_on_overflow: bool | None,
) -> np.ndarray:
    """Returns the data of a variable as an array of its own.

    A process that only plans keeps the user's array, or an abstract one of another type.
    """
    arguments = (dtype, downcast, not abstract_arrays.plans_only(), log2_scale, nan_on_overflow)
    if not abstract_arrays.plans_only() or not isinstance(data, np.ndarray) or data.size < 2:
        return utils.to_numpy(data, *arguments)
    # One element shows the type that all have.
    kind = utils.to_numpy(data[(slice(1),) * data.ndim], *arguments).dtype
    if kind == data.dtype and data.flags.c_contiguous:
        return data
    return abstract_arrays.make(data.shape, kind)


def _grouping(graph: Graph, grouping: ReplicaGrouping | None) -> ReplicaGrouping:
    """Returns the grouping of a variable, checked."""
    if grouping is None:
        return graph.ir.replica_grouping()
    if grouping.num_replicas != graph.ir.replication_factor:
        raise ValueError(
            f"{grouping!r} is for {grouping.num_replicas} replicas, and the Ir has "
            f"{graph.ir.replication_factor}. Set ir.replication_factor before making groupings."
        )
    grouping.const_rg.check_usable()
    return grouping


def _shape_on_replica(array: np.ndarray, grouping: ReplicaGrouping) -> tuple[int, ...]:
    """Returns the shape of a variable, of which the host has a value for each group."""
    if grouping.num_groups == 1:
        return array.shape
    if not array.ndim:
        raise popart_exception(
            f"Data for {grouping.num_groups} groups of replicas should have at least one "
            "dimension. Received: a scalar"
        )
    if len(array) != grouping.num_groups:
        raise popart_exception(
            "The first dimension of the data should match numGroups, the number of groups of "
            f"replicas: {grouping.num_groups}. Received: shape={array.shape}"
        )
    return array.shape[1:]


def __getattr__(name: str) -> Any:
    # Importing torch takes seconds, so only who asks for its class waits for it.
    if name == "host_tensor_types":
        return tensor_ops.host_tensor_types()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
