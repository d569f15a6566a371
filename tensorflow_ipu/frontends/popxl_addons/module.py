"""Layers with variables of their own: the module `popxl_addons.module`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.graph_cache import key_of, tensors_of
from tensorflow_ipu.frontends.popxl_addons.module_variables import ModuleWithVariables
from tensorflow_ipu.frontends.popxl_addons.own_gradients import (
    OwnGradient,
    SavedTensors,
    VariableGradients,
    create_grad_graph_info,
)
from tensorflow_ipu.frontends.popxl_addons.variable_factory import NamedVariableFactories

__all__ = ["Module", "create_grad_graph_info"]


Tensors = Sequence[popxl.Tensor]


# Takes a graph, and returns some of its tensors.
Choice = Callable[[GraphWithNamedArgs], Tensors]


_INLINING = ("error", "warning", "none")


_AUTODIFF = ("auto", "build_grad", "autodiff", "none")


class Module(ModuleWithVariables):
    """A layer or model with variables: a class whose `build` makes ops and asks for variables.

    Modules that are attributes of a module are parts of it: their variables have the names of the
    attributes before their own.
    """

    _gradient: OwnGradient | None = None
    _is_built = False
    _cached: dict[Any, Any] | None = None
    _grad_inlining_error = "error"

    def __init__(self, cache: bool = False, grad_inlining_error: str = "error") -> None:
        """Sets how graphs are made of it.

        Args:
            cache: whether `create_graph` returns the same graph for the same arguments.
            grad_inlining_error: what happens if it has its own gradient, and is called directly
                in another module: "error", "warning" or "none".

        Raises:
            ValueError: If the last is another value, or there are both a cache and a gradient.
        """
        if grad_inlining_error not in _INLINING:
            raise ValueError(
                f"grad_inlining_error should be one of {_INLINING}. Received: "
                f"{grad_inlining_error!r}"
            )
        if cache and self.implements_grad_graph:
            raise ValueError(
                "You cannot use graph caching if you have implemented `build_grad`, as "
                f"{type(self).__name__} has: what `build` saves belongs to one graph."
            )
        self._cached = {} if cache else None
        self._grad_inlining_error = grad_inlining_error

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the ops; classes override it.

        Args:
            *args: tensors, which are the inputs of the graph, and other values.
            **kwargs: the same by name.

        Returns:
            None, a tensor or tensors: the outputs of the graph.

        Raises:
            NotImplementedError: If it is not overridden.
        """
        return super().build(*args, **kwargs)

    def build_grad(self, *args: Any, **kwargs: Any) -> Any:
        """Makes the gradient; classes may override it, with a fixed number of parameters.

        Args:
            *args: the gradients of the outputs that are provided.
            **kwargs: none.

        Returns:
            Gradients of the inputs that are required and are no variables, in order.

        Raises:
            NotImplementedError: If it is not overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement `build_grad`.")

    @property
    def implements_grad_graph(self) -> bool:
        """Whether it overrides `build_grad`."""
        return type(self).build_grad is not Module.build_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds its ops to the current graph.

        Raises:
            Exception: If it implements `build_grad`, which derived gradients do not know of.
        """
        if self.implements_grad_graph and not self._is_built:
            message = (
                f"You are calling this module directly but `build_grad` is implemented by "
                f"{type(self).__name__}, and would not be used. Use `call_module`."
            )
            if self._grad_inlining_error == "error":
                raise Exception(message)
            if self._grad_inlining_error == "warning":
                warnings.warn(message, stacklevel=2)
        scope = self._state.scope
        with popxl.name_scope(scope) if scope else contextlib.nullcontext():
            return self.build(*args, **kwargs)

    def create_graph(
        self, *args: Any, **kwargs: Any
    ) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        """Makes a graph of `build`, in the Ir of the current graph.

        Args:
            *args: tensors and specs, for which the graph has inputs, and other values.
            **kwargs: the same by name.

        Returns:
            A factory for each variable, and the graph.

        Raises:
            RuntimeError: Outside of all graphs.
        """
        if self._cached is None:
            return self._create(args, kwargs)
        key = key_of(self, args, kwargs)
        if key not in self._cached:
            self._cached[key] = self._create(args, kwargs)
        factories, graph = self._cached[key]
        return factories.copy(), graph.copy()

    def _create(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[NamedVariableFactories, GraphWithNamedArgs]:
        state = self._state
        state.reset()
        self._is_built = True
        try:
            graph = popxl.gir().create_graph(self, *args, **kwargs)
            graph.can_be_differentiated = not self.implements_grad_graph
            named = GraphWithNamedArgs(
                graph,
                state.all_inputs(),
                from_module=self,
                aux=state.saved,
                called_graphs_grad_info=state.all_infos(),
            )
            return state.all_factories(), named
        finally:
            self._is_built = False
            state.reset()

    def create_grad_graph(
        self,
        fwd_graph: GraphWithNamedArgs,
        grads_provided: Tensors | None = None,
        grads_required: Tensors | None = None,
    ) -> GraphWithNamedArgs:
        """Makes the gradient graph with `build_grad`.

        Args:
            fwd_graph: a graph that `create_graph` of this module returned.
            grads_provided: outputs whose gradients are passed in; all by default.
            grads_required: inputs whose gradients are returned; all of floats by default.

        Returns:
            The gradient graph: it returns the gradients of inputs, then those of variables.

        Raises:
            ValueError: If a tensor is no output or input, or is there twice.
            NotImplementedError: If the module does not implement `build_grad`.
            TypeError: If `build_grad` has other parameters than positional ones.
            Exception: If `build_grad` leaves out gradients, returns too many, or ones of another
                shape.
        """
        if not self.implements_grad_graph:
            raise NotImplementedError(f"{type(self).__name__} does not implement `build_grad`.")
        self._gradient = OwnGradient(fwd_graph, grads_provided, grads_required)
        try:
            return self._gradient.run(self.build_grad)
        finally:
            self._gradient = None

    @property
    def aux(self) -> SavedTensors:
        """Tensors and other values by key that `build` saves for `build_grad`."""
        return SavedTensors(self._state.saved, self._gradient)

    @property
    def var_grad(self) -> VariableGradients:
        """Where `build_grad` puts the gradients of variables, by their names.

        Raises:
            Exception: Outside of `build_grad`.
        """
        if self._gradient is None:
            raise Exception(
                "var_grad: you can only get and set gradients within the `build_graph` method, "
                "while `build_grad` runs."
            )
        return VariableGradients(self._gradient)

    def call_module(
        self,
        module: Module,
        name: str | None = None,
        autodiff: str = "auto",
        grads_provided: Choice | None = None,
        grads_required: Choice | None = None,
    ) -> Callable[..., tuple[popxl.Tensor, ...]]:
        """Returns a function that calls another module as a graph of its own.

        Args:
            module: the module.
            name: the name of its variables in this one; that of its class by default.
            autodiff: how its gradient graph is made at once, for the gradient of this module:
                "build_grad", "autodiff", "none", or "auto" for its `build_grad` if it has one.
            grads_provided: takes the graph; returns the outputs whose gradients are passed in.
            grads_required: takes the graph; returns the inputs whose gradients are returned.

        Returns:
            A function that takes what `build` of the module does, and returns its outputs.

        Raises:
            ValueError: If `autodiff` is another value.
        """
        if autodiff not in _AUTODIFF:
            raise ValueError(f"autodiff must be one of {_AUTODIFF}. Received: {autodiff!r}")
        if autodiff == "auto":
            autodiff = "build_grad" if module.implements_grad_graph else "none"

        def call(*args: Any, **kwargs: Any) -> tuple[popxl.Tensor, ...]:
            factories, graph = module.create_graph(*args, **kwargs)
            for called, info in graph.called_graphs_grad_info.items():
                self._state.infos.setdefault(called, info)
            inputs = self._inputs_of(name or type(module).__name__, factories)
            count = self._state.called.setdefault(graph.graph, len(graph.graph.outputs))
            if autodiff != "none" and graph.graph not in self._state.infos:
                provided, required = (
                    None if choice is None else choice(graph)
                    for choice in (grads_provided, grads_required)
                )
                made = graph.autodiff(provided, required, method=autodiff)
                self._state.infos[graph.graph] = made.grad_graph_info
            passed = tensors_of(module.build, args, kwargs)
            return graph.bind(inputs).call(*passed)[:count]

        return call

    def _inputs_of(self, name: str, factories: NamedVariableFactories) -> NamedTensors:
        """Adds inputs for the variables of a module that is called, if it has any."""
        if not factories.len_flat():
            return NamedTensors()
        return self.add_variable_inputs(name, factories)
