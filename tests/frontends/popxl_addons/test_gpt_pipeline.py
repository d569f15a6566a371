"""A GPT as programs have it: a pipeline of tensor and data parallel stages, with recomputation."""

from __future__ import annotations

import contextlib

import numpy as np
import popxl
import popxl_addons as addons
import pytest
import tensorflow as tf
from popxl import ops
from popxl.ops import var_updates
from popxl_addons.array_munging import shard, tensor_parallel_input, tensor_parallel_output
from popxl_addons.layers import Embedding, LayerNorm, Linear
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.ops.replicated_strided_collectives import replicated_all_reduce_strided_graph
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_table_constants, trig_tables
from popxl_addons.optimizers import AdamOptimizerStep

VOCABULARY, HIDDEN, HEADS, LENGTH, ROTATED = 32, 16, 4, 6, 2
SAMPLES, STEPS, UPDATES, RATE = 2, 8, 2, 0.05
SIZE = HIDDEN // HEADS
ROWS = SAMPLES * LENGTH
F32 = popxl.float32
TOKENS = np.random.default_rng(0).integers(0, VOCABULARY, (UPDATES, STEPS, SAMPLES, LENGTH + 1))


class Groups:
    """The replicas that have a model together, and those with the same part of its weights."""

    def __init__(self, tp):
        self.tp = popxl.gir().replica_grouping(group_size=tp)
        self.dp = self.tp.transpose()


class Product(addons.Module):
    """A product with a weight, whose gradient is written by hand."""

    def __init__(self, features, group):
        super().__init__()
        self.features, self.group = features, group

    def build(self, x: popxl.Tensor):
        draw = lambda: 0.1 * np.random.randn(x.shape[-1], self.features)  # noqa: E731
        weight = self.add_variable_input("weight", draw, x.dtype, replica_grouping=self.group)
        self.aux["x"], self.aux["weight"] = x, weight
        return x @ weight

    def build_grad(self, dLdy: popxl.Tensor):  # noqa: N803
        self.var_grad["weight"] = self.aux["x"].T @ dLdy
        return dLdy @ self.aux["weight"].T


class Tokens(addons.Module):
    """Vectors of tokens."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.word = Embedding(F32, VOCABULARY, HIDDEN, replica_grouping=groups.dp)

    def build(self, words: popxl.Tensor):
        return replicated_all_reduce_identical_grad_inputs(self.word(words), group=self.groups.tp)


class Attention(addons.Module):
    """Causal attention with rotary embeddings; each replica has some of the heads."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        width = HIDDEN // groups.tp.group_size
        self.qkv = addons.Module.from_list([Linear(width, True, groups.dp) for _ in range(3)])
        self.out = Linear(HIDDEN, False, groups.dp)

    def build(self, x: popxl.Tensor):
        x = replicated_all_reduce_identical_inputs(x, group=self.groups.tp)
        q, k, v = (layer(x).reshape((SAMPLES, LENGTH, -1, SIZE)) for layer in self.qkv)
        sin, cos = trig_table_constants(LENGTH, ROTATED)
        q, k = (rotary_pos_embed(t, sin, cos, ROTATED) for t in (q, k))
        q, k, v = (t.transpose((0, 2, 1, 3)) for t in (q, k, v))
        mask = popxl.constant(1e4 * np.tril(np.ones((LENGTH, LENGTH))) - 1e4, F32)
        scores = ops.softmax(q @ k.transpose((0, 1, 3, 2)) * SIZE**-0.5 + mask, -1)
        y = self.out((scores @ v).transpose((0, 2, 1, 3)).reshape((ROWS, -1)))
        return replicated_all_reduce_identical_grad_inputs(y, group=self.groups.tp)


class FeedForward(addons.Module):
    """Two layers; each replica has some of the hidden units."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.wide = Linear(4 * HIDDEN // groups.tp.group_size, True, groups.dp)

    def build(self, x: popxl.Tensor):
        y = ops.gelu(self.wide(replicated_all_reduce_identical_inputs(x, group=self.groups.tp)))
        (y,) = self.call_module(Product(HIDDEN, self.groups.dp), "narrow")(y)
        return replicated_all_reduce_identical_grad_inputs(y, group=self.groups.tp)


class Block(addons.Module):
    """A block of the model."""

    def __init__(self, groups):
        super().__init__()
        self.norm1, self.attention = LayerNorm(), Attention(groups)
        self.norm2, self.feed_forward = LayerNorm(), FeedForward(groups)

    def build(self, x: popxl.Tensor):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Head(addons.Module):
    """The loss; each replica has a part of the vocabulary."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.norm = LayerNorm()
        size = Embedding.get_vocab_shard_size(VOCABULARY, groups.tp.group_size)
        self.logits = Linear(size, False, groups.dp)

    def build(self, x: popxl.Tensor, labels: popxl.Tensor):
        x = replicated_all_reduce_identical_inputs(self.norm(x), group=self.groups.tp)
        return cross_entropy_sharded_loss(self.logits(x), labels, None, self.groups.tp)


class Part:
    """A module as a graph, its gradient graph, and their variables."""

    def __init__(self, name, module, recompute, *inputs, required=True):
        self.factories, self.forward = module.create_graph(*inputs)
        accumulators, self.backward = addons.autodiff_with_accumulation(
            self.forward,
            self.forward.args.tensors,
            grads_required=self.forward.graph.inputs[:1] if required else (),
            replica_groupings=self.factories.replica_groupings,
        )
        if recompute:
            self.backward = addons.recompute_graph(self.backward)
        self.weights, self.state = self.factories.init(name), accumulators.init(f"grad.{name}")

    def __call__(self, *inputs):
        return self.forward.bind(self.weights).call_with_info(*inputs)

    def gradient(self, slope, call, restored):
        args = restored(call, self.backward.grad_graph_info)
        return self.backward.bind(self.state).call(slope, args=args)

    def update(self, group):
        """Takes a step of Adam with the mean of the gradients of data parallel replicas."""
        reduce, names = replicated_all_reduce_strided_graph(self.state.accum, "mean", group)
        gradients = addons.NamedTensors.pack(names, reduce.bind(self.state.accum).call())
        adam = AdamOptimizerStep(cache=True)
        for name, weight in self.weights.to_dict().items():
            own = self.factories[name].replica_grouping
            factories, step = adam.create_graph(
                weight, gradients[name], own, lr=RATE, first_order_dtype=F32
            )
            step.bind(factories.init(f"adam.{name}")).call(weight, gradients[name])
        var_updates.accumulator_zero_(self.state.mean_accum_counter)


def trained(tp=1, dp=1, pipelined=False, recompute=False, weights=None):
    """Trains; returns the losses of all micro-batches, and the weights before."""
    np.random.seed(1)
    ir = popxl.Ir(replication=tp * dp)
    ir.num_host_transfers = steps = STEPS // dp
    with ir.main_graph, popxl.in_sequence():
        groups = Groups(tp)
        words = popxl.h2d_stream((ROWS,), popxl.int32, "words")
        labels = popxl.h2d_stream((ROWS,), popxl.int32, "labels")
        losses = popxl.d2h_stream((), F32, "losses")
        x = popxl.TensorSpec((ROWS, HIDDEN), F32)
        embed = Part("embed", Tokens(groups), False, words.spec, required=False)
        first = Part("first", Block(groups), recompute, x)
        with popxl.ipu(1):
            second = Part("second", Block(groups), recompute, x)
            head = Part("head", Head(groups), False, x, labels.spec)

        def batch(stage, restored):
            with stage(0), popxl.ipu(0):
                embedded = embed(ops.host_load(words))
                below = first(embedded.outputs[0])
                hidden = below.outputs[0].copy_to_ipu(1)
            with stage(1), popxl.ipu(1):
                above = second(hidden)
                last = head(above.outputs[0], ops.host_load(labels))
                ops.host_store(losses, last.outputs[0])
                (slope,) = head.gradient(popxl.constant(1.0, F32), last, restored)
                (slope,) = second.gradient(slope, above, restored)
                slope = slope.copy_to_ipu(0)
            with stage(2), popxl.ipu(0):
                (slope,) = first.gradient(slope, below, restored)
                embed.gradient(slope, embedded, restored)

        if pipelined:
            with addons.pipelined_execution(steps) as pipeline:
                batch(pipeline.stage, pipeline.stash_and_restore_activations)
        else:
            for _ in range(steps):
                batch(lambda _: contextlib.nullcontext(), lambda call, info: info.inputs_dict(call))
        parts = {"embed": embed, "first": first, "second": second, "head": head}
        for name, part in parts.items():
            with popxl.ipu(int(name in ("second", "head"))):
                part.update(groups.dp)
    variables = {f"{n}.{k}": t for n, p in parts.items() for k, t in p.weights.to_dict().items()}
    session = popxl.Session(ir, "ipu_hw")
    if weights is not None:
        values = {t: split(name, weights[name], tp) for name, t in variables.items()}
        session.write_variables_data(addons.WeightsDict(values))
    data = session.get_tensors_data(variables.values())
    before = {name: data[tensor].copy() for name, tensor in variables.items()}
    found = []
    offsets = Embedding.get_offsets(VOCABULARY, tp)
    with session:
        for tokens in TOKENS.astype(np.int32):
            feed = {
                stream: tensor_parallel_input(
                    part.reshape(STEPS, ROWS), tp, tp * dp, lambda batch, i: batch - offsets[i]
                )
                for stream, part in ((words, tokens[..., :-1]), (labels, tokens[..., 1:]))
            }
            stored = session.run(feed)[losses]
            found.append(tensor_parallel_output(stored, steps, tp, tp * dp, ()))
    return np.array(found), before


def split(name, value, tp):
    """Returns the parts of a weight that tensor parallel replicas have."""
    rows = ("word.weight", "out.weight", "narrow.weight")
    columns = ("wide.weight", "logits.weight", *(f"qkv.{i}.weight" for i in range(3)))
    biases = ("wide.bias", *(f"qkv.{i}.bias" for i in range(3)))
    if tp == 1 or not name.endswith((*rows, *columns, *biases)):
        return value
    return shard(value, tp, -1 if name.endswith((*columns, *biases)) else 0)


def rotated(t):
    """The first elements of queries or keys turned, as complex numbers."""
    angles = tf.constant(np.arctan2(*trig_tables(LENGTH, ROTATED, np_dtype=np.float64)))
    turn = tf.complex(tf.cos(angles), tf.sin(angles))[:, tf.newaxis]
    numbers = tf.complex(t[..., 0:ROTATED:2], t[..., 1:ROTATED:2]) * turn
    pairs = tf.stack([tf.math.real(numbers), tf.math.imag(numbers)], -1)
    return tf.concat([tf.reshape(pairs, (*t.shape[:-1], ROTATED)), t[..., ROTATED:]], -1)


def normalized(x, w, name):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    x = (x - mean) / tf.sqrt(variance + 1e-5)
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def loss_of(w, tokens):
    """The loss of a micro-batch, in TensorFlow."""
    x = tf.gather(w["embed.word.weight"], tokens[:, :-1])
    for block in ("first", "second"):
        y = normalized(x, w, f"{block}.norm1")
        name = f"{block}.attention"
        q, k, v = (
            tf.reshape(
                y @ w[f"{name}.qkv.{i}.weight"] + w[f"{name}.qkv.{i}.bias"],
                (SAMPLES, LENGTH, HEADS, SIZE),
            )
            for i in range(3)
        )
        scores = tf.einsum("bqhs,bkhs->bhqk", rotated(q), rotated(k)) * SIZE**-0.5
        scores = tf.nn.softmax(scores + (1e4 * np.tril(np.ones((LENGTH, LENGTH))) - 1e4))
        y = tf.reshape(tf.einsum("bhqk,bkhs->bqhs", scores, v), x.shape)
        x += y @ w[f"{name}.out.weight"]
        y = normalized(x, w, f"{block}.norm2")
        name = f"{block}.feed_forward"
        y = tf.nn.gelu(y @ w[f"{name}.wide.weight"] + w[f"{name}.wide.bias"], approximate=True)
        x += y @ w[f"{name}.narrow.weight"]
    logits = normalized(x, w, "head.norm") @ w["head.logits.weight"]
    entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[:, 1:], logits)
    return tf.reduce_mean(entropies)


def expected(weights):
    """Losses of all micro-batches, by TensorFlow in float64, with the formula of AdamW."""
    w = {name: tf.Variable(value, dtype=tf.float64) for name, value in weights.items()}
    m, v = ({name: 0.0 for name in w} for _ in range(2))
    found = []
    for t, batches in enumerate(TOKENS, 1):
        with tf.GradientTape() as tape:
            losses = tf.stack([loss_of(w, tokens) for tokens in batches])
            mean = tf.reduce_mean(losses)
        found.append(losses.numpy())
        for name, g in tape.gradient(mean, w).items():
            g = tf.convert_to_tensor(g)
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            step = m[name] / (1 - 0.9**t) / (tf.sqrt(v[name] / (1 - 0.999**t)) + 1e-5)
            w[name].assign_sub(RATE * (step + 0.01 * w[name]))
    return np.array(found)


@pytest.fixture(scope="module")
def reference():
    losses, weights = trained()
    wanted = expected(weights)
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    return losses, weights


@pytest.mark.parametrize(
    ("tp", "dp", "pipelined", "recompute"),
    [(1, 1, True, True), (2, 1, True, False), (2, 1, False, True)],
)
def test_trains_alike_in_parallel_stages(reference, tp, dp, pipelined, recompute):
    losses, weights = reference
    found, _ = trained(tp, dp, pipelined, recompute, weights)
    np.testing.assert_allclose(found, losses, rtol=2e-5)
