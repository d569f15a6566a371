"""Automatic loss scaling for one kind of optimizer each."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers._registration import registered
from tensorflow_ipu.keras_layers.optimizers.als_optimizer import ALSOptimizer
from tensorflow_ipu.keras_layers.optimizers.ipu_optimizer import innermost


class _ALSOptimizerOf(ALSOptimizer):
    """An `ALSOptimizer` that wraps one kind of optimizer.

    In the original these leave gradients scaled and undo that in the state of the wrapped
    optimizer: a matter of rounding and speed. Here the step is that of `ALSOptimizer`, which
    divides in float32. So slots hold what they hold without loss scaling, and can be loaded there.
    """

    _kind: str

    def __new__(cls, opt: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Makes an optimizer.

        Args:
            opt: A Keras optimizer of the right kind, of either generation.
            *args: Other arguments of `ALSOptimizer`.
            **kwargs: Likewise.

        Raises:
            ValueError: If `opt` is of another kind.
        """
        if cls._ipu_class is None:
            keras = tf.keras.optimizers
            kinds = (getattr(keras, cls._kind), getattr(keras.legacy, cls._kind))
            if not isinstance(innermost(opt), kinds):
                raise ValueError(
                    f"{cls.__name__} wraps a tf.keras.optimizers.{cls._kind} or a "
                    f"tf.keras.optimizers.legacy.{cls._kind}. Received: {opt!r} of type "
                    f"{type(opt).__name__}. Use ALSOptimizer for others."
                )
        return super().__new__(cls, opt, *args, **kwargs)


@registered
class ALSOptimizerAdam(_ALSOptimizerOf):
    """An `ALSOptimizer` for Adam."""

    _kind = "Adam"


@registered
class ALSOptimizerRMSProp(_ALSOptimizerOf):
    """An `ALSOptimizer` for RMSprop."""

    _kind = "RMSprop"


@registered
class ALSOptimizerSGD(_ALSOptimizerOf):
    """An `ALSOptimizer` for gradient descent, with or without momentum."""

    _kind = "SGD"
