"""Gradient graphs by reverse-mode differentiation: `popxl.transforms.autodiff`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import tensorflow as tf

from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.common.op_registry import GradientRule
from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core import shapes
from tensorflow_ipu.frontends.popxl.core.kinds import OpKind, register
from tensorflow_ipu.frontends.popxl.core.shapes import TensorSpec
from tensorflow_ipu.frontends.popxl.ir import Graph, Op
from tensorflow_ipu.frontends.popxl.lowering.gradients import Derivation, derive
from tensorflow_ipu.frontends.popxl.ops import calls
from tensorflow_ipu.frontends.popxl.ops.movement import init
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant, graph_input

if TYPE_CHECKING:
    from tensorflow_ipu.frontends.popxl.lowering.graphs import GraphLowering

__all__ = ["ExpectedConnection", "ExpectedConnectionType", "GradGraphInfo", "autodiff"]


SUM = register(OpKind("Sum", shapes.elementwise("Sum"), lambda *ts: tf.add_n(list(ts))))
_kinds: dict[OpKind, OpKind] = {}
_WITHOUT = (GradientRule.NONE, GradientRule.CUT)


class _Site(Protocol):
    """A call of a graph (`popxl.ops.CallSiteInfo`)."""

    @property
    def called_graph(self) -> Any:
        """The graph."""

    def graph_to_parent(self, graph_tensor: Tensor) -> Tensor:
        """Returns the tensor outside that belongs to an input or output."""


class ExpectedConnectionType(enum.Enum):
    """Whether a tensor of a gradient graph stands for a forward tensor or for its gradient."""

    Fwd = "Fwd"
    FwdGrad = "FwdGrad"


class ExpectedConnection:
    """The forward tensor of an input or output of a gradient graph, or its gradient."""

    _type: ExpectedConnectionType
    _tensor: Tensor

    def __init__(self) -> None:
        raise TypeError("ExpectedConnection should not be constructed directly.")

    @classmethod
    def create(cls, kind: ExpectedConnectionType, tensor: Tensor) -> ExpectedConnection:
        """Makes a connection, for builders of gradient graphs.

        Args:
            kind: whether it stands for the tensor or for its gradient.
            tensor: the forward tensor.
        """
        connection = object.__new__(cls)
        connection._type = kind
        connection._tensor = tensor
        return connection

    def __repr__(self) -> str:
        return f"({self._type.value}, {self._tensor!r})"

    @property
    def connection_type(self) -> ExpectedConnectionType:
        """Whether it stands for the tensor or for its gradient."""
        return self._type

    @property
    def fwd_tensor(self) -> Tensor:
        """The forward tensor."""
        return self._tensor


class GradGraphInfo:
    """A gradient graph, with the connections of its inputs and outputs."""

    _graph: Graph
    _forward: Graph
    _inputs: tuple[ExpectedConnection, ...]
    _outputs: tuple[ExpectedConnection, ...]

    def __init__(self) -> None:
        raise TypeError("GradGraphInfo should not be constructed directly. autodiff returns it.")

    @classmethod
    def create(
        cls,
        graph: Graph,
        forward: Graph,
        inputs: Sequence[ExpectedConnection],
        outputs: Sequence[ExpectedConnection],
    ) -> GradGraphInfo:
        """Makes the description of a gradient graph, for builders of such graphs.

        Args:
            graph: the gradient graph.
            forward: the graph that was differentiated.
            inputs: the connections of the gradient graph's inputs.
            outputs: the connections of its outputs.
        """
        info = object.__new__(cls)
        graph.is_gradient = True
        info._graph, info._forward = graph, forward
        info._inputs, info._outputs = tuple(inputs), tuple(outputs)
        return info

    def __repr__(self) -> str:
        return f"GradGraphInfo[{self._graph!r} of {self._forward!r}]"

    @property
    def graph(self) -> Graph:
        """The gradient graph."""
        return self._graph

    @property
    def forward_graph(self) -> Graph:
        """The graph that was differentiated."""
        return self._forward

    @property
    def expected_inputs(self) -> tuple[ExpectedConnection, ...]:
        """The connections of the gradient graph's inputs, in order."""
        return self._inputs

    @property
    def expected_outputs(self) -> tuple[ExpectedConnection, ...]:
        """The connections of the gradient graph's outputs, in order."""
        return self._outputs

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The forward tensors of `expected_inputs`."""
        return tuple(connection.fwd_tensor for connection in self._inputs)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The forward tensors of `expected_outputs`."""
        return tuple(connection.fwd_tensor for connection in self._outputs)

    def inputs_dict(self, fwd_call_info: _Site) -> dict[Tensor, Tensor]:
        """Returns the operands for the forward tensors that the gradient graph reads.

        Args:
            fwd_call_info: a call of the graph that was differentiated.

        Returns:
            Tensors of the caller by input of the gradient graph.

        Raises:
            TypeError: If it is a call of another graph.
        """
        self._check(fwd_call_info)
        return {
            tensor: fwd_call_info.graph_to_parent(connection.fwd_tensor)
            for tensor, connection in zip(self._graph.inputs, self._inputs)
            if connection.connection_type is ExpectedConnectionType.Fwd
        }

    def fwd_graph_ins_to_grad_parent_outs(self, grad_call_info: _Site) -> dict[Tensor, Tensor]:
        """Returns the gradients that a call returned, by input of the forward graph.

        Args:
            grad_call_info: a call of the gradient graph.
        """
        return {
            connection.fwd_tensor: grad_call_info.graph_to_parent(tensor)
            for tensor, connection in zip(self._graph.outputs, self._outputs)
        }

    def fwd_parent_ins_to_grad_parent_outs(
        self, fwd_call_info: _Site, grad_call_info: _Site
    ) -> dict[Tensor, Tensor]:
        """Returns the gradients of a call, by operand of the forward call.

        Args:
            fwd_call_info: a call of the graph that was differentiated.
            grad_call_info: the call of the gradient graph.

        Raises:
            TypeError: If the first is a call of another graph.
        """
        self._check(fwd_call_info)
        gradients = self.fwd_graph_ins_to_grad_parent_outs(grad_call_info)
        return {
            fwd_call_info.graph_to_parent(tensor): gradient
            for tensor, gradient in gradients.items()
        }

    def _check(self, site: _Site) -> None:
        if site.called_graph is not self._forward:
            raise TypeError(
                f"The graph of the call, {site.called_graph!r}, does not match the graph that was "
                f"differentiated: {self._forward!r}."
            )


def _gradient_spec(specs: shapes.Specs, derivation: Derivation) -> list[TensorSpec]:
    return list(derivation.specs)


def _lower_gradient(lowering: GraphLowering, op: Op) -> None:
    """Puts the gradient of an op into the program."""
    derivation: Derivation = op.attributes["derivation"]
    lowering.define_outputs(op, derivation.build(lowering.read_inputs(op)))


def gradient_kind(kind: OpKind) -> OpKind:
    """Returns the kind of the op that is the gradient of one."""
    if kind not in _kinds:
        _kinds[kind] = OpKind(
            f"{kind.type}Grad", _gradient_spec, gradient=GradientRule.REFUSED, lower=_lower_gradient
        )
    return _kinds[kind]


def keep_activations(graph: Graph, tensors: Iterable[Tensor], with_inputs: bool = False) -> None:
    """Makes tensors outputs of a graph, also where it is called already.

    Args:
        graph: the graph.
        tensors: tensors of it; those that are inputs or outputs stay what they are.
        with_inputs: whether inputs become outputs, too.
    """
    known = set(graph.outputs if with_inputs else (*graph.inputs, *graph.outputs))
    for tensor in tensors:
        if tensor not in known:
            known.add(tensor)
            graph.add_output(tensor)
            for site in graph.call_sites:
                calls.add_output(site, tensor)


class Backward:
    """The gradient graph of a graph, while it is made.

    Attributes:
        forward: The graph that is differentiated.
        graph: The gradient graph.
        differentiate: Returns the gradient graph of a graph that it calls.
    """

    def __init__(
        self,
        forward: Graph,
        provided: Sequence[Tensor],
        required: Sequence[Tensor],
        differentiate: Callable[[Graph], GradGraphInfo],
    ) -> None:
        """Starts the gradient graph.

        Args:
            forward: the graph to differentiate.
            provided: tensors of it whose gradients there are.
            required: tensors of it whose gradients are asked for.
            differentiate: returns the gradient graph of a graph that it calls.
        """
        self.forward = forward
        self.graph = forward.ir.new_graph(f"{forward.id}_bwd")
        self._provided, self._required = list(provided), list(required)
        self.differentiate = differentiate
        self._gradients: dict[Tensor, list[Tensor]] = {}
        self._forward_values: dict[Tensor, Tensor] = {}
        self._on_path = _depending(forward, required)
        # Outputs can be added to plain calls; what loops would have to hand out is computed again.
        self._keeps = all(op.kind is calls.CALL for op in forward.call_sites)

    def run(self, all_required: bool = True) -> GradGraphInfo:
        """Makes the ops, and then the outputs.

        Args:
            all_required: whether a required gradient that does not exist is an error.

        Raises:
            popart.popart_exception: If it does not exist, or the graph cannot be differentiated.
        """
        self._check_ops()
        with self.graph:
            starts = []
            for tensor in self._provided:
                start = graph_input(**tensor.spec, name=f"Gradient___{tensor.name}")
                self.add_gradient(tensor, start)
                starts.append(start)
            for op in reversed(tuple(self.forward.ops)):
                self._differentiate_op(op)
            found = [t for t in self._required if t in self._gradients or all_required]
            for tensor in found:
                self._add_output(tensor)
        return self._info(starts, found)

    def gradient(self, tensor: Tensor) -> Tensor | None:
        """Returns the gradient of a forward tensor, from all its uses; None if there is none.

        Args:
            tensor: the tensor.
        """
        parts = self._gradients.get(tensor, [])
        if len(parts) > 1:
            self._gradients[tensor] = parts = [building.add(SUM, *parts)]
        return parts[0] if parts else None

    def add_gradient(self, tensor: Tensor, gradient: Tensor) -> None:
        """Adds a part of the gradient of a forward tensor.

        Args:
            tensor: the tensor.
            gradient: a tensor of the gradient graph.
        """
        self._gradients.setdefault(tensor, []).append(gradient)

    def forward_value(self, tensor: Tensor) -> Tensor:
        """Returns the gradient graph's counterpart of a forward tensor.

        Args:
            tensor: the forward tensor.
        """
        if tensor not in self._forward_values:
            known = tensor in self.forward.inputs or self._keeps
            self._forward_values[tensor] = (
                graph_input(tensor.shape, tensor.dtype, tensor.name, False, tensor.meta_shape)
                if known
                else self._computed_again(tensor)
            )
        return self._forward_values[tensor]

    def call_gradient(self, op: Op) -> None:
        """Differentiates a call: calls the gradient graph of the graph that it calls.

        Args:
            op: the call.
        """
        info = self.differentiate(op.called[0])
        called = info.forward_graph
        passed = []
        for connection in info.expected_inputs:
            tensor = connection.fwd_tensor
            if connection.connection_type is ExpectedConnectionType.FwdGrad:
                parent = op.outputs[called.outputs.index(tensor)]
                gradient = self.gradient(parent)
                passed.append(self._zeros(parent) if gradient is None else gradient)
            elif tensor in called.inputs:
                passed.append(self.forward_value(op.inputs[called.inputs.index(tensor)]))
            else:
                passed.append(self.forward_value(op.outputs[called.outputs.index(tensor)]))
        results = calls.call(info.graph, *passed)
        for connection, result in zip(info.expected_outputs, results):
            self.add_gradient(op.inputs[called.inputs.index(connection.fwd_tensor)], result)

    def _differentiate_op(self, op: Op) -> None:
        """Makes the gradient of one op."""
        provided = [i for i, tensor in enumerate(op.outputs) if tensor in self._gradients]
        wanted = [
            i
            for i, tensor in enumerate(op.inputs)
            if tensor in self._on_path and (tensor.dtype.is_floating_point or tensor.dtype.is_int)
        ]
        if not provided or not wanted or op.kind.gradient in _WITHOUT:
            return
        if op.kind.gradient is GradientRule.REFUSED:
            raise popart_exception(
                f"{op!r} ({op.site}) does not have a valid grad op: {op.kind.type} cannot be "
                "differentiated."
            )
        with context.ipu(op.ipu), context.on_tiles(op.tile_set):
            made = len(self.graph.ops)
            if op.kind is calls.CALL:
                self.call_gradient(op)
            elif op.kind.differentiate is not None:
                op.kind.differentiate(self, op)
            else:
                self._derive(op, provided, wanted)
            for gradient_op in self.graph.ops[made:]:
                gradient_op.site, gradient_op.original = op.site, op

    def _derive(self, op: Op, provided: list[int], wanted: list[int]) -> None:
        """Adds the gradient op that is derived from the computation of an op."""
        derivation = derive(op, provided, wanted)
        if derivation is None:
            return
        if op.kind.keeps_all and self._keeps:
            for tensor in (*op.inputs, *op.outputs):
                self.forward_value(tensor)
        read = [op.inputs[i] for i in derivation.inputs]
        read += [op.outputs[i] for i in derivation.outputs]
        values = [self.forward_value(tensor) for tensor in read]
        gradients = [self.gradient(op.outputs[i]) for i in derivation.provided]
        results = building.add_all(
            gradient_kind(op.kind),
            [*values, *(tensor for tensor in gradients if tensor is not None)],
            [f"Gradient___{op.inputs[i].name}" for i in derivation.results],
            derivation=derivation,
        )
        for position, result in zip(derivation.results, results):
            self.add_gradient(op.inputs[position], result)

    def _zeros(self, tensor: Tensor) -> Tensor:
        """Returns zeros as the gradient of an output that nothing depends on."""
        return init(**tensor.spec, name=f"Gradient___{tensor.name}")

    def _computed_again(self, tensor: Tensor) -> Tensor:
        """Returns a forward tensor as computed anew in the gradient graph."""
        op = tensor.producer
        if op is None:
            data: Any = getattr(tensor, "data", None)
            return constant(data, tensor.dtype, tensor.name)
        inputs = [self.forward_value(given) for given in op.inputs]
        names = [output.name for output in op.outputs]
        specs = [output.spec for output in op.outputs]
        again = building.add_op(op.kind, inputs, names, specs, op.called, op.attributes)
        self._forward_values.update(zip(op.outputs, again.outputs))
        return self._forward_values[tensor]

    def _check_ops(self) -> None:
        """Refuses graphs with ops that modify a tensor: its values before are gone."""
        for op in self.forward.ops:
            if op.writes:
                raise popart_exception(
                    f"The graph {self.forward.id} contains a modifying op, {op!r} ({op.site}), and "
                    "cannot be differentiated. Use the op that returns a new tensor."
                )

    def _add_output(self, tensor: Tensor) -> None:
        """Makes the gradient of a forward tensor the next output."""
        gradient = self.gradient(tensor)
        if gradient is None:
            raise popart_exception(
                f"Unable to provide required gradient output for {tensor!r}: no differentiable "
                "path leads from it to a tensor whose gradient is provided. Pass the tensors that "
                "have a gradient as grads_required."
            )
        if gradient in self.graph.outputs:
            gradient = building.add(SUM, gradient)
        self.graph.add_output(gradient)

    def _info(self, starts: list[Tensor], found: list[Tensor]) -> GradGraphInfo:
        """Describes the graph, and adds its forward inputs to the outputs of the forward graph."""
        fwd, grad = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
        inputs = set(self.graph.inputs)
        read = [t for t, value in self._forward_values.items() if value in inputs]
        read.sort(key=lambda tensor: tensor.id)
        keep_activations(self.forward, read)
        self.graph.sort_inputs([*starts, *(self._forward_values[tensor] for tensor in read)])
        taken = [ExpectedConnection.create(grad, tensor) for tensor in self._provided]
        taken += [ExpectedConnection.create(fwd, tensor) for tensor in read]
        outputs = [ExpectedConnection.create(grad, tensor) for tensor in found]
        return GradGraphInfo.create(self.graph, self.forward, taken, outputs)


def _depending(graph: Graph, tensors: Sequence[Tensor]) -> set[Tensor]:
    """Returns the tensors of a graph that depend on some, with these."""
    found = set(tensors)
    for op in graph.ops:
        if any(tensor in found for tensor in op.inputs):
            found.update(op.outputs)
    return found


def autodiff(
    graph: Graph,
    grads_provided: Iterable[Tensor] | None = None,
    grads_required: Iterable[Tensor] | None = None,
    called_graphs_grad_info: Mapping[Graph, GradGraphInfo] | None = None,
    return_all_grad_graphs: bool = False,
) -> GradGraphInfo | dict[Graph, GradGraphInfo]:
    """Makes the gradient graph of a graph: vector-Jacobian products.

    Its inputs are the gradients of tensors, then the forward tensors that it reads. Those that are
    neither inputs nor outputs of the graph become outputs, also where it is called already.

    Args:
        graph: the graph.
        grads_provided: tensors whose gradients are passed in; the outputs by default.
        grads_required: tensors whose gradients are returned; the inputs by default.
        called_graphs_grad_info: gradient graphs of graphs that it calls; the others are made.
        return_all_grad_graphs: whether to return the gradient graphs of these as well.

    Returns:
        The gradient graph, with what its inputs and outputs stand for; or all of them by graph.

    Raises:
        popart.popart_exception: If a tensor is not in the graph, a required gradient does not
            exist, or the graph has an op that cannot be differentiated.
    """
    infos = dict(called_graphs_grad_info or {})
    provided = list(graph.outputs if grads_provided is None else grads_provided)
    required = list(graph.inputs if grads_required is None else grads_required)
    for name, tensors in (("grads_provided", provided), ("grads_required", required)):
        if not tensors:
            raise popart_exception(f"{name} is an empty vector: there is nothing to differentiate.")
        _check(graph, name, tensors)

    def differentiate(called: Graph) -> GradGraphInfo:
        if called not in infos:
            if not called.can_be_differentiated:
                raise popart_exception(
                    f"The graph {called.id} has been marked as unsafe to autodiff: it has a "
                    "gradient of its own. Pass that in called_graphs_grad_info."
                )
            inner = Backward(called, called.outputs, called.inputs, differentiate)
            infos[called] = inner.run(all_required=False)
        return infos[called]

    infos[graph] = Backward(graph, provided, required, differentiate).run()
    return infos if return_all_grad_graphs else infos[graph]


def _check(graph: Graph, name: str, tensors: list[Any]) -> None:
    for tensor in tensors:
        if tensor not in graph:
            raise popart_exception(
                f"{name}: this tensor is not in the forward graph, {graph!r}: {tensor!r}"
            )
