"""Programs of exported models: of one step, or of the stages of a pipeline."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.util import nest

from tensorflow_ipu.api import loops, scopes
from tensorflow_ipu.compiler import trace
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.feeds.ipu_infeed_queue import DataInfeedQueue, IPUInfeedQueue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.ops.pipeline.pipeline_arguments import Stage, stage_devices, stage_list
from tensorflow_ipu.ops.pipeline.stages import as_arguments
from tensorflow_ipu.serving import application, host_step
from tensorflow_ipu.serving.application import Application
from tensorflow_ipu.serving.steps import Arguments, TracedStep

# --- One step ---

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


# --- Pipelines ---


@dataclasses.dataclass(frozen=True)
class ExportedStages:
    """The stages of a pipeline for inference.

    Attributes:
        computational_stages: The argument of the user.
        inputs: Arguments of the first stage before its element.
        device_mapping: The argument of the user.
        options: Further arguments of the pipeline, by name.
    """

    computational_stages: Any
    inputs: tuple[Any, ...]
    device_mapping: Any
    options: dict[str, Any]

    def __post_init__(self) -> None:
        """Checks the stages and their IPUs.

        Raises:
            TypeError: If a pipeline does not take such stages.
            ValueError: If there are too few, or lengths differ.
        """
        stage_list(self.computational_stages)
        stage_devices(self.device_mapping, self.computational_stages, 1)

    @property
    def first(self) -> Stage:
        """The first stage's function, whose signature is the pipeline's."""
        return stage_list(self.computational_stages)[0][0]

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one mini-batch through all stages, each on its IPU.

        Args:
            *args: positional arguments of the first stage, after the inputs.
            **kwargs: its keyword arguments.

        Returns:
            The results of the last stage.
        """
        values, named = [*self.inputs, *args], kwargs
        outputs: Any = None
        devices = stage_devices(self.device_mapping, self.computational_stages, 1)
        for members, ipus in zip(stage_list(self.computational_stages), devices):
            results = []
            for member, ipu in zip(members, ipus):
                with scopes.ipu_shard(ipu):
                    results.append(tensorflow_hooks.converted(member)(*values, **named))
            outputs = results[0] if len(results) == 1 else _joined(results)
            values, named = as_arguments(outputs)
        return outputs

    def builder(
        self, arguments: Arguments, iterations: int
    ) -> Callable[[IPUInfeedQueue, IPUOutfeedQueue], Any]:
        """Returns a builder of the pipeline; its infeed gives the flat tensors of `arguments`."""

        def build(infeed: IPUInfeedQueue, outfeed: IPUOutfeedQueue) -> Any:
            first, *others = self.computational_stages
            repacked = (
                [self._repacked(member, arguments) for member in first]
                if isinstance(first, (list, tuple))
                else self._repacked(first, arguments)
            )
            return pipelining_ops.pipeline(
                [repacked, *others],
                gradient_accumulation_count=iterations,
                inputs=self.inputs,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                device_mapping=self.device_mapping,
                **self.options,
            )

        return build

    def _repacked(self, stage: Stage, arguments: Arguments) -> Stage:
        """Returns a stage that takes flat tensors after the inputs."""
        count = len(self.inputs)
        stage = tensorflow_hooks.converted(stage)

        @functools.wraps(stage)
        def repacked(*tensors: Any) -> Any:
            positional, named = arguments.pack(tensors[count:])
            return stage(*tensors[:count], *positional, **named)

        return repacked


def _joined(results: Sequence[Any]) -> list[Any]:
    """Returns the results of parallel stages as one list."""
    return [value for result in results for value in as_arguments(result)[0]]
