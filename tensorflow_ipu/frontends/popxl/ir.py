"""Classes of the graph IR: `Tensor`, `Op`, `Graph`, `Ir`; the modules `popxl.ir` and `.graph`.

An `Ir` has graphs, a graph has ops and tensors, and each knows the others: they are one module.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Union

import numpy as np

from tensorflow_ipu.compiler.source_map import SourceLocation
from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances, of_poprun
from tensorflow_ipu.frontends.common import debug_contexts, drawings, user_frames
from tensorflow_ipu.frontends.common.errors import UndefinedValue, popart_exception
from tensorflow_ipu.frontends.popxl import dtypes
from tensorflow_ipu.frontends.popxl.core import scopes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, function
from tensorflow_ipu.frontends.popxl.core.session_options import PbIr, SessionOptions
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec, as_int
from tensorflow_ipu.frontends.popxl.core.tensor_ops import HostScalarTensor, TensorOps
from tensorflow_ipu.frontends.popxl.replica_grouping import HostLayout, ReplicaGrouping
from tensorflow_ipu.frontends.popxl.streams import DeviceToHostStream, HostToDeviceStream
from tensorflow_ipu.frontends.popxl.tensor_location import ExecutionContext
from tensorflow_ipu.util import private_files

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.core.views import View

__all__ = ["Graph", "Ir"]


@dataclasses.dataclass(eq=False)
class Op:
    """One use of an op in a graph.

    Attributes:
        id: Number, unique in the Ir.
        kind: What it is.
        graph: The graph that it is in.
        inputs: Its inputs.
        attributes: What else it was made with, by name.
        outputs: Its outputs.
        scopes: Name scopes that were open.
        ipu: The IPU that it runs on.
        has_ipu: Whether the program says so; else that is 0.
        tile_set: "compute" or "io".
        planned: Facts for plans only. `exchange` is the number of the exchange that it is part of,
            `stage` its stage of a pipeline, and `stash` the number of kept values of its input. For
            a loop that is a pipeline, `pipeline` lists the IPUs of its stages.
        execution_context: The program of the session that it is part of.
        after: Ops that the program orders before it, besides those it takes values from.
        site: The user's line.
        original: For an op of a gradient, the op that it is for; None for others.
        called: Graphs that it runs.
        modified: Positions of inputs that it modifies, besides those of its kind: inputs of a call
            by reference.
    """

    id: int
    kind: OpKind
    graph: Graph
    inputs: list[Tensor]
    attributes: dict[str, Any]
    outputs: list[Tensor] = dataclasses.field(default_factory=list)
    scopes: tuple[str, ...] = ()
    ipu: int = 0
    has_ipu: bool = True
    tile_set: str = "compute"
    planned: dict[str, Any] = dataclasses.field(default_factory=dict)
    execution_context: ExecutionContext = ExecutionContext.Normal
    after: Sequence[Op] = ()
    site: SourceLocation | None = None
    original: Op | None = None
    called: tuple[Graph, ...] = ()
    modified: set[int] = dataclasses.field(default_factory=set)

    def __repr__(self) -> str:
        return f"{self.kind.name}.{self.id}"

    def opType(self) -> str:  # noqa: N802
        """Returns the type of the op, such as "MatMul"."""
        return self.kind.name

    @property
    def source_ipu(self) -> int:
        """The IPU that it takes its inputs from."""
        source: int | None = self.attributes.get("source")
        return self.ipu if source is None else source

    def ipu_of_input(self, tensor: Tensor) -> int:
        """Returns the IPU that it takes an input from: for a loop, where ops in it take it.

        Args:
            tensor: the input.
        """
        if not self.kind.is_loop or tensor not in self.inputs:
            return self.source_ipu
        inside = self.called[0].inputs[self.inputs.index(tensor) - len(self.inputs)]
        return next((op.ipu_of_input(inside) for op in inside.consumers), self.source_ipu)

    @property
    def ipus(self) -> tuple[int, ...]:
        """The IPU of each output."""
        placed: tuple[int, ...] | None = self.attributes.get("ipus")
        return (self.ipu,) * len(self.outputs) if placed is None else placed

    @property
    def writes(self) -> list[int]:
        """Positions of all inputs that it modifies."""
        return sorted({*self.kind.writes, *self.modified})

    @property
    def is_view(self) -> bool:
        """Whether its first output shares the storage of inputs."""
        return self.kind.view is not None

    @property
    def fresh_outputs(self) -> list[Tensor]:
        """The outputs with storage of their own."""
        return self.outputs[1:] if self.is_view else self.outputs


class Tensor(TensorOps["Tensor"]):
    """A value of a graph: a variable, a constant, an input or the result of an op.

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

    @staticmethod
    def _from_pb_tensor(pb_tensor: Any) -> Tensor:
        """Returns the tensor that one of `libpopart` stands for; for bindings of operations.

        Args:
            pb_tensor: a tensor of an op of the current Ir.
        """
        found: Tensor = function("from_pb_tensor")(pb_tensor)
        return found

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
        """Whether the host's copy equals the device's value: always, except for variables."""
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


class Constant(Tensor):
    """A tensor whose value never changes.

    Attributes:
        data: The value.
    """

    data: np.ndarray

    def copy_to_ipu(self, destination: int, source: int) -> Tensor:  # type: ignore[override]
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)


class Variable(Tensor):
    """A tensor of the main graph that keeps its value from run to run.

    Attributes:
        data: The host's copy of the value.
        stale: Whether the device may have another value than the host.
        entry: The remote buffer and the number of its entry that hold the value, if any.
        on_replicas: What each replica has, as fetched last; None where that follows from `data`.
    """

    data: np.ndarray
    stale: bool
    entry: tuple[Any, int] | None
    on_replicas: np.ndarray | None
    _layout: HostLayout

    def start_on_host(self, layout: HostLayout) -> None:
        """Marks the value as the host's, which no device has yet.

        Args:
            layout: the division of the host's copy among replicas.
        """
        self._layout = layout
        self.stale, self.entry, self.on_replicas = False, None, None

    @property
    def layout(self) -> HostLayout:
        """The division of the host's copy among replicas."""
        if self.entry is None:
            return self._layout
        return dataclasses.replace(self._layout, entry_shape=self.entry[0].tensor_shape)

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy equals the device's value."""
        return not self.stale

    @property
    def retrieval_mode(self) -> str:
        """Whose values come to the host: "one_per_group" or "all_replicas"."""
        return self._layout.retrieval_mode

    @property
    def replica_grouping(self) -> ReplicaGrouping:
        """Which replicas have the same value."""
        return self._layout.grouping

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """The shape of the tensor on a replica."""
        return self.shape

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """The shape of the host's copy."""
        return self._layout.shape_on_host

    @property
    def location_info(self) -> Any:
        """Where the tensor is stored, and whether each replica has a shard."""
        sharded = self._layout.shard_over > 1
        return ("on_chip" if self.entry is None else "off_chip", sharded)

    def shard_over(self, replicas: int) -> None:
        """Divides the value of a group among its replicas; for this package only.

        Args:
            replicas: how many of them share one value.
        """
        self._layout = dataclasses.replace(self._layout, shard_over=replicas)

    def copy_to_ipu(self, destination: int, source: int) -> Tensor:  # type: ignore[override]
        """Returns a copy of it on another IPU; see `ops.ipu_copy`."""
        return function("ipu_copy")(self, destination, source)


TensorLike = Union[Tensor, HostScalarTensor]


# What debug information calls PopXL, and the package with the functions that make ops.
_LAYER, _FUNCTIONS = "popxl", "tensorflow_ipu.frontends.popxl.ops"


class Graph:
    """A list of ops with the tensors that they make, some of which are inputs and outputs.

    In `with graph:` it is the current graph, which ops are added to.

    Attributes:
        ops: Its ops, in the order of their creation.
        call_sites: The ops of other graphs that run it.
        can_be_differentiated: Whether autodiff may make its gradient graph for a graph that calls
            it.
        is_gradient: Whether it computes gradients of another graph.
    """

    ops: list[Op]
    call_sites: list[Op]
    can_be_differentiated: bool
    is_gradient: bool
    _hooks: dict[int, Callable[[Op], Any]]
    _ir: Ir
    _id: str
    _tensors: dict[str, Tensor]
    _inputs: list[Tensor]
    _outputs: list[Tensor]

    def __init__(self) -> None:
        raise TypeError(
            "Cannot create a graph using the constructor. Use ir.create_graph or "
            "ir.create_empty_graph."
        )

    @classmethod
    def create(cls, ir: Ir, id: str) -> Graph:  # noqa: A002
        """Makes a graph; for this package only.

        Args:
            ir: the Ir that it is in.
            id: its id, unique in the Ir; empty for the main graph.
        """
        graph: Graph = object.__new__(cls)
        graph._ir = ir
        graph._id = id
        graph._tensors = {}
        graph._inputs = []
        graph._outputs = []
        graph.ops = []
        graph.call_sites = []
        graph.can_be_differentiated = True
        graph.is_gradient = False
        graph._hooks = {}
        return graph

    def __repr__(self) -> str:
        return f"Graph[{self.id or 'main'} {len(self.ops)} ops]"

    def __enter__(self) -> Graph:
        scopes.enter_graph(self)
        return self

    def __exit__(self, *error: Any) -> None:
        scopes.leave_graph()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            raise TypeError(f"Value must be of type popxl.Graph. Received: {type(other)}")
        return self is other

    def __hash__(self) -> int:
        return hash((self.id, self.ir.id))

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, Tensor):
            raise TypeError(f"Value must be of type popxl.Tensor. Received: {type(value)}")
        return value.ir is self._ir and value.id in self._tensors

    @property
    def ir(self) -> Ir:
        """The Ir that it is in."""
        return self._ir

    @property
    def main_graph(self) -> Graph:
        """The main graph of its Ir."""
        return self._ir.main_graph

    @property
    def id(self) -> str:
        """Its name, unique in the Ir; empty for the main graph."""
        return self._id

    @property
    def name(self) -> str:
        """The same as `id`."""
        return self._id

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Its inputs, in order."""
        return tuple(self._inputs)

    @property
    def inputs_by_name(self) -> dict[str, Tensor]:
        """Its inputs by their names."""
        return {tensor.name: tensor for tensor in self._inputs}

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Its outputs, in order. Autodiff adds those that the gradient needs."""
        return tuple(self._outputs)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All its tensors, in the order of their creation."""
        return tuple(self._tensors.values())

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables."""
        return tuple(t for t in self._tensors.values() if isinstance(t, Variable))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Its constants."""
        return tuple(t for t in self._tensors.values() if isinstance(t, Constant))

    def get_tensor(self, tensor_id: str) -> Tensor:
        """Returns the tensor with an id.

        Args:
            tensor_id: the id.

        Raises:
            popart.popart_exception: If there is none.
        """
        if tensor_id not in self._tensors:
            raise popart_exception(f"No tensor {tensor_id!r} in the graph {self._id or 'main'!r}.")
        return self._tensors[tensor_id]

    def has_tensor(self, tensor_id: str) -> bool:
        """Returns whether there is a tensor with an id.

        Args:
            tensor_id: the id.
        """
        return tensor_id in self._tensors

    def new_id(self, name: str | None) -> str:
        """Returns an id for a new tensor.

        Args:
            name: its name; "t" by default.
        """
        parts = [*([self._id] if self._id else []), *scopes.current_scopes(), name or "t"]
        return self.unique_id("/".join(parts))

    def unique_id(self, wanted: str) -> str:
        """Returns an id that no tensor has: that which is wanted, or one like it.

        Args:
            wanted: the id, if it is free.
        """
        found = wanted
        while found in self._tensors:
            found = f"{wanted}__t{self._ir.next_number('tensor')}"
        return found

    def new_tensor(self, name: str | None, spec: TensorSpec) -> Tensor:
        """Adds a tensor that no op makes, and returns it.

        Args:
            name: its name; "t" by default.
            spec: its shape and type.
        """
        tensor: Tensor = self.add_tensor(Tensor.create(self, self.new_id(name), spec))
        return tensor

    def add_tensor(self, tensor: Any) -> Any:
        """Enters a new tensor, and returns it.

        Args:
            tensor: the tensor.
        """
        self._tensors[tensor.id] = tensor
        if debug_contexts.is_recording():
            debug_contexts.record_builder(_LAYER)
            debug_contexts.record(
                _LAYER,
                tensor.id,
                user_frames.users_place(),
                category="tensor",
                tensorId=tensor.id,
                shape=list(tensor.shape),
                elementType=tensor.dtype.name,
            )
        return tensor

    def record_op(self, op: Op) -> None:
        """Adds a new op to the file of debug information, if there is one; for graphs.

        Args:
            op: the op.
        """
        if debug_contexts.is_recording():
            debug_contexts.record_builder(_LAYER)
            debug_contexts.record(
                _LAYER,
                "/".join([*op.scopes, op.kind.name]),
                user_frames.users_place(),
                category="op",
                api=debug_contexts.calling_function(_FUNCTIONS),
                opType=op.kind.name,
                inputs=[tensor.id for tensor in op.inputs],
                outputs=[tensor.id for tensor in op.outputs],
            )

    def remove_tensor(self, tensor: Tensor) -> None:
        """Forgets a tensor that goes to another graph.

        Args:
            tensor: the tensor.
        """
        del self._tensors[tensor.id]

    def add_input(self, tensor: Tensor) -> Tensor:
        """Makes a new tensor the next input, and returns it.

        Args:
            tensor: the tensor.
        """
        self._inputs.append(tensor)
        return tensor

    def sort_inputs(self, order: Sequence[Tensor]) -> None:
        """Puts the inputs of a graph that nothing calls yet into another order.

        Args:
            order: all inputs.
        """
        self._inputs = list(order)

    def add_output(self, tensor: Tensor) -> None:
        """Makes a tensor the next output.

        Args:
            tensor: the tensor.

        Raises:
            ValueError: If it is in another graph, or an output already.
        """
        if tensor not in self:
            raise ValueError(f"{tensor!r} is not in the current Graph, {self!r}.")
        if id(tensor) in map(id, self._outputs):  # there is one object for each tensor
            raise ValueError(f"{tensor!r} is an output of {self!r} already.")
        self._outputs.append(tensor)

    def take_outputs(self) -> list[Tensor]:
        """Returns the outputs, and makes them no outputs of the graph; for transforms.

        What calls the graph keeps its own: as many outputs, like these, have to be added again.
        """
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def _pb_graph(self) -> Any:
        """The graph of `libpopart` that stands for it: bindings of operations take it."""
        return function("pb_graph")(self)

    def _create_tensor_id(self, name: str) -> str:
        """Returns an id for a new tensor; bindings of operations use this name.

        Args:
            name: its name.
        """
        return self.new_id(name)

    @property
    def called_graphs(self) -> tuple[Graph, ...]:
        """The graphs that its ops run, each once."""
        return tuple(dict.fromkeys(graph for op in self.ops for graph in op.called))

    def register_op_created_hook(self, fn: Callable[[Op], Any]) -> int:
        """Asks for a call after each op that is created in this graph.

        Args:
            fn: takes the op.

        Returns:
            A handle for `remove_op_created_hook`.
        """
        handle = self.ir.next_number("hook")
        self._hooks[handle] = fn
        return handle

    def remove_op_created_hook(self, handle: int) -> None:
        """Ends the calls that `register_op_created_hook` asked for.

        Args:
            handle: the handle that it returned.

        Raises:
            ValueError: If there is no such hook.
        """
        if handle not in self._hooks:
            raise ValueError(f"Unknown op created hook: {handle}")
        del self._hooks[handle]

    def remove_outputs(self, tensors: Iterable[Tensor]) -> None:
        """Makes tensors no outputs of a graph that nothing calls yet.

        Args:
            tensors: outputs of the graph.

        Raises:
            ValueError: If one is no output, or the graph is called.
        """
        if self.call_sites:
            raise ValueError(f"{self!r} is called already, so its outputs cannot be removed.")
        for tensor in tensors:
            self._outputs.remove(tensor)

    def add_op(
        self,
        kind: OpKind,
        inputs: Iterable[Tensor],
        attributes: dict[str, Any],
        names: Sequence[str],
        specs: Sequence[TensorSpec],
        called: Sequence[Graph] = (),
        are_ids: bool = False,
    ) -> Op:
        """Adds an op, with the context in force.

        Args:
            kind: the record of the op.
            inputs: its inputs, tensors of this graph.
            attributes: its attributes.
            names: names of the outputs.
            specs: shapes and types of the outputs.
            called: graphs that it runs.
            are_ids: whether the names are ids that no tensor has.

        Returns:
            The op, which the hooks have seen.
        """
        self.ir.check_is_open()
        op = Op(
            id=self.ir.next_number("op", 100),
            kind=kind,
            graph=self,
            inputs=list(inputs),
            attributes=attributes,
            scopes=scopes.current_scopes(),
            ipu=scopes.current_ipu() or 0,
            has_ipu=scopes.current_ipu() is not None,
            tile_set=scopes.current_tile_set(),
            execution_context=scopes.current_execution_context(),
            site=user_frames.users_line(),
            called=tuple(called),
        )
        op.after = scopes.sequencer().place(op)
        for tensor in dict.fromkeys(op.inputs):
            tensor.consumers.append(op)
        for graph in op.called:
            graph.call_sites.append(op)
        for name, spec in zip(names, specs):
            self.add_op_output(op, name, spec, are_ids)
        self.ops.append(op)
        self.record_op(op)
        self._show(op)
        return op

    def announce(self, kind: OpKind, parts: Sequence[Op]) -> None:
        """Shows hooks an op that stands for several of the graph; for transforms.

        Args:
            kind: the record of the op.
            parts: the ops.
        """
        first = parts[0]
        whole = dataclasses.replace(
            first,
            id=self.ir.next_number("op", 100),
            kind=kind,
            inputs=[tensor for part in parts for tensor in part.inputs],
            outputs=[tensor for part in parts for tensor in part.outputs],
            attributes={"parts": tuple(parts)},
            planned=dict(first.planned),
        )
        self._show(whole)

    def _show(self, op: Op) -> None:
        """Calls the hooks of the graph and of the context with a new op."""
        for hook in tuple(self._hooks.values()):
            hook(op)
        scopes.created(op)

    def add_op_output(self, op: Op, name: str, spec: TensorSpec, is_id: bool = False) -> Tensor:
        """Adds an output to an op, and returns it. The first of a view shares its inputs' storage.

        Args:
            op: an op of this graph.
            name: name of the output.
            spec: shape and type of the output.
            is_id: whether the name is an id that no tensor has.
        """
        tensor: Tensor = Tensor.create(self, name if is_id else self.new_id(name), spec, op)
        if op.kind.view is not None and not op.outputs:
            tensor.view = op.kind.view([t.spec for t in op.inputs], **op.attributes)
            tensor.sources = tuple(op.inputs[i] for i in tensor.view.of(len(op.inputs)))
        op.outputs.append(tensor)
        self.add_tensor(tensor)
        return tensor


def reachable(graph: Graph) -> list[Graph]:
    """Returns a graph and all that it calls, directly or not, each once.

    Args:
        graph: the graph.
    """
    found, known = [graph], {graph}
    for caller in found:  # grows meanwhile
        new = [callee for callee in caller.called_graphs if callee not in known]
        found += new
        known.update(new)
    return found


def executions(graph: Graph) -> int:
    """Returns how often a run of the main graph runs a graph, were each branch it is in taken.

    Args:
        graph: the graph.
    """
    if graph is graph.main_graph:
        return 1
    sites = ((executions(op.graph), op.attributes) for op in graph.call_sites)
    return sum(runs * attributes.get("repeat_count", 1) for runs, attributes in sites)


def storage_of(tensor: Tensor) -> list[Tensor]:
    """Returns the tensors with storage of their own whose storage a tensor shares.

    Args:
        tensor: the tensor.
    """
    if not tensor.sources:
        return [tensor]
    roots = itertools.chain.from_iterable(storage_of(source) for source in tensor.sources)
    return list(dict.fromkeys(roots))


_ids = itertools.count()


class Ir:
    """A program: a main graph, and graphs that it calls.

    Build the graphs, then make a `Session` of the Ir to run it.
    """

    def __init__(self, replication: int | str = 1) -> None:
        """Makes an Ir with an empty main graph.

        Args:
            replication: number of replicas; "popdist" takes that of the launcher, and joins the
                other processes that it has started.

        Raises:
            ValueError: If it is neither a number of replicas nor "popdist".
            RuntimeError: If the other processes cannot be joined; see `popdist.init`.
        """
        self._id = next(_ids)
        self._numbers: dict[str, int] = {}
        self._graphs: dict[str, Graph] = {}
        self._main_graph = self.new_graph("")
        self._is_closed = False
        self._num_host_transfers = 1
        self._instances = Instances()
        # Programs reach the session options by this name of the original.
        self._pb_ir = PbIr()
        if replication == "popdist":
            self._instances = joining.join(of_poprun())
            replication = self._instances.total_replicas
        self._set_replicas(_number("replication", replication))

    def __repr__(self) -> str:
        return f"Ir[{self._id} {len(self._main_graph.ops)} ops]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ir):
            raise TypeError(f"Value must be of type popxl.Ir. Received: {type(other)}")
        return self is other

    def __hash__(self) -> int:
        return hash(self._id)

    @property
    def id(self) -> int:
        """Number of the Ir, unique in the process."""
        return self._id

    @property
    def main_graph(self) -> Graph:
        """The graph that a run executes."""
        return self._main_graph

    @property
    def replication_factor(self) -> int:
        """Number of replicas, over all processes. Set it before the graphs are built.

        The session options `replicatedGraphCount` and `globalReplicationFactor` set it, too.
        """
        return self.session_options.replicas[1]

    @replication_factor.setter
    def replication_factor(self, value: int) -> None:
        if self._is_closed:
            raise RuntimeError(
                "The replication factor cannot be set: the Ir is already prepared. Set it before a "
                "popxl.Session is made of the Ir."
            )
        replication = _number("replication_factor", value)
        if replication % self._instances.count:
            raise ValueError(
                f"replication_factor must be a multiple of the {self._instances.count} processes "
                f"that share the replicas. Received: {value}"
            )
        self._set_replicas(replication)

    def _set_replicas(self, total: int) -> None:
        """Sets the number of replicas of all processes."""
        self.session_options.set_replicas(total, self._instances.count, self._instances.index)

    @property
    def instance_replication_factor(self) -> int:
        """Number of replicas of this process."""
        return self.session_options.replicas[0]

    @property
    def instances(self) -> Instances:
        """The processes that run its replicas; for this package only."""
        return self._instances

    @property
    def session_options(self) -> SessionOptions:
        """The options of its sessions, which `_pb_ir.getSessionOptions()` returns, too."""
        return self._pb_ir.getSessionOptions()

    @property
    def num_host_transfers(self) -> int:
        """How often a run loads from, or stores to, each stream. Set it before making a session."""
        return self._num_host_transfers

    @num_host_transfers.setter
    def num_host_transfers(self, value: int) -> None:
        self._num_host_transfers = _number("num_host_transfers", value)

    def replica_grouping(self, stride: int = 1, group_size: int | None = None) -> ReplicaGrouping:
        """Groups replicas at equal distances: for collectives, and for the values of variables.

        Args:
            stride: the distance of replicas that follow each other in a group.
            group_size: replicas of a group; as many as there are at that distance by default.

        Returns:
            The grouping. With 8 replicas, stride 2 and size 2 it is 0 1 0 1 2 3 2 3.

        Raises:
            ValueError: If a number is out of its range, or the stride is no factor of the replicas.
        """
        return ReplicaGrouping.strided(self.replication_factor, stride, group_size)

    def replica_grouping_from_assignments(self, assignment: list[int]) -> ReplicaGrouping:
        """Groups replicas in any way.

        Args:
            assignment: the group of each replica. Groups have one size, and are numbered from 0 in
                the order of their first replicas.

        Returns:
            The grouping. If replicas are not at equal distances, it can only group variables.

        Raises:
            ValueError: If the groups are not such.
        """
        return ReplicaGrouping.assigned(self.replication_factor, assignment)

    def graph_of_id(self, graph_id: str) -> Graph:
        """Returns the graph with an id.

        Args:
            graph_id: the id.
        """
        return self._graphs[graph_id]

    def create_empty_graph(self, name: str | None = None) -> Graph:
        """Makes a graph without inputs and ops.

        Args:
            name: its name; "graph" by default.

        Returns:
            The graph.
        """
        return self.new_graph(f"{name or 'graph'}_subgraph({self.next_number('graph')})")

    def new_graph(self, id: str) -> Graph:  # noqa: A002
        """Makes a graph with an id, or one like it that no graph has; for transforms.

        Args:
            id: the id.
        """
        found = id
        while found in self._graphs:
            found = f"{id}_{self.next_number(id)}"
        graph = self._graphs[found] = Graph.create(self, found)
        return graph

    def create_graph(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Graph:
        """Makes a graph of a function, or of the `build` method of a `Module`.

        Tensors and specs among the arguments become inputs of the graph, in the order of the
        signature; so do those in lists, tuples, `*args` and `**kwargs`. Other arguments are passed
        on as they are. What the function returns are the outputs.

        Args:
            fn: builds the graph. Arguments with the annotation `TensorByRef` are passed by
                reference. Returns None, a tensor or tensors.
            *args: the arguments by position.
            **kwargs: the arguments by name.

        Returns:
            The graph.

        Raises:
            TypeError: If `fn` is neither a function nor a Module, or tensors are mixed with other
                values in a list.
            ValueError: If the arguments do not fit the signature, or it returns something else.
        """
        graph: Graph = function("create_graph")(self, fn, args, kwargs)
        return graph

    def get_all_h2d_streams(self) -> set[HostToDeviceStream]:
        """Returns the streams that ops load from: in any graph, or in those that a session runs."""
        return self._streams(HostToDeviceStream)

    def get_all_d2h_streams(self) -> set[DeviceToHostStream]:
        """Returns the streams that ops store to: in any graph, or in those that a session runs."""
        return self._streams(DeviceToHostStream)

    def _streams(self, cls: type) -> set[Any]:
        graphs = reachable(self._main_graph) if self._is_closed else self._graphs.values()
        ops = itertools.chain.from_iterable(graph.ops for graph in graphs)
        streams = (op.attributes.get("stream") for op in ops)
        return {stream for stream in streams if isinstance(stream, cls)}

    def dot_checkpoint(self, check: str, save_dir: str | Path | None = None) -> None:
        """Draws the graphs as they are now, if the checkpoint is active.

        The session option `dotChecks` and the environment variable POPART_DOT_CHECKS name active
        checkpoints; if neither is set, all are from now on. `FINAL` is when a session is made.

        Args:
            check: name of the checkpoint.
            save_dir: folder for the files, of this and later checkpoints; that of the session
                option `logDir` by default.

        Raises:
            OSError: If a file cannot be written.
        """
        options = self.session_options
        if save_dir is not None:
            options.logDir = os.fspath(private_files.make_folder(save_dir))
        if not options.value("dotChecks") and drawings.of_environment() is None:
            options.dotChecks = {"ALL"}
        self._draw(check)

    def _draw(self, check: str) -> None:
        """Draws the graphs that the main graph reaches, if a checkpoint is active."""
        options = self.session_options
        if not drawings.is_active(check, options.value("dotChecks")):
            return
        graphs = {
            graph.id or "main": [
                drawings.DrawnOp(
                    op.kind.name,
                    "/".join(op.scopes),
                    [tensor.id for tensor in op.inputs],
                    [tensor.id for tensor in op.outputs],
                )
                for op in graph.ops
            ]
            for graph in reachable(self._main_graph)
        }
        shown = options.value("firstDotOp"), options.value("finalDotOp")
        drawings.write(check, options.value("logDir"), graphs, shown, options.value("dotOpNames"))

    def next_number(self, what: str, first: int = 0) -> int:
        """Returns the next number of a counter of the Ir; for this package only.

        Args:
            what: name of the counter.
            first: its first number.
        """
        number = self._numbers.get(what, first)
        self._numbers[what] = number + 1
        return number

    def close(self) -> None:
        """Notes that a session was made: from now on nothing may change."""
        if not self._is_closed:
            self._draw(drawings.FINAL)
        self._is_closed = True

    def check_is_open(self) -> None:
        """Refuses changes after a session was made.

        Raises:
            RuntimeError: If one was.
        """
        if self._is_closed:
            raise RuntimeError(
                "The Ir is already prepared: a popxl.Session was made of it, so no op can be "
                "added. Build all graphs before."
            )


def _number(name: str, value: Any) -> int:
    """Returns a number of replicas or transfers."""
    number = as_int(value)
    if number is None or number < 1:
        raise ValueError(f"{name} must be an integer >= 1. Received: {value!r}")
    return number
