"""An optimizer that changes gradients first: the public module `ipu.map_gradient_optimizer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorflow.python.framework import tensor as tensor_lib
from tensorflow.python.training import optimizer as optimizer_lib

from tensorflow_ipu.optimizers import ipu_optimizer


class MapGradientOptimizer(ipu_optimizer.IpuOptimizer):
    """Wrapper that calls a function on each gradient right after it was computed."""

    def __init__(
        self,
        wrapped_optimizer: optimizer_lib.Optimizer,
        gradient_mapping_function: Callable[[Any, Any], Any],
        name: str = "MapGradientOptimizer",
    ) -> None:
        """Wraps an optimizer.

        Args:
            wrapped_optimizer: the optimizer.
            gradient_mapping_function: takes a gradient and its variable, and returns the gradient
                to use instead.
            name: name of this optimizer.

        Raises:
            TypeError: If the function cannot be called.
        """
        super().__init__(wrapped_optimizer, name)
        if not callable(gradient_mapping_function):
            raise TypeError(
                "Expected gradient_mapping_function to be a function of a gradient and its "
                f"variable. Received: {gradient_mapping_function!r}"
            )
        self._gradient_mapping_function = gradient_mapping_function

    def compute_gradients(
        self, *args: Any, **kwargs: Any
    ) -> list[tuple[tensor_lib.Tensor | None, Any]]:
        """Computes the gradients of a loss, and changes them.

        Args:
            *args: for the wrapped optimizer's `compute_gradients`: the loss, the variables.
            **kwargs: likewise.

        Returns:
            Pairs of changed gradient and variable. Where there is no gradient there is nothing to
            change.
        """
        change = self._gradient_mapping_function
        return [
            (None if gradient is None else change(gradient, variable), variable)
            for gradient, variable in self._opt.compute_gradients(*args, **kwargs)
        ]
