"""Pipeline stages of functional models."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tensorflow_ipu.keras_layers.layer_graph import LayerGraph, post_order
from tensorflow_ipu.versions import keras2

functional_lib = keras2.module("engine.functional")
sequential_lib = keras2.module("engine.sequential")


def graph(model: Any) -> LayerGraph:
    """Returns the calls of a functional model.

    Those that no output depends on, such as the ones of `model.add_loss`, come last.

    Args:
        model: a functional model.
    """
    by_depth = model._nodes_by_depth
    nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    members = {id(node) for node in nodes}
    ends = [*model.outputs, *(tf.nest.flatten(node.outputs)[0] for node in nodes)]
    return LayerGraph(tuple(post_order(ends, members)), model._nested_inputs, model._nested_outputs)


def check_call(model: Any) -> None:
    """Refuses a model whose class says itself what a call does.

    Args:
        model: a functional or Sequential model.

    Raises:
        RuntimeError: If its class overrides `call`.
    """
    stock = (functional_lib.Functional.call, sequential_lib.Sequential.call)
    if type(model).call not in stock:
        raise RuntimeError(
            f"The function `call` for the model {model.name} has been overridden. A functional or "
            "Sequential model with a `call` of its own cannot be pipelined, because its stages "
            "are made of the layers it was built from. Remove `call`, or make it a subclass of "
            "Model that calls the layers itself."
        )
