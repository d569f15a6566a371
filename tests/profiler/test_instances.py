"""Tests of reports of a program of several processes: shared parts, and parts of one process."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tensorflow_ipu.api.config import DeviceConnectionType, IPUConfig
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.configs import flags
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops
from tensorflow_ipu.profiler import automatic, session
from tensorflow_ipu.profiler.report import Report
from tensorflow_ipu.tuning import what_if


@pytest.fixture
def executable(tmp_path, monkeypatch):
    """A program of 4 processes with 2 replicas each. It is only compiled: there is one process."""
    monkeypatch.setenv(flags.VARIABLE, f"--executable_cache_path={tmp_path}")
    flags._reset_for_tests()
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.experimental.multi_replica_distribution.process_count = 4
    config.experimental.multi_replica_distribution.process_index = 1
    config.device_connection.version = "ipu2"
    config.device_connection.type = DeviceConnectionType.PRE_COMPILE
    config.configure_ipu_system()
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.ones([64, 64]))

        @tf.function(jit_compile=True)
        def step(x):
            return cross_replica_ops.cross_replica_sum(tf.matmul(x, weights))

        strategy.run(step, args=(tf.ones([8, 64]),))
    yield cache.executables()[-1]
    monkeypatch.undo()
    flags._reset_for_tests()


def test_replicas_are_those_of_all_processes(executable, tmp_path):
    report = Report.from_executable(executable)
    assert (report.settings.replicas, report.settings.instances) == (8, 4)
    assert (report.target["replicas"], report.target["ipus"]) == (8, 8)
    assert report.target["instances"] == 4
    assert "8, 2 in each of 4 instances" in str(report)
    assert "8 replicas (2 in each of 4 instances)" in report._repr_html_()
    path = tmp_path / "report.json"
    path.write_text(report.to_json())
    again = Report.load(path)
    assert again.settings == report.settings and again.target == report.target
    summary = session.summary()
    assert "8 replicas of 1 IPU each, 2 in each of 4 instances" in summary


def test_the_sum_is_that_of_all_processes(executable):
    """The figures equal outcomes of a change from one process to four."""
    settings = executable.settings
    now, again, fewer = what_if.outcomes(executable.workload, settings, {"instances": [4, 4, 1]})
    assert now == again and now.ipus == 8 and fewer.ipus == 2
    assert now.cycles == executable.plan.timeline.cycles > fewer.cycles
    assert what_if.outcomes(
        executable.workload, settings.replace(replicas=2, instances=1), {"instances": [4]}
    ) == (now,)


def test_process_counts_the_tiles_of_its_own_device(executable, caplog):
    tiles = 2 * executable.settings.chip.tiles
    automatic.cycle_line(executable, flags.Flags(log_cycle_count=tiles - 1))
    assert not caplog.records
    automatic.cycle_line(executable, flags.Flags(log_cycle_count=tiles))
    assert f"runs on the tiles 0 to {tiles - 1}" in caplog.text
