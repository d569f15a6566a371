"""Exported functions and pipelines give the same numbers wherever they are loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function as legacy_function

from tensorflow_ipu import serving
from tensorflow_ipu.api import loops
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.compiler import cache, store
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue
from tensorflow_ipu.ops import pipelining_ops, rand_ops, replication_ops
from tensorflow_ipu.serving import embedded_runtime
from tests.support.programs.serving import applications, assert_stock, call_signatures, nodes

Spec = tf.TensorSpec
BATCH = 2
ITERATIONS = 4
_GENERATOR = np.random.default_rng(5)
X = _GENERATOR.normal(size=(BATCH, 3)).astype(np.float32)
W = _GENERATOR.normal(size=(3, 2)).astype(np.float32)
V = _GENERATOR.normal(size=(2, 2)).astype(np.float32)
SIGNATURE = [Spec([BATCH, 3], tf.float32, name="x")]


def configure(ipus: int = 1) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def strategy() -> ipu_strategy.IPUStrategy:
    return ipu_strategy.IPUStrategy(enable_keras_extensions=False)


def load(export_dir: Path) -> Any:
    return tf.saved_model.load(str(export_dir)).signatures["serving_default"]


def linear(x: tf.Tensor) -> tf.Tensor:
    return tf.matmul(x, W) + 1.0


def assert_all_equal(got: Any, want: dict[str, Any], tolerance: float = 1e-5) -> None:
    """Compares a dict of outputs, or the list of them that an exported step returns."""
    got = dict(zip(want, got, strict=True)) if isinstance(got, list) else got
    assert set(got) == set(want)
    for name, value in want.items():
        value = np.asarray(value)
        assert np.asarray(got[name]).dtype == value.dtype
        if value.dtype.kind == "f":
            np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got[name], value)


class TestElsewhere:
    """In a new process, with the plugin and on a TensorFlow that has never heard of it."""

    @pytest.mark.parametrize("is_bare", [False, True], ids=["plugin", "stock"])
    def test_exported_programs_run_elsewhere(
        self, run_python: Any, tmp_path: Path, is_bare: bool
    ) -> None:
        configure(2)
        inputs: dict[Path, dict[str, Any]] = {}
        expected: dict[Path, dict[str, Any]] = {}
        for build in (_variables, _host_steps, _pipeline, _loop):
            export_dir = tmp_path / build.__name__
            with strategy().scope():
                inputs[export_dir], expected[export_dir] = build(export_dir)
        outputs = call_signatures(run_python, inputs, tmp_path / "bare" if is_bare else None)
        for export_dir, want in expected.items():
            assert_all_equal(outputs[export_dir], want)


def _variables(export_dir: Path) -> Any:
    """A model on the device, with variables there, compiled for it."""
    weights, bias = tf.Variable(W), tf.Variable([0.5, -0.5])

    @tf.function(input_signature=SIGNATURE, jit_compile=True)
    def predict_step(x: tf.Tensor) -> Any:
        with tf.device("/device:IPU:0"):
            y = tf.matmul(x, weights) + bias
        return {"y": y, "best": tf.argmax(y, axis=1, output_type=tf.int32)}

    serving.export_single_step(predict_step, export_dir, ITERATIONS)
    y = X @ W + [0.5, -0.5]
    return {"x": X}, {"y": y.astype(np.float32), "best": y.argmax(1).astype(np.int32)}


def _host_steps(export_dir: Path) -> Any:
    """A model between steps that the device could not do."""
    keys = tf.constant([0, 1], tf.int64)
    names = tf.lookup.KeyValueTensorInitializer(keys, tf.constant(["left", "right"]))
    table = tf.lookup.StaticHashTable(names, "?")
    scale = tf.Variable(2.0)

    def preprocessing_step(text: tf.Tensor) -> tf.Tensor:
        numbers = tf.strings.to_number(tf.strings.split(text, " ").to_tensor())
        return scale * tf.reshape(numbers, [BATCH, 3])

    def postprocessing_step(y: tf.Tensor) -> Any:
        return table.lookup(tf.argmax(y, axis=1)), tf.cast(y, tf.float64)

    serving.export_single_step(
        linear,
        export_dir,
        ITERATIONS,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=[Spec([BATCH], tf.string, name="text")],
        postprocessing_step=postprocessing_step,
        output_names=["side", "score"],
    )
    text = np.array([" ".join(map(str, row)) for row in X])
    y = (2 * X) @ W + 1
    sides = np.array([b"left", b"right"])[y.argmax(1)].astype("S")
    return {"text": text}, {"side": sides.astype(object), "score": y.astype(np.float64)}


def _pipeline(export_dir: Path) -> Any:
    weights = tf.Variable(V)

    def first(scale: tf.Tensor, x: tf.Tensor) -> Any:
        return tf.matmul(x, W) * scale, x

    def second(y: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(y, weights) + tf.reduce_sum(x)

    serving.export_pipeline(
        [first, second], export_dir, ITERATIONS, [3.0], predict_step_signature=SIGNATURE
    )
    return {"x": X}, {"output_0": (3 * X @ W) @ V + X.sum()}


def _loop(export_dir: Path) -> Any:
    """AutoGraph, branches, and functions inside."""

    def predict_step(x: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(3):
            x = x * 2.0 if tf.reduce_sum(x) < 1e3 else x
        return x

    dataset = tf.data.Dataset.from_tensor_slices({"x": X}).batch(BATCH, drop_remainder=True)
    serving.export_single_step(predict_step, export_dir, ITERATIONS, input_dataset=dataset)
    return {"x": X}, {"output_0": X * 8}


class TestOnTheDevice:
    """Exported programs run on the device."""

    def test_a_loaded_signature_runs_on_the_device(self, tmp_path: Path) -> None:
        configure()
        device = strategy()
        with device.scope():
            inputs, expected = _variables(tmp_path / "model")
            launched = len(cache.executables())
            signature = load(tmp_path / "model")
            outputs = device.run(signature, kwargs={"x": tf.constant(inputs["x"])})
        assert_all_equal(outputs, expected)
        (executable,) = cache.executables()[launched:]
        assert executable.on_device and executable.launches == 1

    def test_a_loaded_part_runs_between_host_steps(self, tmp_path: Path) -> None:
        configure()
        device = strategy()
        with device.scope():
            _host_steps(tmp_path / "model")
            launched = len(cache.executables())
            model = tf.saved_model.load(str(tmp_path / "model"))
            output = device.run(model.predict_step, (tf.constant(X),))
        np.testing.assert_allclose(output, X @ W + 1, rtol=1e-5)
        assert [executable.launches for executable in cache.executables()[launched:]] == [1]

    @pytest.mark.parametrize("build", [_variables, _host_steps, _loop])
    def test_the_returned_function_takes_tensors_and_arrays(
        self, tmp_path: Path, build: Callable[[Path], Any]
    ) -> None:
        configure()
        returned = _returned(build, tmp_path / "model")
        inputs, expected = returned.inputs, returned.expected
        assert_all_equal(returned.function(**inputs), expected)
        assert_all_equal(returned.function(*map(tf.constant, inputs.values())), expected)
        assert [executable.launches for executable in cache.executables()] == [0, 2]

    def test_returned_pipeline_runs_on_its_ipus(self, tmp_path: Path) -> None:
        configure(2)
        returned = _returned(_pipeline, tmp_path / "model")
        assert_all_equal(returned.function(x=X), returned.expected)
        launched = cache.executables()[-1]
        assert (launched.ipus_used, launched.replicas, launched.launches) == (2, 1, 1)

    def test_weights_are_those_of_the_export(self, tmp_path: Path) -> None:
        configure()
        weight = tf.Variable(2.0)  # on the host: copies go where they are needed

        @tf.function(input_signature=[Spec([2], tf.float32)])
        def predict_step(x: tf.Tensor) -> tf.Tensor:
            return x * weight

        function = serving.export_single_step(predict_step, tmp_path / "model", ITERATIONS)
        weight.assign(5.0)
        np.testing.assert_array_equal(function(x=[1.0, 3.0])[0], [2, 6])
        np.testing.assert_array_equal(
            load(tmp_path / "model")(x=tf.constant([1.0, 3.0]))["output_0"], [2, 6]
        )

    def test_state_of_the_copies_changes(self, tmp_path: Path) -> None:
        configure()
        total = tf.Variable(1.0)

        @tf.function(input_signature=[Spec([], tf.float32)])
        def predict_step(x: tf.Tensor) -> tf.Tensor:
            return total.assign_add(x)

        function = serving.export_single_step(predict_step, tmp_path / "model", ITERATIONS)
        assert [float(function(x=2.0)[0]) for _ in range(2)] == [3, 5]
        signature = load(tmp_path / "model")
        assert [float(signature(x=tf.constant(2.0))["output_0"]) for _ in range(2)] == [3, 5]
        assert float(total) == 1


class _Returned:
    """Function, inputs and expected results of an export."""

    def __init__(self, function: Any, inputs: Any, expected: Any) -> None:
        self.function, self.inputs, self.expected = function, inputs, expected


def _returned(build: Callable[[Path], Any], export_dir: Path) -> _Returned:
    """Exports and catches the function returned by the exporting function."""
    with pytest.MonkeyPatch.context() as patch, strategy().scope():
        functions: list[Any] = []
        for name in ("export_single_step", "export_pipeline"):
            original = getattr(serving, name)
            patch.setattr(
                serving,
                name,
                lambda *args, _of=original, **kwargs: functions.append(_of(*args, **kwargs)),
            )
        inputs, expected = build(export_dir)
    return _Returned(functions[0], inputs, expected)


class TestInAStrategy:
    """`strategy.run` of loaded functions, and of functions returned by an export."""

    @pytest.mark.parametrize("where", ["host", "scope", "device"])
    def test_variables_of_the_export_are_frozen(self, tmp_path: Path, where: str) -> None:
        configure()
        device = strategy()
        scopes = {"host": contextlib.nullcontext(), "scope": device.scope()}
        with scopes.get(where, tf.device("/device:IPU:0")):
            weight = tf.Variable(W)

        def predict_step(x: tf.Tensor) -> tf.Tensor:
            for _ in tf.range(2):
                x = tf.matmul(tf.matmul(x, weight), tf.transpose(weight))
            return x

        function = serving.export_single_step(predict_step, tmp_path / "model", 2, SIGNATURE)
        weight.assign(W * 0.0)
        signature = load(tmp_path / "model")
        assert [one.dtype for one in signature.inputs] == [tf.float32]
        want = {"output_0": X @ W @ W.T @ W @ W.T}
        for run in (signature, function):
            with device.scope():
                assert_all_equal(device.run(run, kwargs={"x": X}), want)

    def test_host_steps_stay_on_the_host(self, tmp_path: Path) -> None:
        configure()
        words = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(["one", "two"], np.float32([1, 2])), -1.0
        )
        offset = tf.Variable(2.0)
        weight = tf.Variable([[10.0]])
        function = serving.export_single_step(
            lambda x: tf.matmul(x, weight),
            tmp_path / "model",
            2,
            preprocessing_step=lambda texts: tf.ensure_shape(words[texts], [3, 1]),
            preprocessing_step_signature=[Spec([3, 1], tf.string, "texts")],
            postprocessing_step=lambda y: tf.strings.as_string(tf.cast(y + offset, tf.int32)),
            output_names="answer",
        )
        offset.assign(0.0)
        texts = np.array([["two"], ["one"], ["six"]])
        signature = load(tmp_path / "model")
        want = [[b"22"], [b"12"], [b"-8"]]
        assert signature(texts=tf.constant(texts))["answer"].numpy().tolist() == want
        device = strategy()
        for run in (signature, function):
            with device.scope():
                launched = len(cache.executables())
                answer = device.run(run, kwargs={"texts": texts})
                answer = answer["answer" if run is signature else 0]
            assert answer.numpy().tolist() == want
            programs = cache.executables()[launched:]
            # The steps around the program are not in it.
            assert [program.results[0].dtype for program in programs] == [tf.float32]
            assert [program.launches for program in programs] == [1]

    def test_the_device_is_that_of_the_strategy(self, tmp_path: Path) -> None:
        config = IPUConfig()
        config.auto_select_ipus = [1, 1]
        config.configure_ipu_system()
        weight = tf.Variable(W)
        function = serving.export_single_step(
            lambda x: tf.matmul(x, weight), tmp_path / "model", 2, SIGNATURE
        )
        other = ipu_strategy.IPUStrategy("/device:IPU:1", enable_keras_extensions=False)
        with other.scope():
            for run, arguments in (
                (function, {"args": (X,)}),
                (load(tmp_path / "model"), {"kwargs": {"x": X}}),
            ):
                assert_all_equal(other.run(run, **arguments), {"output_0": X @ W})
                assert cache.executables()[-1].ordinal == 1

    @pytest.mark.parametrize("direct", [True, False], ids=["by name", "partitioned"])
    def test_functions_of_tensorflow_1_are_exported(self, tmp_path: Path, direct: bool) -> None:
        @legacy_function.Defun(tf.float32)
        def doubled(x: tf.Tensor) -> tf.Tensor:
            return x * 2.0

        @legacy_function.Defun(tf.float32)
        def shifted(x: tf.Tensor) -> tf.Tensor:
            return doubled(x) + 1.0

        def predict_step(x: tf.Tensor) -> tf.Tensor:
            if direct:
                return shifted(x)
            (y,) = tf.raw_ops.StatefulPartitionedCall(args=[x], Tout=[tf.float32], f=shifted)
            return y

        configure()
        function = serving.export_single_step(predict_step, tmp_path / "model", 2, SIGNATURE)
        want = {"output_0": 2 * X + 1}
        assert_all_equal(function(x=X), want)
        assert_all_equal(load(tmp_path / "model")(x=tf.constant(X)), want)


class TestFiles:
    """Files in the directory of an export."""

    def test_the_program_is_an_application(self, tmp_path: Path) -> None:
        weight = tf.Variable(W)
        serving.export_single_step(
            lambda x: tf.matmul(x, weight), tmp_path, 3, predict_step_signature=SIGNATURE
        )
        weight.assign(W * 0.0)
        (path,) = applications(tmp_path)
        context = embedded_runtime.embedded_runtime_start(str(path), [], str(path))
        for scale in range(4):
            (got,) = embedded_runtime.embedded_runtime_call([np.float32(scale) * X], context)
            np.testing.assert_allclose(got, scale * X @ W, rtol=1e-5, atol=1e-6)

    def test_nothing_of_ours_is_in_the_graph(self, tmp_path: Path) -> None:
        configure(2)
        for build in (_variables, _host_steps, _pipeline):
            with strategy().scope():
                build(tmp_path / build.__name__)
            assert_stock(tmp_path / build.__name__)

    def test_servers_that_use_sessions_load_the_model(self, tmp_path: Path) -> None:
        """They load another form of the signature, and may be strict about devices."""
        configure()
        with strategy().scope():
            inputs, expected = _variables(tmp_path / "model")
        options = tf.compat.v1.ConfigProto(allow_soft_placement=False)
        with tf.Graph().as_default(), tf.compat.v1.Session(config=options) as session:
            model = tf.compat.v1.saved_model.load(session, ["serve"], str(tmp_path / "model"))
            signature = model.signature_def["serving_default"]
            fed = {signature.inputs[name].name: value for name, value in inputs.items()}
            fetched = {name: info.name for name, info in signature.outputs.items()}
            assert_all_equal(session.run(fetched, fed), expected)

    def test_the_compiled_program_is_a_private_file(self, tmp_path: Path) -> None:
        configure()
        with strategy().scope():
            _variables(tmp_path)
        (path,) = applications(tmp_path)
        modes = {file.is_dir(): file.stat().st_mode & 0o777 for file in tmp_path.rglob("*")}
        assert modes == {True: 0o700, False: 0o600}
        description, library = store.load(path)
        (executable,) = cache.executables()
        assert description == store.describe(executable)
        assert library == executable.library
        runs = {record.type: record.runs for record in executable.ops}
        for op in ("IpuInfeedDequeue", "MatMul", "IpuOutfeedEnqueue"):
            assert runs[op] == ITERATIONS
        asset = tf.saved_model.load(str(tmp_path)).application.asset_path.numpy().decode()
        assert Path(asset) == path

    def test_the_compiled_pipeline_keeps_its_options(self, tmp_path: Path) -> None:
        configure(2)
        serving.export_pipeline(
            [linear, lambda y: tf.matmul(y, V)],
            tmp_path,
            6,
            device_mapping=[1, 0],
            pipeline_schedule=pipelining_ops.PipelineSchedule.Interleaved,
            poplar_options=[pipelining_ops.PipelineStageOptions()] * 2,
            name="two",
            predict_step_signature=SIGNATURE,
        )
        (executable,) = cache.executables()
        description = executable.pipeline.schedule.description
        assert description.count == 6
        assert description.schedule is pipelining_ops.PipelineSchedule.Interleaved
        assert description.device_mapping == (1, 0)
        assert store.load(applications(tmp_path)[0])[0]["ipus_used"] == 2

    def test_each_export_has_another_program_file(self, tmp_path: Path) -> None:
        configure()
        names = []
        for _ in range(2):
            serving.export_single_step(
                linear, tmp_path, 2, predict_step_signature=SIGNATURE, purge_export_dir=True
            )
            names.append(applications(tmp_path)[0].name)
            assert len(applications(tmp_path)) == 1
        assert names[0] != names[1]

    def test_purging_deletes_everything(self, tmp_path: Path) -> None:
        (tmp_path / "old").mkdir()
        (tmp_path / "old" / "file").write_text("x")
        (tmp_path / "file").write_text("x")
        serving.export_single_step(
            linear, tmp_path, 2, predict_step_signature=SIGNATURE, purge_export_dir=True
        )
        assert not (tmp_path / "old").exists() and not (tmp_path / "file").exists()
        assert (tmp_path / "saved_model.pb").exists()

    def test_a_failed_export_purges_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(ValueError, match="output_names"):
            serving.export_single_step(
                linear,
                tmp_path,
                2,
                predict_step_signature=SIGNATURE,
                output_names=["a", "b"],
                purge_export_dir=True,
            )
        assert (tmp_path / "file").exists()

    def test_ops_of_ours_are_told(self, tmp_path: Path, caplog: Any) -> None:
        configure()

        def predict_step(x: tf.Tensor) -> tf.Tensor:
            return x * tf.cast(replication_ops.replication_index() + 1, tf.float32)

        with caplog.at_level("WARNING"):
            serving.export_single_step(predict_step, tmp_path, 2, predict_step_signature=SIGNATURE)
        assert "IpuReplicationIndex" in {node.op for node in nodes(tmp_path)}
        assert "uses IpuReplicationIndex, which stock TensorFlow does not have" in caplog.text


DTYPES = [tf.float32, tf.float16, tf.int32, tf.int64, tf.int8, tf.uint8, tf.bool]


class TestTensors:
    """Types, structures and names of inputs and outputs."""

    @pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
    def test_all_types_are_served(self, tmp_path: Path, dtype: tf.DType) -> None:
        configure()
        values = np.array([0, 1, 1, 0]).astype(dtype.as_numpy_dtype)

        def predict_step(x: tf.Tensor) -> Any:
            return x, tf.reverse(x, [0])

        function = serving.export_single_step(
            predict_step, tmp_path / "model", 2, predict_step_signature=[Spec([4], dtype)]
        )
        want = {"output_0": values, "output_1": values[::-1]}
        assert_all_equal(function(x=values), want)
        assert_all_equal(load(tmp_path / "model")(x=tf.constant(values)), want)

    @pytest.mark.parametrize("where", ["input", "output"])
    def test_other_types_are_refused(self, tmp_path: Path, where: str) -> None:
        dtype = tf.float64 if where == "input" else tf.float32
        with pytest.raises(TypeError, match=f"Unsupported data type float64 of {where} 0"):
            serving.export_single_step(
                lambda x: tf.cast(x, tf.float64),
                tmp_path,
                2,
                predict_step_signature=[Spec([4], dtype)],
            )

    @pytest.mark.parametrize("dtype", [tf.float64, tf.string, tf.complex64])
    def test_host_steps_take_and_give_any_type(self, tmp_path: Path, dtype: tf.DType) -> None:
        values = tf.constant(["1", "2"]) if dtype == tf.string else tf.cast([1, 2], dtype)

        def from_any(x: tf.Tensor) -> tf.Tensor:
            return tf.strings.to_number(x) if dtype == tf.string else tf.cast(x, tf.float32)

        def to_any(y: tf.Tensor) -> tf.Tensor:
            return tf.strings.as_string(y) if dtype == tf.string else tf.cast(y, dtype)

        function = serving.export_single_step(
            lambda x: x + 1.0,
            tmp_path / "model",
            2,
            preprocessing_step=from_any,
            preprocessing_step_signature=[Spec([2], dtype)],
            postprocessing_step=to_any,
        )
        got = function(x=values)
        assert got[0].dtype == dtype
        assert_all_equal(got, load(tmp_path / "model")(x=values))

    @pytest.mark.parametrize(
        ("results", "names", "expected"),
        [
            (lambda a, b: a - b, None, {"output_0": -1.0}),
            (lambda a, b: a - b, "difference", {"difference": -1.0}),
            (lambda a, b: [a, b], None, {"output_0": 1.0, "output_1": 2.0}),
            (lambda a, b: (b, (a, b)), ("p", "q", "r"), {"p": 2.0, "q": 1.0, "r": 2.0}),
            (lambda a, b: {"z": a, "y": b}, None, {"z": 1.0, "y": 2.0}),
            (lambda a, b: {"z": a, "y": b}, ["p", "q"], {"p": 2.0, "q": 1.0}),
            (lambda a, b: {"z": [a, b]}, None, {"output_0": 1.0, "output_1": 2.0}),
        ],
        ids=["one", "one named", "list", "nested", "dict", "dict named", "nested dict"],
    )
    def test_outputs_are_named(
        self, tmp_path: Path, results: Any, names: Any, expected: Any
    ) -> None:
        signature = [Spec([], tf.float32), Spec([], tf.float32)]
        function = serving.export_single_step(
            results, tmp_path / "model", 2, predict_step_signature=signature, output_names=names
        )
        want = {name: np.float32(value) for name, value in expected.items()}
        got = function(a=1.0, b=2.0)
        assert isinstance(got, dict if isinstance(results(1.0, 2.0), dict) else list)
        assert_all_equal(got, want)
        assert_all_equal(load(tmp_path / "model")(a=tf.constant(1.0), b=tf.constant(2.0)), want)

    @pytest.mark.parametrize(
        ("elements", "names"),
        [
            (X, ["x"]),
            ((X, X), ["x", "y"]),
            ({"y": X, "x": X}, ["x", "y"]),
            (({"p": X, "q": X}, X), ["p", "q", "y"]),
            (((X, X), X), ["x_0", "x_1", "y"]),
        ],
        ids=["one", "tuple", "dict", "dict in a tuple", "nested"],
    )
    def test_datasets_give_the_names_of_inputs(
        self, tmp_path: Path, elements: Any, names: list[str]
    ) -> None:
        def predict_step(x: Any, y: Any = 0.0) -> tf.Tensor:
            return tf.add_n(tf.nest.flatten(x)) + y

        dataset = tf.data.Dataset.from_tensors(elements)
        function = serving.export_single_step(
            predict_step, tmp_path / "model", 2, input_dataset=dataset
        )
        signature = load(tmp_path / "model")
        assert sorted(signature.structured_input_signature[1]) == names
        inputs = {name: tf.constant(X) for name in names}
        want = {"output_0": X * len(names)}
        assert_all_equal(function(**inputs), want)
        assert_all_equal(signature(**inputs), want)

    def test_names_are_made_unique_and_legal(self, tmp_path: Path) -> None:
        signature = [
            Spec([], tf.float32, name="a:0"),
            Spec([], tf.float32, name="a:0"),
            Spec([], tf.float32, name="0"),
            Spec([], tf.float32),
        ]
        serving.export_single_step(
            lambda *values: tf.add_n(values), tmp_path, 2, predict_step_signature=signature
        )
        names = load(tmp_path).structured_input_signature[1]
        assert sorted(names) == ["a_0", "a_0_1", "input_0", "input_3"]

    def test_further_inputs_become_part_of_the_model(self, tmp_path: Path) -> None:
        configure()
        scale = tf.Variable(2.0)

        @tf.function(input_signature=[Spec([], tf.float32)] * 2 + SIGNATURE)
        def predict_step(a: tf.Tensor, b: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
            return a * x + b

        function = serving.export_single_step(
            predict_step, tmp_path / "model", 2, inputs=[scale, 1.0]
        )
        want = {"output_0": 2 * X + 1}
        assert_all_equal(function(x=X), want)
        assert_all_equal(load(tmp_path / "model")(x=tf.constant(X)), want)

    def test_a_concrete_function_has_a_signature(self, tmp_path: Path) -> None:
        concrete = tf.function(linear).get_concrete_function(SIGNATURE[0])
        serving.export_single_step(concrete, tmp_path / "model", 2)
        assert_all_equal(load(tmp_path / "model")(x=tf.constant(X)), {"output_0": X @ W + 1})


def _host(**named: Any) -> Any:
    """Returns a preprocessing step with a signature and the requested outputs."""

    def preprocessing_step(text: tf.Tensor) -> Any:
        numbers = tf.reshape(tf.strings.to_number(text), [BATCH, 3])
        return {name: numbers * factor for name, factor in named.items()} if named else numbers

    return tf.function(preprocessing_step, input_signature=[Spec([6], tf.string)])


class TestHostSteps:
    """How the steps on the host and the model go together."""

    TEXT = np.array([str(value) for value in X.flatten()])

    def test_a_dict_goes_to_parameters_of_its_names(self, tmp_path: Path) -> None:
        serving.export_single_step(
            lambda b, a: a - b,
            tmp_path / "model",
            2,
            predict_step_signature=[Spec([BATCH, 3], tf.float32)] * 2,
            preprocessing_step=_host(a=1.0, b=3.0),
        )
        got = load(tmp_path / "model")(text=tf.constant(self.TEXT))
        assert_all_equal(got, {"output_0": -2 * X})

    def test_shapes_come_from_the_predict_step(self, tmp_path: Path) -> None:
        serving.export_single_step(
            linear,
            tmp_path / "model",
            2,
            predict_step_signature=SIGNATURE,
            preprocessing_step=lambda text: tf.ragged.constant([[1.0]]).to_tensor() + text,
            preprocessing_step_signature=[Spec(None, tf.float32)],
        )
        got = load(tmp_path / "model")(text=tf.constant(X - 1))
        assert_all_equal(got, {"output_0": X @ W + 1})

    def test_a_dataset_says_what_the_preprocessing_takes(self, tmp_path: Path) -> None:
        dataset = tf.data.Dataset.from_tensors(self.TEXT)
        serving.export_single_step(
            linear,
            tmp_path / "model",
            2,
            input_dataset=dataset,
            preprocessing_step=_host().python_function,
        )
        got = load(tmp_path / "model")(text=tf.constant(self.TEXT))
        assert_all_equal(got, {"output_0": X @ W + 1})

    def test_keras_layers_are_steps(self, tmp_path: Path) -> None:
        lookup = tf.keras.layers.StringLookup(vocabulary=["cat", "dog"])
        serving.export_single_step(
            lambda index: index * 10,
            tmp_path / "model",
            2,
            preprocessing_step=lambda text: tf.cast(lookup(text), tf.int32),
            preprocessing_step_signature=[Spec([3], tf.string, name="text")],
        )
        got = load(tmp_path / "model")(text=tf.constant(["dog", "cow", "cat"]))
        assert_all_equal(got, {"output_0": np.array([20, 0, 10], np.int32)})

    @pytest.mark.parametrize(
        "before",
        [
            lambda x: (x, x),
            lambda x: tf.cast(x, tf.int32),
            lambda x: x[:1],
            lambda x: {"y": (x, x)},
        ],
        ids=["number", "type", "shape", "dict"],
    )
    def test_what_does_not_fit_is_refused(self, tmp_path: Path, before: Any) -> None:
        with pytest.raises(ValueError, match="preprocessing_step and predict_step must fit"):
            serving.export_single_step(
                linear,
                tmp_path,
                2,
                predict_step_signature=SIGNATURE,
                preprocessing_step=before,
                preprocessing_step_signature=SIGNATURE,
            )

    def test_postprocessing_with_another_signature_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="predict_step and postprocessing_step must fit"):
            serving.export_single_step(
                linear,
                tmp_path,
                2,
                predict_step_signature=SIGNATURE,
                postprocessing_step=lambda y: y,
                postprocessing_step_signature=SIGNATURE,
            )


@tf.function(input_signature=SIGNATURE)
def signed(x: tf.Tensor) -> tf.Tensor:
    return linear(x)


DATASET = tf.data.Dataset.from_tensors(X)


class TestErrors:
    """Mistakes, in the words of the reference where it has any."""

    @pytest.mark.parametrize(
        ("step", "sources"),
        [
            (signed, {"predict_step_signature": SIGNATURE}),
            (signed, {"input_dataset": DATASET}),
            (linear, {"predict_step_signature": SIGNATURE, "input_dataset": DATASET}),
            (linear, {}),
            (tf.function(linear), {}),
        ],
        ids=["own and given", "own and dataset", "given and dataset", "none", "no signature"],
    )
    @pytest.mark.parametrize("is_pipeline", [False, True], ids=["single", "pipeline"])
    def test_a_signature_has_one_source(
        self, tmp_path: Path, step: Any, sources: Any, is_pipeline: bool
    ) -> None:
        with pytest.raises(ValueError, match="exactly one"):
            if is_pipeline:
                serving.export_pipeline([step, tf.identity], tmp_path, 4, **sources)
            else:
                serving.export_single_step(step, tmp_path, 4, **sources)

    @pytest.mark.parametrize(
        "sources",
        [
            {"preprocessing_step_signature": SIGNATURE, "input_dataset": DATASET},
            {},
        ],
        ids=["two", "none"],
    )
    def test_a_signature_of_the_preprocessing_has_one_source(
        self, tmp_path: Path, sources: Any
    ) -> None:
        with pytest.raises(ValueError, match="exactly one"):
            serving.export_single_step(
                signed, tmp_path, 4, preprocessing_step=tf.identity, **sources
            )

    def test_a_directory_that_is_not_empty_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        match = f'Directory "{tmp_path}" is not empty.'
        with pytest.raises(ValueError, match=match):
            serving.export_single_step(signed, tmp_path, 4)
        with pytest.raises(ValueError, match=match):
            serving.export_pipeline([signed, tf.identity], tmp_path, 4)
        with pytest.raises(ValueError, match="is not a directory"):
            serving.export_single_step(signed, tmp_path / "file", 4, purge_export_dir=True)

    @pytest.mark.parametrize("iterations", [0, -1, True, 2.5, None])
    def test_a_wrong_number_of_iterations_is_refused(self, tmp_path: Path, iterations: Any) -> None:
        with pytest.raises(ValueError, match="iterations must be a positive integer"):
            serving.export_single_step(signed, tmp_path, iterations)

    @pytest.mark.parametrize("names", ["a", ["a", "a"], ["a", "b", "c"], []])
    def test_wrong_output_names_are_refused(self, tmp_path: Path, names: Any) -> None:
        with pytest.raises(ValueError, match="a different name for each of the 2 outputs"):
            serving.export_single_step(lambda x: (x, x), tmp_path, 4, SIGNATURE, output_names=names)

    @pytest.mark.parametrize(
        ("arguments", "error", "match"),
        [
            ({"output_names": [1]}, TypeError, "output_names must be a string"),
            ({"input_dataset": [1]}, TypeError, "input_dataset must be a tf.data.Dataset"),
            ({"predict_step_signature": Spec([1])}, TypeError, "list or tuple of tf.TensorSpec"),
            ({"predict_step_signature": [1]}, TypeError, "list or tuple of tf.TensorSpec"),
            ({"predict_step_signature": []}, ValueError, "must not be empty"),
            ({"preprocessing_step": 1}, TypeError, "preprocessing_step must be a function"),
            ({"postprocessing_step": 1}, TypeError, "postprocessing_step must be a function"),
            (
                {"preprocessing_step_signature": SIGNATURE},
                ValueError,
                "without a preprocessing_step",
            ),
        ],
    )
    def test_wrong_arguments_are_refused(
        self, tmp_path: Path, arguments: Any, error: Any, match: str
    ) -> None:
        step = linear if "predict_step_signature" in arguments else signed
        with pytest.raises(error, match=match):
            serving.export_single_step(step, tmp_path, 4, **arguments)

    @pytest.mark.parametrize("shape", [[None, 3], None], ids=["dimension", "rank"])
    def test_unknown_dimensions_are_refused(self, tmp_path: Path, shape: Any) -> None:
        with pytest.raises(ValueError, match="is not fully defined"):
            serving.export_single_step(linear, tmp_path, 4, [Spec(shape, tf.float32)])

    def test_a_step_without_outputs_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="predict_step must return tensors only"):
            serving.export_single_step(lambda x: None, tmp_path, 4, SIGNATURE)

    def test_predict_step_is_a_function(self, tmp_path: Path) -> None:
        with pytest.raises(TypeError, match="predict_step must be a function"):
            serving.export_single_step(3, tmp_path, 4, SIGNATURE)

    def test_a_step_with_feeds_is_refused(self, tmp_path: Path) -> None:
        queue = IPUInfeedQueue(tf.data.Dataset.from_tensors(X))

        def predict_step(x: tf.Tensor) -> tf.Tensor:
            return loops.repeat(2, lambda total, element: total + element, x, queue)

        with pytest.raises(ValueError, match="it uses IpuInfeedDequeue, and feeds"):
            serving.export_single_step(predict_step, tmp_path, 4, SIGNATURE)

    def test_wrong_pipelines_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="at least two computational stages"):
            serving.export_pipeline([signed], tmp_path, 4)
        with pytest.raises(TypeError, match="computational_stages must be a list"):
            serving.export_pipeline(signed, tmp_path, 4)
        with pytest.raises(ValueError, match="Each stage must be mapped to an IPU"):
            serving.export_pipeline([signed, tf.identity], tmp_path, 4, device_mapping=[0])

    def test_graph_mode_is_refused(self, tmp_path: Path) -> None:
        with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager mode only"):
            serving.export_single_step(linear, tmp_path, 4, SIGNATURE)

    def test_a_model_from_outside_the_strategy_is_refused(self, tmp_path: Path) -> None:
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        with pytest.raises(ValueError, match="was not created inside an IPU strategy"):
            serving.export_keras(model, tmp_path, batch_size=2)


def test_random_numbers_are_drawn_on_both(tmp_path: Path) -> None:
    """Nothing to compare: streams differ. But it runs."""
    configure()
    function = serving.export_single_step(
        lambda x: x * rand_ops.dropout(tf.ones([BATCH, 3]), rate=0.5),
        tmp_path / "model",
        2,
        predict_step_signature=SIGNATURE,
    )
    signature = load(tmp_path / "model")
    for got in (function(x=X)[0], signature(x=tf.constant(X))["output_0"]):
        values = np.asarray(got)
        assert np.all((values == 0) | np.isclose(values, 2 * X))
