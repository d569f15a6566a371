"""Tests of `internal_ops`: prints to the standard error of a process, queues, counters."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu import ipu_outfeed_queue
from tensorflow_ipu.api import config, ipu_compiler, loops, scopes
from tensorflow_ipu.compiler import cache
from tensorflow_ipu.ops import internal_ops, pipelining_ops, replication_ops
from tensorflow_ipu.runtime import system
from tests.support.programs import replicas

# The three programs of the reference, section 18.14.4, and what else is to be printed. One
# process runs them all, because starting TensorFlow is most of the work. Each prints its results
# to the standard output, and a line to the standard error that tells its output from the next.
_PROGRAMS = """
import sys
import numpy as np
import tensorflow as tf
from tensorflow_ipu import config, ipu_compiler, ipu_strategy, loops, scopes
from tensorflow_ipu.ops import internal_ops, replication_ops
tf1 = tf.compat.v1

def configure(ipus):
    settings = config.IPUConfig()
    settings.auto_select_ipus = ipus
    settings.configure_ipu_system()

def begin(name):
    print("=== " + name, file=sys.stderr, flush=True)
    print("=== " + name, flush=True)

configure(1)

begin("returned")
with tf.Graph().as_default():
    def my_net(v):
        print_op = internal_ops.print_tensor(v)
        v = v + 1
        return v, print_op
    v = tf1.placeholder(np.float32, [2, 2])
    with scopes.ipu_scope("/device:IPU:0"):
        res = ipu_compiler.compile(my_net, inputs=[v])
    with tf1.Session() as session:
        print(session.run(res, {v: np.full([2, 2], 5)})[0].tolist())

begin("fetched")
with tf.Graph().as_default():
    with scopes.ipu_scope("/device:IPU:0"):
        pa = tf1.placeholder(np.float32, [2, 2], name="a")
        print_op = internal_ops.print_tensor(pa)
        x = pa + 1
    with tf1.Session() as session:
        print(session.run([x, print_op], feed_dict={pa: np.ones([2, 2])})[0].tolist())

begin("dependency")
with tf.Graph().as_default():
    with scopes.ipu_scope("/device:IPU:0"):
        pa = tf1.placeholder(np.float32, [2, 2], name="a")
        print_op = internal_ops.print_tensor(pa, name="mine")
        with tf.control_dependencies([print_op]):
            x = pa + 1
    with tf1.Session() as session:
        print(session.run(x, feed_dict={pa: np.full([2, 2], 3)}).tolist())

begin("loop")
with tf.Graph().as_default():
    def body(value):
        return value * 2.0, internal_ops.print_tensor(value, name="step")
    with scopes.ipu_scope("/device:IPU:0"):
        (result,) = ipu_compiler.compile(lambda: loops.repeat(4, body, [1.0]))
    with tf1.Session() as session:
        print(session.run(result))

begin("not returned")
with tf.Graph().as_default():
    def silent(value):
        internal_ops.print_tensor(value)
        return value + 1
    with scopes.ipu_scope("/device:IPU:0"):
        (result,) = ipu_compiler.compile(silent, [tf.constant(1.0)])
    with tf1.Session() as session:
        print(session.run(result))

begin("types")
with tf.Graph().as_default():
    values = [np.int32([1, -2]), np.array(True), np.float16([0.5]), np.zeros([0], np.float32)]
    with scopes.ipu_scope("/device:IPU:0"):
        result = ipu_compiler.compile(
            lambda *all: [internal_ops.print_tensor(v, name=f"v{i}") for i, v in enumerate(all)],
            values,
        )
    with tf1.Session() as session:
        session.run(result)

begin("large")
for value in [np.arange(20, dtype=np.int32), np.arange(40).reshape(2, 20) * 1000,
              np.arange(1001, dtype=np.int32), np.arange(1120).reshape(7, 8, 20)]:
    internal_ops.print_tensor(tf.constant(value, tf.int32), name="v")

begin("reals")
for value in [[1.0, -2.5], [1234.5, 0.25], [1e9, 1.0], [2.0**-20, 3.0], [0.0, 0.0],
              [float("nan"), 1.0, float("-inf")], 123456789.0, 99999.99]:
    internal_ops.print_tensor(tf.constant(value), name="v")
internal_ops.print_tensor(tf.constant(np.ones([2, 1, 2]), tf.float16), name="v")

begin("replicas")
configure(2)
with tf.Graph().as_default():
    with scopes.ipu_scope("/device:IPU:0"):
        result = ipu_compiler.compile(
            lambda: internal_ops.print_tensor(replication_ops.replication_index(), name="replica")
        )
    with tf1.Session() as session:
        session.run(result)
configure(1)

begin("function")
strategy = ipu_strategy.IPUStrategy()
with strategy.scope():
    @tf.function(jit_compile=True)
    def step(value):
        internal_ops.print_tensor(value, name="traced")
        return value + 1
    print(strategy.run(step, [tf.constant(7.0)]).numpy())

begin("eager")
internal_ops.print_tensor(tf.constant([1.5]), name="now")

begin("end")
"""


@pytest.fixture(scope="module")
def printed() -> dict[str, tuple[list[str], list[str]]]:
    """The lines of the standard output and standard error of each program."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAMS)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    output, errors = _sections(process.stdout), _sections(process.stderr)
    return {name: (output[name], errors[name]) for name in errors}


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("=== "):
            lines = sections.setdefault(line[4:], [])
        else:
            lines.append(line)
    return sections


Printed = dict[str, tuple[list[str], list[str]]]


def test_a_returned_operation_prints(printed: Printed) -> None:
    output, errors = printed["returned"]
    assert output == ["[[6.0, 6.0], [6.0, 6.0]]"]
    assert "".join(errors).count("5") == 4
    assert [line.split(": ")[-1] for line in errors] == [
        "[[5.0000000 5.0000000]",
        " [5.0000000 5.0000000]]",
    ]


def test_fetched_by_the_session(printed: Printed) -> None:
    output, errors = printed["fetched"]
    assert output == ["[[2.0, 2.0], [2.0, 2.0]]"]
    assert errors == ["a:0: [[1.0000000 1.0000000]", " [1.0000000 1.0000000]]"]


def test_a_control_dependency_prints(printed: Printed) -> None:
    output, errors = printed["dependency"]
    assert output == ["[[4.0, 4.0], [4.0, 4.0]]"]
    assert errors[0].startswith("mine: [[3.0000000 3.0000000]")


def test_every_iteration_of_a_loop_prints_in_order(printed: Printed) -> None:
    output, errors = printed["loop"]
    assert output == ["16.0"]
    assert errors == [f"step: {value}.0000000" for value in (1, 2, 4, 8)]


def test_not_printed_unless_the_operation_runs(printed: Printed) -> None:
    assert printed["not returned"] == (["2.0"], [])


def test_all_types_are_printed(printed: Printed) -> None:
    lines = sorted(printed["types"][1])
    assert lines == ["v0: [ 1 -2]", "v1: 1", "v2: [0.5000000]", "v3: []"]


def test_long_lines_are_split_and_large_tensors_summarized(printed: Printed) -> None:
    """The documents give the numbers: 75 characters, 1000 elements, 3 at each edge."""
    lines = printed["large"][1]
    assert lines[0] == "v: [" + " ".join(f"{value:2}" for value in range(20)) + "]"
    row = [f"{value:5}" for value in range(0, 20000, 1000)]
    assert lines[1:3] == ["v: [[" + " ".join(row[:12]), "  " + " ".join(row[12:]) + "]"]
    assert lines[5] == "v: [   0    1    2 ...  998  999 1000]"
    assert lines[6] == "v: [[[   0    1    2 ...   17   18   19]"
    # Three of seven matrices at each edge, of three and three rows each, between them dots.
    assert len(lines[6:]) == 6 * 7 + 1
    assert lines[9] == "  ..."
    assert lines[-1] == "  [1100 1101 1102 ... 1117 1118 1119]]]"


def test_real_numbers_have_eight_digits(printed: Printed) -> None:
    assert printed["reals"][1] == [
        "v: [ 1.0000000 -2.5000000]",
        "v: [1234.5000    0.2500]",
        "v: [1.0000000e+09 1.0000000e+00]",
        "v: [9.5367432e-07 3.0000000e+00]",
        "v: [0.0000000 0.0000000]",
        "v: [      nan 1.0000000      -inf]",
        "v: 1.2345679e+08",
        "v: 99999.992",
        "v: [[[1.0000000 1.0000000]]",
        " [[1.0000000 1.0000000]]]",
    ]


def test_every_replica_prints(printed: Printed) -> None:
    lines = [line for line in printed["replicas"][1] if not line.startswith("WARNING")]
    assert sorted(lines) == ["replica: 0", "replica: 1"]


def test_in_function_no_operation_has_to_be_returned(printed: Printed) -> None:
    assert printed["function"] == (["8.0"], ["traced: 7.0000000"])


def test_eager_tensors_are_printed(printed: Printed) -> None:
    assert printed["eager"][1] == ["now: [1.5000000]"]


class TestOperation:
    """The function's result."""

    @pytest.fixture(autouse=True)
    def graph(self) -> Iterator[None]:
        with tf.Graph().as_default():
            yield
        system.reset_ipu_configuration()

    def test_the_result_is_an_operation(self) -> None:
        assert isinstance(internal_ops.print_tensor(tf.constant(1.0)), tf.Operation)

    def test_the_op_has_the_given_name(self) -> None:
        assert internal_ops.print_tensor(tf.constant(1.0), name="mine").name == "mine"

    def test_takes_what_converts_to_a_tensor(self) -> None:
        with scopes.ipu_scope("/device:IPU:0"):
            result = ipu_compiler.compile(lambda: internal_ops.print_tensor(np.ones(2)[:0] > 0))
        assert isinstance(result, tf.Operation)

    def test_refuses_what_does_not(self) -> None:
        with pytest.raises((TypeError, ValueError)):
            internal_ops.print_tensor(object())


IN_SESSION = pytest.mark.parametrize("in_session", [False, True])
Identity = Callable[..., tf.Tensor]


@pytest.mark.parametrize(
    "function",
    [
        internal_ops.remap,
        internal_ops.remap_deduce,
        internal_ops.recompute,
        internal_ops.block_recompute,
    ],
)
@IN_SESSION
def test_identities_pass_values_and_gradients(function: Identity, in_session: bool) -> None:
    def program() -> list[tf.Tensor]:
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, name="mine")
            loss = tf.reduce_sum(y * y)
        return [y, tape.gradient(loss, x)]

    value, gradient = replicas.run(2, program, in_session)
    np.testing.assert_array_equal(value, [[1, 2]] * 2)
    np.testing.assert_array_equal(gradient, [[2, 4]] * 2)
    assert function(tf.constant(3, tf.int32)).numpy() == 3


class TestIterationCounter:
    """The number of the iteration, in every kind of loop."""

    @staticmethod
    def append(digits: Any) -> Any:
        """Puts the counter behind the digits of a number."""
        return digits * 10 + internal_ops.get_current_iteration_counter()

    @IN_SESSION
    @pytest.mark.parametrize("count", [1, 2])
    def test_repeat_counts_from_zero(self, count: int, in_session: bool) -> None:
        result = replicas.run(count, lambda: loops.repeat(4, self.append, [0]), in_session)
        assert result.tolist() == [123] * count

    @IN_SESSION
    def test_while_loop_counts_from_zero(self, in_session: bool) -> None:
        def program() -> Any:
            return loops.while_loop(lambda x: x < 1000, self.append, [7], maximum_iterations=9)

        assert replicas.run(1, program, in_session).tolist() == [7012]

    @IN_SESSION
    def test_loops_of_tensorflow_count_from_zero(self, in_session: bool) -> None:
        def program() -> Any:
            return tf.while_loop(lambda x: x < 1000, lambda x: [self.append(x)], [7])

        assert np.ravel(replicas.run(1, program, in_session)).tolist() == [7012]

    @IN_SESSION
    def test_the_innermost_loop_counts(self, in_session: bool) -> None:
        def body(x: tf.Tensor) -> tf.Tensor:
            before = self.append(x)
            return self.append(loops.repeat(2, self.append, [before]))

        result = replicas.run(1, lambda: loops.repeat(2, body, [0]), in_session)
        assert result.tolist() == [101011]  # 0 01 0, then 1 01 1

    @IN_SESSION
    def test_a_branch_knows_the_iteration(self, in_session: bool) -> None:
        def body(x: tf.Tensor) -> Any:
            return tf.cond(x > 0, lambda: self.append(x), lambda: self.append(x) + 5)

        result = replicas.run(1, lambda: loops.repeat(3, body, [0]), in_session)
        assert result.tolist() == [512]

    def test_a_condition_knows_the_iteration(self) -> None:
        def program() -> Any:
            def goes_on(x: tf.Tensor) -> tf.Tensor:
                return internal_ops.get_current_iteration_counter() < x

            return loops.while_loop(goes_on, lambda x: x - 1, [10])

        assert replicas.run(1, program).tolist() == [5]

    def test_function_called_in_two_loops_knows_each_iteration(self) -> None:
        @tf.function
        def helper(x: Any) -> Any:
            return self.append(x)

        @tf.function
        def outer(x: Any) -> Any:
            return helper(helper(x))

        def program() -> Any:
            x = tf.constant(0)
            for _ in tf.range(2):
                x = outer(x)
            for _ in tf.range(5, 8):
                x = helper(x)
            return x

        assert replicas.run(1, program).tolist() == [11012]

    def test_gradients_know_the_number(self) -> None:
        def program() -> Any:
            x = tf.constant(2.0)

            def body(y: tf.Tensor) -> tf.Tensor:
                number = internal_ops.get_current_iteration_counter()
                return y * (tf.cast(number, tf.float32) + 1)

            with tf.GradientTape() as tape:
                tape.watch(x)
                y = loops.repeat(4, body, [x])
            return tape.gradient(y, x)

        assert replicas.run(1, program).tolist() == [24]

    @pytest.mark.parametrize("count", [4, 8])
    def test_stages_of_a_pipeline_count_mini_batches(self, count: int) -> None:
        queue = ipu_outfeed_queue.IPUOutfeedQueue()

        def first() -> Any:
            return internal_ops.get_current_iteration_counter()

        def second(number: Any) -> Any:
            return number, internal_ops.get_current_iteration_counter()

        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            with scopes.ipu_scope("/device:IPU:0"):
                launch = ipu_compiler.compile(
                    lambda: pipelining_ops.pipeline(
                        [first, second], count, repeat_count=2, outfeed_queue=queue
                    )
                )
            dequeue = queue.dequeue()
            replicas.configure(2)
            session.run(launch)
            for numbers in session.run(dequeue):
                assert np.ravel(numbers).tolist() == [*range(count)] * 2

    def test_outside_of_loops_the_counter_is_refused(self) -> None:
        with pytest.raises(ValueError, match="needs a loop around it"):
            internal_ops.get_current_iteration_counter()
        with pytest.raises(ValueError, match="needs a loop around it"):
            replicas.run(1, internal_ops.get_current_iteration_counter)
        with pytest.raises(ValueError, match="needs a loop around it"):
            replicas.run(1, internal_ops.get_current_iteration_counter, in_session=True)


def delayed(depth: int, iterations: int, x: Any, **options: Any) -> Any:
    """Runs a loop whose values, x times the number of the iteration, go through a queue."""

    def body(stacked: tf.Tensor) -> tf.Tensor:
        number = internal_ops.get_current_iteration_counter()
        value = tf.cast(number + 1, x.dtype) * x
        late = internal_ops.fifo(value, depth, **options)
        return tf.tensor_scatter_nd_update(stacked, [[number]], [late])

    return loops.repeat(iterations, body, [tf.zeros([iterations, *x.shape], x.dtype)])


class TestFifo:
    """A queue in a loop."""

    @IN_SESSION
    @pytest.mark.parametrize("depth", [-1, 0, 1, 2, 3, 9])
    def test_values_come_out_depth_iterations_later(self, depth: int, in_session: bool) -> None:
        result = replicas.run(1, lambda: delayed(depth, 7, tf.constant([1.0, 10.0])), in_session)
        expected = [max(i - max(depth, 0), 0) * np.array([1, 10]) for i in range(1, 8)]
        np.testing.assert_array_equal(result[0], expected)

    @pytest.mark.parametrize("dtype", ["float16", "int32", "int8", "int64"])
    def test_scalars_of_all_types_are_delayed(self, dtype: str) -> None:
        result = replicas.run(1, lambda: delayed(2, 5, tf.constant(3, dtype)))
        assert result[0].tolist() == [0, 0, 3, 6, 9]

    def test_booleans_are_delayed(self) -> None:
        def body(_: tf.Tensor) -> tf.Tensor:
            number = internal_ops.get_current_iteration_counter()
            return internal_ops.fifo(tf.equal(number, 1), 1)

        result = replicas.run(1, lambda: [loops.repeat(n, body, [False]) for n in (2, 3)])
        assert np.ravel(result).tolist() == [False, True]

    @IN_SESSION
    def test_each_replica_has_its_own(self, in_session: bool) -> None:
        def program() -> Any:
            own = tf.cast(replication_ops.replication_index() + 1, tf.float32)
            return delayed(1, 3, tf.reshape(own, []))

        result = replicas.run(2, program, in_session)
        assert result.tolist() == [[0, 1, 2], [0, 2, 4]]

    def test_every_call_is_a_queue_of_its_own(self) -> None:
        def body(x: tf.Tensor, *_: Any) -> Any:
            chained = internal_ops.fifo(internal_ops.fifo(x, 1), 2)
            return x + 1, chained, internal_ops.fifo(x * 10, 1)

        result = replicas.run(1, lambda: loops.repeat(6, body, [1, 0, 0]))
        assert np.ravel(result).tolist() == [7, 3, 50]

    def test_a_run_starts_with_zeros(self) -> None:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            replicas.configure(1)
            with scopes.ipu_scope("/device:IPU:0"):
                (launch,) = ipu_compiler.compile(lambda: delayed(1, 2, tf.constant(4)))
            for _ in range(2):
                assert session.run(launch).tolist() == [0, 4]

    @pytest.mark.parametrize("offload", [False, True])
    @pytest.mark.parametrize("least", [64, 1000])
    def test_offload_puts_the_queue_in_remote_memory(self, offload: bool, least: int) -> None:
        options = config.IPUConfig()
        options.auto_select_ipus = 1
        options.optimizations.minimum_remote_tensor_size = least
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            options.configure_ipu_system()
            with scopes.ipu_scope("/device:IPU:0"):
                (launch,) = ipu_compiler.compile(
                    lambda: delayed(2, 4, tf.ones([16]), offload=offload)
                )
            result = session.run(launch)
        np.testing.assert_array_equal(result[:, 0], [0, 0, 1, 2])
        (executable,) = cache.executables()
        (queue,) = [record for record in executable.variables if record.shape == (2, 16)]
        assert queue.role == "other"
        assert queue.memory == ("remote" if offload and least == 64 else "in-processor")

    def test_no_gradient_passes(self) -> None:
        def program() -> tf.Tensor:
            x = tf.constant(2.0)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x * x + internal_ops.fifo(x * 100, 1)
            return tape.gradient(y, x)

        assert replicas.run(1, program).tolist() == [4]

    def test_less_than_one_gives_the_tensor_itself(self) -> None:
        x = tf.constant([1.0])
        assert internal_ops.fifo(x, 0) is x

    @pytest.mark.parametrize("depth", [1.5, None, True, "2"])
    def test_a_depth_that_is_no_int_is_refused(self, depth: Any) -> None:
        with pytest.raises(TypeError, match="The depth of fifo must be an int"):
            internal_ops.fifo(tf.constant(1.0), depth)

    def test_an_unknown_shape_is_refused(self) -> None:
        with tf.Graph().as_default():
            x = tf.compat.v1.placeholder(tf.float32, [None])
            with pytest.raises(ValueError, match="fifo needs a tensor of known shape"):
                internal_ops.fifo(x, 1)

    def test_outside_of_a_program_a_fifo_is_refused(self) -> None:
        with pytest.raises(tf.errors.FailedPreconditionError, match="in a run of an IPU program"):
            internal_ops.fifo(tf.constant(1.0), 1)
