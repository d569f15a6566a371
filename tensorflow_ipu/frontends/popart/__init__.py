"""PopART: ONNX models that are built, trained and run; the package `popart`."""

from tensorflow_ipu.frontends.cpp_ops import binding as _binding
from tensorflow_ipu.frontends.popart import core
from tensorflow_ipu.frontends.popart.builder import Builder
from tensorflow_ipu.frontends.popart.core import *  # noqa: F403
from tensorflow_ipu.frontends.popart.session import (
    InferenceSession,
    OutOfMemoryException,
    TrainingSession,
)

__all__ = [*core.__all__, "Builder", "InferenceSession", "OutOfMemoryException", "TrainingSession"]

_binding.enable()
