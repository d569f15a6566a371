"""`InferenceSession` and `TrainingSession`: run models on devices; the module `popart.session`."""

from tensorflow_ipu.frontends.popart.errors import OutOfMemoryException
from tensorflow_ipu.frontends.popart.session.inference import InferenceSession
from tensorflow_ipu.frontends.popart.session.training import TrainingSession

__all__ = ["InferenceSession", "OutOfMemoryException", "TrainingSession"]
