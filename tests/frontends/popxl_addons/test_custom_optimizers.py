"""An optimizer that a program writes itself: on one replica, data parallel, and with shards."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import collectives, var_updates
from popxl_addons import NamedTensors, remote, rts

RNG = np.random.default_rng(21)
X = RNG.normal(size=(8, 12)).astype(np.float32)
LABELS = RNG.integers(0, 4, 8).astype(np.int32)
SIZES, RUNS = (12, 16, 4), 5


class Net(addons.Module):
    """Two linear layers."""

    def build(self, x):
        for i, (rows, columns) in enumerate(zip(SIZES, SIZES[1:])):
            values = np.random.default_rng(i).normal(0, 0.1, (rows, columns))
            weight = self.add_variable_input(f"weight{i}", lambda v=values: v, x.dtype)
            bias = self.add_variable_input(f"bias{i}", partial(np.zeros, columns), x.dtype)
            x = ops.gelu(x @ weight + bias)
        return x


class Adam(addons.Module):
    """Adam, as the original's tutorial has a program write it."""

    @popxl.in_sequence()
    def build(self, weight: popxl.TensorByRef, grad, *, lr, beta1=0.9, beta2=0.999, eps=1e-5):
        first, second = (self._moment(name, weight) for name in ("first", "second"))
        step = self.add_variable_input("step", partial(np.zeros, ()), popxl.float32, by_ref=True)
        var_updates.accumulate_moving_average_(first, grad, f=beta1)
        var_updates.accumulate_moving_average_square_(second, grad, f=beta2)
        update = var_updates.adam_updater(
            first, second, weight, step, beta1=beta1, beta2=beta2, epsilon=eps
        )
        ops.scaled_add_(weight, update, b=-lr)

    def _moment(self, name, weight):
        whole = weight.meta_shape or weight.shape
        sharded = bool(weight.meta_shape)
        add = self.add_replica_sharded_variable_input if sharded else self.add_variable_input
        return add(name, partial(np.zeros, whole), popxl.float32, by_ref=True)


def losses(ir, main):
    """Returns the losses of some runs of a program."""
    x, labels = popxl.h2d_stream(X.shape, popxl.float32), popxl.h2d_stream((8,), popxl.int32)
    out = popxl.d2h_stream((), popxl.float32)
    main(ops.host_load(x), ops.host_load(labels), out)
    ir.main_graph.__exit__(None, None, None)
    lead = (ir.replication_factor,) if ir.replication_factor > 1 else ()
    data = {x: np.broadcast_to(X, lead + X.shape), labels: np.broadcast_to(LABELS, (*lead, 8))}
    with popxl.Session(ir, "ipu_hw") as session:
        return [np.mean(session.run(data)[out]) for _ in range(RUNS)]


def trained(replicas):
    """Losses with the variables on the chip."""
    ir = popxl.Ir(replicas)
    ir.main_graph.__enter__()

    def main(x, labels, out):
        facts, forward = Net().create_graph(x)
        backward = addons.autodiff(forward)
        variables = facts.init()
        info = forward.bind(variables).call_with_info(x)
        loss, dx = addons.ops.cross_entropy_with_grad(info.outputs[0], labels)
        ops.host_store(out, loss)
        grads_info = backward.grad_graph_info
        back = backward.call_with_info(dx, args=grads_info.inputs_dict(info))
        grads = grads_info.fwd_parent_ins_to_grad_parent_outs(info, back)
        optimizer = Adam(cache=True)
        # Data orders all: no in_sequence is needed here.
        for variable in variables.to_dict().values():
            grad = grads[variable]
            if replicas > 1:
                grad = collectives.replicated_all_reduce(grad, op="mean")
            states, update = optimizer.create_graph(variable, variable.spec, lr=1e-2)
            update.bind(states.init()).call(variable, grad)

    return losses(ir, main)


def trained_in_shards(replicas):
    """Losses with variables and states in remote memory, sharded over the replicas."""
    ir = popxl.Ir(replicas)
    ir.main_graph.__enter__()

    @popxl.in_sequence()
    def main(x, labels, out):
        facts, forward = Net().create_graph(x)
        states, backward = addons.autodiff_with_accumulation(forward, forward.args.tensors)
        buffers = remote.named_variable_buffers(facts)
        facts.init_remote(buffers)
        load, names = remote.load_remote_graph(buffers)
        shards = NamedTensors.pack(names, load.call(0))
        gather, names = rts.all_gather_replica_sharded_graph(shards)
        whole = NamedTensors.pack(names, gather.bind(shards).call())
        kept = states.init_zero()
        info = forward.bind(whole).call_with_info(x)
        loss, dx = addons.ops.cross_entropy_with_grad(info.outputs[0], labels)
        ops.host_store(out, loss)
        backward.bind(kept).call(dx, args=backward.grad_graph_info.inputs_dict(info))
        reduce, names = rts.reduce_replica_sharded_graph(kept.accum, "mean")
        grads = NamedTensors.pack(names, reduce.bind(kept.accum).call())
        optimizer = Adam(cache=True)
        for name, shard in shards.to_dict().items():
            facts, update = optimizer.create_graph(shard, grads[name], lr=1e-2)
            places = remote.named_variable_buffers(facts)
            facts.init_remote(places, 0, name)
            load, names = remote.load_remote_graph(places)
            states = NamedTensors.pack(names, load.call(0))
            update.bind(states).call(shard, grads[name])
            remote.store_remote_graph(places).bind(states).call(0)
        remote.store_remote_graph(buffers).bind(shards).call(0)

    return losses(ir, main)


@pytest.mark.parametrize("train, replicas", [(trained, 2), (trained_in_shards, 2)])
def test_optimizers_of_programs_train_alike(train, replicas):
    expected = trained(1)
    assert expected == sorted(expected, reverse=True)
    np.testing.assert_allclose(train(replicas), expected, rtol=1e-6)
