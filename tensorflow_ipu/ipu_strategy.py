"""The distribution strategy for one IPU device: the public module `ipu.ipu_strategy`."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.data.ops import dataset_ops, iterator_ops
from tensorflow.python.distribute import distribute_lib, one_device_strategy, reduce_util
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.framework import dtypes, ops
from tensorflow.python.util import nest

from tensorflow_ipu import placement, tensorflow_hooks
from tensorflow_ipu.compiler import functions, trace
from tensorflow_ipu.configs.short_repr import shows
from tensorflow_ipu.ops import cross_replica_ops

tensorflow_hooks.install()

# Whether reductions of the strategy are to be done: see `without_reductions`.
_reducing: contextvars.ContextVar[bool] = contextvars.ContextVar("ipu_reducing", default=True)

_TF_FUNCTIONS = (functions.Function, functions.ConcreteFunction)


# Keras scales losses only under the strategies that it knows, of which this is one kind.
class IPUStrategyV1(one_device_strategy.OneDeviceStrategyV1):
    """Runs functions on one IPU device, which may have several IPUs.

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
            ipu_device: The TensorFlow device to run on.
            cpu_device: Where initial values are computed.
            enable_dataset_iterators: Whether `iter(dataset)` in the scope makes an iterator that
                programs on the device read through an infeed.
            enable_keras_extensions: Whether Keras models made in the scope run as IPU programs.
            enable_custom_train_step: Whether `fit` of such a model compiles a `train_step` that the
                model has of its own, instead of refusing it. `set_custom_train_step` of a model
                decides for that model.
        """
        distribute_lib.StrategyV1.__init__(self, _IPUExtended(self, ipu_device, cpu_device))
        self._ipu_device = ipu_device
        self._enable_dataset_iterators = enable_dataset_iterators
        self._enable_keras_extensions = enable_keras_extensions
        self._enable_custom_train_step = enable_custom_train_step

    __repr__ = shows(
        lambda self: {
            "": self._ipu_device,
            "enable_dataset_iterators": self._enable_dataset_iterators,
            "enable_keras_extensions": self._enable_keras_extensions,
        }
    )

    @property
    def enable_dataset_iterators(self) -> bool:
        """Whether `iter(dataset)` in the scope makes an IPU iterator."""
        return self._enable_dataset_iterators

    @property
    def enable_keras_extensions(self) -> bool:
        """Whether Keras models made in the scope run as IPU programs."""
        return self._enable_keras_extensions

    @property
    def enable_custom_train_step(self) -> bool:
        """Whether `fit` compiles a `train_step` of a model's own."""
        return self._enable_custom_train_step

    @property
    def ipu_device(self) -> str:
        """Name of the IPU device."""
        return self._ipu_device

    @property
    def device_ordinal(self) -> int:
        """Ordinal of the IPU device."""
        return placement.ordinal(self._ipu_device)

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
            fn: A `tf.function` or ConcreteFunction. Inside a `tf.function` it may be any function.
            args: Positional arguments.
            kwargs: Keyword arguments.
            options: Has no effect: there is one device.

        Returns:
            What `fn` returns.

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
        return super().run(_launcher(fn), args, kwargs, options)

    def experimental_run_v2(self, *args: Any, **kwargs: Any) -> Any:
        """Deleted.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(
            "IPUStrategy.experimental_run_v2 has been deleted. Call IPUStrategy.run instead."
        )


IPUStrategy = IPUStrategyV1


class _Scope:
    """The scope of a strategy, in which Keras models are those of the IPU."""

    def __init__(self, scope: Any, enable_keras_extensions: bool) -> None:
        self._scope = scope
        self._enable_keras_extensions = enable_keras_extensions
        self._open: list[contextlib.ExitStack] = []

    def __enter__(self) -> Any:
        with contextlib.ExitStack() as stack:
            strategy = stack.enter_context(self._scope)
            if self._enable_keras_extensions:
                # Models need strategies; and a program without a scope needs no Keras.
                from tensorflow_ipu.keras_layers.models import hooks

                stack.enter_context(hooks.extended_models())
            self._open.append(stack.pop_all())
        return strategy

    def __exit__(self, *error: Any) -> None:
        self._open.pop().__exit__(*error)


def _launcher(function: Any) -> Callable[..., Any]:
    """Returns a function that launches `function` with its arguments."""

    def launch(*args: Any, **kwargs: Any) -> Any:
        return functions.run(function, args, kwargs, _check_types)

    return launch


def _check_types(concrete: functions.ConcreteFunction) -> None:
    for role, tensors in (("input", concrete.inputs), ("output", concrete.outputs)):
        for tensor in tensors:
            if tensor.dtype == dtypes.float64:
                raise TypeError(
                    f"Unsupported data type for {role}: float64. The IPU has float32 and float16: "
                    f"cast {tensor.name} with tf.cast."
                )


class _IPUExtended(one_device_strategy.OneDeviceExtended):
    """What a strategy for one device does, with initial values computed on the CPU."""

    def __init__(self, container_strategy: IPUStrategyV1, ipu_device: str, cpu_device: str) -> None:
        super().__init__(container_strategy, ipu_device)
        self._cpu_device = cpu_device

    def _create_variable(self, next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        initial_value = kwargs.get("initial_value")
        if callable(initial_value):

            def on_cpu() -> Any:
                with ops.device(self._cpu_device):
                    return initial_value()

            kwargs["initial_value"] = on_cpu
        return super()._create_variable(next_creator, **kwargs)

    def _experimental_distribute_dataset(self, dataset: Any, options: Any) -> Any:
        del options
        return _HostDataset(dataset)

    def _reduce_to(
        self, reduce_op: reduce_util.ReduceOp, value: Any, destinations: Any, options: Any
    ) -> Any:
        del destinations, options
        if not trace.in_cluster() or not _reducing.get():
            return value
        if reduce_op not in (reduce_util.ReduceOp.SUM, reduce_util.ReduceOp.MEAN):
            raise ValueError(
                f"Unsupported reduce op: {reduce_op}. An IPUStrategy can reduce with SUM and MEAN."
            )
        reduce = {
            reduce_util.ReduceOp.SUM: cross_replica_ops.cross_replica_sum,
            reduce_util.ReduceOp.MEAN: cross_replica_ops.cross_replica_mean,
        }[reduce_op]
        return nest.map_structure(reduce, value)


class _HostDataset(dataset_ops.UnaryUnchangedStructureDataset):
    """A distributed dataset: read by a function on the host, which calls `IPUStrategy.run`.

    So does Keras itself, in its own `fit` and in `train_on_batch`.
    """

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset, dataset._variant_tensor)

    def __iter__(self) -> Iterator[Any]:
        return iterator_ops.OwnedIterator(self)


@contextlib.contextmanager
def without_reductions() -> Iterator[None]:
    """Lets what is reduced in the scope of a strategy stay as it is.

    For optimizers that have combined the gradients of replicas before TensorFlow's own code, which
    asks the strategy for a sum, gets them.

    Yields:
        Nothing.
    """
    token = _reducing.set(False)
    try:
        yield
    finally:
        _reducing.reset(token)


def current() -> IPUStrategyV1 | None:
    """Returns the IPUStrategy whose scope is active, or None."""
    if not distribute_lib.has_strategy():
        return None
    strategy = distribute_lib.get_strategy()
    return strategy if isinstance(strategy, IPUStrategyV1) else None


def current_ordinal() -> int:
    """Returns the device ordinal of the strategy in scope; 0 when there is none."""
    strategy = current()
    return 0 if strategy is None else strategy.device_ordinal
