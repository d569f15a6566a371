"""Random programs of PopXL, with variables and collectives of groups of replicas.

`python -m tests.stress.popxl_replica_programs FIRST LAST` runs those of some seeds in an instance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import popxl
from popxl import ops
from popxl.ops import collectives, var_updates

from tests.support.processes import instances

# Large enough to be shared.
SHAPE = (32, 600)
SIZE = SHAPE[0] * SHAPE[1]
STATEMENTS = 14
RUNS = 2

_Values = list[popxl.Tensor]
_Choice = TypeVar("_Choice")


class _Main:
    """The statements of the main graph, drawn at random."""

    def __init__(self, random: np.random.Generator, ir: popxl.Ir) -> None:
        self._random = random
        self._ir = ir
        half = ir.replication_factor // 2
        self._all = ir.replica_grouping()
        self._groups = [
            self._all,
            ir.replica_grouping(group_size=half),
            ir.replica_grouping(stride=half),
            ir.replica_grouping(group_size=1),
        ]
        self.variables = [
            popxl.variable(self._start(group), replica_grouping=group) for group in self._groups
        ]
        self._on_chip = list(self.variables)
        self._buffers = [popxl.remote_buffer(SHAPE, popxl.float32, 2) for _ in range(2)]
        for buffer, group in zip(self._buffers, (self._all, self._pick(self._groups))):
            for entry in range(2):
                data = self._start(group)
                made = popxl.remote_variable(data, buffer, entry, replica_grouping=group)
                self.variables.append(made)
        self._pairs = self._groups[1]
        shape = (self._pairs.num_groups, *SHAPE) if self._pairs.num_groups > 1 else SHAPE
        self._shards = popxl.replica_sharded_buffer(shape, popxl.float32, self._pairs, entries=2)
        for entry in range(2):
            self.variables.append(
                popxl.remote_replica_sharded_variable(
                    self._start(self._pairs), self._shards, entry, replica_grouping=self._pairs
                )
            )
        sharded, self._shard = popxl.replica_sharded_variable(self._start(self._all))
        self.variables.append(sharded)
        self._seed = ops.host_load(popxl.h2d_stream((2,), popxl.uint32, "seed"))
        self._draws = 0

    def run(self, values: _Values) -> popxl.Tensor:
        """Runs the statements, and returns a value that depends on most others.

        Args:
            values: what the first statements can use.
        """
        statements: Sequence[Callable[[_Values], popxl.Tensor | None]] = (
            self._arithmetic,
            self._arithmetic,
            self._product,
            self._draw,
            self._reduced,
            self._reduced,
            self._scattered_and_gathered,
            self._gathered_slices,
            self._read,
            self._read,
            self._update,
            self._update,
            self._update_alike,
            self._update_entry,
            self._entry,
            self._update_shard,
            self._update_remote_shard,
            self._whole_remote_shards,
            self._whole_shards,
            self._call,
            self._choice,
        )
        for _ in range(STATEMENTS):
            result = self._pick(statements)(values)
            if result is not None:
                values.append(result)
        total = values[-1]
        for value in values[-4:-1]:
            total = total + value
        return total

    def _start(self, group: popxl.ReplicaGrouping) -> np.ndarray:
        groups = (group.num_groups,) if group.num_groups > 1 else ()
        return self._random.normal(size=(*groups, *SHAPE)).astype(np.float32)

    def _pick(self, things: Sequence[_Choice]) -> _Choice:
        return things[self._random.integers(len(things))]

    def _arithmetic(self, values: _Values) -> popxl.Tensor:
        operation = self._pick((ops.add, ops.sub, ops.mul, ops.maximum))
        return ops.tanh(operation(self._pick(values), self._pick(values)))

    def _product(self, values: _Values) -> popxl.Tensor:
        square = self._pick(values) @ self._pick(values).T
        return ops.tanh(square @ self._pick(values))

    def _draw(self, values: _Values) -> popxl.Tensor:
        self._draws += 1
        seed = self._seed + popxl.constant([self._draws, 0], popxl.uint32)
        return ops.dropout(self._pick(values), seed, 0.3)

    def _reduced(self, values: _Values) -> popxl.Tensor:
        operation = self._pick(("add", "mean", "max", "square_add"))
        group = self._pick(self._groups)
        return ops.tanh(collectives.replicated_all_reduce(self._pick(values), operation, group))

    def _scattered_and_gathered(self, values: _Values) -> popxl.Tensor:
        group = self._pick(self._groups[:3])
        shard = collectives.replicated_reduce_scatter(self._pick(values), "mean", group, True)
        return collectives.replicated_all_gather(ops.tanh(shard), group=group)

    def _gathered_slices(self, values: _Values) -> popxl.Tensor:
        group = self._pick(self._groups)
        part = collectives.replicated_slice(self._pick(values), 0, group)
        return collectives.replicated_all_gather(part, 0, group)

    def _read(self, values: _Values) -> popxl.Tensor:
        return self._pick(self._on_chip) + 0.0

    def _update(self, values: _Values) -> None:
        variable, value = self._pick(self._on_chip), self._pick(values)
        if self._random.random() < 0.5:
            ops.scaled_add_(variable, value, b=-0.1)
        else:
            var_updates.copy_var_update_(variable, ops.tanh(value))

    def _update_alike(self, values: _Values) -> None:
        """Updates a variable by a mean of its group, as training does."""
        index = self._random.integers(len(self._groups))
        group = self._groups[index]
        mean = collectives.replicated_all_reduce(self._pick(values), "mean", group)
        ops.scaled_add_(self._on_chip[index], mean, b=-0.1)

    def _entry(self, values: _Values) -> popxl.Tensor:
        return ops.remote_load(self._pick(self._buffers), self._offset())

    def _offset(self) -> int | popxl.Tensor:
        """Returns the number of an entry, which the program knows or computes."""
        number = int(self._random.integers(2))
        return number if self._random.random() < 0.5 else popxl.constant(number, popxl.int32)

    def _update_entry(self, values: _Values) -> None:
        buffer, value = self._pick(self._buffers), self._pick(values)
        if self._random.random() < 0.8:
            value = collectives.replicated_all_reduce(value, "mean", self._pick(self._groups))
        ops.remote_store(buffer, self._offset(), ops.tanh(value))

    def _update_shard(self, values: _Values) -> None:
        mean = collectives.replicated_reduce_scatter(self._pick(values), "mean", self._all, True)
        ops.scaled_add_(self._shard, mean, b=-0.1)

    def _update_remote_shard(self, values: _Values) -> None:
        mean = collectives.replicated_reduce_scatter(
            self._pick(values),
            "mean",
            self._pairs,
            configure_output_for_replicated_tensor_sharding=True,
        )
        entry = self._offset()
        ops.remote_store(self._shards, entry, ops.remote_load(self._shards, entry) - mean * 0.1)

    def _whole_remote_shards(self, _: _Values) -> popxl.Tensor:
        shard = ops.remote_load(self._shards, self._offset())
        return collectives.replicated_all_gather(shard, group=self._pairs)

    def _whole_shards(self, values: _Values) -> popxl.Tensor:
        return collectives.replicated_all_gather(self._shard, group=self._all)

    def _call(self, values: _Values) -> popxl.Tensor:
        group, times = self._pick(self._groups), int(self._random.integers(1, 4))

        def part(x: popxl.Tensor, y: popxl.Tensor) -> popxl.Tensor:
            return ops.tanh(x + collectives.replicated_all_reduce(x * y, "mean", group))

        first, second = self._pick(values), self._pick(values)
        graph = self._ir.create_graph(part, first, second)
        if times == 1:
            return ops.call(graph, first, second)[0]
        return ops.repeat(graph, times, first, second)[0]

    def _choice(self, values: _Values) -> popxl.Tensor:
        first, second = self._pick(values), self._pick(values)
        predicate = ops.greater(ops.sum(self._pick(values)), popxl.constant(0.0))
        double = self._ir.create_graph(lambda x, y: x * 2.0 - y, first, second)
        half = self._ir.create_graph(lambda x, y: x * 0.5 + y, first, second)
        (chosen,) = ops.conditional(
            predicate, double, half, then_inputs=[first, second], else_inputs=[first, second]
        )
        return ops.tanh(chosen)


def run(seed: int, replicas: int) -> list[np.ndarray]:
    """Runs the random program of a seed.

    Args:
        seed: chooses the program.
        replicas: how many; a power of two, from 2 on.

    Returns:
        The last value of all replicas in each run, and the variables at the end.
    """
    return _run(popxl.Ir(replicas), seed, range(replicas))


def _run(ir: popxl.Ir, seed: int, own: range) -> list[np.ndarray]:
    """Runs the random program of a seed on the replicas of this process."""
    replicas = ir.replication_factor
    random = np.random.default_rng(seed)
    with ir.main_graph, popxl.in_sequence():
        main = _Main(random, ir)
        stream = popxl.h2d_stream(SHAPE, popxl.float32, "x")
        constant = popxl.constant(random.normal(size=SHAPE).astype(np.float32))
        result = main.run([ops.host_load(stream), constant])
        out = popxl.d2h_stream(SHAPE, popxl.float32, "out")
        ops.host_store(out, result)
    (seeds,) = (s for s in ir.get_all_h2d_streams() if s.dtype == popxl.uint32)
    results = []
    with popxl.Session(ir, "ipu_hw") as session:
        for _ in range(RUNS):
            data = random.normal(size=(replicas, *SHAPE)).astype(np.float32)
            drawn = random.integers(0, 1000, (replicas, 2)).astype(np.uint32)
            inputs = {stream: data[own.start : own.stop], seeds: drawn[own.start : own.stop]}
            results.append(session.run(inputs)[out])
    return [*results, *(variable.data for variable in main.variables)]


def main(first: str, last: str) -> None:
    """Runs the programs of some seeds in an instance.

    Args:
        first: the first seed.
        last: the seed after the last one.
    """
    for seed in range(int(first), int(last)):
        ir = popxl.Ir(replication="popdist")
        count = ir.instance_replication_factor
        own = range(ir.instances.index * count, (ir.instances.index + 1) * count)
        results = _run(ir, seed, own)
        instances.report(**{f"result {i}": result for i, result in enumerate(results)})


if __name__ == "__main__":
    main(*sys.argv[1:])
