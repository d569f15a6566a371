"""`IPUConfig` and configuring the IPU system: the public module `ipu.config`."""

from __future__ import annotations

from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.configs.attributes import AttributeMetadata
from tensorflow_ipu.configs.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
    StochasticRoundingBehaviour,
)
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.legacy import KeyId, VerificationOptions
from tensorflow_ipu.runtime.system import (
    configure_ipu_system,
    get_ipu_config,
    reset_ipu_configuration,
)

# Programs that configure IPUs may name them with tf.device only, so the hooks are installed here.
tensorflow_hooks.install()

__all__ = [
    "AttributeMetadata",
    "DeviceConnectionType",
    "ExecutionProfileType",
    "IPUConfig",
    "KeyId",
    "MergeRemoteBuffersBehaviour",
    "SchedulingAlgorithm",
    "SelectionOrder",
    "StochasticRoundingBehaviour",
    "VerificationOptions",
    "configure_ipu_system",
    "get_ipu_config",
    "reset_ipu_configuration",
]
