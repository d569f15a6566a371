"""A program is compiled for the configuration that its Target has, and for no other."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tensorflow_ipu.api.config import DeviceConnectionType, IPUConfig
from tensorflow_ipu.compiler import cache, observers
from tensorflow_ipu.compiler import cluster as cluster_lib
from tensorflow_ipu.compiler import compile as compile_lib
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.device_numerics import FloatBehavior
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.compiler.ir.target import Argument, Target
from tensorflow_ipu.configs import flags, translate
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.profiler import report_data
from tensorflow_ipu.runtime import attachment, system
from tests.support.models import pipelines
from tests.support.programs import replicas

_VECTOR = Argument(tf.float32, tf.TensorShape([4]), is_variable=False)


def _system(text: str = "", **options: Any) -> attachment.System:
    """Returns a configuration that is not in force."""
    config = IPUConfig()
    for name, value in options.items():
        node: Any = config
        *outer, last = name.split("__")
        for part in outer:
            node = getattr(node, part)
        setattr(node, last, value)
    return system.build(translate.to_options(config), flags.parse(text), 1000)


def _compile(
    function: Any, attached: attachment.System
) -> tuple[Executable, function_pb2.FunctionDefLibrary]:
    """Compiles a function of a vector for a configuration, while another one is in force."""
    replicas.configure(1)
    concrete = tf.function(function).get_concrete_function(tf.TensorSpec([4], tf.float32))
    cluster = cluster_lib.Cluster.from_graph(concrete.graph, "program", owner=concrete)
    return compile_lib.compile_cluster(cluster, Target(0, attached, (_VECTOR,)))


def test_devices_and_options() -> None:
    attached = _system(
        auto_select_ipus=4,
        allow_recompute=True,
        optimizations__minimum_remote_tensor_size=7,
        matmuls__poplar_options={"partialsType": "half"},
        compilation_poplar_options={"debug.allowOutOfMemory": "true"},
    )
    executable, _ = _compile(lambda x: tf.nn.relu(x) + 1.0, attached)
    assert executable.replicas == 4
    assert executable.system is attached and executable.generation == 1000
    settings = executable.settings
    assert (settings.replicas, settings.recompute) == (4, True)
    assert settings.matmul_partials == "float16"
    assert executable.remote_memory.minimum_bytes == 7
    options = report_data.options_of(executable)
    assert options["config"]["auto_select_ipus"] == [4]
    assert options["engine"] == {"debug.allowOutOfMemory": "true"}


def test_flags() -> None:
    def masked(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.boolean_mask(x, x > 2.0))

    with pytest.raises(tf.errors.InvalidArgumentError, match="--operator_policy=raise"):
        _compile(masked, _system("--operator_policy=raise"))
    executable, _ = _compile(masked, _system("--operator_policy=allow"))
    assert report_data.options_of(executable)["flags"] == {"operator_policy": "allow"}


def test_flag_model_has_own_arithmetic_and_size() -> None:
    model = _system("--use_ipu_model --ipu_model_tiles=8", auto_select_ipus=4)
    executable, _ = _compile(lambda x: tf.nn.relu(x) + 1.0, model)
    assert (executable.replicas, executable.settings.chip.tiles) == (1, 8)
    assert FloatBehavior.of(model).overflow is not FloatBehavior.of(system.current()).overflow


def test_where_it_is_saved(tmp_path: Any) -> None:
    attached = _system(
        f"--executable_cache_path={tmp_path}/cache",
        serialization_output_folder=str(tmp_path / "serialized"),
    )
    executable, _ = _compile(lambda x: x * x, attached)
    assert (tmp_path / "cache" / f"{executable.fingerprint}.poplar_exec").exists()
    assert (tmp_path / "serialized" / f"{executable.fingerprint}.ipu_bin").exists()


def test_pre_compilation() -> None:
    attached = _system(
        device_connection__type=DeviceConnectionType.PRE_COMPILE, device_connection__version="ipu2"
    )
    with pytest.raises(tf.errors.FailedPreconditionError, match="no executable cache"):
        _compile(lambda x: x * x, attached)


def test_what_the_host_runs() -> None:
    """With float16 it has one more op where the options say that an overflow ends the program."""

    def function(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.exp(tf.cast(x, tf.float16)), tf.float32)

    checked = []
    for trap in (False, True):
        _, library = _compile(function, _system(floating_point_behaviour__oflo=trap))
        nodes = [node.op for made in library.function for node in made.node_def]
        checked.append("IpuCheckNumerics" in nodes)
    assert checked == [False, True]


def test_the_schedule_of_a_pipeline() -> None:
    with tf.Graph().as_default() as graph:
        pipelines.build(pipelines.stages(2), 8)
        (launch,) = [op for op in graph.get_operations() if op.type == "IpuLaunch"]
        cluster = cluster_lib.find(launch.get_attr("cluster").decode())
        program = Program.from_library(cluster.library(), cluster.entry)
    overlapping = _system(io_tiles__num_io_tiles=32, io_tiles__place_ops_on_io_tiles=True)
    plans = [pipeline_plan.plan(program, attached) for attached in (_system(), overlapping)]
    assert [plan.schedule.description.io_overlap for plan in plans if plan] == [False, True]


def test_other_options_and_flags_are_other_programs() -> None:
    target = Target(0, _system(), (_VECTOR,))
    others = [
        dataclasses.replace(target, ordinal=1),
        dataclasses.replace(target, arguments=()),
        dataclasses.replace(target, system=_system(allow_recompute=True)),
        dataclasses.replace(target, system=_system("--use_synthetic_data")),
    ]
    assert len({target.key, *(other.key for other in others)}) == 5
    assert target.key == Target(0, _system(), (_VECTOR,)).key


def test_a_change_while_a_program_is_compiled() -> None:
    """The launch has the program that it asked for, and the next one is for the new devices."""
    replicas.configure(1)
    old = system.current()
    found: list[Executable] = []
    threads: list[threading.Thread] = []

    def reconfigure(executable: Executable) -> None:
        found.append(executable)
        if not threads:
            threads.append(threading.Thread(target=replicas.configure, args=(2,)))
            threads[0].start()
            while system.current() is old and threads[0].is_alive():
                threads[0].join(0.01)

    strategy = ipu_strategy.IPUStrategy()
    program = tf.function(lambda x: tf.nn.relu(x) + 1.0)
    observers.observe(reconfigure)
    try:
        with strategy.scope():
            first = strategy.run(program, (tf.ones(4),))
            threads[0].join()
            assert cache.executables() == []
            second = strategy.run(program, (tf.ones(4),))
    finally:
        observers.forget(reconfigure)
    np.testing.assert_array_equal([first, second], np.full((2, 4), 2.0))
    assert [executable.replicas for executable in found] == [1, 2]
    assert [executable.system for executable in found] == [old, system.current()]
    assert cache.executables() == found[1:]


def test_program_for_earlier_configuration_is_not_found_again() -> None:
    executable, _ = _compile(lambda x: x * x, _system())
    assert executable.generation != system.current().generation
    assert cache.executables() == []
