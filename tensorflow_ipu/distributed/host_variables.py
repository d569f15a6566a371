"""Variables on the host whose values IPU programs receive."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, resource_variable_ops
from tensorflow.python.ops.variables import VariableSynchronization
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import trace
from tensorflow_ipu.distributed.instance_strategy import InstanceExtended

_HOST = "/device:CPU:0"


class HostVariable(resource_variable_ops.ResourceVariable):
    """A variable on the host. A program that uses it gets its value when it is launched."""

    def _read_variable_op(self, no_copy: bool = False) -> tensor_lib.Tensor:
        with _around_program():
            value: tensor_lib.Tensor = super()._read_variable_op(no_copy)
            return value

    def sparse_read(self, indices: Any, name: str | None = None) -> tensor_lib.Tensor:
        """Reads rows.

        Args:
            indices: which rows.
            name: name for the op.
        """
        if not trace.in_cluster():
            return super().sparse_read(indices, name)
        return array_ops.gather(self.value(), indices, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> tensor_lib.Tensor:
        """Reads elements, or slices.

        Args:
            indices: which ones.
            name: name for the op.
        """
        if not trace.in_cluster():
            return super().gather_nd(indices, name)
        return array_ops.gather_nd(self.value(), indices, name=name)


class HostVariablesExtended(InstanceExtended):
    """The extended object of strategies with variables, and their updates, on the host."""

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        # What each worker counts for itself, such as a metric, its program updates.
        if kwargs.get("synchronization") == VariableSynchronization.ON_READ:
            return super()._create_variable(next_creator, **kwargs)
        kwargs["use_resource"] = True
        with ops.device(_HOST):
            made = next_creator(**self.begun_alike(kwargs))
        made.__class__ = HostVariable
        return made

    def _update_non_slot(
        self, colocate_with: Any, fn: Callable[..., Any], args: Any, kwargs: Any, group: bool
    ) -> Any:
        if trace.in_cluster():
            raise NotImplementedError(
                "Variables on the host cannot be updated in a program for the IPU. With "
                "variables_on_host=True call optimizer.compute_gradients in the program and "
                "optimizer.apply_gradients on the host: in an IPUEstimator in the function of "
                "`host_call`."
            )
        del colocate_with
        with ops.device(_HOST), distribute_lib.UpdateContext(_HOST):
            result = fn(*args, **kwargs)
        return result if group else nest.map_structure(self._local_results, result)


def extended(variables_on_host: bool) -> type[InstanceExtended]:
    """Returns the class of a strategy's extended object.

    Args:
        variables_on_host: whether its variables are on the host.

    Raises:
        NotImplementedError: If they are, in eager mode.
    """
    if not variables_on_host:
        return InstanceExtended
    if context.executing_eagerly():
        raise NotImplementedError(
            "variables_on_host=True is for graph mode. Leave it out, or make the strategy after "
            "tf.compat.v1.disable_eager_execution(), or in a tf.Graph."
        )
    return HostVariablesExtended


@contextlib.contextmanager
def _around_program() -> Iterator[None]:
    """Adds operations to the graph around the program that is being traced, on the host."""
    if not trace.in_cluster():
        yield
        return
    graph = ops.get_default_graph()
    while isinstance(graph, func_graph_lib.FuncGraph):
        graph = graph.outer_graph
    with graph.as_default(), graph.control_dependencies(None), ops.device(_HOST):
        yield
