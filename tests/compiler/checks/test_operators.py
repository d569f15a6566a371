"""Messages about ops that run here and would not compile for the chip."""

from __future__ import annotations

import linecache

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu import ipu_infeed_queue
from tensorflow_ipu.api import ipu_compiler, loops, scopes
from tensorflow_ipu.compiler.analysis import constants
from tensorflow_ipu.compiler.checks import operators
from tensorflow_ipu.compiler.passes import drop_ops
from tensorflow_ipu.distributed import ipu_strategy
from tests.support.programs import replicas
from tests.support.programs.compiled_programs import default_target, program_of, scalar_target

# --- Kernels of the device: ops without one are refused by name, with advice ---

VECTOR = tf.TensorSpec([4], tf.float32)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x: tf.cast(x, tf.float64) + 1.0, "AddV2"),
        (lambda x: tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64))), "FFT"),
        (lambda x: tf.strings.as_string(x), "AsString"),
        (lambda x: tf.py_function(lambda y: y, [x], tf.float32), "EagerPyFunc"),
        (lambda x: tf.linalg.qr(tf.reshape(x, [2, 2]))[0], "Qr"),
    ],
)
def test_what_the_device_lacks_is_named(function, op):
    program = program_of(function, VECTOR)
    with pytest.raises(tf.errors.InvalidArgumentError, match="unsupported operations") as error:
        operators.check_kernels(program, default_target())
    assert f"({op})" in str(error.value)
    assert "no supported kernel for IPU devices" in str(error.value)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.nn.depth_to_space(tf.reshape(x, [1, 1, 1, 4]), 2),  # by its data format
        lambda x: tf.gather_nd(x, [[1]]),  # by what happens to bad indices, since TensorFlow 2.18
    ],
)
def test_kernels_chosen_by_more_than_types_are_known(function):
    operators.check_kernels(program_of(function, VECTOR), default_target())


def test_what_to_print_with_is_named():
    def body(x):
        tf.print("x is", x)
        return x + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        operators.check_kernels(program_of(body, VECTOR), default_target())
    text = str(error.value)
    assert "(PrintV2): the device has no strings (print tensors with ipu.internal_ops" in text
    assert "ipu.internal_ops.print_tensor" in text


def test_lacking_types_do_not_select_another_op():
    """The device has sums of segments: advice for programs of fixed shapes is beside the point."""
    program = program_of(lambda x: tf.math.segment_sum(tf.cast(x, tf.float64), [0] * 4), VECTOR)
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        operators.check_kernels(program, default_target())
    assert "(SegmentSum): no supported kernel for IPU devices" in str(error.value)
    assert "unsorted_segment_sum" not in str(error.value)


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("EagerPyFunc", "it calls Python"),
        ("StringUpper", "the device has no strings"),
        ("FFT", "no supported kernel"),
        ("MatMul", None),
    ],
)
def test_ops_refused_whatever_their_types_are_known(op, reason):
    found = operators.refused_whatever_types(op_def_registry.get(op))
    assert found == reason or reason in found


def test_host_ops_outside_compilation_are_accepted():
    program = program_of(lambda x: tf.py_function(lambda y: y, [x], tf.float32), VECTOR)
    for _, node in program.nodes():
        node.attr["_xla_outside_compilation"].s = b"outside"
    operators.check_kernels(program, default_target())


# --- Messages about ops that run here and would not compile for the chip ---

# The reference is XLA, which compiles the same functions for the CPU.

VECTOR_OPERATORS = tf.TensorSpec([6], tf.float32)
VALUE = np.arange(1, 7).astype(np.float32)


def findings(function, *specs, known=()):
    """Returns (op, reason) of all ops of a function that the chip could not run."""
    program = program_of(function, *specs)
    for one_pass in (drop_ops.prune, drop_ops.drop_checks, drop_ops.prune):
        one_pass(program, scalar_target())
    found = operators.find(program, constants.Constants(program, known))
    return [(finding.node.op, finding.reason) for finding in found]


def _compile_with_xla(function):
    """Lowers a function to XLA's form of programs, as far as the IPU's would be too."""
    tf.function(function, jit_compile=True).experimental_get_compiler_ir(VALUE)(stage="hlo")


def _number(x):
    """A number that is known only when the program runs; XLA cannot look it up in an argument."""
    return tf.cast(tf.random.uniform([], 1.0, 3.0) + 0 * tf.reduce_sum(x), tf.int32)


def _gradient(function):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = function(x)
        return tape.gradient(result, x)

    return gradient


def _loop(x, step, carried):
    """Adds the result of `step` on a loop variable, three times."""

    def body(index, total, value):
        return index + 1, total + tf.reduce_sum(tf.cast(step(value), tf.float32)), value

    return tf.while_loop(lambda i, *_: i < 3, body, (0, x, carried))[1]


def _counting_loop(x):
    def body(index, total, count):
        return index + 1, total + tf.reduce_sum(tf.cast(tf.range(count), tf.float32)), count + 1

    return tf.while_loop(lambda i, *_: i < 3, body, (0, x, 2))[1]


def _product_of_elements(x):
    product = x[0]
    for element in x:
        product *= element
    return product


def _squared_until_large(x):
    while tf.reduce_sum(x) < 1e3:
        x = x * x + 1.0
    return x


def _rows(x, count):
    return tf.function(lambda x, count: tf.reshape(x, [count, -1]))(x, count)


def _doubled(x):
    return tf.map_fn(lambda element: element * element, x)


FIXED = {
    "range of a shape": lambda x: tf.range(tf.shape(x)[0]),
    "element by index": lambda x: x[_number(x)],
    "column by index": lambda x: tf.reshape(x, [2, 3])[:, _number(x) - 1],
    "slice of a size": lambda x: tf.slice(x, [_number(x)], [2]),
    "gradient of a slice": _gradient(lambda x: tf.slice(x, [_number(x)], [2])),
    "gradient of an element": _gradient(lambda x: x[_number(x)]),
    "invariant of a loop": lambda x: _loop(x, tf.range, tf.size(x)),
    "call with a constant": lambda x: _rows(x, tf.constant(2)),
    "branches": lambda x: tf.cond(x[0] > 0, lambda: tf.reshape(x, tf.shape(x)), lambda: -x),
    "gradient of branches": _gradient(lambda x: tf.cond(x[0] > 0, lambda: x * x, lambda: x)),
    "broadcast": _gradient(lambda x: x * tf.reshape(x, [6, 1])),
    "scan": _gradient(lambda x: tf.scan(lambda a, b: a * b, x)),
    "loop over elements": _gradient(_product_of_elements),
    "nested loops": _gradient(lambda x: tf.map_fn(lambda a: tf.reduce_sum(_doubled(a * x)), x)),
    "list of a size": lambda x: tf.TensorArray(tf.float32, 6).unstack(x).stack(),
    "mask that is constant": lambda x: tf.boolean_mask(x, [True, False, True, True, False, True]),
    "cholesky": lambda x: tf.linalg.cholesky(tf.eye(2) + 0 * x[0]),
}

NOT_FIXED = {
    "Range": lambda x: tf.range(_number(x)),
    "Fill": lambda x: tf.fill([_number(x)], 1.0),
    "Reshape": lambda x: _rows(x, _number(x)),
    "Tile": lambda x: tf.tile(x, [_number(x)]),
    "OneHot": lambda x: tf.one_hot([1, 2], _number(x)),
    "Pad": lambda x: tf.pad(x, [[_number(x), 1]]),
    "Cumsum": lambda x: tf.cumsum(x, axis=_number(x) * 0),
    "ConcatV2": lambda x: tf.concat([x, x], _number(x) * 0),
    "UnsortedSegmentSum": lambda x: tf.math.unsorted_segment_sum(x, [0, 1] * 3, _number(x)),
    "RandomUniform": lambda x: tf.random.uniform([_number(x)]),
    "EmptyTensorList": _gradient(_squared_until_large),
    "Lu": lambda x: tf.linalg.lu(tf.reshape(x, [2, 3])[:2, :2])[0],
    "SegmentSum": lambda x: tf.math.segment_sum(x, [0, 0, 1, 1, 2, 2]),
}

# XLA compiles these for a CPU: tensors have a largest size there, or it has more kernels by now.
MORE_THAN_THE_IPU = {
    "Where": lambda x: tf.boolean_mask(x, x > 2),
    "Unique": lambda x: tf.unique(x)[0],
    "DynamicPartition": lambda x: tf.dynamic_partition(x, tf.cast(x > 2, tf.int32), 2)[0],
    "StridedSlice": lambda x: x[: _number(x)],
    "Slice": lambda x: tf.slice(x, [_number(x)], [-1]),
    "DenseBincount": lambda x: tf.math.bincount(tf.cast(x, tf.int32)),
    "Svd": lambda x: tf.linalg.svd(tf.reshape(x, [2, 3]))[0],
    "SelfAdjointEigV2": lambda x: tf.linalg.eigh(tf.reshape(x, [2, 3])[:, :2])[0],
    "MatrixInverse": lambda x: tf.linalg.inv(tf.reshape(x, [2, 3])[:, :2]),
}


@pytest.mark.parametrize("name", FIXED)
def test_programs_of_fixed_shapes_are_accepted(name):
    assert findings(FIXED[name], VECTOR_OPERATORS) == []
    _compile_with_xla(FIXED[name])


@pytest.mark.parametrize("op", NOT_FIXED)
def test_what_xla_cannot_compile_is_found(op):
    assert op in dict(findings(NOT_FIXED[op], VECTOR_OPERATORS))
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        _compile_with_xla(NOT_FIXED[op])


@pytest.mark.parametrize("op", MORE_THAN_THE_IPU)
def test_what_only_the_ipu_lacks_is_found(op):
    assert [found for found, _ in findings(MORE_THAN_THE_IPU[op], VECTOR_OPERATORS)] == [op]


def test_a_number_that_a_loop_changes_is_found():
    ((op, reason),) = findings(_counting_loop, VECTOR_OPERATORS)
    assert op == "Range"
    assert "`limit` has to be known" in reason and "while (StatelessWhile)" in reason


def test_a_list_that_grows_is_found():
    def collect(x):
        array = tf.TensorArray(tf.float32, 0, dynamic_size=True)
        for index in tf.range(6):
            array = array.write(index, x[index])
        return array.stack()

    ((op, reason),) = findings(collect, VECTOR_OPERATORS)
    assert op == "TensorListSetItem"
    assert "grows" in reason


@pytest.mark.parametrize(
    ("function", "ops"),
    [
        (lambda x: tf.sparse.to_dense(tf.sparse.from_dense(x)), {"Where"}),
        (
            lambda x: tf.sparse.sparse_dense_matmul(tf.sparse.from_dense(x[None]), x[:, None]),
            {"Where", "SparseTensorDenseMatMul"},
        ),
        (
            lambda x: tf.RaggedTensor.from_row_splits(x, [0, 2, 6]).to_tensor(),
            {"RaggedTensorToTensor"},
        ),
        (
            lambda x: tf.nn.ctc_greedy_decoder(tf.reshape(x, [3, 1, 2]), [3])[0][0].values,
            {"CTCGreedyDecoder"},
        ),
        (lambda x: tf.image.non_max_suppression(x[None, :4], x[:1], 1), {"NonMaxSuppressionV3"}),
        (lambda x: tf.unique_with_counts(x).count, {"UniqueWithCounts"}),
        (lambda x: tf.repeat(x, tf.cast(x, tf.int32)), {"Where"}),
    ],
)
def test_ops_of_variable_results_are_found(function, ops):
    assert ops <= set(dict(findings(function, VECTOR_OPERATORS)))


def test_an_edit_distance_is_found():
    def distance(x):
        sparse = tf.sparse.from_dense(x)
        return tf.edit_distance(sparse, sparse)

    assert "EditDistance" in dict(findings(distance, tf.TensorSpec([2, 3], tf.int64)))


def test_arguments_are_known_where_they_are_constants():
    def numbers(count):
        return tf.range(count)

    scalar = tf.TensorSpec([], tf.int32)
    assert "the argument count of the program" in dict(findings(numbers, scalar))["Range"]
    assert findings(numbers, scalar, known=[0]) == []


def test_variables_are_not_known():
    count = tf.Variable(3)
    assert "ReadVariableOp" in dict(findings(lambda: tf.range(count + 1)))["Range"]


# --- Tests of what a user sees of ops that run here and would not compile for the chip ---

tf1 = tf.compat.v1
VALUE_CHECK = np.arange(6).astype(np.float32)


def _run(function, *values, replica_count=1):
    replicas.configure(replica_count)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function), [tf.constant(value) for value in values])


def _masked_sum(x):
    return tf.reduce_sum(tf.boolean_mask(x, x > 2.0))  # the line of the mask


def _named_line(text):
    """The source of the line that a text begins with."""
    file, line = text.split()[0].split(":")
    assert file == "test_operators.py"
    return linecache.getline(__file__, int(line))


@pytest.mark.parametrize("replica_count", [1, 2])
def test_program_of_variable_shapes_runs_and_says_so(warnings, replica_count):
    assert _run(_masked_sum, VALUE_CHECK, replica_count=replica_count).numpy() == 12.0
    (text,) = warnings
    assert "# the line of the mask" in _named_line(text)
    assert "Where (boolean_mask/Where) runs here, and would not compile for the chip" in text
    assert "tf.where(condition, x, y)" in text
    assert "--operator_policy=raise" in text


def test_warning_appears_once_for_each_op_kind(warnings):
    def step(x):
        first, second = tf.boolean_mask(x, x > 1.0), tf.boolean_mask(x, x > 2.0)
        return tf.reduce_sum(first) + tf.reduce_sum(second) + tf.reduce_sum(tf.unique(x)[0])

    for _ in range(2):
        _run(step, VALUE_CHECK)
    _run(step, VALUE_CHECK[:5])  # another program of the same line
    assert [text.split()[2] for text in warnings] == ["Where", "Unique"]


def test_the_strict_policy_refuses_the_program(policy, warnings):
    policy("raise")
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        _run(_masked_sum, VALUE_CHECK)
    text = str(caught.value)
    assert "Detected unsupported operations when trying to compile graph" in text
    assert "--operator_policy=raise" in text
    assert "test_operators.py:" in text and "Where (boolean_mask/Where)" in text
    assert "What to do: use tf.where(condition, x, y)" in text
    assert warnings == []
    assert _run(lambda x: x * 2.0, VALUE_CHECK).numpy()[5] == 10.0


def test_the_strict_policy_says_how_many_there_are(policy):
    policy("raise")

    def step(x):
        whole = tf.cast(x, tf.int32)
        number = tf.reduce_max(whole)
        parts = [tf.unique(x)[0], tf.boolean_mask(x, x > 1.0), tf.range(number)]
        parts += [tf.fill([number], 1), tf.math.bincount(whole), tf.one_hot(0, number)]
        return sum(tf.reduce_sum(tf.cast(part, tf.float32)) for part in parts)

    with pytest.raises(tf.errors.InvalidArgumentError, match="There are 1 more"):
        _run(step, VALUE_CHECK)


def test_the_lenient_policy_is_silent(policy, warnings):
    policy("allow")
    assert _run(_masked_sum, VALUE_CHECK).numpy() == 12.0
    assert warnings == []


def test_what_the_host_runs_is_not_mentioned(policy):
    policy("raise")

    def step(x):
        with scopes.outside_compilation_scope():
            kept = tf.reduce_sum(tf.boolean_mask(x, x > 2.0))
        return kept * 2.0

    assert _run(step, VALUE_CHECK).numpy() == 24.0
    assert _run(step, VALUE_CHECK, replica_count=2).numpy() == 24.0


def test_what_nothing_uses_is_not_mentioned(policy):
    policy("raise")

    def computation(x):
        tf.boolean_mask(x, x > 2.0)
        return x * 2.0

    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(computation, [tf.constant(VALUE_CHECK)])
        assert session.run(result)[5] == 10.0


def test_constants_of_graph_are_known_to_program(policy):
    """Those that are passed in, and those that are captured."""
    policy("raise")
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        shape = tf.constant([2, 3])

        def computation(x, count):
            return tf.reshape(x, shape), tf.range(count)

        with scopes.ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(computation, [tf.constant(VALUE_CHECK), 4])
        matrix, numbers = session.run(results)
    assert matrix.shape == (2, 3)
    assert list(numbers) == [0, 1, 2, 3]


@pytest.mark.parametrize("value", [VALUE_CHECK, np.int32([1, 2, 2])])
def test_data_that_is_constant_in_graph_is_data(warnings, value):
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(lambda x: tf.unique(x)[0], [tf.constant(value)])
        assert len(session.run(result)) == len(set(value))
    (text,) = warnings
    assert "Unique (Unique)" in text


def test_eager_compilation_knows_its_inputs(policy):
    policy("raise")
    replicas.configure(1)
    with scopes.ipu_scope("/device:IPU:0"):
        (numbers,) = ipu_compiler.compile(tf.range, [4])
    assert list(numbers) == [0, 1, 2, 3]


def test_a_number_from_an_infeed_is_not_known(policy):
    policy("raise")
    replicas.configure(1)
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensors(3).repeat())

        def body(total, count):
            return total + tf.reduce_sum(tf.range(count))

        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(lambda: loops.repeat(2, body, [0], queue))
        session.run(queue.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="IpuInfeedDequeue"):
            session.run(result)


def test_keras_model_with_a_recurrent_layer_is_accepted(policy):
    policy("raise")
    replicas.configure(1)
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input([4]),
                tf.keras.layers.Reshape([2, 2]),
                tf.keras.layers.LSTM(3),
                tf.keras.layers.Dropout(0.5),
                tf.keras.layers.Dense(2, activation="softmax"),
            ]
        )
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(np.ones([8, 4], np.float32), np.ones([8]), batch_size=4, verbose=0)
        assert model.predict(np.ones([4, 4], np.float32), batch_size=4, verbose=0).shape == (4, 2)
