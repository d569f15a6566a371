"""`Tensor`, `Variable` and `Constant`: the module `popxl.tensor`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Union

import numpy as np

from tensorflow_ipu.frontends.popxl import context, dtypes, utils
from tensorflow_ipu.frontends.popxl.core.host_layout import HostLayout, check_retrieval_mode
from tensorflow_ipu.frontends.popxl.core.kinds import function
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import UndefinedValue, popart_exception
from tensorflow_ipu.frontends.popxl.replica_grouping import ReplicaGrouping

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.core.views import View
    from tensorflow_ipu.frontends.popxl.graph import Graph
    from tensorflow_ipu.frontends.popxl.ir import Ir
    from tensorflow_ipu.frontends.popxl.remote_buffers import RemoteBuffer

ScalarType = Union[int, float, bool]
HostTensor = Union[np.ndarray, Iterable[ScalarType]]
HostScalarTensor = Union[ScalarType, HostTensor]


class Tensor:
    """A value of a graph: what an op makes of other tensors, or an input.

    `==` asks whether two are the same tensor; the elements are compared by `ops.equal`. The other
    operators are ops: `+ - * / % ** @ & | ~`, and `[]`.

    Attributes:
        graph: The graph that it is in.
        producer: The op that makes it; None for variables, constants and inputs.
        consumers: The ops that take it.
        sources: The tensors whose storage it shares.
        view: How it shares that.
        by_ref: Whether it is an input of a graph that is passed by reference.
    """

    # Arrays of NumPy leave their operators to tensors.
    __array_ufunc__ = None

    graph: Graph
    producer: Op | None
    consumers: list[Op]
    sources: tuple[Tensor, ...]
    view: View | None
    by_ref: bool
    _id: str
    _spec: TensorSpec

    def __init__(self) -> None:
        raise RuntimeError(
            f"{type(self).__name__} cannot be constructed directly. Use popxl.variable, "
            "popxl.constant, popxl.graph_input or an op of popxl.ops."
        )

    @classmethod
    def create(cls, graph: Graph, id: str, spec: TensorSpec, producer: Op | None = None) -> Any:  # noqa: A002
        """Makes a tensor; for this package only.

        Args:
            graph: the graph that it is in.
            id: its id, unique in the Ir.
            spec: its shape and type.
            producer: the op that makes it.
        """
        tensor = object.__new__(cls)
        tensor.graph = graph
        tensor.producer = producer
        tensor.consumers = []
        tensor.sources = ()
        tensor.view = None
        tensor.by_ref = False
        tensor._id = id
        tensor._spec = spec
        return tensor

    def go_to(self, graph: Graph) -> None:
        """Puts it into another graph of the Ir, with the op that makes it; for transforms.

        Args:
            graph: the other graph.
        """
        name = self.name
        self.graph.remove_tensor(self)
        self.graph = graph
        self._id = graph.unique_id(f"{graph.id}/{name}")
        graph.add_tensor(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.id} {self.dtype} {self.shape}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tensor) and self.id == other.id and self.ir is other.ir

    def __hash__(self) -> int:
        return hash((self.id, self.ir.id))

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} is not iterable. Split it with ops.split.")

    def __contains__(self, value: Any) -> NoReturn:
        raise TypeError(f"`in` is not supported for {self!r}: its elements are not known yet.")

    def __len__(self) -> int:
        if not self.shape:
            raise ValueError("A scalar doesn't have a length.")
        return self.shape[0]

    @property
    def id(self) -> str:
        """Its name in the Ir: graph, name scopes and name, separated by `/`."""
        return self._id

    @property
    def name(self) -> str:
        """Its id without the graph."""
        return self._id.removeprefix(self.scope + "/") if self.scope else self._id

    @property
    def scope(self) -> str:
        """The graph in its id; empty in the main graph."""
        return self.graph.id

    @property
    def spec(self) -> TensorSpec:
        """Shape and type."""
        return self._spec

    @property
    def dtype(self) -> dtypes.dtype:
        """Type of the elements."""
        return self._spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._spec.shape

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """For a shard, the shape of the whole; else empty."""
        return self._spec.meta_shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self._spec.rank

    @property
    def nelms(self) -> int:
        """Number of elements."""
        return self._spec.nelms

    @property
    def ir(self) -> Ir:
        """The Ir of its graph."""
        return self.graph.ir

    @property
    def ipu(self) -> int:
        """The IPU that it is on.

        Raises:
            popxl.errors.UndefinedValue: If nothing says where it is.
        """
        if self.producer is not None:
            return self.producer.ipus[self.producer.outputs.index(self)]
        for op in self._placing_ops():
            return op.source_ipu
        raise UndefinedValue(f"IPU is undefined for {self!r}: no op makes or takes it.")

    @property
    def tile_set(self) -> str:
        """The tiles that it is on: "compute" or "io".

        Raises:
            popxl.errors.UndefinedValue: If nothing says where it is.
        """
        for op in self._placing_ops():
            return op.tile_set
        raise UndefinedValue(f"tile set is undefined for {self!r}: no op makes or takes it.")

    def _placing_ops(self) -> list[Op]:
        """The ops that say where the tensor is, the most important first."""
        if self.producer is not None:
            return [self.producer]
        position = next((i for i, t in enumerate(self.graph.inputs) if t is self), None)
        sites = self.graph.call_sites if position is not None else ()
        return [*sites, *self.consumers]

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy equals what is on the device: always, but for variables."""
        return True

    @property
    def location_info(self) -> Any:
        """Where the tensor is stored."""
        return ("on_chip", False)

    def strides(self, shape: Sequence[int] | None = None) -> list[int]:
        """Returns the bytes from one index to the next along each axis, in C order.

        Args:
            shape: a shape to take in place of that of the tensor.
        """
        dims = self.shape if shape is None else tuple(shape)
        steps = [self.dtype.itemsize]
        for dim in reversed(dims[1:]):
            steps.insert(0, steps[0] * dim)
        return steps[: len(dims)]

    @property
    def T(self) -> Tensor:  # noqa: N802
        """The tensor with its axes reversed."""
        return function("transpose")(self)

    @property
    def T_(self) -> Tensor:  # noqa: N802
        """The same as a view."""
        return function("transpose_")(self)

    def transpose(self, permutation: Iterable[int] | None = None) -> Tensor:
        """Returns it with its axes in another order; see `ops.transpose`."""
        return function("transpose")(self, permutation)

    def transpose_(self, permutation: Iterable[int] | None = None) -> Tensor:
        """Returns a view of it with its axes in another order; see `ops.transpose_`."""
        return function("transpose_")(self, permutation)

    def reshape(self, shape: Sequence[int]) -> Tensor:
        """Returns it in another shape; see `ops.reshape`."""
        return function("reshape")(self, shape)

    def reshape_(self, shape: Sequence[int]) -> Tensor:
        """Returns a view of it in another shape; see `ops.reshape_`."""
        return function("reshape_")(self, shape)

    def flatten(self) -> Tensor:
        """Returns it with one dimension; see `ops.flatten`."""
        return function("flatten")(self)

    def flatten_(self) -> Tensor:
        """Returns a view of it with one dimension; see `ops.flatten_`."""
        return function("flatten_")(self)

    def detach(self) -> Tensor:
        """Returns it without a gradient; see `ops.detach`."""
        return function("detach")(self)

    def detach_(self) -> Tensor:
        """Returns a view of it without a gradient; see `ops.detach_`."""
        return function("detach_")(self)

    def diag(self) -> Tensor:
        """Returns the diagonal of a matrix.

        Raises:
            ValueError: If it is no matrix.
        """
        if self.rank != 2:
            raise ValueError(f"Diag expected a 2d tensor. Received: shape={self.shape}")
        rows, columns = self.shape
        last = (min(rows, columns) - 1) * (columns + 1)
        return function("item")(function("flatten")(self), slice(0, last + 1, columns + 1))

    def copy_to_ipu(self, destination: int, source: int | None = None) -> Tensor:
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)

    def _operand(self, value: Any) -> Tensor:
        """Returns the other operand: what is no tensor becomes a constant of the same type."""
        return as_tensor(value, self.dtype)

    def __add__(self, other: TensorLike) -> Tensor:
        return function("add")(self, self._operand(other))

    def __radd__(self, other: TensorLike) -> Tensor:
        return function("add")(self._operand(other), self)

    def __iadd__(self, other: TensorLike) -> Tensor:
        function("add_")(self, self._operand(other))
        return self

    def __sub__(self, other: TensorLike) -> Tensor:
        return function("sub")(self, self._operand(other))

    def __rsub__(self, other: TensorLike) -> Tensor:
        return function("sub")(self._operand(other), self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return function("mul")(self, self._operand(other))

    def __rmul__(self, other: TensorLike) -> Tensor:
        return function("mul")(self._operand(other), self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return function("div")(self, self._operand(other))

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return function("div")(self._operand(other), self)

    def __mod__(self, other: TensorLike) -> Tensor:
        return function("fmod")(self, self._operand(other))

    def __rmod__(self, other: TensorLike) -> Tensor:
        return function("fmod")(self._operand(other), self)

    def __pow__(self, other: TensorLike) -> Tensor:
        return function("pow")(self, as_tensor(other))

    def __rpow__(self, other: TensorLike) -> Tensor:
        return function("pow")(as_tensor(other), self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return function("matmul")(self, self._operand(other))

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return function("matmul")(self._operand(other), self)

    def __and__(self, other: TensorLike) -> Tensor:
        return function("logical_and")(self, self._operand(other))

    def __rand__(self, other: TensorLike) -> Tensor:
        return function("logical_and")(self._operand(other), self)

    def __or__(self, other: TensorLike) -> Tensor:
        return function("logical_or")(self, self._operand(other))

    def __ror__(self, other: TensorLike) -> Tensor:
        return function("logical_or")(self._operand(other), self)

    def __neg__(self) -> Tensor:
        return function("negate")(self)

    def __invert__(self) -> Tensor:
        return function("logical_not")(self)

    def __getitem__(self, key: Any) -> Tensor:
        return function("item")(self, key)


class Variable(Tensor):
    """A tensor of the main graph that keeps its value from run to run.

    Attributes:
        data: The host's copy of the value.
        stale: Whether the device may have another value than the host.
        layout: How the host's copy is divided among replicas.
        entry: The entry of a remote buffer that holds the value; None for one that ops take.
        on_replicas: What each replica has, as fetched last; None where that follows from `data`.
    """

    data: np.ndarray
    stale: bool
    layout: HostLayout
    entry: tuple[RemoteBuffer, int] | None
    on_replicas: np.ndarray | None

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy equals what is on the device."""
        return not self.stale

    @property
    def retrieval_mode(self) -> str:
        """Whose values come to the host: "one_per_group" or "all_replicas"."""
        return self.layout.retrieval_mode

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """Which replicas have the same value."""
        return self.layout.grouping

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape of the tensor on a replica."""
        return self.shape

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host's copy."""
        return self.layout.shape_on_host

    @property
    def location_info(self) -> Any:
        """Where the tensor is stored, and whether each replica has a shard."""
        sharded = self.layout.shard_over > 1
        return ("on_chip" if self.entry is None else "off_chip", sharded)

    def shard_over(self, replicas: int) -> None:
        """Divides the value of a group among its replicas; for this package only.

        Args:
            replicas: how many of them share one value.
        """
        self.layout = dataclasses.replace(self.layout, shard_over=replicas)

    def copy_to_ipu(self, destination: int, source: int) -> Tensor:  # type: ignore[override]
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)


class Constant(Tensor):
    """A tensor whose value never changes.

    Attributes:
        data: The value.
    """

    data: np.ndarray

    def copy_to_ipu(self, destination: int, source: int) -> Tensor:  # type: ignore[override]
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)


TensorLike = Union[Tensor, HostScalarTensor]


class _TensorByRef:
    """The annotation of an argument that a graph takes by reference."""

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "TensorByRef should only be used as an annotation: `def build(x: popxl.TensorByRef)`."
        )

    def __repr__(self) -> str:
        return "popxl.TensorByRef"


TensorByRef = _TensorByRef()


def variable(
    data: HostTensor | float | int,
    dtype: dtypes.dtype | None = None,
    name: str | None = None,
    downcast: bool = True,
    replica_grouping: Any = None,
    retrieval_mode: str | None = None,
    log2_scale: int | None = None,
    nan_on_overflow: bool | None = None,
) -> Variable:
    """Makes a variable of the main graph, which has to be the current graph.

    Args:
        data: the initial value, copied unless it is a `numpy.memmap`. If there are several groups,
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
    array = utils.to_numpy(data, dtype, downcast, True, log2_scale, nan_on_overflow)
    shape = _shape_on_replica(array, grouping)
    made: Variable = _add(graph, Variable, array, name, shape)
    made.stale = False
    made.layout = HostLayout(shape, grouping, mode)
    made.entry = None
    made.on_replicas = None
    return made


def constant(
    data: HostTensor | float | int,
    dtype: dtypes.dtype | None = None,
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
    made: Constant = _add(context.get_current_graph(), Constant, array, name)
    return made


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


def _add(
    graph: Graph,
    cls: type[Tensor],
    array: np.ndarray,
    name: str | None,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """Makes a tensor with data of the host."""
    shape = array.shape if shape is None else shape
    spec = TensorSpec(shape, dtypes.dtype.as_dtype(array.dtype))
    tensor: Any = cls.create(graph, graph.new_id(name), spec)
    tensor.data = array
    return graph.add_tensor(tensor)


def as_tensor(value: Any, dtype: dtypes.dtype | None = None) -> Tensor:
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


def graph_input(
    shape: Iterable[int],
    dtype: dtypes.dtype,
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
    spec = TensorSpec(tuple(shape), dtype, tuple(meta_shape or ()))
    tensor: Tensor = Tensor.create(graph, graph.new_id(name), spec)
    tensor.by_ref = by_ref
    return graph.add_input(graph.add_tensor(tensor))


def graph_output(t: Tensor) -> None:
    """Makes a tensor the next output of the current graph.

    Args:
        t: the tensor.

    Raises:
        ValueError: If it is in another graph, or an output already.
    """
    context.get_current_graph().add_output(t)
