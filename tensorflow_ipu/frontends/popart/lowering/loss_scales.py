"""`LossScale`: a loss scale that follows the size of float16 gradients.

Elements of tracked gradients beyond an edge are counted. After each period of batches the scale is
halved if their share is above a threshold, else doubled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

from tensorflow_ipu.frontends.common.option_groups import AutomaticLossScalingSettings
from tensorflow_ipu.frontends.popart.enums import GradientTensorTrackingMethod
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.ops.cross_replica_ops import cross_replica_sum

#: The tensor with the loss scale that the gradients of a micro-batch are made with.
FINAL = "finalLossScale"
#: What the loss scaling of the optimizer is multiplied by.
FACTOR = "lossScaleUpdateFactor"
#: Elements beyond the edge and within it in the period so far, and its batches.
COUNTS = "Accum___autoLossScaleStats"
COUNTER = "AutomaticLossScaleProxy___Histogram_counter"
_Methods = GradientTensorTrackingMethod
# They only change how elements are arranged.
_VIEWS = frozenset(
    {
        *("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Slice", "Concat"),
        *("Split", "Expand", "Pad", "DepthToSpace", "SpaceToDepth", "Subsample", "Detach"),
    }
)
_PRODUCTS = frozenset({"Conv", "MatMul", "Gemm", "ConvTranspose", "MultiConv"})


class LossScale:
    """The loss scale of a program, in the function in scope."""

    def __init__(
        self, settings: AutomaticLossScalingSettings, variables: Mapping[str, Any], replicas: int
    ) -> None:
        """Takes the settings.

        Args:
            settings: how it follows gradients.
            variables: the variables of the program, those of `variables_of` among them.
            replicas: number of replicas.
        """
        self._settings = settings
        self._variables = variables
        self._replicas = replicas

    def __repr__(self) -> str:
        return f"LossScale[every {self._settings.updatePeriod} batches]"

    def factor(self) -> Any:
        """Returns what the loss scaling of the optimizer is multiplied by."""
        return self._variables[FACTOR].read_value()

    def count(self, gradients: Iterable[Any]) -> list[tf.Operation]:
        """Counts elements of the gradients of a micro-batch.

        Args:
            gradients: the gradients that are tracked.

        Returns:
            The operations.
        """
        edge = self._settings.binEdgeLocation * float(np.finfo(np.float16).max)
        upper, total = tf.constant(0), 0
        for gradient in gradients:
            beyond = tf.abs(tf.cast(gradient, tf.float32)) > edge
            upper += tf.reduce_sum(tf.cast(beyond, tf.int32))
            total += int(gradient.shape.num_elements())
        counts = tf.stack([upper, total - upper])
        return [self._variables[COUNTS].assign_add(counts, read_value=False)]

    def updated(self) -> list[tf.Operation]:
        """Ends a batch, and a period of them if it was the last of it.

        Returns:
            The operations.
        """
        counts = self._variables[COUNTS].read_value()
        batches = self._variables[COUNTER].read_value() + 1
        factor = self.factor()
        total = cross_replica_sum(counts) if self._replicas > 1 else counts
        share = tf.cast(total[0], tf.float32) / tf.cast(tf.reduce_sum(total), tf.float32)
        is_high = share > self._settings.thresholdUpperCountProportion
        is_end = tf.greater_equal(batches, self._settings.updatePeriod)
        moved = tf.where(is_high, factor * 0.5, factor * 2.0)
        new = {
            FACTOR: tf.where(is_end, moved, factor),
            COUNTS: tf.where(is_end, tf.zeros_like(counts), counts),
            COUNTER: tf.where(is_end, 0, batches),
        }
        with tf.control_dependencies([counts.op, batches.op, factor.op]):
            return [
                self._variables[name].assign(value, read_value=False) for name, value in new.items()
            ]


def state_of(settings: AutomaticLossScalingSettings) -> dict[str, np.ndarray]:
    """Returns the state of a loss scale that models have, as it is at the start.

    Args:
        settings: how the scale follows gradients. Only periods of several batches need a counter.
    """
    found = {FACTOR: np.array(1, np.float32)}
    return {**found, COUNTER: np.array(0, np.int32)} if settings.updatePeriod > 1 else found


def kept_of(settings: AutomaticLossScalingSettings) -> dict[str, np.ndarray]:
    """Returns the state that a program keeps besides `state_of`, at its start.

    Args:
        settings: how the scale follows gradients.
    """
    kept = {COUNTS: np.zeros(2, np.int32), COUNTER: np.array(0, np.int32)}
    return {name: value for name, value in kept.items() if name not in state_of(settings)}


def check(settings: AutomaticLossScalingSettings, has_scaled_state: bool) -> None:
    """Refuses settings that contradict each other.

    Args:
        settings: how the scale follows gradients.
        has_scaled_state: whether the optimizer keeps the loss scaling in its state.

    Raises:
        popart_exception: If they do.
    """
    if has_scaled_state:
        raise popart_exception("scaledOptimizerState and automaticLossScaling are not compatible.")
    for name in ("binEdgeLocation", "thresholdUpperCountProportion"):
        value = getattr(settings, name)
        if not 0 <= value <= 1:
            raise popart_exception(
                f"{name} of AutomaticLossScalingSettings must be in the range [0, 1]. Received: "
                f"{value}"
            )
    if settings.updatePeriod < 1:
        raise popart_exception(
            "updatePeriod of AutomaticLossScalingSettings must be at least 1. Received: "
            f"{settings.updatePeriod}"
        )
    by_user = settings.gradientTensorTrackingMethod is _Methods.GradientsOfUserSpecifiedTensors
    if settings.toTrackTensors == []:
        raise popart_exception(
            "toTrackTensors of AutomaticLossScalingSettings is an empty list. Name tensors, or "
            "leave it at None."
        )
    if by_user != (settings.toTrackTensors is not None):
        raise popart_exception(
            "toTrackTensors and the gradientTensorTrackingMethod GradientsOfUserSpecifiedTensors "
            f"belong together. Received: toTrackTensors={settings.toTrackTensors}, "
            f"{settings.gradientTensorTrackingMethod.name}"
        )


def tracked(
    settings: AutomaticLossScalingSettings,
    nodes: Iterable[onnx.NodeProto],
    types: Mapping[str, Any],
) -> list[str]:
    """Returns the tensors whose gradients are tracked, as far as the model says.

    Args:
        settings: how the scale follows gradients.
        nodes: the nodes of the model.
        types: TensorFlow's types of its tensors.

    Raises:
        popart_exception: If the settings name tensors that are not there, or none is left.
    """
    chosen = settings.toTrackTensors
    if chosen is not None:
        missing = [name for name in chosen if name not in types]
        if missing:
            raise popart_exception(
                f"The tensors {missing} of toTrackTensors do not exist in the model."
            )
    else:
        of_products = settings.gradientTensorTrackingMethod is _Methods.ConvAndMatmulGradients
        chosen = []
        for node in nodes:
            if of_products and node.op_type in _PRODUCTS:
                chosen += [*node.input, *node.output]
            elif not of_products and node.op_type not in _VIEWS:
                chosen += [*node.input, *node.output]
    names = [name for name in dict.fromkeys(chosen) if types.get(name) == tf.float16]
    if not names:
        raise popart_exception(
            "Automatic loss scaling is for models in FLOAT16. [AutomaticLossScale transform] No "
            "tracked gradient tensors of type fp16 were found."
        )
    return names
