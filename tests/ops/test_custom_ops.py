"""Tests of operations from users' libraries, which are compiled here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ops import cross_replica_ops, custom_ops, replication_ops
from tests.support.programs import replicas

tf1 = tf.compat.v1
SOURCES = Path(__file__).parent / "custom_op_libraries"

X = np.array([1.5, -2.0, 0.25, 3.0], np.float32)
Y = np.array([0.5, 4.0, -1.0, 2.0], np.float32)
UPSTREAM = np.array([1.0, 2.0, -1.0, 0.5], np.float32)


def compiled(source: str, library: Path, *options: str) -> str:
    """Compiles a library; returns its path."""
    command = ["g++", "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += ["-I", custom_ops.include_dir(), *options, str(SOURCES / source), "-o", str(library)]
    subprocess.run(command, check=True)
    return str(library)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def host(folder):
    return compiled("host.cc", folder / "libhost.so")


@pytest.fixture(scope="module")
def precompiled(folder):
    return compiled("precompiled.cc", folder / "libprecompiled.so")


@pytest.fixture(params=["cpu_user_operation", "precompiled_user_op"])
def product(request, host, precompiled):
    """The product of two tensors, by each kind of operation."""
    if request.param == "cpu_user_operation":
        function, library = custom_ops.cpu_user_operation, host
    else:
        function, library = custom_ops.precompiled_user_op, precompiled

    def compute(x, y, **options):
        (result,) = function([x, y], library, outs=outs(x.shape), **options)
        return result

    return compute


def outs(*shapes, dtype=tf.float32):
    """Returns the description of outputs of one type."""
    return {"output_types": [dtype] * len(shapes), "output_shapes": list(shapes)}


def in_session(function, feeds):
    """Runs a function as a program of a session; returns its results."""
    replicas.configure(1)
    with tf.Graph().as_default():
        placeholders = [tf1.placeholder(feed.dtype, feed.shape) for feed in feeds]
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(function, placeholders)
        with tf1.Session() as session:
            return session.run(launch, dict(zip(placeholders, feeds)))


def in_strategy(function, feeds):
    """Runs a function as a program of a strategy; returns its results."""
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        program = tf.function(function, jit_compile=True)
        return tf.nest.map_structure(np.asarray, strategy.run(program, list(feeds)))


RUNNERS = {
    "session": in_session,
    "strategy": in_strategy,
    "eager": lambda function, feeds: function(*map(tf.constant, feeds)),
}


class TestValues:
    """Both kinds, everywhere."""

    @pytest.mark.parametrize("where", RUNNERS)
    def test_a_product_of_the_library_equals_numpy(self, product, where):
        (result,) = RUNNERS[where](lambda x, y: [product(x, y)], [X, Y])
        np.testing.assert_array_equal(result, X * Y)

    def test_an_eager_tensor_of_the_device_is_passed(self, product):
        replicas.configure(1)
        with tf.device("/device:IPU:0"):
            result = product(tf.constant(X), tf.constant(Y))
        assert "IPU:0" in result.device
        np.testing.assert_array_equal(result, X * Y)

    @pytest.mark.parametrize("session", [False, True])
    def test_every_replica_calls_the_library(self, product, session):
        x, y = replicas.rows(2, [5], seed=1), replicas.rows(2, [5], seed=2)
        result = replicas.run(
            2, lambda: product(replicas.own_row(x), replicas.own_row(y)), in_session=session
        )
        np.testing.assert_array_equal(result, x * y)

    def test_a_loop_calls_the_library(self, product):
        (result,) = in_session(
            lambda x, y: loops.repeat(5, lambda v: product(v, y), [x], use_while_v1=False), [X, Y]
        )
        np.testing.assert_allclose(result, X * Y**5, rtol=1e-6)

    def test_a_single_tensor_is_a_list_of_one(self, precompiled):
        (result,) = custom_ops.precompiled_user_op(
            tf.constant(X), precompiled, outs=outs([4]), op_name="Double"
        )
        np.testing.assert_array_equal(result, 2 * X)

    def test_a_relative_path_is_found(self, precompiled, monkeypatch):
        monkeypatch.chdir(Path(precompiled).parent)
        (result,) = in_strategy(
            lambda x: custom_ops.precompiled_user_op(
                [x], Path("libprecompiled.so"), outs=outs([4]), op_name="Double"
            ),
            [X],
        )
        np.testing.assert_array_equal(result, 2 * X)

    def test_empty_tensors_are_passed(self, product):
        assert product(tf.zeros([0]), tf.zeros([0])).shape == [0]


def reference(x, y, factor=1.0):
    """Returns the gradients of the product."""
    return [factor * UPSTREAM * y, factor * UPSTREAM * x]


class TestGradient:
    """The derivatives that libraries compute."""

    @pytest.mark.parametrize("where", RUNNERS)
    def test_a_tape_calls_the_gradient_of_the_library(self, product, where):
        def gradients(x, y):
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                z = product(x, y)
            return tape.gradient(z, [x, y], tf.constant(UPSTREAM))

        for result, expected in zip(RUNNERS[where](gradients, [X, Y]), reference(X, Y)):
            np.testing.assert_array_equal(result, expected)

    def test_tf_gradients_calls_the_gradient_of_the_library(self, product):
        results = in_session(
            lambda x, y: tf.gradients(product(x, y), [x, y], tf.constant(UPSTREAM)), [X, Y]
        )
        for result, expected in zip(results, reference(X, Y)):
            np.testing.assert_array_equal(result, expected)

    def test_gradients_go_through_a_loop(self, product):
        """The derivative of x * y^3, through a loop."""

        def gradients(x, y):
            z = loops.repeat(3, lambda v: product(v, y), [x], use_while_v1=False)
            return tf.gradients(z, [x, y])

        by_x, by_y = in_session(gradients, [X, Y])
        np.testing.assert_allclose(by_x, Y**3, rtol=1e-6)
        np.testing.assert_allclose(by_y, 3 * X * Y**2, rtol=1e-6)

    def test_gradients_are_right_on_replicas(self, product):
        x, y = replicas.rows(2, [5], seed=1), replicas.rows(2, [5], seed=2)

        def gradients():
            a, b = replicas.own_row(x), replicas.own_row(y)
            return tf.gradients(product(a, b), [a, b])

        by_x, by_y = replicas.run(2, gradients)
        np.testing.assert_array_equal(by_x, y)
        np.testing.assert_array_equal(by_y, x)

    @pytest.mark.parametrize("where", RUNNERS)
    def test_gradient_attributes_reach_the_gradient(self, product, where):
        def gradients(x, y):
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                z = product(x, y, attributes="7", gradient_attributes="2.5")
            return tape.gradient(z, [x, y], tf.constant(UPSTREAM))

        for result, expected in zip(RUNNERS[where](gradients, [X, Y]), reference(X, Y, 2.5)):
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("kind", ["host", "precompiled"])
    @pytest.mark.parametrize("indices", [None, [0, 1], [1], [0]])
    def test_separate_gradients_equal_the_reference(self, host, precompiled, kind, indices):
        def gradients(x, y):
            options = {"separate_gradients": True, "inputs_with_gradients": indices}
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                if kind == "host":
                    (z,) = custom_ops.cpu_user_operation(
                        [x, y], host, outs([4]), op_name="Separate", **options
                    )
                else:
                    (z,) = custom_ops.precompiled_user_op(
                        [x, y], precompiled, outs=outs([4]), **options
                    )
            return tape.gradient(
                z, [x, y], tf.constant(UPSTREAM), unconnected_gradients=tf.UnconnectedGradients.ZERO
            )

        for i, (result, expected) in enumerate(
            zip(in_strategy(gradients, [X, Y]), reference(X, Y))
        ):
            wanted = indices is None or i in indices
            np.testing.assert_array_equal(result, expected if wanted else np.zeros(4))

    def test_inputs_without_gradients_have_none(self, host):
        def gradients(x, y):
            (z,) = custom_ops.cpu_user_operation(
                [x, y], host, outs([4]), op_name="Second", inputs_with_gradients=[1]
            )
            by_x, by_y = tf.gradients(z, [x, y], tf.constant(UPSTREAM))
            assert by_x is None
            return [by_y]

        np.testing.assert_array_equal(in_session(gradients, [X, Y])[0], UPSTREAM * X)

    def test_no_input_with_a_gradient_means_none(self, precompiled):
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            (z,) = custom_ops.precompiled_user_op(
                [x, x], precompiled, outs=outs([4]), inputs_with_gradients=[]
            )
        assert tape.gradient(z, x) is None

    @pytest.mark.parametrize("used", [[0], [1], [0, 1]])
    @pytest.mark.parametrize("where", RUNNERS)
    def test_gradients_of_two_outputs_add_up(self, host, used, where):
        def gradients(x, y):
            with tf.GradientTape() as tape:
                tape.watch([x, y])
                results = custom_ops.cpu_user_operation(
                    [x, y], host, outs([4], [4]), op_name="TwoOutputs"
                )
                loss = tf.add_n([results[i] * (i + 2.0) for i in used])
            return tape.gradient(loss, [x, y])

        first, second = (float(i + 2) if i in used else 0.0 for i in range(2))
        by_x, by_y = RUNNERS[where](gradients, [X, Y])
        np.testing.assert_array_equal(by_x, np.full(4, first + second))
        np.testing.assert_array_equal(by_y, np.full(4, first - second))

    def test_gradient_gets_the_outputs_of_the_forward_op(self, precompiled):
        def gradients(x):
            (z,) = custom_ops.precompiled_user_op(
                [x], precompiled, outs=outs([4]), op_name="Double"
            )
            return tf.gradients(z, x, tf.constant(UPSTREAM))

        np.testing.assert_allclose(in_session(gradients, [X])[0], 2 * UPSTREAM)

    def test_a_variable_is_trained_through_the_library(self, product):
        """Descent on the squared error of w * x."""

        def program():
            for _ in tf.range(20):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_sum((product(w, tf.constant(Y)) - X) ** 2)
                w.assign_sub(0.02 * tape.gradient(loss, w))
            return w.read_value()

        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            w = tf.Variable(np.ones(4, np.float32))
            result = strategy.run(tf.function(program, jit_compile=True))
        expected = np.ones(4, np.float32)
        for _ in range(20):
            expected -= 0.02 * 2 * (expected * Y - X) * Y
        np.testing.assert_allclose(result, expected, rtol=1e-5)

    def test_second_order_gradients_are_refused(self, product):
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float32, [4])
            (gradient,) = tf.gradients(product(x, x), x)
            with pytest.raises(LookupError, match="gradient of a custom operation"):
                tf.gradients(gradient, x)


class TestWhatLibrariesGet:
    """Types, shapes, texts."""

    @pytest.mark.parametrize(
        "dtype", ["float16", "bfloat16", "float32", "int8", "uint8", "int32", "uint32", "bool"]
    )
    def test_libraries_get_each_type(self, host, dtype):
        dtype = tf.as_dtype(dtype)
        x = replicas.rows(1, [3, 2], dtype)[0]

        def copy(x):
            return custom_ops.cpu_user_operation(
                [x], host, outs([3, 2], dtype=dtype), op_name="Copy", attributes=str(dtype.size)
            )

        (result,) = in_strategy(copy, [x])
        assert result.dtype == dtype.as_numpy_dtype
        np.testing.assert_array_equal(result, x)

    @pytest.mark.parametrize(
        ("dtype", "shape"),
        [("float32", [2, 3, 4]), ("float16", [5]), ("int32", []), ("bool", [0, 2]), ("int8", [1])],
    )
    def test_libraries_get_the_shapes_of_inputs(self, precompiled, dtype, shape):
        x = tf.zeros(shape, dtype)
        (result,) = custom_ops.precompiled_user_op(
            [x], precompiled, outs=outs([8], dtype=tf.int64), op_name="Shape"
        )
        expected = [x.dtype.as_datatype_enum, len(shape), *shape, int(np.prod(shape)), -1]
        assert result.numpy()[: len(expected)].tolist() == expected

    def test_libraries_get_attributes_and_name(self, host):
        def texts():
            return custom_ops.cpu_user_operation(
                [], host, outs([32], [32], dtype=tf.int32), "Mine", "Texts", attributes='{"a": 1}'
            )

        attributes, name = (
            "".join(map(chr, codes)).rstrip("\0") for codes in in_session(texts, [])
        )
        assert attributes == '{"a": 1}'
        assert name.endswith("Mine")

    def test_libraries_get_the_replica(self, precompiled):
        def index():
            return custom_ops.precompiled_user_op(
                [], precompiled, outs=outs([2], dtype=tf.int32), op_name="Replica"
            )[0]

        np.testing.assert_array_equal(replicas.run(2, index), [[0, 2], [1, 2]])
        np.testing.assert_array_equal(index(), [0, 1])

    def test_host_functions_run_one_at_a_time(self, host):
        def count():
            def body(x):
                return custom_ops.cpu_user_operation([x], host, outs([]), op_name="Alone")[0]

            return loops.repeat(200, body, [tf.constant(0.0)])

        np.testing.assert_array_equal(replicas.run(2, count), [200.0, 200.0])


class TestNoOutputs:
    """Operations by their behavior."""

    def test_an_op_without_outputs_runs_in_each_iteration(self, host):
        def logged():
            return custom_ops.cpu_user_operation(
                [], host, outs([], dtype=tf.int32), op_name="Logged"
            )[0].numpy()

        def body(x):
            log = custom_ops.cpu_user_operation([x], host, op_name="Log")
            assert isinstance(log, tf.Operation)
            return x + 1, log

        before = logged()
        in_session(lambda: loops.repeat(3, body, [tf.constant(0.0)]), [])
        assert logged() - before == 3
        assert custom_ops.cpu_user_operation([tf.constant(X)], host, op_name="Log") is None
        assert logged() - before == 4


class TestMetadata:
    """Metadata of operations in libraries."""

    @pytest.mark.parametrize("where", RUNNERS)
    def test_outputs_may_share_memory_with_inputs(self, precompiled, where):
        def add_one(x):
            (z,) = custom_ops.precompiled_user_op(
                [x], precompiled, outs=outs([4]), op_name="InPlace"
            )
            (again,) = custom_ops.precompiled_user_op(
                [z], precompiled, outs=outs([4]), op_name="InPlace"
            )
            return x, z + 0.0, again

        x, z, again = RUNNERS[where](add_one, [X])
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(z, X + 1)
        np.testing.assert_array_equal(again, X + 2)

    def test_results_may_share_memory_with_a_variable(self, precompiled):
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            w = tf.Variable(X)

            @tf.function(jit_compile=True)
            def program():
                return custom_ops.precompiled_user_op(
                    [w], precompiled, outs=outs([4]), op_name="InPlace"
                )

            (result,) = strategy.run(program)
        np.testing.assert_array_equal(result, X + 1)
        np.testing.assert_array_equal(w, X)

    @pytest.mark.parametrize(
        ("op_name", "shape", "phrase"),
        [("InPlace", [2], "shares memory"), ("Hashable", [2], "is elementwise")],
    )
    def test_metadata_that_do_not_fit_shapes_are_refused(self, precompiled, op_name, shape, phrase):
        with pytest.raises(tf.errors.InvalidArgumentError, match=phrase):
            custom_ops.precompiled_user_op(
                [tf.constant(X)], precompiled, outs=outs(shape), op_name=op_name
            )

    def test_libraries_may_allocate_inputs(self, precompiled):
        (result,) = custom_ops.precompiled_user_op(
            [tf.constant(X)], precompiled, outs=outs([4]), op_name="Allocates"
        )
        np.testing.assert_array_equal(result, 2 * X)

    @pytest.mark.parametrize(("output", "uniform"), [(0, False), (1, True)])
    def test_outputs_that_are_equal_on_all_replicas(self, precompiled, output, uniform):
        def program():
            index = tf.cast(replication_ops.replication_index(), tf.float32)
            results = custom_ops.precompiled_user_op(
                [index], precompiled, outs=outs([], []), op_name="Mixed"
            )
            return tf.cond(
                results[output] > 0.5,
                lambda: cross_replica_ops.cross_replica_sum(index),
                lambda: index,
            )

        if uniform:
            np.testing.assert_array_equal(replicas.run(2, program), [1.0, 1.0])
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="not replica uniform"):
                replicas.run(2, program)


class TestChangedLibrary:
    """Another library, or another one in its place, is another program."""

    def run(self, library):
        return in_session(
            lambda x, y: custom_ops.cpu_user_operation([x, y], library, outs([4])), [X, Y]
        )[0]

    def test_a_library_that_changed_is_another_program(self, folder):
        library = compiled("host.cc", folder / "libchanging.so")
        np.testing.assert_array_equal(self.run(library), X * Y)
        compiled("host.cc", folder / "libchanging.so", "-DOFFSET=10")
        np.testing.assert_array_equal(self.run(library), X * Y + 10)
        compiled("host.cc", folder / "libchanging.so")
        np.testing.assert_array_equal(self.run(library), X * Y)

    def test_a_library_that_changed_is_loaded_again_eagerly(self, folder):
        library = folder / "libeager.so"
        for offset in (0, 10, 0):
            compiled("host.cc", library, f"-DOFFSET={offset}")
            (result,) = custom_ops.cpu_user_operation([X, Y], library, outs([4]))
            np.testing.assert_array_equal(result, X * Y + offset)

    def test_compiled_program_keeps_its_library(self, folder):
        library = compiled("host.cc", folder / "libkept.so")
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()

        def compute(x, y):
            return custom_ops.cpu_user_operation([x, y], library, outs([4]))

        with strategy.scope():
            first, second = (tf.function(compute, jit_compile=True) for _ in range(2))
            arguments = [tf.constant(X), tf.constant(Y)]
            strategy.run(first, arguments)
            compiled("host.cc", folder / "libkept.so", "-DOFFSET=10")
            np.testing.assert_array_equal(strategy.run(second, arguments)[0], X * Y + 10)
            np.testing.assert_array_equal(strategy.run(first, arguments)[0], X * Y)
        assert len(cache.executables()) == 2

    def test_equal_programs_are_compiled_once(self, product):
        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        arguments = [tf.constant(X), tf.constant(Y)]
        with strategy.scope():
            for options in ({}, {}, {"attributes": "1"}):
                program = tf.function(lambda x, y, o=options: product(x, y, **o), jit_compile=True)
                strategy.run(program, arguments)
        assert len(cache.executables()) == 2


class TestCompileErrors:
    """Errors when a program is compiled, or when an operation runs eagerly."""

    def run(self, where, function, *arguments, **options):
        RUNNERS[where](lambda x: [function([x], *arguments, **options)], [X])

    @pytest.mark.parametrize("where", RUNNERS)
    @pytest.mark.parametrize(
        "function", [custom_ops.cpu_user_operation, custom_ops.precompiled_user_op]
    )
    def test_a_missing_library_is_refused(self, where, function):
        with pytest.raises(tf.errors.NotFoundError, match="/nowhere/lib.so.* cannot be read"):
            self.run(where, function, "/nowhere/lib.so", outs=outs([4]))

    @pytest.mark.parametrize("where", RUNNERS)
    def test_a_missing_symbol_is_refused(self, where, host, precompiled):
        for function, library in (
            (custom_ops.cpu_user_operation, host),
            (custom_ops.precompiled_user_op, precompiled),
        ):
            with pytest.raises(tf.errors.NotFoundError, match=f"{library} has no symbol Missing"):
                self.run(where, function, library, outs=outs([4]), op_name="Missing")

    @pytest.mark.parametrize("where", RUNNERS)
    def test_another_api_level_is_refused(self, where, folder):
        for level in (4, 6):
            library = compiled("precompiled.cc", folder / f"level{level}.so", f"-DLEVEL={level}")
            message = f"Api level of module {library}: expected 5, received {level}"
            with pytest.raises(tf.errors.InternalError, match=message):
                self.run(where, custom_ops.precompiled_user_op, library, outs=outs([4]))

    def test_a_library_without_api_level_is_refused(self, folder):
        library = compiled("precompiled.cc", folder / "no_level.so", "-DNO_LEVEL")
        with pytest.raises(tf.errors.NotFoundError, match="no symbol custom_op_api_level"):
            self.run("session", custom_ops.precompiled_user_op, library, outs=outs([4]))

    def test_host_libraries_need_no_level(self, host):
        (result,) = custom_ops.cpu_user_operation([X, Y], host, outs([4]))
        np.testing.assert_array_equal(result, X * Y)

    def test_a_file_that_is_no_library_is_refused(self, tmp_path):
        (tmp_path / "text.so").write_text("not a library")
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not load"):
            self.run("session", custom_ops.cpu_user_operation, tmp_path / "text.so", outs([4]))

    def test_a_missing_gradient_symbol_is_refused(self, precompiled):
        def gradients(x):
            (z,) = custom_ops.precompiled_user_op(
                [x], precompiled, outs=outs([4]), op_name="Forward"
            )
            return tf.gradients(z, x)

        with pytest.raises(tf.errors.NotFoundError, match="no symbol Forward_grad"):
            in_session(gradients, [X])

    @pytest.mark.parametrize(
        ("op_name", "error", "message"),
        [
            ("NoAllocator", tf.errors.NotFoundError, "no symbol NoAllocator_allocator"),
            ("BadAlias", tf.errors.InvalidArgumentError, "output 1, but the operation has 1"),
            ("TwoAliases", tf.errors.InvalidArgumentError, "inputs 0 and 1 both share"),
        ],
    )
    def test_wrong_metadata_are_refused(self, precompiled, op_name, error, message):
        with pytest.raises(error, match=message):
            in_session(
                lambda x: custom_ops.precompiled_user_op(
                    [x, x], precompiled, outs=outs([4]), op_name=op_name
                ),
                [X],
            )

    @pytest.mark.parametrize("kind", ["host", "unhashable", "hashable"])
    def test_pre_compilation_takes_hashable_ops_only(
        self, run_program, host, precompiled, kind, tmp_path
    ):
        said = run_program(
            PRE_COMPILE,
            args=[host if kind == "host" else precompiled, kind],
            env={"TF_POPLAR_FLAGS": f"--executable_cache_path={tmp_path}"},
        ).stdout
        if kind == "hashable":
            assert said.endswith("[0.0, 0.0]\n")  # compiled, and not run
        else:
            assert "configured for pre-compilation" in said
            assert "is not hashable" in said


PRE_COMPILE = """
import sys
import tensorflow as tf
from tensorflow_ipu import config, custom_ops, ipu_compiler, scopes
library, kind = sys.argv[1:]
cfg = config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.device_connection.type = config.DeviceConnectionType.PRE_COMPILE
cfg.device_connection.version = "ipu2"
cfg.configure_ipu_system()
outs = {"output_types": [tf.float32], "output_shapes": [[2]]}
with tf.Graph().as_default():
    x = tf.compat.v1.placeholder(tf.float32, [2])
    def program(x):
        if kind == "host":
            return custom_ops.cpu_user_operation([x, x], library, outs)
        name = "Hashable" if kind == "hashable" else "Double"
        return custom_ops.precompiled_user_op([x], library, outs=outs, op_name=name)
    with scopes.ipu_scope("/device:IPU:0"):
        launch = ipu_compiler.compile(program, [x])
    with tf.compat.v1.Session() as session:
        try:
            print(session.run(launch, {x: [1, 2]})[0].tolist())
        except tf.errors.FailedPreconditionError as error:
            print(error.message)
"""


class TestRunErrors:
    """Errors in a library."""

    @pytest.mark.parametrize("where", RUNNERS)
    @pytest.mark.parametrize(
        ("op_name", "message"), [("Throw", "out of ideas"), ("ThrowNumber", "unknown type")]
    )
    def test_an_exception_of_the_library_ends_the_program(self, host, where, op_name, message):
        name = ".*" if where == "eager" else ".*Mine"  # TensorFlow adds the name
        message = f"The custom operation {name} of {host} failed: .*{message}"
        with pytest.raises(tf.errors.InternalError, match=message):
            RUNNERS[where](
                lambda x: custom_ops.cpu_user_operation([x], host, outs([4]), "Mine", op_name), [X]
            )

    @pytest.mark.parametrize("where", RUNNERS)
    def test_an_error_of_the_library_ends_the_program(self, precompiled, where):
        with pytest.raises(tf.errors.InternalError, match="failed: too late"):
            RUNNERS[where](
                lambda x: custom_ops.precompiled_user_op(
                    [x], precompiled, outs=outs([4]), op_name="Fail", attributes="too late"
                ),
                [X],
            )


class TestArguments:
    """Errors at the call."""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"outs": [tf.float32]}, "outs must be a dictionary"),
            ({"outs": {"output_types": [tf.float32]}}, "outs must be a dictionary"),
            ({"outs": {**outs([4]), "more": 1}}, "outs must be a dictionary"),
            ({"outs": {"output_types": tf.float32, "output_shapes": [[4]]}}, "output_types="),
            ({"outs": {"output_types": [tf.float32], "output_shapes": []}}, "1 types and 0 shapes"),
            ({"outs": outs([4], dtype="text")}, "output_types must be of .*'text'"),
            ({"outs": outs([4], dtype=tf.float64)}, "output_types must be of .*float64"),
            ({"outs": outs([None])}, "all dimensions known"),
            ({"outs": outs("shape")}, "all dimensions known"),
            ({"attributes": 3}, "attributes must be a string. Received: attributes=3"),
            ({"gradient_attributes": b"x"}, "gradient_attributes must be a string"),
            ({"attributes": "a\0b"}, "null characters"),
            ({"op_name": ""}, "op_name must be the name of a function"),
            ({"op_name": 3}, "op_name must be the name of a function"),
            ({"library_path": 3}, "library_path must be the path"),
            ({"library_path": ""}, "library_path must be the path"),
            ({"inputs_with_gradients": [2]}, "indices from 0 to 1.*\\[2\\]"),
            ({"inputs_with_gradients": [-1]}, "indices from 0 to 1"),
            ({"inputs_with_gradients": 1}, "indices from 0 to 1"),
            ({"inputs_with_gradients": [True]}, "indices from 0 to 1"),
            ({"inputs_with_gradients": [1, 1]}, "twice"),
        ],
    )
    @pytest.mark.parametrize(
        "function", [custom_ops.cpu_user_operation, custom_ops.precompiled_user_op]
    )
    def test_wrong_values_are_refused(self, function, options, message):
        arguments = {"library_path": "lib.so", "outs": outs([4]), **options}
        with pytest.raises(ValueError, match=message):
            function([X, Y], **arguments)

    def test_wrong_inputs_are_refused(self, host):
        with pytest.raises(TypeError, match="inputs must be a list of tensors"):
            custom_ops.cpu_user_operation("x", host)
        with pytest.raises(TypeError, match="Received: float64. Cast"):
            custom_ops.cpu_user_operation([np.zeros(3)], host)

    def test_gp_path_that_is_no_path_is_refused(self, precompiled):
        with pytest.raises(ValueError, match="gp_path must be a path"):
            custom_ops.precompiled_user_op([X, Y], precompiled, gp_path=3)


def test_the_header_is_c(tmp_path):
    source = tmp_path / "header.c"
    source.write_text('#include "tensorflow_ipu/custom_op.h"\n')
    options = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c"]
    subprocess.run(["g++", *options, "-I", custom_ops.include_dir(), str(source)], check=True)


def test_header_says_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr("tensorflow_ipu.__file__", str(tmp_path / "package" / "__init__.py"))
    with pytest.raises(FileNotFoundError, match="Install the package again"):
        custom_ops.include_dir()
    header = tmp_path / "package" / "include" / "tensorflow_ipu" / "custom_op.h"
    os.makedirs(header.parent)
    header.touch()
    assert custom_ops.include_dir() == str(tmp_path / "package" / "include")


def test_the_module_is_public_under_both_names():
    from tensorflow.python import ipu

    assert ipu.custom_ops is ipu.ops.custom_ops is custom_ops
