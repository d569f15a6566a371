"""The device, the scope attributes and the open `IPUStrategy` of the code that is traced or run."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context
from tensorflow.python.framework import device as device_lib
from tensorflow.python.framework import func_graph as func_graph_lib
from tensorflow.python.framework import ops

from tensorflow_ipu.compiler.ir.program import (
    FRONTEND_ATTRIBUTE,
    MEMORY_ATTRIBUTE,
    OUTSIDE_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    SHARDING_ATTRIBUTE,
    STAGE_ATTRIBUTE,
)

IPU_DEVICE_TYPE = "IPU"

_INHERITED = (
    SHARDING_ATTRIBUTE,
    FRONTEND_ATTRIBUTE,
    OUTSIDE_ATTRIBUTE,
    STAGE_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    MEMORY_ATTRIBUTE,
)


class _Unplaced:
    """An op without a device, passed to a graph's device functions."""

    device = ""


def _graph_device(graph: ops.Graph) -> str:
    """Returns the device that `graph` would give to an op made now."""
    unplaced = _Unplaced()
    for spec in graph._device_function_stack.peek_objs():
        if spec.is_null_merge:
            continue
        if spec.function is None:
            break
        unplaced.device = spec.string_merge(unplaced)
    return unplaced.device


def current_device() -> str:
    """Returns the device in scope; inside a traced function, also the one around its call."""
    if context.executing_eagerly():
        return context.context().device_name or ""
    graph = ops.get_default_graph()
    while True:
        device = _graph_device(graph)
        if device:
            return device
        if not isinstance(graph, func_graph_lib.FuncGraph):
            break
        outer = graph.outer_graph
        if outer is None or outer is graph:
            break
        graph = outer
    return context.context().device_name or "" if ops.executing_eagerly_outside_functions() else ""


def is_ipu(device: str) -> bool:
    """Returns whether a device name names an IPU device."""
    if not device:
        return False
    return device_lib.DeviceSpec.from_string(device).device_type == IPU_DEVICE_TYPE


def ordinal(device: str) -> int:
    """Returns the ordinal of an IPU device name; 0 when the name has none."""
    return device_lib.DeviceSpec.from_string(device).device_index or 0


def ipu_device_of(operations: Iterable[ops.Operation]) -> str | None:
    """Returns the IPU device that operations request, None if no operation requests one."""
    for operation in operations:
        if is_ipu(operation.device):
            return operation.device
    return None


def inherit_attributes(graph: ops.Graph, outer: ops.Graph) -> None:
    """Makes the scopes of `ipu.scopes` that are open in `outer` hold for the ops of `graph` too.

    Args:
        graph: a graph that is about to be built, and becomes part of `outer`.
        outer: the graph around it.
    """
    for name in _INHERITED:
        if name in outer._attr_scope_map:
            graph._attr_scope_map[name] = outer._attr_scope_map[name]


def inherit_device(graph: ops.Graph, outer: ops.Graph) -> None:
    """Makes the ops of a graph take the IPU device in scope around the graph.

    Args:
        graph: a graph that will be part of `outer`, before its ops are made.
        outer: the graph around it. If it names another device, or none, it has no effect.
    """
    device = _graph_device(outer)
    if is_ipu(device):
        graph._add_device_to_stack(device)


_IteratorFactory = Callable[[dataset_ops.DatasetV2], Iterator[Any]]

# Whether reductions of the strategy are to be done: see `without_reductions`.
_reducing: contextvars.ContextVar[bool] = contextvars.ContextVar("ipu_reducing", default=True)

# Whether datasets are read on the host: see `host_iterators`.
_reading_on_host: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipu_reading_on_host", default=False
)

# Whether variables of several instances are read as this one has them: see `own_values`.
_reading_own: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "ipu_reading_own", default=False
)

# The name scope of the loop around a step that is traced: see `variables_outside_of_loop`.
_loop: contextvars.ContextVar[str] = contextvars.ContextVar("ipu_loop", default="")


class DeviceStrategy:
    """The options of a strategy for one IPU device: the base of `IPUStrategy`.

    Args:
        ipu_device: the TensorFlow device to run on.
        enable_dataset_iterators: see `IPUStrategy`.
        enable_keras_extensions: see `IPUStrategy`.
        enable_custom_train_step: see `IPUStrategy`.
        make_iterator: makes an iterator of a dataset that programs on the device read.
    """

    def __init__(
        self,
        ipu_device: str,
        enable_dataset_iterators: bool,
        enable_keras_extensions: bool,
        enable_custom_train_step: bool,
        make_iterator: _IteratorFactory,
    ) -> None:
        self._ipu_device = ipu_device
        self._enable_dataset_iterators = enable_dataset_iterators
        self._enable_keras_extensions = enable_keras_extensions
        self._enable_custom_train_step = enable_custom_train_step
        self._make_iterator = make_iterator

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
        return ordinal(self._ipu_device)


def current() -> DeviceStrategy | None:
    """Returns the IPUStrategy whose scope is active, or None."""
    if not distribute_lib.has_strategy():
        return None
    strategy = distribute_lib.get_strategy()
    return strategy if isinstance(strategy, DeviceStrategy) else None


def current_ordinal() -> int:
    """Returns the device ordinal of the strategy in scope; 0 when there is none."""
    strategy = current()
    return 0 if strategy is None else strategy.device_ordinal


def same_device(strategy: Any, other: Any) -> bool:
    """Returns whether two strategies are IPUStrategies for the same device.

    Args:
        strategy: any strategy, or None.
        other: likewise.
    """
    first, second = (getattr(one, "device_ordinal", None) for one in (strategy, other))
    return first is not None and first == second


def iterator_factory() -> _IteratorFactory | None:
    """Returns the function that makes the iterator of `iter(dataset)` for programs, if any does."""
    strategy = current()
    if strategy is None or not strategy.enable_dataset_iterators or _reading_on_host.get():
        return None
    return strategy._make_iterator


@contextlib.contextmanager
def host_iterators() -> Iterator[None]:
    """Context: `iter(dataset)` returns iterators of the host, for code on the host in a scope.

    Yields:
        Nothing.
    """
    token = _reading_on_host.set(True)
    try:
        yield
    finally:
        _reading_on_host.reset(token)


def is_reducing() -> bool:
    """Returns whether strategies reduce values now: see `without_reductions`."""
    return _reducing.get()


@contextlib.contextmanager
def without_reductions() -> Iterator[None]:
    """Context: strategies return values to reduce unchanged.

    For optimizers that reduce the gradients of replicas themselves. TensorFlow's own code then asks
    the strategy for a second sum.

    Yields:
        Nothing.
    """
    token = _reducing.set(False)
    try:
        yield
    finally:
        _reducing.reset(token)


def is_reading_own() -> bool:
    """Returns whether variables have the values of this instance: see `own_values`."""
    return _reading_own.get()


@contextlib.contextmanager
def own_values() -> Iterator[None]:
    """Context: variables that instances aggregate have the value of this instance.

    For saving: only one instance may do it, and would wait for the others.

    Yields:
        Nothing.
    """
    token = _reading_own.set(True)
    try:
        yield
    finally:
        _reading_own.reset(token)


@contextlib.contextmanager
def variables_outside_of_loop() -> Iterator[None]:
    """Context: variables made inside have their names without the loop's scope.

    A step of Keras that makes variables knows nothing of the loop over steps, and neither do the
    files that they are saved to: libraries find variables by name there.

    Yields:
        Nothing.
    """
    token = _loop.set(ops.get_name_scope())
    try:
        yield
    finally:
        _loop.reset(token)


def scope_of_variable() -> contextlib.AbstractContextManager[Any]:
    """Returns the name scope for a variable that is made now: see `variables_outside_of_loop`."""
    loop, scope = _loop.get(), ops.get_name_scope()
    if not loop or not f"{scope}/".startswith(f"{loop}/"):
        return contextlib.nullcontext()
    inside = scope[len(loop) + 1 :]
    # With a slash at its end a scope is that one, and not one in the scope that is open.
    return ops.name_scope_v2(f"{inside}/" if inside else "")
