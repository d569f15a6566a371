"""Operations of users' libraries that are Poplar programs, compared with TensorFlow and NumPy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.frontends.poplar import popc, sdk
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, custom_ops, pipelining_ops, replication_ops
from tests.support.programs import replicas

tf1 = tf.compat.v1
SOURCES = Path(__file__).parent / "custom_op_libraries"

X = np.array([1.5, -2.0, 0.25, 3.0], np.float32)
Y = np.array([0.5, 4.0, -1.0, 2.0], np.float32)
UPSTREAM = np.array([1.0, 2.0, -1.0, 0.5], np.float32)


def compiled(source: str, library: Path, *options: str) -> str:
    """Compiles a library as users do; returns its path."""
    command = ["g++", "-std=c++11", "-O0", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += [str(SOURCES / source), "-o", str(library), *options, "-lpoplar", "-lpoputil"]
    subprocess.run(command, check=True, env={**os.environ, **sdk.variables(os.environ)})
    return str(library)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def library(folder: Path) -> str:
    return compiled("poplar_ops.cpp", folder / "libpoplar_ops.so")


@pytest.fixture(scope="module")
def codelets(folder: Path) -> str:
    """Compiles the codelets, which `gp_path` adds to the graph; returns the file."""
    path = str(folder / "codelets.gp")
    assert popc.main([str(SOURCES / "poplar_codelets.cpp"), "-o", path]) == 0
    return path


@pytest.fixture(scope="module")
def user_op(library: str, codelets: str) -> Callable[..., list[tf.Tensor]]:
    """Returns a function that adds an operation of the library."""

    def add(op_name: str, inputs: list[Any], *shapes: Any, **options: Any) -> list[tf.Tensor]:
        dtype = options.pop("dtype", tf.float32)
        outs = {"output_types": [dtype] * len(shapes), "output_shapes": list(shapes)}
        return custom_ops.precompiled_user_op(
            inputs, library, codelets, outs, op_name=op_name, **options
        )

    return add


@pytest.fixture(scope="module")
def product(user_op: Callable[..., list[tf.Tensor]]) -> Callable[..., tf.Tensor]:
    def compute(x: Any, y: Any, **options: Any) -> tf.Tensor:
        return user_op("Build", [x, y], x.shape, **options)[0]

    return compute


@pytest.fixture(scope="module")
def exchange(folder: Path) -> Callable[..., list[tf.Tensor]]:
    """Returns a function that adds an operation in which replicas exchange data."""
    library = compiled("poplar_exchange.cpp", folder / "libexchange.so", "-lgcl", "-lpopops")

    def add(op_name: str, inputs: list[Any], *shapes: Any) -> list[tf.Tensor]:
        outs = {"output_types": [tf.float32] * len(shapes), "output_shapes": list(shapes)}
        return custom_ops.precompiled_user_op(inputs, library, outs=outs, op_name=op_name)

    return add


def in_session(function: Callable[..., Any], feeds: list[np.ndarray]) -> Any:
    """Runs a function as a program of a session; returns its results."""
    replicas.configure(1)
    with tf.Graph().as_default():
        placeholders = [tf1.placeholder(feed.dtype, feed.shape) for feed in feeds]
        with scopes.ipu_scope("/device:IPU:0"):
            launch = ipu_compiler.compile(function, placeholders)
        with tf1.Session() as session:
            return session.run(launch, dict(zip(placeholders, feeds)))


def in_strategy(function: Callable[..., Any], feeds: list[np.ndarray]) -> Any:
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
    """Results, in each kind of program."""

    @pytest.mark.parametrize("where", RUNNERS)
    def test_product_equals_numpy(self, product, where):
        (result,) = RUNNERS[where](lambda x, y: [product(x, y)], [X, Y])
        np.testing.assert_array_equal(result, X * Y)

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_replicas_compute_their_own(self, product, count):
        x, y = replicas.rows(count, [300], seed=1), replicas.rows(count, [300], seed=2)
        result = replicas.run(count, lambda: product(replicas.own_row(x), replicas.own_row(y)))
        np.testing.assert_array_equal(np.reshape(result, x.shape), x * y)

    def test_loops_run_the_program_again(self, product):
        (result,) = in_session(
            lambda x, y: loops.repeat(5, lambda v: product(v, y), [x], use_while_v1=False), [X, Y]
        )
        np.testing.assert_allclose(result, X * Y**5, rtol=1e-6)

    def test_build_is_called_once(self, product, tmp_path):
        calls = tmp_path / "calls"
        y = replicas.rows(2, [8], seed=1)

        def program():
            def body(v):
                return product(v, replicas.own_row(y), attributes=f"1:{calls}")

            return loops.repeat(3, body, [tf.ones([8])])

        np.testing.assert_allclose(replicas.run(2, program), y**3, rtol=1e-6)
        (line,) = calls.read_text().splitlines()
        assert line

    def test_stages_of_a_pipeline_run_programs(self, product):
        replicas.configure(2)
        with tf.Graph().as_default(), tf1.Session() as session:
            queue = IPUOutfeedQueue()

            def first(x):
                w = tf1.get_variable("w", initializer=tf.constant(Y), use_resource=True)
                return product(x, w)

            def second(x):
                y = product(x, tf.constant(Y))
                return tf.reduce_sum(y), y

            def optimizer_function(loss, _):
                optimizer = tf1.train.GradientDescentOptimizer(0.1)
                return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

            with scopes.ipu_scope("/device:IPU:0"):
                launch = ipu_compiler.compile(
                    lambda: pipelining_ops.pipeline(
                        [first, second],
                        gradient_accumulation_count=4,
                        inputs=[tf.constant(X)],
                        outfeed_queue=queue,
                        optimizer_function=optimizer_function,
                        reduction_method="sum",
                    )
                )
            dequeue = queue.dequeue()
            session.run(tf1.global_variables_initializer())
            session.run(launch)
            _, outputs = session.run(dequeue)
            (weights,) = session.run(tf1.trainable_variables())
        np.testing.assert_allclose(outputs, [X * Y * Y] * 4, rtol=1e-6)
        np.testing.assert_allclose(weights, Y - 0.1 * 4 * X * Y, rtol=1e-5)

    @pytest.mark.parametrize("where", RUNNERS)
    def test_outputs_may_be_views_of_inputs(self, user_op, where):
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        results = RUNNERS[where](lambda x: user_op("Views", [x], [2, 3], [2, 3], [3, 2]), [x])
        for result, expected in zip(results, [x, x[::-1], x.T]):
            np.testing.assert_array_equal(result, expected)

    def test_variables_keep_values_between_runs(self, user_op):
        def program():
            def body(total):
                return total * 10 + user_op("Count", [], [1])[0]

            return loops.repeat(3, body, [tf.zeros([1])])

        np.testing.assert_array_equal(replicas.run(2, program), [[123.0], [123.0]])

    @pytest.mark.parametrize(
        ("dtype", "name"),
        [
            ("float32", "float"),
            ("float16", "half"),
            ("int32", "int"),
            ("uint32", "unsigned int"),
            ("int64", "int"),
            ("int16", "short"),
            ("uint8", "unsigned char"),
            ("int8", "char"),
            ("bool", "bool"),
        ],
    )
    def test_types_are_those_of_poplar(self, user_op, dtype, name):
        x = replicas.rows(1, [3, 2], dtype)[0]
        (result,) = user_op("Same", [x], [3, 2], attributes=name, dtype=tf.as_dtype(dtype))
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, x)

    def test_outputs_may_narrow_an_input(self, user_op):
        x = tf.constant([[1, 2], [3, 4]], tf.int64)
        results = user_op("Views", [x], *[[2, 2]] * 3, dtype=tf.int32)
        for result, expected in zip(results, (x, x[::-1], tf.transpose(x))):
            assert result.dtype == tf.int32
            np.testing.assert_array_equal(result, expected)

    def test_empty_tensors_are_passed(self, user_op):
        assert user_op("Same", [tf.zeros([0])], [0], attributes="float")[0].shape == [0]

    def test_tensors_of_other_addresses_are_read(self, product):
        """Parts of a tensor, whose addresses are not aligned."""
        x = tf.range(40.0)

        @tf.function(jit_compile=True)
        def program(x):
            return [product(part, part) for part in tf.split(x, [5, 17, 18])]

        replicas.configure(1)
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            results = strategy.run(program, [x])
        np.testing.assert_array_equal(tf.concat(results, 0), np.arange(40.0) ** 2)


class TestExchange:
    """Programs in which replicas exchange data, compared with NumPy."""

    @pytest.mark.parametrize(("count", "in_session"), [(1, False), (2, True), (4, False)])
    def test_exchange_equals_numpy(self, exchange, count, in_session):
        x = replicas.rows(count, [8], seed=1)

        def program():
            own = replicas.own_row(x)
            gathered, part = exchange("GatherAndScatter", [own], [count, 8], [8 // count])
            return {
                "sum": exchange("Sum", [own], [8])[0],
                "gathered": gathered,
                "part": part,
                "rotated": exchange("Rotate", [own], [8])[0],
                "indices": exchange("SumOfIndices", [], [])[0],
                "of_uniform": exchange("AddIndex", [tf.ones([2])], [2])[0],
            }

        total = np.sum(x, axis=0)
        expected = {
            "sum": np.tile(total, [count, 1]),
            "gathered": np.tile(x, [count, 1, 1]),
            "part": np.reshape(total, [count, -1]),
            "rotated": np.roll(x, 1, axis=0),
            "indices": np.full([count], sum(range(count))),
            "of_uniform": 1.0 + np.tile(np.arange(count)[:, np.newaxis], [1, 2]),
        }
        for name, result in replicas.run(count, program, in_session).items():
            of_all = np.reshape(result, expected[name].shape)
            np.testing.assert_allclose(of_all, expected[name], rtol=1e-5, atol=1e-6, err_msg=name)

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_loops_repeat_exchanges_and_keep_variables(self, exchange, count):
        x = replicas.rows(count, [300], seed=1)

        def program():
            def body(v, total):
                (rotated,) = exchange("Rotate", [v], [300])
                return rotated, exchange("Accumulate", [v], [300])[0] + 0.0 * total

            own = replicas.own_row(x)
            return loops.repeat(3, body, [own, own], use_while_v1=False)

        rotated, total = replicas.run(count, program)
        np.testing.assert_array_equal(np.reshape(rotated, x.shape), np.roll(x, 3, axis=0))
        expected = np.tile(3 * np.sum(x, axis=0), [count, 1])
        np.testing.assert_allclose(np.reshape(total, x.shape), expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("count", [1, 2])
    def test_gradients_are_exchanged(self, exchange, count):
        x, upstream = replicas.rows(count, [5], seed=1), replicas.rows(count, [5], seed=2)

        def program():
            own = replicas.own_row(x)
            (z,) = exchange("Sum", [own], [5])
            return tf.gradients(z, [own], [replicas.own_row(upstream)])[0]

        result = np.reshape(replicas.run(count, program), x.shape)
        np.testing.assert_allclose(result, np.tile(upstream.sum(axis=0), [count, 1]), rtol=1e-5)

    def test_eager_exchange_is_with_itself(self, exchange):
        np.testing.assert_array_equal(exchange("Sum", [tf.constant(X)], [4])[0], X)

    def test_conditions_have_to_be_equal(self, exchange):
        def program():
            index = tf.cast(replication_ops.replication_index(), tf.float32)
            return tf.cond(
                index > 0.5, lambda: exchange("Sum", [index], [])[0], lambda: tf.identity(index)
            )

        message = "not replica uniform.*collective .*inside needs all 2 replicas"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            replicas.run(2, program)

    def test_keras_models_exchange_between_replicas(self, exchange):
        replicas.configure(2)
        x = np.arange(8, dtype=np.float32).reshape(4, 2) ** 2
        strategy = ipu_strategy.IPUStrategy()
        with strategy.scope():
            layer = tf.keras.layers.Lambda(lambda v: exchange("Sum", [v], [1, 2])[0])
            model = tf.keras.Sequential([layer])
            model.build([1, 2])
            model.compile(steps_per_execution=4)
            result = model.predict(x, batch_size=1)
        pairs = np.repeat(x[0::2] + x[1::2], 2, axis=0)
        np.testing.assert_array_equal(result, pairs)


class TestGradients:
    """Derivatives by `<op>_grad`, compared with TensorFlow's of a product."""

    @pytest.mark.parametrize("where", RUNNERS)
    @pytest.mark.parametrize("indices", [None, [1]])
    def test_gradients_equal_tensorflow(self, product, where, indices):
        def gradients(multiply):
            def compute(x, y):
                with tf.GradientTape() as tape:
                    tape.watch([x, y])
                    z = multiply(x, y)
                return tape.gradient(z, [x, y], UPSTREAM, tf.UnconnectedGradients.ZERO)

            return compute

        options = {"separate_gradients": indices is not None, "inputs_with_gradients": indices}
        if indices is not None:
            options["gradient_attributes"] = "separate"
        results = RUNNERS[where](gradients(lambda x, y: product(x, y, **options)), [X, Y])
        expected = gradients(tf.multiply)(tf.constant(X), tf.constant(Y))
        for i, (result, reference) in enumerate(zip(results, expected)):
            wanted = indices is None or i in indices
            np.testing.assert_array_equal(result, reference if wanted else np.zeros(4))

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_replicas_have_their_own_gradients(self, product, count):
        x, y = replicas.rows(count, [5], seed=1), replicas.rows(count, [5], seed=2)

        def gradients():
            a, b = replicas.own_row(x), replicas.own_row(y)
            z = loops.repeat(2, lambda v: product(v, b), [a], use_while_v1=False)
            return tf.gradients(z, [a, b])

        by_x, by_y = replicas.run(count, gradients)
        np.testing.assert_allclose(np.reshape(by_x, x.shape), y**2, rtol=1e-6)
        np.testing.assert_allclose(np.reshape(by_y, x.shape), 2 * x * y, rtol=1e-6)

    def test_all_separate_gradients_have_their_index(self, product):
        x, y = tf.constant(X), tf.constant(Y)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = product(x, y, separate_gradients=True, gradient_attributes="separate")
        by_x, by_y = tape.gradient(z, [x, y], UPSTREAM)
        np.testing.assert_array_equal(by_x, UPSTREAM * Y)
        np.testing.assert_array_equal(by_y, UPSTREAM * X)

    def test_attributes_reach_each_function(self, product):
        x = tf.constant(X)
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = product(x, tf.constant(Y), attributes="3", gradient_attributes="0.5")
        np.testing.assert_array_equal(z, 3 * X * Y)
        np.testing.assert_array_equal(tape.gradient(z, x), 0.5 * Y)

    def test_invalid_tensor_is_a_gradient_of_zeros(self, user_op):
        x, y = tf.constant(X), tf.constant(Y)
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            (z,) = user_op("Unused", [x, y], [4])
        by_x, by_y = tape.gradient(z, [x, y])
        np.testing.assert_array_equal(by_x, X * X)
        np.testing.assert_array_equal(by_y, np.zeros(4))


class TestMetadata:
    """Sharing of memory, layouts, and equal outputs."""

    @pytest.mark.parametrize("where", RUNNERS)
    @pytest.mark.parametrize("op_name", ["InPlace", "Sneaky"])
    def test_programs_in_place_keep_other_uses(self, user_op, where, op_name):
        def add_one(x):
            (z,) = user_op(op_name, [x], [4])
            (again,) = user_op(op_name, [z], [4])
            return x, z + 0.0, again

        x, z, again = RUNNERS[where](add_one, [X])
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(z, X + 1)
        np.testing.assert_array_equal(again, X + 2)

    def test_allocator_maps_inputs(self, user_op):
        (result,) = user_op("Allocates", [tf.constant(X)], [4])
        np.testing.assert_array_equal(result, X)

    @pytest.mark.parametrize(("output", "uniform"), [(0, False), (1, True)])
    def test_equal_outputs_allow_collectives(self, user_op, output, uniform):
        def program():
            index = tf.cast(replication_ops.replication_index(), tf.float32)
            results = user_op("Mixed", [index], [], [])
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

    @pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
    def test_each_api_level_is_called(self, folder, level):
        library = compiled("poplar_levels.cpp", folder / f"level{level}.so", f"-DLEVEL={level}")
        outs = {"output_types": [tf.float32] * 2, "output_shapes": [[4], [4]]}
        results = custom_ops.precompiled_user_op([X, Y], library, outs=outs, attributes="text")
        np.testing.assert_array_equal(results, [X, Y[::-1]])

    def test_level_5_may_have_metadata_of_4(self, folder):
        library = compiled("poplar_levels.cpp", folder / "mixed.so", "-DLEVEL=5", "-DAS_4")
        outs = {"output_types": [tf.float32] * 2, "output_shapes": [[4], [4]]}
        results = custom_ops.precompiled_user_op([X, Y], library, outs=outs, attributes="text")
        np.testing.assert_array_equal(results, [X, Y[::-1]])


def test_plans_have_the_users_mapping_and_estimates(product):
    """300 elements are on 9 tiles, at most 34 on one, for which the library estimates 134."""
    x = np.ones([300], np.float32)
    in_session(lambda x: [product(x, x)], [x])
    (executable,) = cache.executables()
    (op,) = (op for op in executable.workload.ops if op.type == "IpuPrecompiledUserOp")
    takes = json.loads(op.attributes["takes"])
    chip = executable.settings.chip
    assert takes["compute"] == 6 * 134 + chip.compute_set_cycles
    assert (takes["exchange"], takes["vertices"], takes["tiles"]) == (0, 9, 9)
    assert takes["certain"]
    assert takes["codelets"] == ["Product"]


@pytest.mark.parametrize("where", ["strategy", "eager"])
def test_replaced_codelets_are_loaded_again(library, tmp_path, where):
    """Under their own path, while the former ones are in use."""
    path = tmp_path / "replaced.gp"

    def multiply(x, y):
        outs = {"output_types": [tf.float32], "output_shapes": [[4]]}
        return custom_ops.precompiled_user_op([x, y], library, str(path), outs)

    source = (SOURCES / "poplar_codelets.cpp").read_text()
    for number, formula in enumerate(["a[i] * b[i]", "a[i] + b[i]"]):
        changed = tmp_path / f"{number}.cpp"
        changed.write_text(source.replace("factor * a[i] * b[i]", f"factor * ({formula})"))
        assert popc.main([str(changed), "-o", str(path)]) == 0
        (result,) = RUNNERS[where](multiply, [X, Y])
        np.testing.assert_array_equal(result, [X * Y, X + Y][number])


class TestErrors:
    """Errors name the operation and its library."""

    @pytest.mark.parametrize("where", RUNNERS)
    @pytest.mark.parametrize(
        ("op_name", "error", "message"),
        [
            ("Missing", tf.errors.NotFoundError, "has no symbol Missing"),
            ("NoAllocator", tf.errors.NotFoundError, "no symbol NoAllocator_allocator"),
            ("BadIndex", tf.errors.InvalidArgumentError, "output 7, but the operation has 1"),
            (
                "None",
                tf.errors.InternalError,
                "Instruction .*has mismatched outputs number, expected: 1, returned: 0",
            ),
            (
                "Half",
                tf.errors.InternalError,
                r"declared as float\{4\}, and the operation made float\{2\}",
            ),
            ("Throws", tf.errors.InternalError, "cannot be built: poplar_error: out of ideas"),
            ("Unmapped", tf.errors.InternalError, "invalid_tile_mapping: .*'lost'"),
            ("TooLarge", tf.errors.ResourceExhaustedError, "Out of memory: .*Tile 0"),
        ],
    )
    def test_faults_of_libraries_are_named(self, user_op, library, where, op_name, error, message):
        with pytest.raises(error, match=message) as caught:
            RUNNERS[where](
                lambda x: user_op(op_name, [x], [4], name="Mine", attributes="out of ideas"), [X]
            )
        assert op_name in str(caught.value)

    def test_faults_are_found_at_compilation(self, user_op):
        """The operation is in a branch that does not run."""

        def program(x):
            return tf.cond(x[0] < 0, lambda: user_op("Throws", [x], [4])[0], lambda: x)

        with pytest.raises(tf.errors.InternalError, match="cannot be built"):
            in_session(program, [np.abs(X)])

    @pytest.mark.parametrize("where", RUNNERS)
    def test_exception_of_a_vertex_is_named(self, user_op, library, where):
        message = f"VertexThrows\\) of {library} failed: .*Vertex 'Failing'"
        with pytest.raises(tf.errors.InternalError, match=message):
            RUNNERS[where](lambda x: user_op("VertexThrows", [x], []), [np.float32(1)])
        (result,) = RUNNERS[where](lambda x: user_op("VertexThrows", [x], []), [np.float32(-1)])
        assert result == -1

    def test_other_api_levels_are_refused(self, folder):
        for level in (0, 6):
            library = compiled("poplar_levels.cpp", folder / f"level{level}.so", f"-DLEVEL={level}")
            outs = {"output_types": [tf.float32], "output_shapes": [[4]]}
            message = f"Api level of module {library}: expected 5 .*received {level}"
            with pytest.raises(tf.errors.InternalError, match=message):
                custom_ops.precompiled_user_op([X, Y], library, outs=outs)

    @pytest.mark.parametrize("where", RUNNERS)
    def test_missing_codelets_are_named(self, library, where):
        outs = {"output_types": [tf.float32], "output_shapes": [[4]]}
        with pytest.raises(tf.errors.OpError, match=r"/nowhere/codelets\.gp"):
            RUNNERS[where](
                lambda x: custom_ops.precompiled_user_op(
                    [x, x], library, "/nowhere/codelets.gp", outs
                ),
                [X],
            )

    def test_type_that_poplar_lacks_is_named(self, user_op):
        x = tf.zeros([4], tf.bfloat16)
        with pytest.raises(tf.errors.InvalidArgumentError, match="bfloat16.*Cast it"):
            user_op("Same", [x], [4], dtype=tf.bfloat16)
