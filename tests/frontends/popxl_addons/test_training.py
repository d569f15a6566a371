"""One training in many ways, on 1, 2 and 4 replicas, against plain TensorFlow."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import popxl
import popxl_addons as addons
import pytest
import tensorflow as tf
from popxl import ops
from popxl.ops import collectives
from popxl_addons import NamedTensors, RemoteHandle, rts

STEPS, UPDATES, RATE = 6, 2, 0.3
ROWS, SIZE, CLASSES = 4, 6, 3


class Dense(addons.Module):
    """A layer, with weights large enough that all gradients count."""

    def __init__(self, features):
        super().__init__()
        self.features = features

    def build(self, x: popxl.Tensor):
        def draw(*shape):
            return lambda: np.random.normal(0, 0.6, shape)

        weight = self.add_variable_input("weight", draw(SIZE, self.features), x.dtype)
        return x @ weight + self.add_variable_input("bias", draw(self.features), x.dtype)


class Hidden(addons.Module):
    """A layer in the middle."""

    def __init__(self):
        super().__init__()
        self.dense = Dense(SIZE)

    def build(self, x: popxl.Tensor):
        return ops.gelu(self.dense(x))


@dataclasses.dataclass(frozen=True)
class Way:
    """How the program trains.

    Attributes:
        recompute: Whether activations are computed again.
        pipeline: Whether the layers are on two IPUs.
        shards: Whether weights are shards in remote buffers between updates.
        phases: Whether hidden layers are phases.
    """

    recompute: bool = False
    pipeline: bool = False
    shards: bool = False
    phases: bool = False


class Layer:
    """A layer with weights and means of gradients."""

    def __init__(self, number, way):
        self.ipu = int(way.pipeline and number == 2)
        spec = popxl.TensorSpec((ROWS, SIZE), popxl.float32)
        with popxl.ipu(self.ipu):
            module = Dense(CLASSES) if number == 2 else Hidden()
            factories, self.forward = module.create_graph(spec)
            accumulators, self.backward = addons.autodiff_with_accumulation(
                self.forward,
                self.forward.args.tensors,
                grads_required=self.forward.graph.inputs[:1],
            )
            if way.recompute:
                self.backward = addons.recompute_graph(self.backward)
            self.buffers = addons.named_variable_buffers(factories) if way.shards else None
            if self.buffers is None:
                self.variables = self.weights = factories.init(f"layer{number}")
            else:
                self.variables = factories.init_remote(self.buffers, prefix=f"layer{number}")
                load, names = addons.load_remote_graph(self.buffers)
                self.shards = NamedTensors.pack(names, load.call(0))
                gather, names = rts.all_gather_replica_sharded_graph(self.shards)
                self.weights = NamedTensors.pack(names, gather.bind(self.shards).call())
            self.state = accumulators.init_zero()

    def update(self):
        """Moves the weights against the mean of the gradients over all replicas."""
        with popxl.ipu(self.ipu):
            if self.buffers is None:
                gradients = self.state.accum.map(
                    lambda t: collectives.replicated_all_reduce(t, "mean")
                )
            else:
                reduce, names = rts.reduce_replica_sharded_graph(self.state.accum, "mean")
                gradients = NamedTensors.pack(names, reduce.bind(self.state.accum).call())
            kept = self.weights if self.buffers is None else self.shards
            for tensor, gradient in kept.to_mapping(gradients).items():
                ops.scaled_add_(tensor, gradient, b=-RATE)
            if self.buffers is not None:
                addons.store_remote_graph(self.buffers).bind(kept).call(0)


class Program:
    """The program that trains."""

    def __init__(self, replicas, way):
        np.random.seed(1)
        self.ir = popxl.Ir(replicas)
        self.ir.num_host_transfers = STEPS
        with self.ir.main_graph, popxl.in_sequence():
            self.data = popxl.h2d_stream((ROWS, SIZE), popxl.float32)
            self.labels = popxl.h2d_stream((ROWS,), popxl.int32)
            self.losses = popxl.d2h_stream((), popxl.float32)
            self.layers = [Layer(number, way) for number in range(3)]
            if way.phases:
                self.run_phases()
            elif way.pipeline:
                with addons.pipelined_execution(STEPS) as pipeline:
                    self.pass_batch(pipeline.stage, pipeline.stash_and_restore_activations)
            else:
                for _ in range(STEPS):
                    self.pass_batch(
                        lambda number: contextlib.nullcontext(),
                        lambda call, info: info.inputs_dict(call),
                    )
            for layer in self.layers:
                layer.update()

    def pass_batch(self, stage, restored):
        """Passes a micro-batch through the layers and back."""
        calls = []

        def back(layer, call, slope):
            inputs = restored(call, layer.backward.grad_graph_info)
            return layer.backward.bind(layer.state).call(slope, args=inputs)[0]

        with stage(0), popxl.ipu(0):
            x = ops.host_load(self.data)
            for layer in self.layers[:2]:
                calls.append(layer.forward.bind(layer.weights).call_with_info(x))
                x = calls[-1].outputs[0]
        last = self.layers[2]
        with stage(1), popxl.ipu(last.ipu):
            x = x.copy_to_ipu(last.ipu)
            call = last.forward.bind(last.weights).call_with_info(x)
            labels = ops.host_load(self.labels)
            loss, slope = addons.cross_entropy_with_grad(call.outputs[0], labels)
            ops.host_store(self.losses, loss)
            slope = back(last, call, slope)
        with stage(2), popxl.ipu(0):
            slope = slope.copy_to_ipu(0)
            for layer, call in zip(reversed(self.layers[:2]), reversed(calls)):
                slope = back(layer, call, slope)

    def run_phases(self):
        """Passes all micro-batches through one layer after the other, and back.

        Row r of the buffers has what goes into layer r, and its gradient.
        """
        first, _, last = self.layers
        spec = popxl.TensorSpec((ROWS, SIZE), popxl.float32)
        rows, slopes = (addons.batch_serial_buffer(spec, STEPS, 3) for _ in range(2))
        copy = self.ir.create_graph(lambda x: ops.identity(x), spec)
        addons.batch_serialise(
            copy, STEPS, {copy.inputs[0]: self.data}, {}, {copy.outputs[0]: (rows, 0)}
        ).graph.call(0)
        graph, gradient = first.forward.graph, first.backward.graph
        forward, backward = addons.batch_serialise_fwd_and_grad(
            first.forward,
            first.backward,
            first.forward.args,
            STEPS,
            {graph.inputs[0]: (rows, 0), gradient.inputs[0]: (slopes, 1)},
            {},
            {graph.outputs[0]: RemoteHandle(rows, 1), gradient.outputs[0]: (slopes, 0)},
            rows=2,
        )
        for row, layer in enumerate(self.layers[:2]):
            forward.graph.bind(layer.weights).call(row)

        class Head(addons.Module):
            """The last layer and the loss, there and back."""

            def build(self, x: popxl.Tensor, labels: popxl.Tensor, **state: popxl.TensorByRef):
                weights, means = (
                    NamedTensors.pack(tree.unpack()[0], tensors)
                    for tree, tensors in zip(
                        trees, (list(state.values())[:2], list(state.values())[2:])
                    )
                )
                call = last.forward.bind(weights).call_with_info(x)
                loss, slope = addons.cross_entropy_with_grad(call.outputs[0], labels)
                inputs = last.backward.grad_graph_info.inputs_dict(call)
                return loss, *last.backward.bind(means).call(slope, args=inputs)

        trees = (last.weights, last.state)
        tensors = [tensor for tree in trees for tensor in tree.unpack()[1]]
        state = {f"state{i}": tensor for i, tensor in enumerate(tensors)}
        _, head = Head().create_graph(spec, self.labels.spec, **state)
        x, labels, *inputs = head.graph.inputs
        loss, slope = head.graph.outputs[:2]
        loop = addons.batch_serialise(
            head,
            STEPS,
            {x: (rows, 2), labels: self.labels},
            {loss: self.losses},
            {slope: (slopes, 2)},
        )
        loop.graph.call(0, *tensors)
        for row, layer in reversed(list(enumerate(self.layers[:2]))):
            state = {**layer.weights.to_dict(), **layer.state.to_dict()}
            backward.graph.bind(NamedTensors.from_dict(state)).call(row)

    def train(self, x, labels):
        """Returns the losses, and the weights after the updates."""
        tensors = [tensor for layer in self.layers for tensor in layer.variables.unpack()[1]]
        with popxl.Session(self.ir, "ipu_hw") as session:
            losses = [
                session.run({self.data: x[i], self.labels: labels[i]})[self.losses]
                for i in range(UPDATES)
            ]
            weights = session.get_tensors_data(tensors)
        return np.stack(losses), [weights[tensor].copy() for tensor in tensors]


def expected(x, labels):
    """Trains with TensorFlow on the CPU: all replicas' rows of an update are one batch."""
    np.random.seed(1)
    with popxl.Ir().main_graph:
        spec = popxl.TensorSpec((ROWS, SIZE), popxl.float32)
        drawn = [
            (Dense(CLASSES) if n == 2 else Hidden()).create_graph(spec)[0].init() for n in range(3)
        ]
    weights = [tf.Variable(t.data) for layer in drawn for t in layer.unpack()[1]]
    losses = []
    for batch, classes in zip(x, labels):
        with tf.GradientTape() as tape:
            value = tf.constant(batch)
            for number in range(3):
                bias, weight = weights[2 * number : 2 * number + 2]
                value = tf.linalg.matmul(value, weight) + bias
                value = tf.nn.gelu(value, True) if number < 2 else value
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(classes, value)
            mean = tf.reduce_mean(loss)
        losses.append(tf.reduce_mean(loss, -1).numpy())
        for weight, gradient in zip(weights, tape.gradient(mean, weights)):
            weight.assign_sub(RATE * gradient)
    return np.stack(losses), [weight.numpy() for weight in weights]


WAYS = {
    "plain": (4, Way()),
    "recomputed": (1, Way(recompute=True)),
    "recomputed, shards": (2, Way(recompute=True, shards=True)),
    "pipeline": (1, Way(pipeline=True)),
    "pipeline, shards": (4, Way(pipeline=True, shards=True)),
    "pipeline, recomputed": (2, Way(pipeline=True, recompute=True)),
    "phases": (1, Way(phases=True)),
    "phases, recomputed, shards": (2, Way(phases=True, recompute=True, shards=True)),
}


@pytest.mark.parametrize("name", WAYS)
def test_weights_are_those_of_tensorflow(name):
    replicas, way = WAYS[name]
    generator = np.random.default_rng(2)
    lead = (UPDATES, STEPS, replicas) if replicas > 1 else (UPDATES, STEPS)
    x = generator.normal(size=(*lead, ROWS, SIZE)).astype(np.float32)
    labels = generator.integers(0, CLASSES, (*lead, ROWS)).astype(np.int32)
    losses, weights = Program(replicas, way).train(x, labels)
    right_losses, right_weights = expected(x, labels)
    # PopXL's loss is the logarithm of a probability plus 1e-7.
    np.testing.assert_allclose(losses, right_losses, rtol=1e-4)
    for one, other in zip(weights, right_weights):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
