"""Base of the optimizers that wrap another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tensorflow.python.framework import indexed_slices, ops
from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.ops import math_ops
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.util.short_repr import Shown, shows


def wrapped(opt: Any) -> Shown:
    """Returns a wrapped optimizer as text; TensorFlow's own repr shows an address.

    Args:
        opt: the optimizer.
    """
    return Shown(repr(opt) if isinstance(opt, IpuOptimizer) else type(opt).__name__)


class IpuOptimizer(optimizer_lib.Optimizer):
    """Wrapper that passes all calls to another optimizer.

    Subclasses override the changed methods.
    """

    def __init__(self, opt: optimizer_lib.Optimizer, name: str | None = None) -> None:
        """Wraps an optimizer.

        Args:
            opt: the optimizer.
            name: name of this one; by default its class's.

        Raises:
            TypeError: If `opt` is of another kind.
        """
        if not isinstance(opt, optimizer_lib.Optimizer):
            raise TypeError(
                "Expected opt to be a tf.compat.v1.train.Optimizer, such as "
                f"tf.compat.v1.train.GradientDescentOptimizer. Received: {opt!r} of type "
                f"{type(opt).__name__}. The optimizers of ipu.optimizers wrap no other kind."
            )
        super().__init__(False, name or type(self).__name__)
        self._opt = opt
        # Class of the optimizer around this one, for optimizers that have to be outermost.
        self._wrapped_by: str | None = None
        if isinstance(opt, IpuOptimizer):
            opt._wrapped_by = type(self).__name__

    __repr__ = shows(lambda self: {"": wrapped(self._opt), "name": self._name})

    def compute_gradients(
        self, loss: Any, var_list: Sequence[Any] | None = None, **kwargs: Any
    ) -> list[tuple[tensor_lib.Tensor | None, Any]]:
        """Computes the gradients of a loss.

        Args:
            loss: the tensor to minimize.
            var_list: variables to differentiate by; by default all trainable ones of the graph.
            **kwargs: for the wrapped optimizer's `compute_gradients`.

        Returns:
            Pairs of gradient and variable.
        """
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[tensor_lib.Tensor | None, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> ops.Operation:
        """Updates variables.

        Args:
            grads_and_vars: pairs as `compute_gradients` returns them.
            global_step: variable to add one to afterwards.
            name: name of the returned operation.

        Returns:
            The operation that does all that.

        Raises:
            ValueError: If there is no pair with a gradient.
        """
        return self._opt.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def get_name(self) -> str:
        """Returns the name of the wrapped optimizer."""
        return self._opt.get_name()

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Returns a slot of the wrapped optimizer.

        Args:
            *args: for its `get_slot`.
            **kwargs: likewise.

        Returns:
            The slot variable, None if there is none.
        """
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Returns the names of the slots of the wrapped optimizer.

        Args:
            *args: for its `get_slot_names`.
            **kwargs: likewise.

        Returns:
            The names.
        """
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        """Returns the variables of the wrapped optimizer."""
        return self._opt.variables()


def dense(gradient: Any, variable: Any) -> tensor_lib.Tensor:
    """Returns a gradient as a tensor of the shape of its variable.

    Args:
        gradient: a tensor, or the slices of a sparse gradient.
        variable: the variable.

    Returns:
        The tensor.
    """
    if not isinstance(gradient, indexed_slices.IndexedSlices):
        return ops.convert_to_tensor(gradient)
    # Not the shape of the slices, which is often known at run time only.
    rows = math_ops.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
    rows.set_shape(variable.shape)
    return rows
