"""Layers with variables of their own: the module `popxl_addons.module`."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.transforms import GradGraphInfo
from tensorflow_ipu.frontends.popxl_addons.dot_tree import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.graph import GraphWithNamedArgs
from tensorflow_ipu.frontends.popxl_addons.graph_cache import key_of, tensors_of
from tensorflow_ipu.frontends.popxl_addons.own_gradients import (
    OwnGradient,
    SavedTensors,
    VariableGradients,
    create_grad_graph_info,
)
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    Data,
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Module", "create_grad_graph_info"]


Tensors = Sequence[popxl.Tensor]
# Takes a graph, and returns some of its tensors.
Choice = Callable[[GraphWithNamedArgs], Tensors]
_INLINING = ("error", "warning", "none")
_AUTODIFF = ("auto", "build_grad", "autodiff", "none")


@dataclasses.dataclass
class ModuleState:
    """Submodules and variables of a module, and the state of the graph in construction.

    Attributes:
        children: The states of its submodules, by name.
        items: Its parts in order, if it was made of a list.
        scope: The name scope that calls of it are in.
        factories: Factories of its own variables, by name.
        inputs: Inputs of the graph for its own variables, by name.
        infos: Gradient graphs of the graphs that it calls.
        called: How many outputs these had before, by graph.
        saved: The values that `build` saves for `build_grad`, by key.
    """

    children: dict[str, ModuleState] = dataclasses.field(default_factory=dict)
    items: list[Any] | None = None
    scope: str | None = None
    factories: NamedVariableFactories = dataclasses.field(default_factory=NamedVariableFactories)
    inputs: NamedTensors = dataclasses.field(default_factory=NamedTensors)
    infos: dict[popxl.Graph, GradGraphInfo] = dataclasses.field(default_factory=dict)
    called: dict[popxl.Graph, int] = dataclasses.field(default_factory=dict)
    saved: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ModuleState[{len(self.children)} submodules {self.factories.keys_flat()}]"

    def reset(self) -> None:
        """Clears the state of the last graph in the module and its submodules."""
        self.factories, self.inputs = NamedVariableFactories(), NamedTensors()
        self.infos, self.called, self.saved = {}, {}, {}
        for child in self.children.values():
            child.reset()

    def enter(
        self, name: str, tensor: popxl.Tensor, factory: VariableFactory, overwrite: bool = False
    ) -> popxl.Tensor:
        """Notes an input for a variable, and returns it.

        Args:
            name: its name.
            tensor: the input.
            factory: the factory of the variable.
            overwrite: whether it may take the place of another one.

        Raises:
            ValueError: If there is one of that name.
        """
        self.check_name(name)
        self.factories.insert(name, factory, overwrite)
        self.inputs.insert(name, tensor, overwrite)
        return tensor

    def check_name(self, name: str) -> None:
        """Refuses the names of submodules.

        Args:
            name: a name for something else.

        Raises:
            ValueError: If it is the name of a submodule.
        """
        if name.split(".")[0] in self.children:
            raise ValueError(f"{name!r} already exists: it is the name of a submodule.")

    def all_factories(self) -> NamedVariableFactories:
        """Returns the factories of submodules and of the module itself, by name."""
        found = NamedVariableFactories()
        for name, child in self.children.items():
            inner = child.all_factories()
            if len(inner):
                found.insert(name, inner)
        found.update(self.factories)
        return found

    def all_inputs(self) -> NamedTensors:
        """Returns the inputs of submodules and of the module itself, by name."""
        found = NamedTensors()
        for name, child in self.children.items():
            inner = child.all_inputs()
            if len(inner):
                found.insert(name, inner)
        found.update(self.inputs)
        return found

    def all_infos(self) -> dict[popxl.Graph, GradGraphInfo]:
        """Returns the gradient graphs of all graphs that these call."""
        found = dict(self.infos)
        for child in self.children.values():
            found.update(child.all_infos())
        return found


class ModuleTree(popxl.Module):
    """A module with others as parts."""

    _state: ModuleState

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes the state, so that submodules can be set from the first line of `__init__` on."""
        module = super().__new__(cls)
        module._state = ModuleState()
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{len(self._state.children)} submodules]"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleTree):
            self._add_child(name, value)
        super().__setattr__(name, value)

    def _add_child(self, name: str, module: ModuleTree) -> None:
        if name in self._state.children or name in self._state.factories:
            raise ValueError(
                f"{name!r} already exists in {type(self).__name__}. Give each submodule and "
                "variable a name of its own."
            )
        self._state.children[name] = module._state
        module.set_name_scope(name)

    @classmethod
    def from_list(cls, sub_modules: Iterable[ModuleTree]) -> Self:
        """Makes a module of others: parts with the names "0", "1", and so on.

        Args:
            sub_modules: the modules, also found as `module[i]`.
        """
        module, parts = cls(), list(sub_modules)
        module._state.items = parts
        for number, part in enumerate(parts):
            module._add_child(str(number), part)
        return module

    def _listed(self) -> list[Any]:
        if self._state.items is None:
            raise AttributeError(
                f"{type(self).__name__} has no numbered parts. Module.from_list makes modules that "
                "have."
            )
        return self._state.items

    def __getitem__(self, key: int) -> Any:
        return self._listed()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed())

    def __bool__(self) -> bool:
        """A module is true, also one without parts: programs ask so whether there is one."""
        return True

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
        self._state.scope = name


class ModuleWithVariables(ModuleTree):
    """A module whose graphs have inputs for variables."""

    @classmethod
    def from_variable_factories(cls, inputs: Iterable[VariableFactory]) -> Self:
        """Makes a module with inputs of the current graph, with the names "0", "1", and so on.

        Args:
            inputs: a factory for each input; the inputs are found as `module[i]`.
        """
        return cls()._with_inputs(inputs)

    def _with_inputs(self, factories: Iterable[VariableFactory]) -> Self:
        """Adds inputs with numbers as names, and returns the module."""
        inputs = [self.add_variable_factory(f, str(i)) for i, f in enumerate(factories)]
        self._state.items = list(inputs)
        for number, tensor in enumerate(inputs):
            setattr(self, str(number), tensor)
        return self

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
        return self._state.enter(name, tensor, factory, overwrite)

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
        return self._state.enter(name, tensor, factory, overwrite)

    def add_variable_factory(
        self, variable_f: VariableFactory, name: str | None = None
    ) -> popxl.Tensor:
        """Adds an input for a variable with a factory that there is.

        Args:
            variable_f: the factory.
            name: the name; that of the factory by default.

        Returns:
            The input.

        Raises:
            ValueError: If there is one of that name, or the factory has none.
        """
        name = name or variable_f.name
        if name is None:
            raise ValueError(f"{variable_f!r} has no name. Pass one.")
        return self._state.enter(name, variable_f.create_input(), variable_f)

    def add_variable_inputs(
        self, name: str | int, factories: NamedVariableFactories, overwrite: bool = False
    ) -> NamedTensors:
        """Adds inputs for all variables of a graph: one set for each place where it is called.

        Args:
            name: the name of the set, or its number.
            factories: the factories that `create_graph` of the module returned.
            overwrite: whether they may take the place of others.

        Returns:
            The inputs, with the names of the factories.

        Raises:
            ValueError: If there is something of that name.
        """
        inputs = NamedTensors.from_dict(
            {key: factory.create_input(str(name)) for key, factory in factories.to_dict().items()}
        )
        self._state.check_name(str(name))
        self._state.factories.insert(name, factories.copy(), overwrite)
        self._state.inputs.insert(name, inputs, overwrite)
        return inputs


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
            grad_inlining_error: the reaction if it has its own gradient, and is called directly
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
