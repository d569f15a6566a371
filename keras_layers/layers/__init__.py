"""All Keras layers of the reference: the public module `ipu.keras.layers`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.layers.capture import (
    CaptureActivationGradients,
    CaptureUpstreamGradients,
)
from tensorflow_ipu.keras_layers.layers.core import (
    AssumeEqualAcrossReplicas,
    Dropout,
    Embedding,
    RecomputationCheckpoint,
    SerialDense,
)
from tensorflow_ipu.keras_layers.layers.ctc import CTCInferenceLayer, CTCPredictionsLayer
from tensorflow_ipu.keras_layers.layers.normalization import (
    GroupNorm,
    GroupNormalization,
    InstanceNorm,
    InstanceNormalization,
    LayerNorm,
    LayerNormalization,
)
from tensorflow_ipu.keras_layers.layers.rnn import GRU, LSTM, PopnnGRU, PopnnLSTM

__all__ = [
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCPredictionsLayer",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "GRU",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LSTM",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]


class EffectiveTransformer(tf.keras.layers.Layer):
    """Stands for the attention layer of the reference that packs sequences of different lengths.

    Its name is documented, its arguments are not in the documents that tensorflow_ipu is made
    after. So programs can import the name, as they do with all the layers, but not make the layer:
    arguments that were guessed would give other results without a word.

    Raises:
        NotImplementedError: always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "tensorflow_ipu has no EffectiveTransformer: its arguments and weights are not "
            "documented well enough to give the same results. Use "
            "tf.keras.layers.MultiHeadAttention with an attention_mask made of the lengths, such "
            "as tf.sequence_mask(lengths, max_length): padding is computed with and ignored."
        )
