"""Random programs with effects do the same as NumPy, alike on all replicas."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf

from tensorflow_ipu.distributed import ipu_strategy
from tests.fuzz import effect_programs as machines
from tests.fuzz import support
from tests.support.programs import replicas as replica_helpers

TOLERANCE = 1e-4


def _compare(
    program: machines.Program,
    found: dict[machines.Site, np.ndarray],
    expected: dict[machines.Site, list[machines.Known]],
) -> None:
    """Compares the stored values of each place, [times, replicas, ...], with the reference."""
    for site in {*found, *expected}:
        values = expected.get(site, [])
        rows = found[site].reshape(-1, program.replicas, *machines.SHAPE)
        for row, known in zip(rows, values):
            np.testing.assert_allclose(row, known.rows, TOLERANCE, TOLERANCE, err_msg=str(site))
            if known.equal:
                np.testing.assert_array_equal(row, row[:1].repeat(len(row), 0), str(site))
        assert len(rows) == len(values) or not rows[len(values) :].any(), site


def test_effects_of_tensorflow_programs(request: pytest.FixtureRequest) -> None:
    def check(program: machines.Program) -> None:
        replica_helpers.configure(program.replicas)
        strategy = ipu_strategy.IPUStrategy()
        reference = machines.Reference(program, of_popxl=False)
        with strategy.scope():
            machine = machines.TensorFlow(program, tf.Variable(tf.zeros(machines.SHAPE)))
            function = tf.function(machine.build, jit_compile=True)
            strategy.run(function, tuple(map(tf.constant, machines.start(program.replicas))))
        found = {site: machine.queues[site].dequeue().numpy() for site in reference.stored}
        _compare(program, found, reference.stored)
        last = machine._variable.numpy()
        np.testing.assert_allclose(last, reference.variable.rows[0], TOLERANCE, TOLERANCE)

    support.run(request, "TensorFlow effects", machines.PROGRAMS, check)


def test_effects_of_popxl_programs(request: pytest.FixtureRequest) -> None:
    def check(program: machines.Program) -> None:
        reference = machines.Reference(program, of_popxl=True)
        most = max(map(len, reference.stored.values()), default=1)
        machine = machines.Popxl(program, most)
        with popxl.Session(machine.ir, "ipu_hw") as session:
            results = session.run()
            last = session.get_tensor_data(machine._variable)
        found = {site: results[stream] for site, stream in machine.streams.items()}
        _compare(program, found, reference.stored)
        np.testing.assert_allclose(last, reference.variable.rows[0], TOLERANCE, TOLERANCE)

    support.run(request, "PopXL effects", machines.PROGRAMS, check)
