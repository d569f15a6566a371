"""A PopXL program of replicas with values of their own, and its results in this process.

Run with `python -m tests.support.popxl.popxl_processes`, alone or as instances of poprun.
"""

from __future__ import annotations

import numpy as np
import popxl
from popxl import ops

from tensorflow_ipu.compiler import observers
from tests.support.processes import instances

LENGTH = 6
SHARD_STEP = 0.5
# Elements of an entry of a remote buffer: enough to be shared.
ENTRY = 20_000


def main() -> None:
    """Runs the program twice, and reports the values sent to the host, and the memory shared."""
    executables = []
    observers.observe(executables.append)
    ir = popxl.Ir(replication="popdist")
    if ir.replication_factor == 1:
        ir.replication_factor = 4
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((LENGTH,), popxl.float32, "x")
        x = ops.host_load(stream)
        groups = ir.replica_grouping(stride=2, group_size=2)
        own = popxl.variable(
            np.arange(2 * LENGTH, dtype=np.float32).reshape(2, LENGTH), replica_grouping=groups
        )
        all_of_own = popxl.variable(
            np.zeros((2, LENGTH), np.float32),
            name="all",
            replica_grouping=groups,
            retrieval_mode="all_replicas",
        )
        whole = popxl.variable(np.ones(LENGTH, np.float32), name="whole")
        sharded, shard = popxl.replica_sharded_variable(np.arange(LENGTH, dtype=np.float32))
        ops.add_(own, x)
        ops.add_(all_of_own, x)
        ops.add_(whole, ops.collectives.replicated_all_reduce(x))
        in_groups = ops.collectives.replicated_all_reduce(x, "add", groups)
        summed = ops.collectives.replicated_reduce_scatter(
            x, "add", configure_output_for_replicated_tensor_sharding=True
        )
        ops.scaled_add_(shard, summed, b=SHARD_STEP)
        gathered = ops.collectives.replicated_all_gather(shard)
        remote = []
        for group in (ir.replica_grouping(), ir.replica_grouping(group_size=2)):
            buffer = popxl.remote_buffer((ENTRY,), popxl.float32)
            start = np.zeros((group.num_groups, ENTRY), np.float32)
            start = start if group.num_groups > 1 else start[0]
            remote.append(popxl.remote_variable(start, buffer, replica_grouping=group))
            change = ops.sum(ops.collectives.replicated_all_reduce(x, "add", group))
            ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + change)
        streams = {}
        for name, value in {"in_groups": in_groups, "gathered": gathered}.items():
            streams[name] = popxl.d2h_stream(value.shape, value.dtype, name)
            ops.host_store(streams[name], value)
    local = ir.instance_replication_factor
    first = ir.instances.index * local
    data = np.arange(ir.replication_factor * LENGTH, dtype=np.float32)
    data = data.reshape(-1, LENGTH)[first : first + local]
    with popxl.Session(ir, "ipu_hw") as session:
        for _ in range(2):
            outputs = session.run({stream: data[0] if local == 1 else data})
    instances.report(
        replicas=[ir.replication_factor, local],
        **{name: outputs[out].reshape(local, LENGTH) for name, out in streams.items()},
        own=session.get_tensor_data(own).copy(),
        all_of_own=session.get_tensor_data(all_of_own).copy(),
        whole=session.get_tensor_data(whole).copy(),
        sharded=session.get_tensor_data(sharded).copy(),
        remote=[session.get_tensor_data(made)[..., -1].tolist() for made in remote],
        uniform_bytes=executables[-1].uniform[2],
        copied_bytes=executables[-1].uniform[4],
    )


if __name__ == "__main__":
    main()
