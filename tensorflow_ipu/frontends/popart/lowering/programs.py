"""`Program`: a model as a Cluster, with its weights, inputs and anchors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import launch, trace
from tensorflow_ipu.frontends.popart import attachment
from tensorflow_ipu.frontends.popart.lowering.anchors import Anchors
from tensorflow_ipu.frontends.popart.lowering.inputs import Inputs
from tensorflow_ipu.frontends.popart.lowering.micro_batches import MicroBatch
from tensorflow_ipu.frontends.popart.lowering.replica_groups import ReplicaVariables
from tensorflow_ipu.frontends.popart.lowering.schedules import mark_options
from tensorflow_ipu.frontends.popart.lowering.steps import Step


class Program:
    """What a session runs on one device.

    Attributes:
        device: The TensorFlow device that it runs on.
        anchors: What it sends to the host.
        variables: Weights, optimizer state, numbers that can change, and the seed, by id.
        cluster: What is compiled.
    """

    def __init__(
        self,
        step: Step,
        weights: Mapping[str, np.ndarray],
        ordinal: int,
        variables: dict[str, tf.Variable] | None = None,
    ) -> None:
        """Puts a model into a program; it is compiled when it first runs.

        Args:
            step: what a run does.
            weights: values of weights and of optimizer state.
            ordinal: of the TensorFlow device.
            variables: those of another program that this one shares; None for its own.

        Raises:
            popart_exception: If the model cannot be put into a program.
        """
        self._step = step
        self.device = f"/device:IPU:{ordinal}"
        self.anchors = Anchors(step.data_flow, ordinal, step.micro_batches, step.local_replicas)
        self._inputs = Inputs(step.model.used_inputs, ordinal, step.synthetic)
        with tf.device(self.device):
            self.variables = variables or {
                name: tf.Variable(array, name=_fit(name)) for name, array in weights.items()
            }
        self._replicated = ReplicaVariables(self.variables, step.groupings, step.schedule)
        self._generation = attachment.generation()
        self.cluster = trace.trace(self._build, [], "popart")

    @property
    def is_outdated(self) -> bool:
        """Whether the IPUs were configured anew since it was made: it cannot run any more."""
        return self._generation != attachment.generation()

    def values(self) -> dict[str, np.ndarray]:
        """Returns the values of its variables, in eager mode."""
        return {name: variable.numpy() for name, variable in self.variables.items()}

    def run(self, samples: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Runs one step.

        Args:
            samples: for each input that is used its samples, replica by replica in each
                micro-batch.

        Returns:
            The samples of each anchor, in the same order.
        """
        self._inputs.start(samples)
        arguments = list(self.cluster.graph.external_captures)
        try:
            launch.launch(self.cluster, arguments, self.device)
        except BaseException:
            self.anchors.drop()
            raise
        return self.anchors.take()

    def _build(self) -> tuple[list[Any], list[Any]]:
        """Puts the step into the function in scope: a loop over batches."""
        rounding: Any = contextlib.nullcontext()
        if self._step.is_rounded_stochastically:
            rounding = scopes.stochastic_rounding(True)
        with rounding:
            return self._steps()

    def _steps(self) -> tuple[list[Any], list[Any]]:
        self.anchors.begin(self._step.infos)
        body = MicroBatch(self._step, self.variables, self._replicated, self._inputs, self.anchors)
        done = _repeat(self._step.micro_batches, body.build)
        with tf.control_dependencies(done):
            marked = mark_options(self._step.options, self._step.schedule.ipus)
            return [], [marked, *done, *self.anchors.send_sums(), *self._replicated.share()]


def _repeat(count: int, body: Callable[[Any], list[Any]]) -> list[Any]:
    """Puts a loop into the function in scope.

    Args:
        count: number of iterations.
        body: takes the number of the iteration, and returns operations to run in it.

    Returns:
        Operations that are done when the loop is.
    """
    if count == 1:
        return body(tf.constant(0))

    def step(i: Any) -> Any:
        with tf.control_dependencies(body(i)):
            return (i + 1,)

    loop = tf.while_loop(lambda i: i < count, step, (tf.constant(0),), parallel_iterations=1)
    return [loop[0].op]


def _fit(name: str) -> str:
    """Returns a name as TensorFlow takes it."""
    return "".join(c if c.isalnum() or c in "_./" else "_" for c in name).lstrip("_./") or "t"
