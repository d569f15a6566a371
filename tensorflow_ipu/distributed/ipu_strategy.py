"""`IPUStrategy`, for one IPU device: the public module `ipu.ipu_strategy`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.distribute import distribute_lib, one_device_strategy, reduce_util
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import dtypes
from tensorflow.python.util import nest

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import current_scope, launch, trace
from tensorflow_ipu.compiler.current_scope import DeviceStrategy
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.feeds import ipu_infeed_queue
from tensorflow_ipu.import_hook.versions import legacy_keras
from tensorflow_ipu.keras_layers import keras3_models as keras3
from tensorflow_ipu.ops import cross_replica_ops
from tensorflow_ipu.runtime import system
from tensorflow_ipu.util.short_repr import shows

__all__ = ["IPUStrategy", "IPUStrategyV1"]


# --- Extended object ---


class IPUExtended(one_device_strategy.OneDeviceExtended):
    """The extended object of `IPUStrategy`; it computes initial values on the CPU."""

    def __init__(self, container_strategy: Any, ipu_device: str, cpu_device: str) -> None:
        super().__init__(container_strategy, ipu_device)
        self._cpu_device = cpu_device

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        initial_value = kwargs.get("initial_value")
        if callable(initial_value):

            def on_cpu() -> Any:
                with scopes.host_scope(self._cpu_device):
                    return initial_value()

            kwargs["initial_value"] = on_cpu
        with current_scope.scope_of_variable():
            return super()._create_variable(next_creator, **kwargs)

    def variable_created_in_scope(self, v: Any) -> bool:
        """Returns whether a variable was made for this device, in a scope of any IPUStrategy."""
        return current_scope.same_device(
            self._container_strategy(), getattr(v, "_distribute_strategy", None)
        )

    def _validate_colocate_with_variable(self, colocate_with_variable: Any) -> None:
        """Checks a variable that an optimizer makes its own variables beside."""
        if not self.variable_created_in_scope(colocate_with_variable):
            name = getattr(colocate_with_variable, "name", repr(colocate_with_variable))
            raise ValueError(
                f"The variable {name.split(':')[0]!r}, which an optimizer is to update on "
                f"{self._device}, was made outside the scope of this IPUStrategy. Make it inside "
                "`with strategy.scope():`."
            )

    def _experimental_distribute_dataset(self, dataset: Any, options: Any) -> Any:
        del options
        return HostDataset(dataset)

    def _distribute_datasets_from_function(
        self, dataset_fn: Callable[[distribute_lib.InputContext], Any], options: Any
    ) -> Any:
        """Returns the dataset of the function: one process reads it, whole."""
        del options
        return dataset_fn(distribute_lib.InputContext())

    def _reduce_to(
        self, reduce_op: reduce_util.ReduceOp, value: Any, destinations: Any, options: Any
    ) -> Any:
        del destinations, options
        if not trace.in_cluster() or not current_scope.is_reducing():
            return value
        return over_replicas(reduce_op, value)


class HostDataset(dataset_ops.UnaryUnchangedStructureDataset):
    """A distributed dataset: read by a function on the host, which calls `IPUStrategy.run`.

    So does Keras itself, in its own `fit` and in `train_on_batch`.
    """

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, dataset._variant_tensor)

    def __iter__(self) -> Iterator[Any]:
        return iterator_ops.OwnedIterator(self)


def over_replicas(reduce_op: reduce_util.ReduceOp, value: Any) -> Any:
    """Reduces values over the replicas of a program, in the program.

    Args:
        reduce_op: SUM or MEAN.
        value: a tensor, or a structure of tensors.

    Returns:
        The same, reduced.

    Raises:
        ValueError: If `reduce_op` is another.
    """
    if reduce_op not in (reduce_util.ReduceOp.SUM, reduce_util.ReduceOp.MEAN):
        raise ValueError(
            f"Unsupported reduce op: {reduce_op}. An IPUStrategy can reduce with SUM and MEAN."
        )
    reduce = {
        reduce_util.ReduceOp.SUM: cross_replica_ops.cross_replica_sum,
        reduce_util.ReduceOp.MEAN: cross_replica_ops.cross_replica_mean,
    }[reduce_op]
    return nest.map_structure(reduce, value)


# --- Strategy ---

tensorflow_hooks.install()


_TF_FUNCTIONS = (launch.Function, launch.ConcreteFunction)


# Keras scales losses only under the strategies that it knows, of which this is one kind.
class IPUStrategyV1(one_device_strategy.OneDeviceStrategyV1, DeviceStrategy):
    """Strategy that runs functions on one IPU device, which may have several IPUs.

    Variables made in its `scope()` are on the device; their initial values are computed on the
    CPU. Configure the system (`IPUConfig`) before making one.
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
        enable_custom_train_step: bool = False,
    ) -> None:
        """Makes a strategy.

        Args:
            ipu_device: the TensorFlow device to run on.
            cpu_device: where initial values are computed.
            enable_dataset_iterators: whether `iter(dataset)` in the scope makes an iterator that
                programs on the device read through an infeed.
            enable_keras_extensions: whether Keras models made in the scope run as IPU programs.
            enable_custom_train_step: whether `fit` of such a model compiles a `train_step` that the
                model has of its own, instead of refusing it. `set_custom_train_step` of a model
                decides for that model.
        """
        distribute_lib.StrategyV1.__init__(self, IPUExtended(self, ipu_device, cpu_device))
        DeviceStrategy.__init__(
            self,
            ipu_device,
            enable_dataset_iterators,
            enable_keras_extensions,
            enable_custom_train_step,
            ipu_infeed_queue.make_owned_iterator,
        )

    __repr__ = shows(
        lambda self: {
            "": self._ipu_device,
            "enable_dataset_iterators": self._enable_dataset_iterators,
            "enable_keras_extensions": self._enable_keras_extensions,
        }
    )

    @property
    def num_replicas_in_sync(self) -> int:
        """Always 1: replication over the IPUs of the device is inside the program."""
        return 1

    @property
    def supports_loss_scaling(self) -> bool:
        """Always true."""
        return True

    def scope(self) -> contextlib.AbstractContextManager[IPUStrategyV1]:
        """Returns a context in which variables and Keras models are made for the device."""
        return _Scope(super().scope(), self._enable_keras_extensions)

    def run(
        self,
        fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Any = None,
    ) -> Any:
        """Runs a function as one program on the device.

        Args:
            fn: a `tf.function` or ConcreteFunction. Inside a `tf.function` it may be any function.
            args: positional arguments. The program reads an iterator of the host as it reads one
                that was made in the scope: through an infeed.
            kwargs: keyword arguments.
            options: has no effect: there is one device.

        Returns:
            The results of `fn`.

        Raises:
            ValueError: If `fn` is an ordinary Python function and nothing is being traced.
            TypeError: If a tensor that goes in or comes out is of the type float64.
        """
        kwargs = dict(kwargs or {})
        if trace.in_cluster():
            return super().run(fn, args, kwargs, options)
        if not isinstance(fn, _TF_FUNCTIONS):
            if context.executing_eagerly():
                raise ValueError(
                    "IPUStrategy.run does not support eager execution: it compiles a whole "
                    "function for the IPU. Decorate it with @tf.function(jit_compile=True). "
                    f"Received: fn={fn!r}"
                )
            fn = polymorphic_function.function(fn)
        if context.executing_eagerly() and self.enable_dataset_iterators:
            args = [self._for_programs(value) for value in args]
            kwargs = {name: self._for_programs(value) for name, value in kwargs.items()}
        return super().run(_launcher(fn, self._ipu_device), args, kwargs, options)

    def _for_programs(self, value: Any) -> Any:
        """Converts an argument of a program: an iterator of the host becomes one for programs."""
        is_of_host = isinstance(value, iterator_ops.OwnedIterator)
        if not is_of_host or isinstance(value, ipu_infeed_queue.IPUIterator):
            return value
        return ipu_infeed_queue.of_host_iterator(value, self.device_ordinal)

    def experimental_run_v2(self, *args: Any, **kwargs: Any) -> Any:
        """Raises an error: use `run`.

        Args:
            *args: arguments of `run`.
            **kwargs: likewise.

        Returns:
            The result of `run`, under `tensorflow-ipu run`, which gives all strategies this method.

        Raises:
            RuntimeError: Always else.
        """
        former = getattr(super(), "experimental_run_v2", None)
        if former is not None:
            return former(*args, **kwargs)
        raise RuntimeError(
            "IPUStrategy.experimental_run_v2 has been deleted. Call IPUStrategy.run instead."
        )


IPUStrategy = IPUStrategyV1


class _Scope:
    """The scope of a strategy, in which Keras models run on the IPU."""

    def __init__(self, scope: Any, enable_keras_extensions: bool) -> None:
        self._scope = scope
        self._enable_keras_extensions = enable_keras_extensions
        self._open: list[contextlib.ExitStack] = []

    def __enter__(self) -> Any:
        system.use_process()
        with contextlib.ExitStack() as stack:
            strategy = stack.enter_context(self._scope)
            if legacy_keras.is_chosen(tf):
                # A program without a scope needs no Keras.
                from tensorflow_ipu.keras_layers.models import hooks

                stack.enter_context(hooks.checked_models())
                if self._enable_keras_extensions:
                    stack.enter_context(hooks.extended_models())
            keras3.install()
            self._open.append(stack.pop_all())
        return strategy

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


def _launcher(function: Any, device: str) -> Callable[..., Any]:
    """Returns a function that launches `function` on a device with its arguments."""

    def launched(*args: Any, **kwargs: Any) -> Any:
        return launch.launch_function(function, args, kwargs, device, _check_types)

    return launched


def _check_types(concrete: launch.ConcreteFunction) -> None:
    for role, tensors in (("input", concrete.inputs), ("output", concrete.outputs)):
        for tensor in tensors:
            if tensor.dtype == dtypes.float64:
                raise TypeError(
                    f"Unsupported data type for {role}: float64. The IPU has float32 and float16: "
                    f"cast {tensor.name} with tf.cast."
                )
