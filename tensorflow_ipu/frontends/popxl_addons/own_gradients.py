"""Gradient graphs that programs build themselves, such as modules with `build_grad`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    keep_activations,
)
from tensorflow_ipu.frontends.popxl_addons.dot_tree import sanitise
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs

_FIXED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def create_grad_graph_info(
    ir: popxl.Ir,
    fwd_graph: popxl.Graph,
    grad_graph: popxl.Graph,
    grad_input_to_fwd_output: Mapping[popxl.Tensor, popxl.Tensor],
    grad_output_to_fwd_input: Mapping[popxl.Tensor, popxl.Tensor],
    fwd_tensors: Iterable[popxl.Tensor],
) -> GradGraphInfo:
    """Makes the description of a gradient graph that a program has built itself.

    Args:
        ir: the Ir of both graphs.
        fwd_graph: the forward graph.
        grad_graph: the gradient graph.
        grad_input_to_fwd_output: for inputs that are gradients, the outputs of the forward graph.
        grad_output_to_fwd_input: for each output, the input of the forward graph whose gradient it
            is.
        fwd_tensors: the forward tensors that the other inputs stand for, in their order.

    Raises:
        ValueError: If a graph is of another Ir, or an input or output stands for no tensor.
    """
    if fwd_graph.ir is not ir or grad_graph.ir is not ir:
        raise ValueError(f"{fwd_graph!r} and {grad_graph!r} must both be graphs of {ir!r}.")
    others = [tensor for tensor in grad_graph.inputs if tensor not in grad_input_to_fwd_output]
    read = dict(zip(others, fwd_tensors))
    missing = [tensor for tensor in others if tensor not in read]
    missing += [t for t in grad_graph.outputs if t not in grad_output_to_fwd_input]
    if missing:
        raise ValueError(f"No forward tensor is given for {missing} of {grad_graph!r}.")
    fwd, grad = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
    inputs = [
        ExpectedConnection.create(fwd, read[tensor])
        if tensor in read
        else ExpectedConnection.create(grad, grad_input_to_fwd_output[tensor])
        for tensor in grad_graph.inputs
    ]
    outputs = [
        ExpectedConnection.create(grad, grad_output_to_fwd_input[tensor])
        for tensor in grad_graph.outputs
    ]
    return GradGraphInfo.create(grad_graph, fwd_graph, inputs, outputs)


class OwnGradient:
    """A gradient graph while `build_grad` makes it."""

    def __init__(
        self,
        forward: GraphWithNamedArgs,
        provided: Sequence[popxl.Tensor] | None,
        required: Sequence[popxl.Tensor] | None,
    ) -> None:
        """Starts the gradient graph.

        Args:
            forward: the graph of `build`, with what that saved.
            provided: outputs whose gradients there are; all by default.
            required: inputs whose gradients are asked for; all of floats by default.

        Raises:
            ValueError: If they are no outputs or inputs of the graph, or are there twice.
        """
        graph = forward.graph
        floats = [tensor for tensor in graph.inputs if tensor.dtype.is_floating_point]
        self._provided = _checked("grads_provided", "output", provided, graph.outputs)
        self._required = _checked(
            "grads_required", "input", floats if required is None else required, floats
        )
        self._forward, self._saved = graph, forward.aux
        self._variables = forward.args.to_dict()
        self._graph = graph.ir.new_graph(f"{graph.id}_bwd")
        self._read: dict[popxl.Tensor, popxl.Tensor] = {}
        self._gradients: dict[popxl.Tensor, popxl.Tensor] = {}

    def __repr__(self) -> str:
        return f"OwnGradient[{self._graph!r}]"

    def __contains__(self, key: Any) -> bool:
        return key in self._saved

    def saved(self, key: Any) -> Any:
        """Returns a saved value of `build`. A tensor becomes an input of the gradient graph.

        Args:
            key: its key in `aux`.
        """
        value = self._saved[key]
        if not isinstance(value, popxl.Tensor):
            return value
        if value not in self._read:
            name = sanitise(value.name)
            meta_shape = value.meta_shape or None
            self._read[value] = popxl.graph_input(
                value.shape, value.dtype, name, meta_shape=meta_shape
            )
        return self._read[value]

    def set_gradient(self, name: str, gradient: popxl.Tensor) -> None:
        """Sets the gradient of a variable.

        Args:
            name: its name, with dots.
            gradient: the gradient.

        Raises:
            TypeError: If the gradient is no tensor.
            KeyError: If there is no such variable.
            ValueError: If it has another shape.
        """
        if not isinstance(gradient, popxl.Tensor):
            raise TypeError(f"Not a tensor: {gradient!r}, the gradient of {name!r}.")
        if name not in self._variables:
            raise KeyError(f"Not a variable: {name!r}. Expected one of: {list(self._variables)}")
        variable = self._variables[name]
        _check_shape(variable, gradient, f"Tensor does not match variable. The variable: {name!r}.")
        self._gradients[variable] = gradient

    def gradient(self, name: str) -> popxl.Tensor:
        """Returns the gradient of a variable that was set.

        Args:
            name: its name, with dots.

        Raises:
            KeyError: If there is no such variable, or it has no gradient yet.
        """
        variable = self._variables.get(name)
        if variable not in self._gradients:
            raise KeyError(f"Not a variable with a gradient: {name!r}.")
        return self._gradients[variable]

    def run(self, build_grad: Callable[..., Any]) -> GraphWithNamedArgs:
        """Makes the graph.

        Args:
            build_grad: takes the gradients of outputs, returns those of the required inputs that
                are no variables.

        Raises:
            TypeError: If it has other parameters than positional ones.
            Exception: If gradients are missing, or there are too many.
            ValueError: If a gradient does not have the shape of its input, or it takes another
                number of gradients than are provided.
        """
        parameters = list(inspect.signature(build_grad).parameters.values())
        if not {parameter.kind for parameter in parameters} <= set(_FIXED):
            raise TypeError(
                "`build_grad` method signature must only have a fixed number of positional "
                f"parameters as inputs. Received: {[str(parameter) for parameter in parameters]}"
            )
        least = sum(parameter.default is parameter.empty for parameter in parameters)
        if not least <= len(self._provided) <= len(parameters):
            raise ValueError(
                "`grads_provided` do not match the signature of `build_grad`, whose parameters are "
                f"{[str(parameter) for parameter in parameters]}. Received: {self._provided}"
            )
        with self._graph:
            starts = [
                popxl.graph_input(**t.spec, name=f"Gradient___{t.name}") for t in self._provided
            ]
            results = self._results(build_grad(*starts))
            for gradient in results.values():
                # One tensor may be the gradient of several inputs, but one output only.
                is_there = gradient in self._graph.outputs
                popxl.graph_output(popxl.ops.identity(gradient) if is_there else gradient)
        kept = [value for value in self._saved.values() if isinstance(value, popxl.Tensor)]
        keep_activations(self._forward, kept, with_inputs=True)
        info = create_grad_graph_info(
            self._graph.ir,
            self._forward,
            self._graph,
            dict(zip(self._graph.inputs, self._provided)),
            dict(zip(self._graph.outputs, results)),
            self._read,
        )
        return GraphWithNamedArgs.from_grad_graph(info)

    def _results(self, returned: Any) -> dict[popxl.Tensor, popxl.Tensor]:
        """Returns the gradients by forward input: those that are no variables first."""
        gradients = [] if returned is None else [returned]
        if isinstance(returned, (list, tuple)):
            gradients = list(returned)
        variables = set(self._variables.values())
        plain = [tensor for tensor in self._required if tensor not in variables]
        missing = [t for t in self._required if t in variables and t not in self._gradients]
        if missing:
            raise Exception(
                f"Not all variable gradients have been specified: {missing}. Set each in "
                "`build_grad`: self.var_grad[name] = gradient."
            )
        if len(gradients) > len(plain):
            raise Exception(
                f"Too many outputs in the grad graph: `build_grad` returned {gradients}. Expected "
                f"gradients of {plain}"
            )
        if len(gradients) < len(plain):
            raise Exception(
                f"Not all forward graph inputs have been specified: {plain}. `build_grad` "
                f"returned: {gradients}"
            )
        for position, (tensor, gradient) in enumerate(zip(plain, gradients)):
            what = f"output Tensor at position {position} does not match the `grad_required`."
            _check_shape(tensor, gradient, what)
        found = dict(zip(plain, gradients))
        found.update((t, self._gradients[t]) for t in self._required if t in variables)
        return found


class SavedTensors:
    """The values that `build` saves for `build_grad`: the attribute `aux` of a module."""

    def __init__(self, saved: dict[Any, Any], gradient: OwnGradient | None) -> None:
        """Gives access to it.

        Args:
            saved: the values that `build` saves, by key.
            gradient: the gradient graph, while `build_grad` makes it.
        """
        self._saved, self._gradient = saved, gradient

    def __repr__(self) -> str:
        return f"SavedTensors[{list(self._saved)}]"

    def __setitem__(self, key: Any, value: Any) -> None:
        self._saved[key] = value

    def __getitem__(self, key: Any) -> Any:
        if self._gradient is None:
            raise Exception(
                "aux: you can only get items within the `build_graph` method, while `build_grad` "
                f"runs. Received: aux[{key!r}]"
            )
        return self._gradient.saved(key)

    def __contains__(self, key: Any) -> bool:
        return key in (self._saved if self._gradient is None else self._gradient)


class VariableGradients:
    """The gradients of variables that `build_grad` sets: the attribute `var_grad` of a module."""

    def __init__(self, gradient: OwnGradient) -> None:
        """Gives access to them.

        Args:
            gradient: the gradient graph.
        """
        self._gradient = gradient

    def __repr__(self) -> str:
        return f"VariableGradients[{self._gradient!r}]"

    def __setitem__(self, name: str, gradient: popxl.Tensor) -> None:
        self._gradient.set_gradient(name, gradient)

    def __getitem__(self, name: str) -> popxl.Tensor:
        return self._gradient.gradient(name)


def _checked(
    name: str,
    kind: str,
    tensors: Sequence[popxl.Tensor] | None,
    possible: Sequence[popxl.Tensor],
) -> list[popxl.Tensor]:
    """Returns the tensors whose gradients there are, or are asked for.

    Args:
        name: name of the argument.
        kind: their role in the graph: "input" or "output".
        tensors: the tensors; all possible ones by default.
        possible: the tensors that have gradients.
    """
    found = list(possible if tensors is None else tensors)
    if any(tensor not in possible for tensor in found):
        problem = f"A Tensor specified in `{name}` is not a {kind} of `fwd_graph` with a gradient."
    elif len(set(found)) < len(found):
        problem = f"A Tensor is specified twice in `{name}`."
    else:
        return found
    raise ValueError(
        f"{problem} Expected some of {list(possible)}, each at most once. Received: {found}"
    )
    return found


def _check_shape(tensor: popxl.Tensor, gradient: popxl.Tensor, what: str) -> None:
    """Refuses a gradient of another shape than its forward tensor."""
    if (gradient.shape, gradient.meta_shape) != (tensor.shape, tensor.meta_shape):
        raise ValueError(
            f"Shape or meta-shape of {what} Expected those of {tensor!r}. Received: {gradient!r}"
        )
