"""What a Program is compiled for."""

from __future__ import annotations

import dataclasses

from tensorflow.python.framework import dtypes, tensor_shape


@dataclasses.dataclass(frozen=True)
class Argument:
    """What is known of one argument of the entry function.

    Attributes:
        dtype: Its type; for a variable, the type of its value.
        shape: Its fully defined shape.
        is_variable: Whether the argument is a resource variable.
    """

    dtype: dtypes.DType
    shape: tensor_shape.TensorShape
    is_variable: bool


@dataclasses.dataclass(frozen=True)
class Target:
    """The device, the arguments and the configuration of one compilation.

    Attributes:
        ordinal: TensorFlow device `/device:IPU:<ordinal>`.
        generation: Which configuration of the process was in force.
        arguments: Types and shapes of the entry's arguments.
        replicas: How many copies of the program run at once.
    """

    ordinal: int
    generation: int
    arguments: tuple[Argument, ...]
    replicas: int = 1
