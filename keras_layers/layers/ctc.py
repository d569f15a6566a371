"""Keras layers for CTC: the loss and the beam search.

All take data time-major, `[max_time, batch_size, num_classes]`: logits (`from_logits=True`), or the
logarithms of probabilities, such as `tf.nn.log_softmax` gives. `ipu.nn_ops` has the operations.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.registration import registered
from tensorflow_ipu.ops import ctc_ops, nn_ops


@registered
class CTCLoss(tf.keras.layers.Layer):
    """A loss layer: the mean CTC loss of a batch.

    It is a layer, as it needs more than labels and predictions. A model that ends with it is
    trained with a loss that returns its output: `loss=lambda y_true, y_pred: y_pred`.

    Args:
        blank_index: class of the blank.
        from_logits: whether data are logits. If False, they are logarithms of probabilities.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        TypeError: If `blank_index` is not an int.
    """

    def __init__(self, blank_index: int = 0, from_logits: bool = False, **kwargs: Any) -> None:
        # Data keep their type: a policy of mixed precision must not make them less precise.
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self.blank_index = ctc_ops.checked_integer(blank_index, "blank_index")
        self.from_logits = from_logits

    def call(
        self, labels: Any, data: Any, label_length: Any, logit_length: Any, **kwargs: Any
    ) -> tf.Tensor:
        """Computes the loss.

        Args:
            labels: int32 `[batch_size, max_label_length]`; what is past a length is not looked at.
            data: float16 or float32 `[max_time, batch_size, num_classes]`; see `from_logits`.
            label_length: int32 `[batch_size]`, how many labels each entry has.
            logit_length: int32 `[batch_size]`, how many steps each entry has.
            **kwargs: not used.

        Returns:
            The mean over the batch, `[1]`, in the type of the data.

        Raises:
            TypeError: labels or lengths are not int32, or data no floats.
            ValueError: shapes do not match, or the blank is no class.
        """
        data = tf.convert_to_tensor(data)
        function = nn_ops.ctc_loss_v2 if self.from_logits else nn_ops.ctc_loss_with_log_probs
        # In float32 until it is one number: the sum of a batch may not fit into float16.
        loss = function(
            labels, data, label_length, logit_length, self.blank_index, out_dtype=tf.float32
        )
        return tf.cast(tf.reshape(tf.reduce_mean(loss), [1]), data.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with."""
        return {
            **super().get_config(),
            "blank_index": self.blank_index,
            "from_logits": self.from_logits,
        }


@registered
class CTCInferenceLayer(tf.keras.layers.Layer):
    """A layer that finds the most likely label sequences by beam search; it has no gradient.

    Args:
        blank_index: class of the blank; -1 for the last one.
        beam_width: how many label sequences are kept after each step.
        top_paths: how many are returned.
        from_logits: whether data are logits. If False, they are logarithms of probabilities.
        **kwargs: other arguments of `tf.keras.layers.Layer`.

    Raises:
        TypeError: If one of the first three is not an int.
        ValueError: If `top_paths` is not between 1 and `beam_width`.
    """

    def __init__(
        self,
        blank_index: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        from_logits: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("autocast", False)
        super().__init__(**kwargs)
        self.blank_index = ctc_ops.checked_integer(blank_index, "blank_index")
        self.beam_width = ctc_ops.checked_integer(beam_width, "beam_width")
        self.top_paths = ctc_ops.checked_integer(top_paths, "top_paths")
        self.from_logits = from_logits
        if not 1 <= self.top_paths <= self.beam_width:
            raise ValueError(
                "top_paths must be at least 1 and less than or equal to beam_width. Received: "
                f"top_paths={top_paths}, beam_width={beam_width}"
            )

    def call(self, data: Any, data_length: Any, **kwargs: Any) -> Any:
        """Searches for the most likely label sequences.

        Args:
            data: float16 or float32 `[max_time, batch_size, num_classes]`; see `from_logits`.
            data_length: int32 `[batch_size]`, how many steps each entry has.
            **kwargs: not used.

        Returns:
            Logarithms of probabilities `[batch_size, top_paths]`, the most likely first;
            lengths, int32 `[batch_size, top_paths]`; and labels, int32 `[batch_size, top_paths,
            max_time]`, with the blank past each length.

        Raises:
            TypeError: lengths are not int32, or data no floats.
            ValueError: shapes do not match, or the blank is no class.
        """
        function = (
            nn_ops.ctc_beam_search_decoder
            if self.from_logits
            else nn_ops.ctc_beam_search_decoder_with_log_probs
        )
        return function(data, data_length, self.beam_width, self.top_paths, self.blank_index)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments to make the same layer with."""
        return {
            **super().get_config(),
            "blank_index": self.blank_index,
            "beam_width": self.beam_width,
            "top_paths": self.top_paths,
            "from_logits": self.from_logits,
        }


@registered
class CTCPredictionsLayer(CTCInferenceLayer):
    """A layer that finds the most likely label sequence of each entry; see `CTCInferenceLayer`."""

    def call(self, data: Any, data_length: Any, **kwargs: Any) -> tf.Tensor:
        """Searches for the most likely label sequence of each entry.

        Args:
            data: float16 or float32 `[max_time, batch_size, num_classes]`; see `from_logits`.
            data_length: int32 `[batch_size]`, how many steps each entry has.
            **kwargs: not used.

        Returns:
            Labels of the most likely sequence, int32 `[batch_size, max_time]`, with the blank past
            its length.

        Raises:
            TypeError: lengths are not int32, or data no floats.
            ValueError: shapes do not match, or the blank is no class.
        """
        _, _, labels = super().call(data, data_length)
        return labels[:, 0]
