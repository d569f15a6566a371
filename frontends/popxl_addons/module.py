"""`Module`: layers with variables of their own; the module `popxl_addons.module`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.transforms import GradGraphInfo
from tensorflow_ipu.frontends.popxl_addons.graph import GradBuilder, GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.graph_cache import key_of
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.transforms.own_gradients import OwnGradient
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    Data,
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

__all__ = ["Module"]

Tensors = Sequence[popxl.Tensor]
# Takes a graph, and returns some of its tensors.
Choice = Callable[[GraphWithNamedArgs], Tensors]
_INLINING = ("error", "warning", "none")
_AUTODIFF = ("auto", "build_grad", "autodiff", "none")


class _SavedTensors:
    """What `build` saves for `build_grad`: the attribute `aux` of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def __setitem__(self, key: Any, value: Any) -> None:
        self._module._saved[key] = value

    def __getitem__(self, key: Any) -> Any:
        gradient = self._module._gradient
        return self._module._saved[key] if gradient is None else gradient.saved(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._module._saved


class _VariableGradients:
    """The gradients of variables that `build_grad` sets: the attribute `var_grad` of a module."""

    def __init__(self, gradient: OwnGradient) -> None:
        self._gradient = gradient

    def __setitem__(self, name: str, gradient: popxl.Tensor) -> None:
        self._gradient.set_gradient(name, gradient)


class Module(popxl.Module):
    """A layer or model with variables: a class whose `build` makes ops and asks for variables.

    Modules that are attributes of a module are parts of it: their variables have the names of the
    attributes before their own.
    """

    _children: dict[str, Module]
    _factories: NamedVariableFactories
    _inputs: NamedTensors
    _infos: dict[popxl.Graph, GradGraphInfo]
    _saved: dict[Any, Any]
    _gradient: OwnGradient | None
    _items: list[Any] | None
    _scope: str | None
    _is_built: bool
    _cached: dict[Any, Any] | None
    _grad_inlining_error: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes the state, so that submodules can be set from the first line of `__init__` on."""
        module = super().__new__(cls)
        module._children = {}
        module._reset()
        module._gradient = None
        module._items = None
        module._scope = None
        module._is_built = False
        module._cached = None
        module._grad_inlining_error = "error"
        return module

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
                f"grad_inlining_error must be one of {_INLINING}. Received: {grad_inlining_error!r}"
            )
        if cache and self.implements_grad_graph:
            raise ValueError(
                f"{type(self).__name__} implements `build_grad`, so it cannot use graph caching: "
                "what `build` saves belongs to one graph."
            )
        self._cached = {} if cache else None
        self._grad_inlining_error = grad_inlining_error

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{len(self._children)} submodules]"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            self._add_child(name, value)
        super().__setattr__(name, value)

    def _add_child(self, name: str, module: Module) -> None:
        if name in self._children or name in self._factories:
            raise ValueError(
                f"{name!r} already exists in {type(self).__name__}. Give each submodule and "
                "variable a name of its own."
            )
        self._children[name] = module
        module.set_name_scope(name)

    @classmethod
    def from_list(cls, modules: Iterable[Module]) -> Module:
        """Makes a module of others: parts with the names "0", "1", and so on.

        Args:
            modules: the modules, also found as `module[i]`.
        """
        module = Module()
        module._items = list(modules)
        for number, part in enumerate(module._items):
            module._add_child(str(number), part)
        return module

    @classmethod
    def from_variable_factories(cls, args: Iterable[VariableFactory]) -> Module:
        """Makes a module with inputs of the current graph, with the names "0", "1", and so on.

        Args:
            args: a factory for each input; the inputs are found as `module[i]`.
        """
        module = Module()
        inputs = [module.add_variable_factory(f, str(i)) for i, f in enumerate(args)]
        module._items = list(inputs)
        for number, tensor in enumerate(inputs):
            setattr(module, str(number), tensor)
        return module

    def _listed(self) -> list[Any]:
        if self._items is None:
            raise AttributeError(
                f"{type(self).__name__} has no numbered parts. Module.from_list makes modules that "
                "have."
            )
        return self._items

    def __getitem__(self, key: int) -> Any:
        return self._listed()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def get(self, key: int | str) -> Any:
        """Returns a part of a module that `from_list` made.

        Args:
            key: its number.

        Raises:
            AttributeError: If the module was made in another way.
        """
        return self._listed()[int(key)]

    def set_name_scope(self, name: str) -> None:
        """Sets the name scope that calls of the module are in.

        Args:
            name: the scope.
        """
        self._scope = name

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
        scope = popxl.name_scope(self._scope) if self._scope else contextlib.nullcontext()
        with scope:
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
        self._reset_all()
        self._is_built = True
        try:
            graph = popxl.gir().create_graph(self, *args, **kwargs)
            graph.can_be_differentiated = not self.implements_grad_graph
            named = GraphWithNamedArgs(
                graph,
                self._collected("_inputs", NamedTensors()),
                called_graphs_grad_info=self._collected_infos(),
                grad_builder=self._gradient_builder(self._saved),
            )
            return self._collected("_factories", NamedVariableFactories()), named
        finally:
            self._is_built = False
            self._reset_all()

    def _gradient_builder(self, saved: Mapping[Any, Any]) -> GradBuilder | None:
        """Returns what makes a gradient graph with `build_grad`, if that is overridden."""
        if not self.implements_grad_graph:
            return None

        def build(
            graph: GraphWithNamedArgs, provided: Tensors | None, required: Tensors | None
        ) -> GraphWithNamedArgs:
            self._gradient = OwnGradient(graph, saved, provided, required)
            try:
                return self._gradient.run(self.build_grad)
            finally:
                self._gradient = None

        return build

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
            Exception: If `build_grad` leaves out gradients, or returns too many.
        """
        return fwd_graph.autodiff(grads_provided, grads_required, method="build_grad", force=True)

    @property
    def aux(self) -> _SavedTensors:
        """What `build` saves by key, and `build_grad` takes: tensors and other values."""
        return _SavedTensors(self)

    @property
    def var_grad(self) -> _VariableGradients:
        """Where `build_grad` puts the gradients of variables, by their names.

        Raises:
            Exception: Outside of `build_grad`.
        """
        if self._gradient is None:
            raise Exception("var_grad can be used in `build_grad` only.")
        return _VariableGradients(self._gradient)

    def add_variable_input(
        self,
        name: str,
        data_iter: Data,
        dtype: popxl.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """Adds an input for a variable to the current graph.

        Args:
            name: its name.
            data_iter: a function without arguments that returns the value of each new variable, or
                an iterable of values.
            dtype: type of the elements; that of the data by default.
            by_ref: whether it is passed by reference.
            replica_grouping: which replicas have the same value; all by default.
            overwrite: whether it may take the place of another one.

        Returns:
            The input.

        Raises:
            ValueError: If there is one of that name, or the data are no arrays.
        """
        tensor, factory = add_variable_input(name, data_iter, dtype, by_ref, replica_grouping)
        return self._enter(name, tensor, factory, overwrite)

    def add_replica_sharded_variable_input(
        self,
        name: str,
        data_iter: Data,
        dtype: popxl.dtype | None = None,
        by_ref: bool = False,
        replica_grouping: popxl.ReplicaGrouping | None = None,
        shard_over: int | None = None,
        overwrite: bool = False,
    ) -> popxl.Tensor:
        """Adds an input for the shard of a variable that is spread over replicas.

        Args:
            name: its name.
            data_iter: as for `add_variable_input`; values are whole tensors.
            dtype: type of the elements; that of the data by default.
            by_ref: whether it is passed by reference.
            replica_grouping: which replicas have the same value; all by default.
            shard_over: over how many replicas; over those of a group by default.
            overwrite: whether it may take the place of another one.

        Returns:
            The input.

        Raises:
            ValueError: If there is one of that name, or the data are no arrays.
        """
        tensor, factory = add_replica_sharded_variable_input(
            name, data_iter, dtype, by_ref, replica_grouping, shard_over
        )
        return self._enter(name, tensor, factory, overwrite)

    def add_variable_factory(
        self, factory: VariableFactory, name: str | None = None
    ) -> popxl.Tensor:
        """Adds an input for a variable with a factory that there is.

        Args:
            factory: the factory.
            name: the name; that of the factory by default.

        Returns:
            The input.

        Raises:
            ValueError: If there is one of that name, or the factory has none.
        """
        name = name or factory.name
        if name is None:
            raise ValueError(f"{factory!r} has no name. Pass one.")
        return self._enter(name, factory.create_input(), factory, False)

    def add_variable_inputs(
        self, name: str | int, factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Adds inputs for all variables of a graph: one set for each place where it is called.

        Args:
            name: the name of the set, or its number.
            factories: what `create_graph` of the module returned.
            overwrite: whether they may take the place of others.

        Returns:
            The inputs, with the names of the factories.

        Raises:
            ValueError: If there is something of that name.
        """
        inputs = NamedTensors.from_dict(
            {key: factory.create_input(str(name)) for key, factory in factories.to_dict().items()}
        )
        self._check_name(str(name))
        self._factories.insert(name, factories.copy(), overwrite)
        self._inputs.insert(name, inputs, overwrite)
        return inputs

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
            inputs = self.add_variable_inputs(name or type(module).__name__, factories)
            count = len(graph.graph.outputs)
            if autodiff != "none":
                provided, required = (
                    None if choice is None else choice(graph)
                    for choice in (grads_provided, grads_required)
                )
                made = graph.autodiff(provided, required, method=autodiff)
                self._infos[graph.graph] = made.grad_graph_info
            passed = [v for v in (*args, *kwargs.values()) if isinstance(v, popxl.Tensor)]
            return graph.bind(inputs).call(*passed)[:count]

        return call

    def _enter(
        self, name: str, tensor: popxl.Tensor, factory: VariableFactory, overwrite: bool
    ) -> popxl.Tensor:
        """Notes an input for a variable."""
        self._check_name(name)
        self._factories.insert(name, factory, overwrite)
        self._inputs.insert(name, tensor, overwrite)
        return tensor

    def _check_name(self, name: str) -> None:
        if name.split(".")[0] in self._children:
            raise ValueError(f"{name!r} already exists: it is the name of a submodule.")

    def _reset(self) -> None:
        """Forgets what the last graph added."""
        self._factories = NamedVariableFactories()
        self._inputs = NamedTensors()
        self._infos = {}
        self._saved = {}

    def _reset_all(self) -> None:
        self._reset()
        for child in self._children.values():
            child._reset_all()

    def _collected(self, name: str, tree: Any) -> Any:
        """Returns what the submodules and the module itself have of a kind, by name."""
        for key, child in self._children.items():
            inner = child._collected(name, type(tree)())
            if len(inner):
                tree.insert(key, inner)
        tree.update(getattr(self, name))
        return tree

    def _collected_infos(self) -> dict[popxl.Graph, GradGraphInfo]:
        """Returns the gradient graphs of all graphs that `call_module` called."""
        found = dict(self._infos)
        for child in self._children.values():
            found.update(child._collected_infos())
        return found
