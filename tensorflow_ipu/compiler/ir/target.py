"""`Target`: device, argument types and configuration of one compilation."""

from __future__ import annotations

import dataclasses

from tensorflow.python.framework import dtypes, tensor_shape

from tensorflow_ipu.configs.flags import Flags
from tensorflow_ipu.runtime.attachment import System


@dataclasses.dataclass(frozen=True)
class Argument:
    """Type, shape and kind of one argument of the entry function.

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

    It is made where a program is requested. All parts of the compilation take options and flags
    from it, so a program belongs to one configuration even if another is set meanwhile.

    Attributes:
        ordinal: TensorFlow device `/device:IPU:<ordinal>`.
        system: The configuration to compile for, with the devices that it attaches.
        arguments: Types and shapes of the entry's arguments.
        replicas: Number of replicas of the program.
        to_file: Whether the caller saves the Executable. If so, a device that is configured for
            pre-compilation needs no cache for it.
    """

    ordinal: int
    system: System
    arguments: tuple[Argument, ...]
    replicas: int = 1
    to_file: bool = False

    @property
    def flags(self) -> Flags:
        """The flags of TF_POPLAR_FLAGS to compile with."""
        return self.system.flags

    @property
    def is_configured(self) -> bool:
        """Whether the configuration has the device."""
        return self.system.has_device(self.ordinal)

    @property
    def key(self) -> bytes:
        """Bytes that are equal for Targets for which equal Programs have equal Executables."""
        hashed = sorted(self.flags.executable_key().items())
        options = self.system.fingerprint() + repr(hashed).encode()
        return options + repr((self.ordinal, self.arguments)).encode()
