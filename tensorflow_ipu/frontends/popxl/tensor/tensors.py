"""`Tensor`: a value of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Union

from tensorflow_ipu.frontends.popxl import dtypes
from tensorflow_ipu.frontends.popxl.core.spec import TensorSpec
from tensorflow_ipu.frontends.popxl.errors import UndefinedValue
from tensorflow_ipu.frontends.popxl.tensor.host_data import HostScalarTensor
from tensorflow_ipu.frontends.popxl.tensor.tensor_ops import TensorOps

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.op import Op
    from tensorflow_ipu.frontends.popxl.core.views import View
    from tensorflow_ipu.frontends.popxl.graph import Graph
    from tensorflow_ipu.frontends.popxl.ir import Ir


class Tensor(TensorOps):
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
        if self.producer is not None and self.producer.has_ipu:
            return self.producer.ipus[self.producer.outputs.index(self)]
        if self.producer is None:
            for op in self._placing_ops():
                if op.has_ipu:
                    return op.ipu_of_input(self)
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
        """The ops that say where the tensor is, the most important first.

        A copy to another IPU says where it comes from; other ops may take what was copied.
        """
        if self.producer is not None:
            return [self.producer]
        position = next((i for i, t in enumerate(self.graph.inputs) if t is self), None)
        sites = self.graph.call_sites if position is not None else ()
        copies = [op for op in self.consumers if "source" in op.attributes]
        return [*sites, *copies, *self.consumers]

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy equals what is on the device: always, but for variables."""
        return True

    @property
    def location_info(self) -> Any:
        """Where the tensor is stored."""
        return ("on_chip", False)

    def strides(self, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """Returns the bytes from one index to the next along each axis, in C order.

        Args:
            shape: a shape to take in place of that of the tensor.
        """
        dims = self.shape if shape is None else tuple(shape)
        steps = [self.dtype.itemsize]
        for dim in reversed(dims[1:]):
            steps.insert(0, steps[0] * dim)
        return tuple(steps[: len(dims)])


TensorLike = Union[Tensor, HostScalarTensor]
