"""All Keras layers of the reference: the public module `ipu.keras.layers`."""

from tensorflow_ipu.keras_layers.layers.capture import (
    CaptureActivationGradients,
    CaptureUpstreamGradients,
)
from tensorflow_ipu.keras_layers.layers.ctc import CTCInferenceLayer, CTCPredictionsLayer
from tensorflow_ipu.keras_layers.layers.dropout import Dropout
from tensorflow_ipu.keras_layers.layers.effective_transformer import EffectiveTransformer
from tensorflow_ipu.keras_layers.layers.embedding import Embedding, SerialDense
from tensorflow_ipu.keras_layers.layers.identity import (
    AssumeEqualAcrossReplicas,
    RecomputationCheckpoint,
)
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
    "GRU",
    "LSTM",
    "PopnnGRU",
    "PopnnLSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCPredictionsLayer",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "RecomputationCheckpoint",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "SerialDense",
]
