"""Summaries of IPU programs for TensorBoard: the public module `ipu.summary_ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tensorflow_ipu.ops.raw import gen_ipu_ops

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLUGIN = "ipu"


def ipu_compile_summary(
    name: str, op_list: Any, collections: Sequence[str] | None = None
) -> tf.Tensor:
    """Returns a summary of the trace events recorded so far.

    Args:
        name: name shown in TensorBoard.
        op_list: op, tensor or list of them that runs first, such as the results of a program.
        collections: graph collections to add the summary to; the summaries' if not given.

    Returns:
        A scalar string tensor: a serialised `Summary` whose tensor holds the events, which count as
        read then. `utils.extract_all_events` understands it.
    """
    with tf.device("/device:CPU:0"), tf.control_dependencies(tf.nest.flatten(op_list)):
        metadata = tf.compat.v1.SummaryMetadata(
            plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name=_PLUGIN)
        )
        return tensor_summary(
            name="ipu_trace",
            tensor=gen_ipu_ops.ipu_event_trace(),
            collections=collections,
            summary_metadata=metadata,
            display_name=name,
        )


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: str | None = None,
    collections: Sequence[str] | None = None,
    summary_metadata: tf.compat.v1.SummaryMetadata | None = None,
    family: str | None = None,
    display_name: str | None = None,
) -> tf.Tensor:
    """Returns a summary of a tensor, made on the CPU.

    Args:
        name: name of the op, and shown in TensorBoard unless `display_name` is given.
        tensor: tensor of any type and shape.
        summary_description: text shown in TensorBoard, in Markdown.
        collections: graph collections to add the summary to; the summaries' if not given.
        summary_metadata: which plugin shows the summary.
        family: prefix for the name shown.
        display_name: name shown in TensorBoard.

    Returns:
        A scalar string tensor: a serialised `Summary` with the tensor.
    """
    with tf.device("/device:CPU:0"):
        return tf.compat.v1.summary.tensor_summary(
            name,
            tensor,
            summary_description=summary_description,
            collections=collections,
            summary_metadata=summary_metadata,
            family=family,
            display_name=display_name,
        )
