"""Trains a small GPT with PopXL on Python's own documentation, pipelined over 4 simulated IPUs.

Each IPU has a block of the model. Batches pass through them as a pipeline, forward and backward;
gradients are added up, then Adam updates the weights. Its state is in remote buffers, and with
`--replicas 2` each replica has a shard of it: gradients are reduced to shards, which update shards
of the weights, and these are gathered again.

* `python examples/popxl_gpt.py` trains one copy of the model; `--replicas 2` takes 8 IPUs.

docs/popxl.md explains the parts.
"""

from __future__ import annotations

import argparse
import builtins
import inspect

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops
from popxl_addons import rts
from popxl_addons.layers import LayerNorm, Linear
from popxl_addons.optimizers import AdamOptimizerStep
from tensorflow.python import ipu

IPUS = 4
BATCH, LENGTH, HIDDEN, HEADS = 2, 32, 64, 4
BATCHES = 14  # for one update: twice as many as there are stages, or more
RATE = 6e-3


def load_text() -> np.ndarray:
    """Returns the documentation of Python's built-ins as character codes."""
    found = (inspect.getdoc(getattr(builtins, name)) for name in sorted(dir(builtins)))
    text = "\n\n".join(document for document in found if document)
    return np.frombuffer(text.encode("ascii", "ignore"), np.uint8)


class Tokens(addons.Module):
    """Vectors of characters and of their places."""

    def build(self, tokens: popxl.Tensor, characters: int) -> popxl.Tensor:
        """Returns a vector for each of `(BATCH, LENGTH)` tokens."""

        def normal(rows: int) -> np.ndarray:
            return np.random.normal(0, 0.1, (rows, HIDDEN))

        meaning = self.add_variable_input("meaning", lambda: normal(characters), popxl.float32)
        place = self.add_variable_input("place", lambda: normal(LENGTH), popxl.float32)
        return (ops.gather(meaning, tokens) + place).reshape((-1, HIDDEN))


class Attention(addons.Module):
    """Causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = Linear(3 * HIDDEN)
        self.out = Linear(HIDDEN)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the causal self-attention of each token."""
        heads = self.qkv(x).reshape((BATCH, LENGTH, 3, HEADS, HIDDEN // HEADS))
        parts = ops.split(heads.transpose((2, 0, 3, 1, 4)), 3)
        q, k, v = (ops.squeeze(part, [0]) for part in parts)
        later = np.triu(np.full((LENGTH, LENGTH), -1e4, np.float32), 1)
        scores = q @ k.transpose((0, 1, 3, 2)) * (HIDDEN // HEADS) ** -0.5
        mixed = ops.softmax(scores + popxl.constant(later), -1) @ v
        return self.out(mixed.transpose((0, 2, 1, 3)).reshape((-1, HIDDEN)))


class Block(addons.Module):
    """A block: attention and two layers, each with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = LayerNorm(), Attention()
        self.norm2, self.wide, self.narrow = LayerNorm(), Linear(4 * HIDDEN), Linear(HIDDEN)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns the next vectors of tokens."""
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(ops.gelu(self.wide(self.norm2(x))))


class First(addons.Module):
    """Layers of the first IPU."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.block = Tokens(), Block()

    def build(self, tokens: popxl.Tensor, characters: int) -> popxl.Tensor:
        """Returns vectors of tokens."""
        return self.block(self.tokens(tokens, characters))


class Last(addons.Module):
    """Layers of the last IPU."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.block, self.norm, self.head = Block(), LayerNorm(), Linear(characters)

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        """Returns logits of the next characters."""
        return self.head(self.norm(self.block(x)))


class Part:
    """The part of the model on one IPU: its graphs, weights and means of gradients."""

    def __init__(self, number: int, module: addons.Module, *inputs: object) -> None:
        """Makes the graphs and variables."""
        self.ipu, self.name = number, f"ipu{number}"
        with popxl.ipu(number):
            factories, self.forward = module.create_graph(*inputs)
            accumulators, self.backward = addons.autodiff_with_accumulation(
                self.forward,
                self.forward.args.tensors,
                grads_required=self.forward.graph.inputs[:1] if number else None,
            )
            self.weights, self.means = factories.init(self.name), accumulators.init(self.name)

    def update(self) -> None:
        """Takes a step of Adam, whose state is in remote buffers, and starts new means."""
        with popxl.ipu(self.ipu):
            reduce, names = rts.reduce_replica_sharded_graph(self.means.accum, "mean")
            gradients = addons.NamedTensors.pack(names, reduce.bind(self.means.accum).call())
            optimizer = AdamOptimizerStep(cache=True)  # one graph for all variables of a shape
            updates, factories = {}, {}
            for name, gradient in gradients.to_dict().items():
                factories[name], updates[name] = optimizer.create_graph(
                    gradient, gradient, lr=RATE, first_order_dtype=popxl.float32
                )
            state = addons.NamedVariableFactories.from_dict(factories)
            buffers = addons.named_variable_buffers(state)
            state.init_remote(buffers, prefix=self.name)
            moments = addons.remote.load_remote(buffers)
            for name, gradient in gradients.to_dict().items():
                update_weight(self.weights[name], gradient, updates[name].bind(moments[name]))
            addons.remote.store_remote(buffers, moments)
            ops.var_updates.accumulator_zero_(self.means.mean_accum_counter)


def update_weight(weight: popxl.Tensor, gradient: popxl.Tensor, step: addons.BoundGraph) -> None:
    """Updates a weight: this replica's shard, if the gradient is one, which all then gather."""
    if not gradient.meta_shape:
        step.call(weight, gradient)
        return
    shard = ops.collectives.replica_sharded_slice(weight)
    step.call(shard, gradient)
    ops.var_updates.copy_var_update_(weight, rts.gather_replica_sharded_tensor(shard))


class Training:
    """The program that trains: a run is one update."""

    def __init__(self, characters: int, replicas: int) -> None:
        ir = popxl.Ir(replicas)
        ir.num_host_transfers = BATCHES
        with ir.main_graph, popxl.in_sequence():
            self.tokens = popxl.h2d_stream((BATCH, LENGTH), popxl.int32, "tokens")
            self.following = popxl.h2d_stream((BATCH * LENGTH,), popxl.int32, "following")
            self.losses = popxl.d2h_stream((), popxl.float32, "loss")
            spec = popxl.TensorSpec((BATCH * LENGTH, HIDDEN), popxl.float32)
            parts = [
                Part(0, First(), self.tokens.spec, characters),
                *(Part(number, Block(), spec) for number in range(1, IPUS - 1)),
                Part(IPUS - 1, Last(characters), spec),
            ]
            with addons.pipelined_execution(BATCHES) as pipeline:
                self.pass_batch(pipeline, parts)
            for part in parts:
                part.update()
        self.session = popxl.Session(ir, "ipu_hw")

    def pass_batch(self, pipeline: addons.transforms.Pipelining, parts: list[Part]) -> None:
        """Passes a batch through all parts, and its gradients back."""
        calls, x = [], None
        for stage, part in enumerate(parts):
            with pipeline.stage(stage), popxl.ipu(part.ipu):
                x = ops.host_load(self.tokens) if x is None else x.copy_to_ipu(part.ipu)
                calls.append(part.forward.bind(part.weights).call_with_info(x))
                x = calls[-1].outputs[0]
                if stage == IPUS - 1:
                    labels = ops.host_load(self.following)
                    loss, slope = addons.ops.cross_entropy_with_grad(x, labels)
                    ops.host_store(self.losses, loss)
                    slope = self.pass_back(pipeline, part, calls[-1], slope)
        for stage, part in enumerate(reversed(parts[:-1]), IPUS):
            with pipeline.stage(stage), popxl.ipu(part.ipu):
                slope = slope.copy_to_ipu(part.ipu)
                slope = self.pass_back(pipeline, part, calls[part.ipu], slope)

    def pass_back(
        self,
        pipeline: addons.transforms.Pipelining,
        part: Part,
        call: ops.CallSiteInfo,
        slope: popxl.Tensor,
    ) -> popxl.Tensor | None:
        """Passes gradients back through a part; returns those for the one before."""
        activations = pipeline.stash_and_restore_activations(call, part.backward.grad_graph_info)
        results = part.backward.bind(part.means).call(slope, args=activations)
        return results[0] if results else None

    def run(self, codes: np.ndarray, generator: np.random.Generator) -> float:
        """Trains on random parts of a text; returns the mean loss."""
        replicas = self.session.ir.replication_factor
        lead = (BATCHES, replicas) if replicas > 1 else (BATCHES,)
        starts = generator.integers(0, len(codes) - LENGTH, (*lead, BATCH, 1))
        rows = codes[starts + np.arange(LENGTH + 1)]
        data = {
            self.tokens: rows[..., :-1],
            self.following: rows[..., 1:].reshape(*lead, -1),
        }
        return float(np.mean(self.session.run(data)[self.losses]))


def main() -> None:
    """Trains, and prints the run's memory and time on the chips."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--replicas", type=int, default=1)
    arguments = parser.parse_args()

    np.random.seed(0)  # the initial weights
    characters, codes = np.unique(load_text(), return_inverse=True)
    share = np.bincount(codes) / len(codes)
    print(f"{len(codes)} characters, {len(characters)} different ones")
    print(f"loss of a guess that knows how frequent they are: {-share @ np.log(share):.4f}")
    training = Training(len(characters), arguments.replicas)
    generator = np.random.default_rng(0)
    with ipu.profiler.profile(), training.session:
        for update in range(1, arguments.updates + 1):
            loss = training.run(codes.astype(np.int32), generator)
            if update % 10 == 0:
                print(f"update {update}/{arguments.updates}: loss {loss:.4f}")
        summary = ipu.profiler.summary()
    print(summary)


if __name__ == "__main__":
    main()
