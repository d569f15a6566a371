"""Functions for recurrent networks of `tensorflow.contrib.rnn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1


def transpose_batch_time(x: Any) -> tf.Tensor:
    """Exchanges the first two dimensions.

    Args:
        x: shape [batch, time, ...], or the other way round.
    """
    return tf.transpose(x, [1, 0, *range(2, x.shape.ndims)])


def best_effort_input_batch_size(flat_input: Sequence[Any]) -> Any:
    """Returns the batch size of inputs of shape [time, batch, ...].

    Args:
        flat_input: the inputs.

    Returns:
        A number, or a tensor of shape [] where no input has a known size.
    """
    for inputs in flat_input:
        size = inputs.shape[1]
        if size is not None and getattr(size, "value", size) is not None:
            return int(size)
    return tf.shape(flat_input[0])[1]


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tf.Tensor, tuple[Any, ...], tuple[Any, ...]]:
    """Applies bidirectional layers, each to the outputs of the one before.

    Args:
        cells_fw: cells forward, one a layer.
        cells_bw: cells backward, one a layer.
        inputs: shape [batch, time, features], or [time, batch, features].
        initial_states_fw: of `cells_fw`; zeros if not given.
        initial_states_bw: of `cells_bw`; zeros if not given.
        dtype: of the states.
        sequence_length: integers, shape [batch].
        parallel_iterations: of `tf.nn.dynamic_rnn`.
        time_major: whether time comes first.
        scope: name of the scope, or a scope.

    Returns:
        Outputs of both directions, joined in the last dimension, and the states of both.

    Raises:
        ValueError: the directions do not have as many cells, or none.
    """
    if not cells_fw or len(cells_fw) != len(cells_bw):
        raise ValueError(
            "Forward and Backward cells must have the same depth, at least 1. Received: "
            f"{len(cells_fw)} and {len(cells_bw)} cells."
        )
    states: tuple[list[Any], list[Any]] = ([], [])
    with _v1.variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (forward, backward) in enumerate(zip(cells_fw, cells_bw)):
            with _v1.variable_scope(f"cell_{number}"):
                outputs, (last_fw, last_bw) = _v1.nn.bidirectional_dynamic_rnn(
                    forward,
                    backward,
                    inputs,
                    initial_state_fw=initial_states_fw[number] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[number] if initial_states_bw else None,
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    time_major=time_major,
                )
                inputs = tf.concat(outputs, 2)
            states[0].append(last_fw)
            states[1].append(last_bw)
    return inputs, tuple(states[0]), tuple(states[1])
