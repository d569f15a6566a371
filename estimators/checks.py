"""Checks the graph of an estimator's training program while it is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tensorflow_ipu import op_names


def check_replicated_training(graph: tf.Graph, replicas: int) -> None:
    """Refuses to train replicas that would part ways.

    Args:
        graph: what is built so far: all of the model and its training, nothing of the estimator.
        replicas: how many there will be.

    Raises:
        ValueError: If there are several and no op reduces over them.
    """
    if replicas == 1:
        return
    if not any(
        op.type in op_names.AGREEING_COLLECTIVES
        for inner, _ in _graphs(graph, ())
        for op in _ops(inner)
    ):
        raise ValueError(
            "This is not a valid replicated training graph because no AllReduce operations were "
            f"found: {replicas} replicas would train {replicas} different models. Wrap the "
            "optimizer in ipu.cross_replica_optimizer.CrossReplicaOptimizer."
        )


def check_global_step(graph: tf.Graph, global_step: Any) -> None:
    """Refuses a model that advances the global step, which the estimator does.

    Args:
        graph: what is built so far.
        global_step: the variable.

    Raises:
        ValueError: If an op in the graph assigns to the variable.
    """
    for inner, handles in _graphs(graph, [global_step.handle]):
        for op in _ops(inner):
            if op.type in op_names.ASSIGNMENTS and any(
                op.inputs[0] is handle for handle in handles
            ):
                raise ValueError(
                    "Illegal increment of the `global_step` variable in the `model_fn`, by the op "
                    f"'{op.name}'. The estimator advances it by iterations_per_loop in each run. "
                    "Leave out the argument `global_step` of minimize or apply_gradients."
                )


def _ops(graph: tf.Graph) -> list[tf.Operation]:
    return list(graph.get_operations())


def _graphs(graph: tf.Graph, tensors: Any) -> Iterator[tuple[tf.Graph, list[tf.Tensor]]]:
    """Yields a graph and those of all functions in it, with what stands for some tensors there.

    Args:
        graph: a function that is being built.
        tensors: tensors around it, or in it.
    """
    captured = [
        inner
        for outer, inner in getattr(graph, "captures", ())
        if any(outer is tensor for tensor in tensors)
    ]
    known = [*tensors, *captured]
    yield graph, known
    for function in graph._functions.values():
        if not hasattr(function, "graph"):  # of the decorator `Defun` of TensorFlow 1
            continue
        yield from _graphs(function.graph, known)
