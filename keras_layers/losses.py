"""All Keras losses of the reference: the public module `ipu.keras.losses`."""

from tensorflow_ipu.keras_layers.layers.ctc import CTCLoss

__all__ = ["CTCLoss"]
