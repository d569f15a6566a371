"""`SessionProgram`: a model as a Cluster that loops over the micro-batches of a step."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import launch, trace
from tensorflow_ipu.frontends.common import abstract_arrays
from tensorflow_ipu.frontends.common.enums import AnchorReturnTypeId, SyntheticDataMode
from tensorflow_ipu.frontends.common.replica_groups import ReplicaGrouping
from tensorflow_ipu.frontends.popart import devices
from tensorflow_ipu.frontends.popart.dataflow import DataFlow
from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.lowering.graphs import NodeLowering, Value
from tensorflow_ipu.frontends.popart.lowering.marks import (
    PLAIN,
    ModelPlacement,
    mark_options,
    update_scope,
)
from tensorflow_ipu.frontends.popart.lowering.replica_groups import ReplicaVariables
from tensorflow_ipu.frontends.popart.lowering.training import (
    ACCUMULATOR,
    FINAL,
    GRADIENT,
    UPDATED,
    LossScale,
    Training,
    Update,
)
from tensorflow_ipu.frontends.popart.lowering.transfers import Anchors, Inputs
from tensorflow_ipu.frontends.popart.onnx_model import Model
from tensorflow_ipu.frontends.popart.ops.context import Context, Numerics, ProgramServices, folded
from tensorflow_ipu.frontends.popart.session_options import NO_OPTIONS, ProgramOptions
from tensorflow_ipu.frontends.popart.tensorinfo import TensorInfo
from tensorflow_ipu.ops.replication_ops import replication_index


@dataclasses.dataclass(frozen=True)
class StepDescription:
    """Description of one run of a program.

    Attributes:
        model: What it computes.
        data_flow: Batches and anchors.
        infos: Shape and type of each tensor.
        accumulation: Micro-batches of a batch.
        replicas: Number of replicas, in all processes.
        schedule: Where nodes run, and which memory variables are in.
        training: How weights are trained; None for inference.
        numerics: Options that change the results of ops.
        is_rounded_stochastically: Whether results in float16 are.
        groupings: The groups of replicas of variables of which they have values of their own.
        tracked: The tensors whose gradients the loss scale follows.
        options: What the program is planned for, where the configuration does not say it.
        synthetic: What takes the place of data from the host.
        is_forward_only: Whether weights are not updated although the model is trained.
        local_replicas: Number of replicas in this process.
    """

    model: Model
    data_flow: DataFlow
    infos: Mapping[str, TensorInfo]
    accumulation: int = 1
    replicas: int = 1
    schedule: ModelPlacement = PLAIN
    training: Training | None = None
    numerics: Numerics = Numerics()
    is_rounded_stochastically: bool = False
    groupings: Mapping[str, ReplicaGrouping] = dataclasses.field(default_factory=dict)
    tracked: tuple[str, ...] = ()
    options: ProgramOptions = NO_OPTIONS
    synthetic: SyntheticDataMode = SyntheticDataMode.Off
    is_forward_only: bool = False
    local_replicas: int = 1

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a run, for each replica."""
        return self.data_flow.batchesPerStep() * self.accumulation


# The seed of random numbers: int32 of the shape [2], the low word first.
SEED = "randomSeed___"
_FINAL = AnchorReturnTypeId.Final


class MicroBatch:
    """Puts micro-batches into the function in scope."""

    def __init__(
        self,
        step: StepDescription,
        variables: Mapping[str, tf.Variable],
        replicated: ReplicaVariables,
        inputs: Inputs,
        anchors: Anchors,
    ) -> None:
        """Takes the state that micro-batches share.

        Args:
            step: the description of a run.
            variables: weights, optimizer state, numbers that can change, and the seed, by id.
            replicated: the same as a replica sees them.
            inputs: transfers from the host.
            anchors: transfers to the host.
        """
        self._step = step
        self._variables = variables
        self._replicated = replicated
        self._inputs = inputs
        self._anchors = anchors

    def __repr__(self) -> str:
        return f"MicroBatch[{len(self._step.model.nodes)} nodes]"

    def build(self, number: Any) -> list[Any]:
        """Puts one micro-batch into the program, and the update after the last one of a batch.

        Args:
            number: number of the micro-batch in the step: a scalar tensor.

        Returns:
            The operations to run.
        """
        trained = self._step.training
        lowering = self._lowered()
        if trained is None or self._step.is_forward_only:
            return self._inferred(lowering, number)
        update = self._update(trained)
        gradients = self._differentiated(lowering, update)
        kept = [*self._side_effects(lowering), *update.count(gradients, self._step.tracked)]
        if trained.scale is not None:
            lowering.values[FINAL] = Value(update.loss_scale)
        if not trained.has_accumulators:
            with update_scope():
                done = update.apply(gradients, [*_reads(lowering, self._step.model), *kept])
            done = [*done, *self._send(lowering, gradients, number, done)]
            return self._pipelined(done, type(trained.optimizer).__name__)
        # What reads a weight reads it before the update.
        kept += _reads(lowering, self._step.model)
        return self._accumulated(lowering, update, gradients, number, kept)

    def _accumulated(
        self,
        lowering: NodeLowering,
        update: Update,
        gradients: Mapping[str, Any],
        number: Any,
        kept: list[Any],
    ) -> list[Any]:
        """Puts the end of a micro-batch into the program: its gradients are added up."""
        step = self._step
        optimizer = type(update.training.optimizer).__name__
        count, batches = step.accumulation, step.data_flow.batchesPerStep()
        parts = step.schedule.mini_batches(count, batches, optimizer)
        added = update.accumulate(gradients, parts.index, step.schedule.of_source)
        with tf.control_dependencies([*kept, *added]):
            totals = self._send_accumulated(number)
        if count == 1:
            with tf.control_dependencies([*kept, *added, *totals]):
                done = [parts.then_update(update.apply_accumulated)]
            return [*done, *self._send(lowering, gradients, number, done)]
        sent = [*totals, *self._send(lowering, gradients, number, None)]
        with tf.control_dependencies([*kept, *added, *sent]):
            return [parts.then_update(lambda: self._updated(update))]

    def _send_accumulated(self, number: Any) -> list[Any]:
        """Sends the sums so far, in a micro-batch before its update."""
        return [
            self._anchors.send(name, self._replicated.read(name), number)
            for name in self._step.data_flow.anchors()
            if name in self._variables and name.startswith(ACCUMULATOR)
        ]

    def _updated(self, update: Update) -> list[Any]:
        """Updates the weights inside the conditional after the last micro-batch."""
        done = update.apply_accumulated()
        return [*done, *self._send_state(done)]

    def _inferred(self, lowering: NodeLowering, number: Any) -> list[Any]:
        """Puts the end of a micro-batch without training into the program."""
        done = [*self._send(lowering, {}, number, None), *self._side_effects(lowering)]
        return self._pipelined(done, "")

    def _pipelined(self, done: list[Any], optimizer: str) -> list[Any]:
        """Ends a micro-batch of a pipeline over all micro-batches of a step, if there is one."""
        if not self._step.schedule.is_pipelined:
            return done
        parts = self._step.schedule.mini_batches(self._step.micro_batches, 1, optimizer)
        with tf.control_dependencies(done):
            return [parts.then_update(lambda: [])]

    def _update(self, trained: Training) -> Update:
        """Returns the update of the weights, in the function in scope."""
        scale = None
        if trained.scale is not None:
            scale = LossScale(trained.scale, self._variables, trained.replicas)
        return Update(trained, self._variables, self._replicated, scale)

    def _side_effects(self, lowering: NodeLowering) -> list[Any]:
        """Adds the side effects of a micro-batch: writes of weights and of the seed."""
        services = self._services
        with tf.control_dependencies(_reads(lowering, self._step.model)):
            written = [
                self._replicated.assign(name, value) for name, value in services.assigned.items()
            ]
        if SEED in self._variables:
            seed = self._variables[SEED]
            before = self._seed.op
            with tf.control_dependencies([before]):
                written.append(seed.assign(folded(self._seed, 0), read_value=False))
        return [*services.effects, *written, *self._running_statistics(lowering)]

    def _running_statistics(self, lowering: NodeLowering) -> list[Any]:
        """Writes the running statistics of batch normalization into weights that hold them."""
        with tf.control_dependencies(_reads(lowering, self._step.model)):
            return [
                self._replicated.assign(
                    node.input[position], lowering.tensor(node.output[position - 2])
                )
                for node in self._step.model.nodes
                if node.op_type == "BatchNormalization" and len(node.output) > 1
                for position in (3, 4)
                if node.input[position] in self._variables
            ]

    def _lowered(self) -> NodeLowering:
        """Puts the nodes of the model into the function in scope."""
        model, step = self._step.model, self._step
        self._seed: Any = self._variables[SEED].read_value() if SEED in self._variables else None
        self._services = ProgramServices(self._replica_seed)
        context = Context(
            step.training is not None,
            step.replicas,
            step.numerics,
            self._services,
            differentiated=frozenset(self._differentiated_too),
        )
        lowering = NodeLowering(model.opsets, context, step.schedule)
        with step.schedule.of_inputs():
            for name, tensor in self._inputs.read().items():
                lowering.values[name] = Value(tensor)
        for name, array in model.weights.items():
            known = None if name in step.groupings else array
            with step.schedule.of_source(name):
                tensor = self._replicated.read(name)
                lowering.values[name] = Value(tensor, known, is_weight=known is None)
        lowering.run(model.nodes)
        return lowering

    def _replica_seed(self) -> Any:
        """Returns the seed of this replica in this micro-batch: its low word differs."""
        if self._step.replicas == 1:
            return self._seed
        return self._seed + tf.stack([replication_index(), tf.constant(0)])

    @property
    def _differentiated_too(self) -> list[str]:
        """The tensors, besides weights, with anchored or tracked gradients."""
        anchors = self._step.data_flow.anchors()
        anchored = [name[len(GRADIENT) :] for name in anchors if name.startswith(GRADIENT)]
        return [*anchored, *self._step.tracked]

    def _differentiated(self, lowering: NodeLowering, update: Update) -> dict[str, Any]:
        """Returns gradients of the loss by tensor: weights, anchored and tracked tensors."""
        return update.gradients(lowering, self._step.model.weights, self._differentiated_too)

    def _send(
        self, lowering: NodeLowering, gradients: Mapping[str, Any], number: Any, done: Any
    ) -> list[Any]:
        """Adds the sending of anchors in a micro-batch; weights are those after its update."""
        sent = []
        for name in self._anchors_of(done is None):
            if self._is_kept(name):
                after = done if done is not None else _reads(lowering, self._step.model)
                with tf.control_dependencies(after):
                    tensor = self._replicated.read(name.removeprefix(UPDATED))
            elif name.startswith(GRADIENT):
                tensor = gradients.get(name[len(GRADIENT) :])
                if tensor is None:
                    raise popart_exception(_no_gradient(name))
            else:
                tensor = lowering.tensor(name)
            with self._step.schedule.of_tensor(name):
                sent.append(self._anchors.send(name, tensor, number))
        return sent

    def _is_kept(self, name: str) -> bool:
        """Returns whether an anchor is a variable, or a weight after its update."""
        return name.removeprefix(UPDATED) in self._variables

    def _anchors_of(self, before_update: bool) -> list[str]:
        """Returns the anchors to send in a micro-batch: after it comes an update, or none."""
        flow = self._step.data_flow
        trained = None if self._step.is_forward_only else self._step.training
        is_updated = trained is not None
        accumulates = trained is not None and trained.has_accumulators
        names = [
            name
            for name in flow.anchors()
            if not (accumulates and name in self._variables and name.startswith(ACCUMULATOR))
        ]
        if not is_updated or not before_update:
            return names
        return [
            name for name in names if not self._is_kept(name) or flow.art(name).id() is not _FINAL
        ]

    def _send_state(self, done: list[Any]) -> list[Any]:
        """Sends weights to the host after an update; the last value counts."""
        flow = self._step.data_flow
        with tf.control_dependencies(done):
            return [
                self._anchors.send(
                    name, self._replicated.read(name.removeprefix(UPDATED)), tf.constant(0)
                )
                for name in flow.anchors()
                if self._is_kept(name)
                and flow.art(name).id() is _FINAL
                and not name.startswith(ACCUMULATOR)
            ]


def _reads(lowering: NodeLowering, model: Model) -> list[Any]:
    """Returns the operations that read weights: updates come after them."""
    return [lowering.tensor(name).op for name in model.weights]


def _no_gradient(name: str) -> str:
    return (
        f"Anchor tensor `{name}' not in Ir Tensors. The tensor "
        f"{name[len(GRADIENT) :]} does not lead to the loss."
    )


def _variable(name: str, array: np.ndarray) -> tf.Variable:
    """Makes the variable of a weight; in a process that only plans, one without its value."""
    value = tf.zeros(array.shape, array.dtype) if abstract_arrays.plans_only() else array
    return tf.Variable(value, name=_fit(name))


class SessionProgram:
    """Program of a session on one device.

    Attributes:
        device: The TensorFlow device that it runs on.
        anchors: What it sends to the host.
        variables: Weights, optimizer state, numbers that can change, and the seed, by id.
        cluster: What is compiled.
    """

    def __init__(
        self,
        step: StepDescription,
        weights: Mapping[str, np.ndarray],
        ordinal: int,
        variables: dict[str, tf.Variable] | None = None,
    ) -> None:
        """Puts a model into a program; it is compiled when it first runs.

        Args:
            step: the description of a run.
            weights: values of weights and of optimizer state.
            ordinal: of the TensorFlow device.
            variables: variables to share with another program; None for its own.

        Raises:
            popart_exception: If the model cannot be put into a program.
        """
        self._step = step
        self.device = f"/device:IPU:{ordinal}"
        self.anchors = Anchors(step.data_flow, ordinal, step.micro_batches, step.local_replicas)
        self._inputs = Inputs(step.model.used_inputs, ordinal, step.synthetic)
        with tf.device(self.device):
            self.variables = variables or {
                name: _variable(name, array) for name, array in weights.items()
            }
        self._replicated = ReplicaVariables(self.variables, step.groupings, step.schedule)
        self._generation = devices.generation()
        self.cluster = trace.trace(self._build, [], "popart")

    @property
    def is_outdated(self) -> bool:
        """Whether the IPUs were configured anew since it was made: it cannot run any more."""
        return self._generation != devices.generation()

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
