"""Tests of `application_compile_op`: files, times of writing, and errors."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes
from tensorflow_ipu.api.config import DeviceConnectionType, IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.runtime import system
from tensorflow_ipu.serving import embedded_runtime
from tensorflow_ipu.serving.application import load_application
from tensorflow_ipu.serving.application_compile_op import experimental_application_compile_op
from tests.support.programs.applications import call, compiled, configure, loop

tf1 = tf.compat.v1


def _names(path: str) -> list[str]:
    return [spec.name for spec in load_application(path).signature.inputs]


class TestInputs:
    def test_arguments_come_first_then_variables(self, tmp_path: Path) -> None:
        weight = tf.Variable(np.ones((2, 2), np.float32), name="weight")

        def program(image: tf.Tensor, pair: Any) -> tf.Tensor:
            return tf.matmul(image, weight) + pair[0] + pair[1]

        ones = np.ones((2, 2), np.float32)
        path = compiled(program, tmp_path / "x", [ones, (ones, ones)])
        expected = ["image", "pair_0", "pair_1", "weight"]
        assert _names(path) == [f"XLA_Args/{name}" for name in expected]

    def test_one_input_need_not_be_in_a_list(self, tmp_path: Path) -> None:
        path = compiled(lambda x: x * 2.0, tmp_path / "x", tf.ones([3]))
        assert [spec.shape for spec in load_application(path).signature.inputs] == [[3]]

    def test_variables_of_one_name_are_numbered(self, tmp_path: Path) -> None:
        variables = [tf.Variable([1.0, float(i)], name="same") for i in range(2)]
        path = compiled(lambda: variables[0] - variables[1], tmp_path / "x")
        assert _names(path) == ["XLA_Args/same", "XLA_Args/same_1"]

    def test_frozen_variables_have_the_value_of_that_time(self, tmp_path: Path) -> None:
        weight = tf.Variable([1.0, 2.0])
        path = compiled(loop(lambda x: x * weight), tmp_path / "x", freeze=True)
        weight.assign([7.0, 7.0])
        context = embedded_runtime.embedded_runtime_start(path, [], f"frozen {tmp_path}")
        np.testing.assert_array_equal(call(context, np.float32([3, 4]))[0], [3.0, 8.0])

    def test_captured_tensors_become_part_of_it(self, tmp_path: Path) -> None:
        table = tf.constant(np.arange(1000, dtype=np.float32))
        path = compiled(loop(lambda x: x + tf.reduce_sum(table)), tmp_path / "x")
        assert _names(path) == []
        context = embedded_runtime.embedded_runtime_start(path, [], f"captured {tmp_path}")
        np.testing.assert_array_equal(call(context, np.float32([0, 1]))[0], [499500, 499501])


class TestFunctions:
    def test_function_is_compiled_in_scope_of_a_strategy(self, tmp_path: Path) -> None:
        configure()
        with ipu_strategy.IPUStrategy(enable_keras_extensions=False).scope():
            weight = tf.Variable([2.0, 3.0], name="w")

            @tf.function(jit_compile=True)
            def program(x: tf.Tensor) -> tf.Tensor:
                for _ in tf.range(3):
                    x = x * weight
                return x

            path = compiled(program, tmp_path / "x", [tf.ones([2])])
        context = embedded_runtime.embedded_runtime_start(
            path, {"XLA_Args/x": [1.0, 1.0], "XLA_Args/w": weight}, f"scope {tmp_path}"
        )
        np.testing.assert_array_equal(call(context)[0], [8.0, 27.0])

    def test_an_iterator_of_the_device_becomes_a_feed(self, tmp_path: Path) -> None:
        configure()
        with ipu_strategy.IPUStrategy(enable_keras_extensions=False).scope():
            dataset = tf.data.Dataset.from_tensors(np.zeros(2, np.float32)).repeat()
            iterator = iter(dataset)

            @tf.function
            def program() -> tf.Tensor:
                return next(iterator) + 1.0

            path = compiled(program, tmp_path / "x")
        context = embedded_runtime.embedded_runtime_start(path, [], f"iterator {tmp_path}")
        for value in range(3):
            np.testing.assert_array_equal(call(context, np.full(2, value, "f"))[0], [value + 1] * 2)

    def test_a_graph_says_no_more_before_it_runs(self, tmp_path: Path) -> None:
        with tf.Graph().as_default(), tf1.Session() as session:
            with scopes.ipu_scope("/device:IPU:0"):
                weight = tf1.get_variable("w", initializer=np.float32([1, 2]), use_resource=True)
                # An operation counts as no result.
                path = experimental_application_compile_op(
                    lambda: weight.assign_add([1.0, 1.0]).op,
                    output_path=str(tmp_path / "x"),
                    freeze_variables=True,
                )
            assert path.op.name == "application_compile"
            assert path.shape == []
            assert "CPU" in path.device
            session.run(tf1.global_variables_initializer())
            assert not (tmp_path / "x").exists()
            assert session.run(path).decode() == str(tmp_path / "x")
            # It was not run.
            np.testing.assert_array_equal(session.run(weight), [1.0, 2.0])
        assert load_application(tmp_path / "x").results == ()

    def test_functions_of_tensorflow_compile_applications(self, tmp_path: Path) -> None:
        weight = tf.Variable([1.0, 2.0])
        target = str(tmp_path / "x")

        @tf.function
        def export() -> tf.Tensor:
            return experimental_application_compile_op(
                lambda: weight * 2.0, output_path=target, freeze_variables=True
            )

        assert export().numpy().decode() == target
        np.testing.assert_array_equal(load_application(target).arguments[0].value, [1.0, 2.0])


class TestFiles:
    def test_without_path_private_temporary_file_is_made(self) -> None:
        path = Path(
            experimental_application_compile_op(lambda x: x * 2.0, tf.ones([2])).numpy().decode()
        )
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.suffix == ".poplar_exec"
        path.unlink()

    @pytest.mark.parametrize("member", ["application.json", "program.pb", "values/0.npy", None])
    def test_a_damaged_one_is_one_error(self, tmp_path: Path, member: str | None) -> None:
        import zipfile

        weight = tf.Variable([1.0, 2.0])
        path = compiled(lambda: weight * 2.0, tmp_path / "x", freeze=True)
        if member is None:
            Path(path).write_bytes(Path(path).read_bytes()[:-100])
        else:
            with zipfile.ZipFile(path) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in members.items():
                    archive.writestr(name, b"{" if name == member else content)
        with pytest.raises(ValueError, match="is not an application that tensorflow_ipu compiled"):
            embedded_runtime.embedded_runtime_start(path, [], "damaged")

    def test_nothing_of_a_file_is_unpickled(self, tmp_path: Path) -> None:
        import io
        import zipfile

        weight = tf.Variable([1.0, 2.0])
        path = compiled(lambda: weight * 2.0, tmp_path / "x", freeze=True)
        stream = io.BytesIO()
        np.save(stream, np.array([print], object), allow_pickle=True)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {**members, "values/0.npy": stream.getvalue()}.items():
                archive.writestr(name, content)
        with pytest.raises(ValueError, match="allow_pickle"):
            load_application(path)

    @pytest.mark.parametrize("connection", ["NEVER", "PRE_COMPILE"])
    def test_compiling_needs_no_attached_device(self, tmp_path: Path, connection: str) -> None:
        config = IPUConfig()
        config.auto_select_ipus = 1
        config.device_connection.type = DeviceConnectionType[connection]
        config.device_connection.version = "ipu2"
        config.configure_ipu_system()
        path = compiled(loop(lambda x: x * 2.0), tmp_path / "x")
        system.reset_ipu_configuration()
        context = embedded_runtime.embedded_runtime_start(path, [], f"offline {tmp_path}")
        np.testing.assert_array_equal(call(context, np.float32([1, 2]))[0], [2.0, 4.0])


def test_python_on_the_host_is_left_behind(tmp_path: Path) -> None:
    def program(x: tf.Tensor) -> tf.Tensor:
        with scopes.outside_compilation_scope():
            y = tf.numpy_function(np.sin, [x * 2.0], tf.float32)
            y.set_shape([2])
        return y * 2.0

    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be saved that calls Python"):
        compiled(program, tmp_path / "x", tf.ones([2]))


def test_a_program_of_several_processes_is_refused(tmp_path: Path) -> None:
    config = IPUConfig()
    config.auto_select_ipus = 1
    config.experimental.multi_replica_distribution.process_count = 2
    config.configure_ipu_system()
    with pytest.raises(tf.errors.FailedPreconditionError, match="one of 2 processes"):
        compiled(lambda x: x * 2.0, tmp_path / "x", tf.ones([2]))


def test_the_program_runs_as_it_does_here(tmp_path: Path) -> None:
    """The same function, compiled to a file and launched."""
    configure()
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float16)

    def program(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.softmax(tf.matmul(x, tf.transpose(x)))

    path = compiled(program, tmp_path / "x", [x])
    context = embedded_runtime.embedded_runtime_start(path, [x], f"same {tmp_path}")
    with tf.device("/device:IPU:0"):
        (launched,) = ipu_compiler.compile(program, [x])
    np.testing.assert_array_equal(call(context)[0], launched.numpy())
