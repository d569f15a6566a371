"""Base of the strategies for several instances, and their variables."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.checkpoint import tensor_callable
from tensorflow.python.distribute import distribute_lib, reduce_util
from tensorflow.python.eager import context
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import array_ops, resource_variable_ops
from tensorflow.python.ops.variables import VariableAggregation, VariableSynchronization
from tensorflow.python.trackable import base as trackable
from tensorflow.python.util import nest

from tensorflow_ipu.compiler import current_scope, launch, trace
from tensorflow_ipu.distributed import host_collective_ops, transport
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.distributed.ipu_strategy import IPUExtended, IPUStrategyV1

# --- Variables that are reduced when read ---

_REDUCED = {
    VariableAggregation.SUM: reduce_util.ReduceOp.SUM,
    VariableAggregation.MEAN: reduce_util.ReduceOp.MEAN,
}


class ReadVariable(resource_variable_ops.ResourceVariable):
    """A variable that is reduced over instances when their strategy reads it.

    The strategy reads it on the host, in its scope and outside of `run`: all instances have to read
    it at the same time. Elsewhere, and in checkpoints, it has the instance's own value.
    """

    # TensorFlow compares the storage of variables, past `_read_variable_op`.
    def __eq__(self, other: object) -> Any:
        return self.read_value() == other

    def __ne__(self, other: object) -> Any:
        return self.read_value() != other

    __hash__ = resource_variable_ops.ResourceVariable.__hash__

    def _read_variable_op(self, no_copy: bool = False) -> tensor_lib.Tensor:
        value: tensor_lib.Tensor = super()._read_variable_op(no_copy)
        is_asked = distribute_lib.has_strategy() and distribute_lib.in_cross_replica_context()
        if trace.in_cluster() or current_scope.is_reading_own() or not is_asked:
            return value
        return host_collective_ops.allreduce(value, _REDUCED[self.aggregation], "ReadVariable")

    def _serialize_to_tensors(self) -> dict[str, Any]:
        def own() -> tensor_lib.Tensor:
            with current_scope.own_values():
                value: tensor_lib.Tensor = self.read_value()
                return value

        return {
            trackable.VARIABLE_VALUE_KEY: tensor_callable.Callable(own, self.dtype, self.device)
        }


def reduced_when_read(variable: Any) -> Any:
    """Makes a variable a `ReadVariable`, if it says how instances aggregate it.

    Args:
        variable: a variable that is synchronized on read.

    Returns:
        The variable.
    """
    if variable.aggregation in _REDUCED:
        variable.__class__ = ReadVariable
    return variable


# --- Base of strategies ---


class InstanceStrategy(IPUStrategyV1):
    """A strategy of several instances, each of which runs the program on an IPU device."""

    def __init__(
        self,
        extended: Callable[[Any, str, str], IPUExtended],
        instances: Instances,
        ipu_device: str,
        enable_dataset_iterators: bool,
        enable_keras_extensions: bool,
    ) -> None:
        """Makes the strategy.

        Args:
            extended: makes what it does inside, as `IPUExtended`.
            instances: the instances.
            ipu_device: the TensorFlow device to run on, in each instance.
            enable_dataset_iterators: as for `IPUStrategyV1`.
            enable_keras_extensions: likewise.
        """
        self._instances = instances
        super().__init__(
            ipu_device,
            enable_dataset_iterators=enable_dataset_iterators,
            enable_keras_extensions=enable_keras_extensions,
        )
        distribute_lib.StrategyV1.__init__(self, extended(self, ipu_device, "/device:CPU:0"))

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of instances."""
        return self._instances.count

    @property
    def instances(self) -> Instances:
        """The instances, and which of them this is."""
        return self._instances


class GraphStrategy(InstanceStrategy):
    """Strategy in graph mode: the user's function compiles its programs for the IPU."""

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Runs a function on the device of this instance.

        Args:
            fn: in a graph any function: computations that it passes to `ipu_compiler.compile` run
                as programs. In eager mode a `tf.function`, which is one program.
            args: positional arguments.
            kwargs: keyword arguments.
            options: has no effect: there is one device in each instance.

        Returns:
            The results of `fn`.

        Raises:
            ValueError: If `fn` is an ordinary Python function in eager mode.
        """
        is_function = isinstance(fn, (launch.Function, launch.ConcreteFunction))
        if context.executing_eagerly() or is_function or trace.in_cluster():
            return super().run(fn, args, kwargs, options)
        # Not that of IPUStrategy, which would compile all of it.
        return super(IPUStrategyV1, self).run(fn, args, dict(kwargs or {}), options)

    def experimental_run_v2(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Calls `run`; its name in TensorFlow 1.15.

        Args:
            fn: as for `run`.
            args: likewise.
            kwargs: likewise.

        Returns:
            The results of `fn`.
        """
        return self.run(fn, args, kwargs)


class InstanceExtended(IPUExtended):
    """The extended object of strategies whose instances reduce on the host.

    Args:
        container_strategy: the strategy, an `InstanceStrategy`.
        ipu_device: the device to run on.
        cpu_device: where initial values are computed.
    """

    def __init__(self, container_strategy: Any, ipu_device: str, cpu_device: str) -> None:
        super().__init__(container_strategy, ipu_device, cpu_device)
        # Stock strategies name the task of this process too, which is another one in a session of
        # its own than in eager mode. Neither sees devices of other processes.
        self._device = ipu_device

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        """Creates a variable with the first instance's value on all instances."""
        kwargs = self.begun_alike(kwargs)
        made = super()._create_variable(next_creator, **kwargs)
        on_read = kwargs.get("synchronization") == VariableSynchronization.ON_READ
        if not on_read or transport.count() == 1:
            return made
        return reduced_when_read(made)

    def begun_alike(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a variable, with the initial value of the first instance.

        Args:
            kwargs: the arguments, with the initial value of this one.
        """
        initial_value = kwargs.get("initial_value")
        if transport.count() == 1 or initial_value is None:
            return kwargs

        def of_first_instance() -> Any:
            value = initial_value() if callable(initial_value) else initial_value
            tensor = ops.convert_to_tensor(value, dtype=kwargs.get("dtype"))
            return transport.from_instance(tensor, 0, "InitialValue")

        return {**kwargs, "initial_value": of_first_instance}

    def _update_config_proto(self, config_proto: Any) -> Any:
        """Keeps sessions on a server to the devices of their own process."""
        updated = copy.deepcopy(config_proto)
        instances = self._container_strategy().instances
        if instances.count > 1:
            job, task = instances.task(instances.index)
            updated.device_filters[:] = [f"/job:{job}/task:{task}"]
        return updated

    def _reduce_to(
        self, reduce_op: reduce_util.ReduceOp, value: Any, destinations: Any, options: Any
    ) -> Any:
        """Reduces over instances, also values that a `CrossReplicaOptimizer` has reduced."""
        del destinations, options
        return nest.map_structure(lambda one: self.reduce_on_host(reduce_op, one), value)

    def reduce_on_host(self, reduce_op: reduce_util.ReduceOp, value: Any) -> Any:
        """Reduces a value over the instances.

        Args:
            reduce_op: SUM or MEAN.
            value: a tensor, or a value that converts to one.
        """
        if self._num_replicas_in_sync == 1:
            return value
        # In the order of the program: names of tensors may count layers of models made before.
        return host_collective_ops.allreduce(value, reduce_op, "AllReduce")

    @property
    def _num_replicas_in_sync(self) -> int:
        return int(self._container_strategy().num_replicas_in_sync)


# --- Variables on the host ---

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


def host_variables_extended(variables_on_host: bool) -> type[InstanceExtended]:
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
