"""Loads and stores of entries of remote buffers in the program that the host runs."""

from __future__ import annotations

import popxl
from popxl import ops

from tensorflow_ipu.compiler import compile as compiler
from tensorflow_ipu.compiler.passes import remote_entries
from tensorflow_ipu.util import op_names


def test_ops_on_entries_are_native(monkeypatch):
    before, after = [], []

    def run(program, target):
        before.extend(node.op for _, node in program.nodes())
        remote_entries.run(program, target)
        after.extend(node.op for _, node in program.nodes())

    steps = [
        step._replace(run=run) if step.name == "remote_entries" else step
        for step in compiler.TABLE["host"]
    ]
    monkeypatch.setitem(compiler.TABLE, "host", tuple(steps))
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, 3)
        ops.remote_store(buffer, 1, ops.remote_load(buffer, 1) + 1.0)
    with popxl.Session(ir) as session:
        session.run()
    gathers = before.count("ResourceGather")
    assert gathers == after.count(op_names.REMOTE_LOAD) > 0
    assert before.count("ResourceScatterUpdate") == after.count(op_names.REMOTE_STORE) > 0
    assert not {"ResourceGather", "ResourceScatterUpdate"} & set(after)
