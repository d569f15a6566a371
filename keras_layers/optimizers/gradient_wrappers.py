"""Keras optimizers that change gradients first: by the mean over replicas, or by a function."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from tensorflow_ipu.compiler import current_scope, trace
from tensorflow_ipu.keras_layers.optimizers import ipu_optimizer
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import IpuOptimizer, innermost
from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import cross_replica_ops

# --- Mean over replicas ---


@registered
class CrossReplicaOptimizer(IpuOptimizer):
    """Averages gradients over the replicas of the program before they are applied.

    Keras's own optimizers add them up. All replicas do the same step, so their variables stay
    equal.
    """

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        """Wraps an optimizer.

        Args:
            opt: a Keras optimizer.
            name: name of this one.
        """
        super().__init__(opt, name)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        *args: Any,
        captured_grads: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Averages gradients over replicas, then updates variables.

        Args:
            grads_and_vars: pairs of gradient and variable. With several replicas sparse gradients
                are made dense.
            *args: further arguments of the wrapped optimizer's `apply_gradients`.
            captured_grads: see `IpuOptimizer.apply_gradients`.
            **kwargs: further arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
            What the wrapped optimizer returns.
        """
        pairs = [(_mean(gradient), variable) for gradient, variable in grads_and_vars]
        # The wrapped optimizer asks the strategy for a sum.
        with current_scope.without_reductions():
            return super().apply_gradients(pairs, *args, captured_grads=captured_grads, **kwargs)


def _mean(gradient: Any) -> Any:
    if gradient is None or not trace.in_cluster():
        return gradient
    return cross_replica_ops.cross_replica_mean(gradient)


# --- Functions of gradients ---

_Mapping = Callable[[Any, Any], Any]
# What the optimizers that are applying gradients now do to each of them, outermost first.
_mappings: contextvars.ContextVar[tuple[_Mapping, ...]] = contextvars.ContextVar(
    "ipu_gradient_mappings", default=()
)


class MapGradientOptimizer(IpuOptimizer):
    """Not there for Keras optimizers: use `MapGradientOptimizerInvertedChaining`."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Raises an error.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "MapGradientOptimizer is not implemented for Keras optimizers. Use "
            "MapGradientOptimizerInvertedChaining: it changes gradients just before the wrapped "
            "optimizer uses them."
        )


@registered
class MapGradientOptimizerInvertedChaining(IpuOptimizer):
    """Calls a function on each gradient just before the wrapped optimizer uses it.

    That is after reductions over replicas and clipping. Where several are chained, the outermost
    is first. Sparse gradients (`tf.IndexedSlices`) are left as they are.
    """

    def __init__(
        self,
        opt: Any,
        gradient_mapping_function: _Mapping,
        name: str = "MapGradientOptimizerInvertedChaining",
    ) -> None:
        """Wraps an optimizer.

        Args:
            opt: a Keras optimizer.
            gradient_mapping_function: takes a gradient and its variable, and returns the gradient
                to use instead.
            name: name of this optimizer.

        Raises:
            ValueError: If the function cannot be called.
        """
        super().__init__(opt, name)
        if not callable(gradient_mapping_function):
            raise ValueError(
                "Expected gradient_mapping_function to be a function of a gradient and its "
                f"variable, which is callable. Received: {gradient_mapping_function!r}"
            )
        self._gradient_mapping_function = gradient_mapping_function

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        *args: Any,
        captured_grads: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Updates variables with changed gradients.

        Args:
            grads_and_vars: pairs of gradient and variable.
            *args: further arguments of the wrapped optimizer's `apply_gradients`.
            captured_grads: see `IpuOptimizer.apply_gradients`.
            **kwargs: further arguments of the wrapped optimizer's `apply_gradients`.

        Returns:
            What the wrapped optimizer returns.
        """
        with _mapped(innermost(self._opt), self._gradient_mapping_function):
            return super().apply_gradients(
                grads_and_vars, *args, captured_grads=captured_grads, **kwargs
            )

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same optimizer with."""
        return {
            **super().get_config(),
            "gradient_mapping_function": self._gradient_mapping_function,
        }


@contextlib.contextmanager
def _mapped(opt: Any, function: _Mapping) -> Iterator[None]:
    """Makes an optimizer change gradients where it updates a variable; a context.

    The methods that Keras has for that are those that optimizers override: `update_step`, in the
    legacy generation `_resource_apply_dense`. For the time of the update, the instance has its own.
    """
    outer = _mappings.get()
    token = _mappings.set((*outer, function))
    name = "update_step"
    if ipu_optimizer.generation(opt) is ipu_optimizer.LEGACY:
        name = "_resource_apply_dense"
    try:
        if not outer:
            opt.__dict__[name] = _mapping(getattr(opt, name))
        yield
    finally:
        _mappings.reset(token)
        if not outer:
            del opt.__dict__[name]


def _mapping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an update that changes its gradient first."""
    takes_state = "apply_state" in inspect.signature(original).parameters

    # Keras looks at the names of arguments.
    def update(gradient: Any, variable: Any, apply_state: Any = None) -> Any:
        if not isinstance(gradient, tf.IndexedSlices):
            for function in _mappings.get():
                gradient = function(gradient, variable)
        named = {"apply_state": apply_state} if takes_state else {}
        return original(gradient, variable, **named)

    return update
