"""Inputs of the current graph for variables."""

from __future__ import annotations

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.variable_factory.factory import VariableFactory
from tensorflow_ipu.frontends.popxl_addons.variable_factory.values import Data


def add_variable_input(
    name: str,
    data_iter: Data,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Adds an input for a variable to the current graph.

    Args:
        name: its name.
        data_iter: as for `VariableFactory`.
        dtype: type of the elements; that of the data by default.
        by_ref: whether it is passed by reference.
        replica_grouping: which replicas have the same value; all by default.

    Returns:
        The input, and the factory for its variable.
    """
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
    return factory.create_input(), factory


def add_replica_sharded_variable_input(
    name: str,
    data_iter: Data,
    dtype: popxl.dtype | None = None,
    by_ref: bool = False,
    replica_grouping: popxl.ReplicaGrouping | None = None,
    shard_over: int | None = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Adds an input for a variable that is sharded over replicas to the current graph.

    Args:
        name: its name.
        data_iter: as for `VariableFactory`; values are whole tensors.
        dtype: type of the elements; that of the data by default.
        by_ref: whether it is passed by reference.
        replica_grouping: which replicas have the same value; all by default.
        shard_over: over how many replicas; over those of a group by default.

    Returns:
        The input, and the factory for its variable.
    """
    group = replica_grouping or popxl.gir().replica_grouping()
    over = shard_over or group.group_size
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping, over)
    return factory.create_input(), factory
