"""`ModuleState`: what a module knows of its parts, and of the graph that is being made of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl.transforms import GradGraphInfo
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
)


@dataclasses.dataclass
class ModuleState:
    """What a module knows of its parts, and of the graph that is being made of it.

    Attributes:
        children: The states of its submodules, by name.
        items: Its parts in order, if it was made of a list.
        scope: The name scope that calls of it are in.
        factories: Factories of its own variables, by name.
        inputs: Inputs of the graph for its own variables, by name.
        infos: Gradient graphs of the graphs that it calls.
        called: How many outputs these had before, by graph.
        saved: What `build` saves for `build_grad`, by key.
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
        """Forgets what the last graph added to the module and its submodules."""
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
