"""`Backward`: makes the gradient graph of one graph, op by op from its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow_ipu.frontends.popxl import building, context
from tensorflow_ipu.frontends.popxl.core.kinds import Gradient
from tensorflow_ipu.frontends.popxl.core.op import Op
from tensorflow_ipu.frontends.popxl.errors import popart_exception
from tensorflow_ipu.frontends.popxl.graph import Graph
from tensorflow_ipu.frontends.popxl.lowering.gradients import derive
from tensorflow_ipu.frontends.popxl.ops.casts import init
from tensorflow_ipu.frontends.popxl.ops.control import calls
from tensorflow_ipu.frontends.popxl.tensor import Tensor, constant, graph_input
from tensorflow_ipu.frontends.popxl.transforms.activations import keep_activations
from tensorflow_ipu.frontends.popxl.transforms.grad_graph_info import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
)
from tensorflow_ipu.frontends.popxl.transforms.gradient_ops import SUM, gradient_kind


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
        """Returns a tensor of the gradient graph that holds what a forward tensor does.

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
        if not provided or not wanted or op.kind.gradient is Gradient.CUT:
            return
        if op.kind.gradient is Gradient.REFUSED:
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
        """Makes an op of the gradient that follows from what an op computes."""
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
        """Describes the graph, and adds what it reads to the outputs of the forward graph."""
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
