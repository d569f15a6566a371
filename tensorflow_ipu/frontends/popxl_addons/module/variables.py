"""`ModuleWithVariables`: modules that ask for variables of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.module.tree import ModuleTree
from tensorflow_ipu.frontends.popxl_addons.named_tensors import NamedTensors
from tensorflow_ipu.frontends.popxl_addons.variable_factory import (
    NamedVariableFactories,
    VariableFactory,
    add_replica_sharded_variable_input,
    add_variable_input,
)
from tensorflow_ipu.frontends.popxl_addons.variable_factory.values import Data

if TYPE_CHECKING:
    from typing_extensions import Self


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
        self._state.check_name(str(name))
        self._state.factories.insert(name, factories.copy(), overwrite)
        self._state.inputs.insert(name, inputs, overwrite)
        return inputs
