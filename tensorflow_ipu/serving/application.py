"""Compilation of the program of an exported model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.util import nest

from tensorflow_ipu.api import loops
from tensorflow_ipu.applications import application, host_step
from tensorflow_ipu.applications.application import Application
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.feeds.ipu_infeed_queue import DataInfeedQueue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.serving.steps import TracedStep

# Adds all iterations of a program to the function being traced.
Builder = Callable[[DataInfeedQueue, IPUOutfeedQueue], Any]


def single_step(step: TracedStep, iterations: int) -> Builder:
    """Returns a builder of a loop over a step: one element in, its results out."""

    def build(infeed: DataInfeedQueue, outfeed: IPUOutfeedQueue) -> Any:
        def body(*tensors: Any) -> Any:
            return outfeed.enqueue(nest.flatten(step.concrete(*tensors)))

        return loops.repeat(iterations, body, [], infeed)

    return build


def compiled(name: str, build: Builder, element: Any, ordinal: int) -> Application:
    """Compiles a program with an infeed and an outfeed, without running it.

    Args:
        name: a name that the user recognises.
        build: builds it. Variables that it uses get their present values.
        element: nest of `tf.TensorSpec` of an element of the infeed.
        ordinal: compile for the device `/device:IPU:<ordinal>`.
    """
    # The dataset only gives types and shapes of elements: nothing reads it.
    zeros = nest.map_structure(
        lambda spec: np.zeros(spec.shape.as_list(), spec.dtype.as_numpy_dtype), element
    )
    infeed = DataInfeedQueue(dataset_ops.Dataset.from_tensors(zeros), device_ordinal=ordinal)
    outfeed = IPUOutfeedQueue(device_ordinal=ordinal)

    def program() -> None:
        build(infeed, outfeed)

    function = polymorphic_function.function(program, input_signature=(), autograph=False)
    with trace.cluster_scope():
        concrete = function.get_concrete_function()
    cluster = Cluster.from_graph(concrete.graph, name, owner=concrete)
    captures = host_step.CapturedValues(cluster, explicit=0, with_variables=True)
    bound = [tensor.numpy() for tensor in captures.read()]
    return application.build(cluster, ordinal, dict(zip(captures.positions, bound)))
