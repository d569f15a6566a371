"""Exported pipelines: their stages as one function, and the program that runs them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow_ipu.api import scopes
from tensorflow_ipu.feeds.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.feeds.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.hooks import tensorflow_hooks
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.ops.pipeline.pipeline_arguments import Stage, stage_devices, stage_list
from tensorflow_ipu.ops.pipeline.stages import as_arguments
from tensorflow_ipu.serving.arguments import Arguments


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
