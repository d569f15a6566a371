"""A GPT as programs have it: tensor and data parallel, in phases, with checkpoints."""

from __future__ import annotations

import dataclasses
import functools
import operator

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.transforms.autodiff import GradGraphInfo
from popxl_addons import NamedTensors, NamedVariableFactories, TaskSession, rts
from popxl_addons.array_munging import shard, tensor_parallel_input
from popxl_addons.layers import Embedding, LayerNorm, Linear
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.grad_reduce_square_add import grad_reduce_square_add
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs,
)
from popxl_addons.optimizers import AdamOptimizerStep
from popxl_addons.transforms.batch_serialisation import (
    RemoteHandle,
    batch_serial_buffer,
    batch_serialise,
    batch_serialise_fwd_and_grad,
)


@dataclasses.dataclass
class Model:
    """Sizes of the model."""

    vocabulary: int = 32
    hidden: int = 16
    heads: int = 4
    layers: int = 2
    length: int = 8
    dtype: popxl.dtype = popxl.float32


@dataclasses.dataclass
class Execution:
    """How it is run."""

    micro_batch: int = 2
    steps: int = 4
    data_parallel: int = 1
    tensor_parallel: int = 1
    sharded: bool = True


@dataclasses.dataclass
class Config:
    """All of a program."""

    model: Model = dataclasses.field(default_factory=Model)
    execution: Execution = dataclasses.field(default_factory=Execution)


def groups(config):
    """The replicas that share a model, and those that share a part of the weights."""
    tp = popxl.gcg().ir.replica_grouping(stride=1, group_size=config.execution.tensor_parallel)
    return tp, tp.transpose()


class Tokens(addons.Module):
    """Vectors of tokens and places; each tensor parallel replica has a part of the vocabulary."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tp, self.dp = groups(config)
        sizes = config.model.vocabulary, config.model.hidden
        self.word = Embedding(config.model.dtype, *sizes, replica_grouping=self.dp)

    def build(self, words: popxl.Tensor, seed: popxl.Tensor):
        model = self.config.model
        x = self.word(words)
        x = replicated_all_reduce_identical_grad_inputs(x, group=self.tp)
        place = self.add_variable_input(
            "place", lambda: 0.1 * np.random.randn(model.length, model.hidden), model.dtype
        )
        x = x.reshape((-1, model.length, model.hidden)) + place
        return ops.dropout(x.reshape((-1, model.hidden)), seed, p=0.0)


class Attention(addons.Module):
    """Causal attention; each tensor parallel replica has some heads."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tp, self.dp = groups(config)
        self.heads = config.model.heads // self.tp.group_size
        width = config.model.hidden // self.tp.group_size
        self.qkv = addons.Module.from_list(
            [Linear(width, replica_grouping=self.dp) for _ in range(3)]
        )
        self.out = Linear(config.model.hidden, bias=False, replica_grouping=self.dp)

    def build(self, x: popxl.Tensor, seed: popxl.Tensor):
        model = self.config.model
        x = replicated_all_reduce_identical_inputs(x, group=self.tp)
        shape = (-1, model.length, self.heads, model.hidden // model.heads)
        q, k, v = (layer(x).reshape(shape).transpose((0, 2, 1, 3)) for layer in self.qkv)
        scores = q @ k.transpose((0, 1, 3, 2)) * (1 / np.sqrt(model.hidden / model.heads))
        mask = popxl.constant(1e4 * np.tril(np.ones((model.length,) * 2)) - 1e4, scores.dtype)
        y = ops.dropout(ops.softmax(scores + mask, -1), seed, p=0.0) @ v
        y = self.out(y.transpose((0, 2, 1, 3)).reshape((x.shape[0], -1)))
        y = replicated_all_reduce_identical_grad_inputs(y, group=self.tp)
        bias = self.add_variable_input("bias", lambda: np.zeros(model.hidden), x.dtype)
        return y + bias


class FeedForward(addons.Module):
    """Two layers, whose hidden units the tensor parallel replicas share."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tp, self.dp = groups(config)
        self.wide = Linear(4 * config.model.hidden // self.tp.group_size, replica_grouping=self.dp)
        self.narrow = Linear(config.model.hidden, bias=False, replica_grouping=self.dp)

    def build(self, x: popxl.Tensor):
        y = replicated_all_reduce_identical_inputs(x, group=self.tp)
        y = self.narrow(ops.gelu(self.wide(y)))
        y = replicated_all_reduce_identical_grad_inputs(y, group=self.tp)
        return y + self.add_variable_input("bias", lambda: np.zeros(x.shape[-1]), x.dtype)


class Block(addons.Module):
    """A block of the model."""

    def __init__(self, config):
        super().__init__()
        self.norm1, self.attention = LayerNorm(), Attention(config)
        self.norm2, self.feed_forward = LayerNorm(), FeedForward(config)

    def build(self, x: popxl.Tensor, seed: popxl.Tensor):
        seed, inner = ops.split_random_seed(seed)
        x = x + self.attention(self.norm1(x), inner)
        return x + self.feed_forward(self.norm2(x))


class Head(addons.Module):
    """The loss, with a part of the vocabulary on each tensor parallel replica."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tp, self.dp = groups(config)
        self.norm = LayerNorm()

    def build(self, x: popxl.Tensor, labels: popxl.Tensor):
        model = self.config.model
        x = replicated_all_reduce_identical_inputs(self.norm(x), group=self.tp)
        size = Embedding.get_vocab_shard_size(model.vocabulary, self.tp.group_size)
        weight = self.add_variable_input(
            "weight",
            lambda: 0.1 * np.random.randn(size, model.hidden),
            model.dtype,
            replica_grouping=self.dp,
        )
        logits = x @ weight.transpose()
        return cross_entropy_sharded_loss(logits, labels, replica_grouping=self.tp)


class Layers:
    """Layers of one kind: graphs, and buffers of weights, Adam's state and gradients."""

    def __init__(self, config, name, module, inputs, rows, lr, norm, required):
        self.factories, self.forward = module.create_graph(*inputs)
        accumulators, self.backward = addons.autodiff_with_accumulation(
            self.forward,
            tensors_to_accumulate_grads=self.forward.args.tensors,
            grads_required=self.forward.graph.inputs[:1] if required else (),
            replica_groupings=self.factories.replica_groupings,
        )
        self.accumulators, self.rows = accumulators, rows
        self.groups = self.factories.replica_groupings
        everyone = popxl.gir().replica_grouping()
        self.alone = None if config.execution.sharded else popxl.gir().replica_grouping(1, 1)
        adam, state, specs = AdamOptimizerStep(cache=True), NamedVariableFactories(), {}
        self.steps = {}
        for key, factory in self.factories.to_dict().items():
            group = self.groups[key] or everyone
            whole = popxl.TensorSpec(factory.shape, factory.dtype)
            spec = specs[key] = rts.replica_sharded_spec(whole, self.alone or group)
            moments, self.steps[key] = adam.create_graph(
                spec,
                spec,
                replica_grouping=group,
                lr=lr.spec,
                weight_decay=0.0 if key.endswith("bias") else 0.01,
                beta1=0.9,
                beta2=0.99,
                first_order_dtype=popxl.float32,
                global_norm=norm,
                global_norm_max=1.0,
            )
            state.insert(f"optim.{key}", moments, overwrite=True)
        state.insert("fwd", self.factories)
        over = {
            n: (self.alone or f.replica_grouping or everyone).group_size
            for n, f in state.to_dict().items()
        }
        self.buffers = addons.named_variable_buffers(state, rows, shard_over_dict=over)
        self.weights = [
            state.init_remote(self.buffers, row, f"{name}.{row}") for row in range(rows)
        ]
        self.grads = addons.remote.NamedRemoteBuffers.from_dict(
            {
                key: addons.create_remote_buffer(
                    spec, rows, self.alone or self.groups[key] or everyone
                )
                for key, spec in specs.items()
            }
        )
        self.load, self.names = addons.load_remote_graph(self.buffers, rows)
        self.store = addons.store_remote_graph(self.buffers, rows)

    def forward_weights(self, row):
        """Loads the weights of a layer and gathers their shards."""
        shards = addons.remote.load_remote(self.buffers.fwd, row)
        graph, names = rts.all_gather_replica_sharded_graph(shards, replica_groups=self.groups)
        return NamedTensors.pack(names, graph.bind(shards).call())

    def keep_gradients(self, row, means):
        """Reduces mean gradients to shards, stores them, and returns the sum of their squares."""
        shards, total = {}, []
        for key, mean in means.accum.to_dict().items():
            group = self.groups[key] or popxl.gir().replica_grouping()
            shards[key] = rts.reduce_replica_sharded_tensor(
                mean, "mean", group, self.alone or group
            )
            square = grad_reduce_square_add(shards[key], popxl.constant(1.0, popxl.float32))
            copies = 1 if shards[key].meta_shape else group.group_size
            total.append(square * (1 / copies))
        addons.remote.store_remote(self.grads, NamedTensors.from_dict(shards), row)
        return functools.reduce(operator.add, total)

    def update(self, row, lr, norm):
        """Takes a step of Adam."""
        state = NamedTensors.pack(self.names, self.load.call(row))
        grads = addons.remote.load_remote(self.grads, row)
        for key, weight in state.fwd.to_dict().items():
            self.steps[key].bind(state.optim[key]).call(weight, grads[key], lr, norm)
        self.store.bind(state).call(row)


def program(config):
    """Returns a session that trains."""
    np.random.seed(7)
    execution, model = config.execution, config.model
    ir = popxl.Ir(replication=execution.data_parallel * execution.tensor_parallel)
    ir.num_host_transfers = execution.steps
    options = ir._pb_ir.getSessionOptions()
    options.numIOTiles = 32
    options.partialsTypeMatMuls = "float"
    options.engineOptions = {**options.engineOptions, "target.syncReplicasIndependently": "true"}
    rows = execution.micro_batch * model.length
    with ir.main_graph, popxl.in_sequence():
        words = popxl.h2d_stream((rows,), popxl.int32, "words")
        labels = popxl.h2d_stream((rows,), popxl.int32, "labels")
        rates = popxl.h2d_stream((), popxl.float32, "rate")
        losses = popxl.d2h_stream((), popxl.float32, "loss")
        norms = popxl.d2h_stream((), popxl.float32, "norm")
        seeds, seed = addons.seed_variable(3)
        lr = ops.host_load(rates)
        between = popxl.TensorSpec((rows, model.hidden), model.dtype)
        norm_spec = popxl.TensorSpec((), popxl.float32)
        embed = Layers(
            config, "embed", Tokens(config), [words.spec, seed.spec], 1, lr, norm_spec, False
        )
        count = model.layers
        block = Layers(
            config, "layer", Block(config), [between, seed.spec], count, lr, norm_spec, True
        )
        head = Layers(config, "head", Head(config), [between, labels.spec], 1, lr, norm_spec, True)
        x_buffer = batch_serial_buffer(between, execution.steps, model.layers + 1)
        dx_buffer = batch_serial_buffer(between, execution.steps, model.layers + 1)

        def serialised(layers, loads, grad_loads, stores, grad_stores):
            fwd, bwd = layers.forward.graph, layers.backward.graph
            return batch_serialise_fwd_and_grad(
                layers.forward,
                layers.backward,
                layers.forward.args,
                execution.steps,
                load_handles={**loads(fwd), **grad_loads(bwd)},
                store_streams={},
                store_buffers={**stores(fwd), **grad_stores(bwd)},
                seed_input=fwd.inputs[1],
                rows=layers.rows,
                io_mode="io",
            )

        embed_loops = serialised(
            embed,
            lambda g: {g.inputs[0]: words},
            lambda g: {g.inputs[0]: RemoteHandle(dx_buffer, 0)},
            lambda g: {g.outputs[0]: RemoteHandle(x_buffer, 0)},
            lambda g: {},
        )
        block_loops = serialised(
            block,
            lambda g: {g.inputs[0]: RemoteHandle(x_buffer, 0)},
            lambda g: {g.inputs[0]: RemoteHandle(dx_buffer, 1)},
            lambda g: {g.outputs[0]: RemoteHandle(x_buffer, 1)},
            lambda g: {g.outputs[0]: RemoteHandle(dx_buffer, 0)},
        )
        embed_loops[0].graph.bind(embed.forward_weights(0)).call(0, seed)
        for row in range(model.layers):
            block_loops[0].graph.bind(block.forward_weights(row)).call(row, seed)

        def whole_head(x: popxl.Tensor, labels: popxl.Tensor, *state: popxl.TensorByRef):
            names = head.forward.args.unpack()[0]
            weights = NamedTensors.pack(names, state[: len(names)])
            means = NamedTensors.pack(mean_names, state[len(names) :])
            call: CallSiteInfo = head.forward.bind(weights).call_with_info(x, labels)
            one = popxl.constant(1.0, popxl.float32)
            info: GradGraphInfo = head.backward.grad_graph_info
            (dx,) = head.backward.bind(means).call(one, args=info.inputs_dict(call))
            return call.outputs[0], dx

        weights, means = head.forward_weights(0), head.accumulators.init_zero()
        mean_names = means.unpack()[0]
        tensors = [*weights.unpack()[1], *means.unpack()[1]]
        graph = ir.create_graph(whole_head, between, labels.spec, *tensors)
        loop = batch_serialise(
            addons.GraphWithNamedArgs(graph),
            execution.steps,
            load_handles={
                graph.inputs[0]: RemoteHandle(x_buffer, model.layers),
                graph.inputs[1]: labels,
            },
            store_streams={graph.outputs[0]: losses},
            store_buffers={graph.outputs[1]: RemoteHandle(dx_buffer, model.layers)},
        )
        loop.graph.call(0, *tensors)
        squares = head.keep_gradients(0, means)
        for layers, loops in ((block, block_loops), (embed, embed_loops)):
            for row in reversed(range(layers.rows)):
                means = layers.accumulators.init_zero()
                bound = loops[1].graph.bind(layers.forward_weights(row))
                bound.bind(loops[1].graph.args.to_mapping(means)).call(row)
                squares = squares + layers.keep_gradients(row, means)
        norm = ops.sqrt(ops.collectives.replicated_all_reduce(squares, "add"))
        ops.host_store(norms, norm)
        for layers in (embed, block, head):
            for row in range(layers.rows):
                layers.update(row, lr, norm)
    named = {"embed": embed, "layer": block, "head": head}
    state = NamedTensors()
    for name, layers in named.items():
        for row, weights in enumerate(layers.weights):
            state.insert(f"fwd.{name}.{row}", weights.fwd, overwrite=True)
    return TaskSession(
        inputs=addons.InputStreams.from_streams([words, labels, rates]),
        outputs=addons.OutputStreams.from_streams([losses, norms]),
        state=state,
        max_checkpoints=1,
        ir=ir,
        device_desc="ipu_hw",
    )


SPLIT = {
    **dict.fromkeys(["word.weight", "attention.out.weight", "narrow.weight", "weight"], 0),
    **{f"attention.qkv.{i}.weight": 1 for i in range(3)},
    **{f"attention.qkv.{i}.bias": 0 for i in range(3)},
    **{"wide.weight": 1, "wide.bias": 0},
}


def shards_of(name, value, count):
    """Returns the parts of a weight of one replica that tensor parallel replicas have."""
    part = name.split(".", 3)[-1].replace("feed_forward.", "")
    axis = SPLIT.get(part if not name.startswith("fwd.head") or part == "weight" else "")
    return value if count == 1 or axis is None else shard(value, count, axis)


def train(config, weights=None, updates=2):
    """Returns losses and gradient norms, the session, and its weights before and after."""
    execution, model = config.execution, config.model
    session = program(config)
    state = session.state.to_dict()
    if weights is not None:
        parts = {state[k]: shards_of(k, v, execution.tensor_parallel) for k, v in weights.items()}
        session.write_variables_data(parts)
    before = {k: v.copy() for k, v in session.get_named_tensors_data().to_dict().items()}
    data = np.random.default_rng(0).integers(0, model.vocabulary, (updates, 16, model.length + 1))
    found = []
    words, labels, rates = session.inputs
    losses, norms = session.outputs
    repeat = functools.partial(
        tensor_parallel_input,
        tp=execution.tensor_parallel,
        rf=session.ir.replication_factor,
        repeat_fn=functools.partial(offsets, config),
    )
    with session:
        for batch in data.astype(np.int32):
            rows = batch.reshape(execution.steps * execution.data_parallel, -1, model.length + 1)
            tokens = rows[..., :-1].reshape(len(rows), -1), rows[..., 1:].reshape(len(rows), -1)
            feed = {stream: repeat(part) for stream, part in zip((words, labels), tokens)}
            feed[rates] = np.full(session._full_input_shape(()), 0.05, np.float32)
            assert feed[words].shape == session._full_input_shape(words.shape)
            result = session.run(feed)
            found.append((np.mean(result[losses]), np.max(result[norms])))
    return np.array(found), session, before


@pytest.fixture(scope="module")
def of_one_replica():
    """Losses and gradient norms of two updates, and the weights before."""
    found, _, weights = train(Config(execution=Execution(steps=8)))
    return found, weights


def test_trains_alike_however_replicas_divide_it(of_one_replica):
    expected, weights = of_one_replica
    for data, tensor, sharded in ((2, 1, False), (1, 2, True)):
        execution = Execution(2, 8 // data, data, tensor, sharded)
        found, _, _ = train(Config(execution=execution), weights, updates=1)
        np.testing.assert_allclose(found, expected[:1], rtol=1e-5)


def offsets(config, data, replica):
    """Counts tokens from the first one in the part of the vocabulary that a replica has."""
    shards = config.execution.tensor_parallel
    return data - Embedding.get_offsets(config.model.vocabulary, shards)[replica]


def test_trains_alike_on_one_and_four_replicas(of_one_replica, tmp_path):
    expected, weights = of_one_replica
    parallel = Config(execution=Execution(steps=4, data_parallel=2, tensor_parallel=2))
    found, session, before = train(parallel, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert before["fwd.layer.1.feed_forward.wide.weight"].shape == (2, 16, 32)
    session.add_session_state_info({"note": "kept"})
    session.save_checkpoint(str(tmp_path / "step"))
    trained = {k: v.copy() for k, v in session.get_named_tensors_data().to_dict().items()}
    assert not np.array_equal(trained["fwd.head.0.weight"], before["fwd.head.0.weight"])
    addons.write_variables_pb(
        session, {t: np.zeros_like(trained[k]) for k, t in session.state.to_dict().items()}
    )
    session.session_state["steps"] = 0
    session.load_checkpoint(str(tmp_path / "step"))
    assert session.session_state == {"steps": 2, "note": "kept"}
    for name, value in session.get_named_tensors_data().to_dict().items():
        np.testing.assert_array_equal(value, trained[name])
