"""Floating-point behaviour in programs: overflow, traps, stochastic rounding, partials."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import ipu_compiler, scopes, utils
from tensorflow_ipu.api.config import IPUConfig, StochasticRoundingBehaviour
from tensorflow_ipu.configs import flags
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedQueue
from tensorflow_ipu.ops import cross_replica_ops, replication_ops
from tensorflow_ipu.runtime import native, system

tf1 = tf.compat.v1
_INF, _NAN = np.inf, np.nan
_MAX = 65504.0
_MANY = 1_000_000


def _configure(ipus: int = 1, partials: str | None = None, stable: bool = False, **fp: Any) -> None:
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.experimental.enable_prng_stability = stable
    if partials is not None:
        config.matmuls.poplar_options = {"partialsType": partials}
        config.convolutions.poplar_options = {"partialsType": partials}
    for name, value in fp.items():
        setattr(config.floating_point_behaviour, name, value)
    config.configure_ipu_system()


def _run(function: Callable[..., Any], *args: Any) -> Any:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        results = strategy.run(tf.function(function, jit_compile=True), args)
    return tf.nest.map_structure(lambda tensor: tensor.numpy(), results)


def _half(values: Any) -> tf.Tensor:
    return tf.constant(values, tf.float16)


# What each op makes of its arguments without `nanoo`; None stands for an overflow.
_OVERFLOWS = {
    "add": (lambda x: x + x, [6e4, -6e4, 1.0, _INF, _NAN], [None, None, 2.0, _INF, _NAN]),
    "sum": (lambda x: tf.reduce_sum(x), [6e4, 6e4, -6e4, -6e4, 1.0], 1.0),
    "large sum": (lambda x: tf.reduce_sum(x), [6e4, 6e4], None),
    "square": (tf.square, [300.0, -300.0, 3.0], [None, None, 9.0]),
    "exp": (tf.exp, [12.0, 100.0, _INF, 0.0], [None, None, _INF, 1.0]),
    "power": (lambda x: tf.pow(x, _half(20.0)), [1e3, 1.0, _INF, 0.0], [None, 1.0, _INF, 0.0]),
    "power of zero": (lambda x: tf.pow(x, _half(-1.0)), [0.0, 2.0], [_INF, 0.5]),
    "reciprocal": (lambda x: 1 / x, [0.0, 1e-6, 2.0], [_NAN, None, 0.5]),
    "division": (lambda x: x / x[::-1], [1e4, 3.0, 1e4, 0.0], [_NAN, 3e-4, 3334.0, 0.0]),
    "division of infinity": (lambda x: x / tf.abs(x[::-1]), [_INF, 0.0], [_INF, 0.0]),
    "logarithm": (tf.math.log, [0.0, 1.0], [-_INF, 0.0]),
    "cast": (lambda x: tf.cast(tf.cast(x, tf.float32) * 2.0, tf.float16), [6e4], [None]),
    "product": (lambda x: tf.reduce_prod(x), [6e4] * 9, None),
    "matmul": (lambda x: tf.linalg.matvec(x[None], x), [300.0, 1.0], [None]),
    "scale": (lambda x: x * _half([[2.0], [1.0]]), [4e4, _INF], [[None, _INF], [4e4, _INF]]),
}


@pytest.mark.parametrize("nanoo", [False, True])
@pytest.mark.parametrize("name", _OVERFLOWS)
def test_float16_overflow_gives_nan_or_the_largest_number(name: str, nanoo: bool) -> None:
    function, values, expected = _OVERFLOWS[name]
    _configure(nanoo=nanoo)
    result = _run(function, _half(values))
    flat = np.ravel(np.array(expected, object))
    signs = np.sign(np.array(values, float)) if name == "add" else np.ones(flat.size)
    overflow = [_NAN if nanoo else sign * _MAX for sign in signs]
    wanted = [o if e is None else e for o, e in zip(overflow, flat)]
    np.testing.assert_array_equal(result.ravel().astype(float), np.float16(wanted).astype(float))
    assert result.dtype == np.float16


@pytest.mark.parametrize("nanoo", [False, True])
def test_float16_values_round_alike_in_long_tensors(nanoo: bool) -> None:
    _configure(nanoo=nanoo)
    # Neighbours of one kind, then of different kinds.
    values = np.arange(2**16).astype(np.uint16).view(np.float16)
    values = np.concatenate([values, np.random.default_rng(0).permutation(values)])
    with np.errstate(all="ignore"):
        expected = values + values
    overflow = np.isinf(expected) & np.isfinite(values)
    expected[overflow] = _NAN if nanoo else np.copysign(_MAX, values[overflow])
    np.testing.assert_array_equal(_run(lambda x: x + x, _half(values)), expected)


def test_each_op_is_rounded_once_to_the_nearest() -> None:
    _configure()
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=4099).astype(np.float16) for _ in range(2))
    got = _run(lambda a, b: (a * b + a, tf.sqrt(tf.abs(a)), a / b), _half(x), _half(y))
    product = (x.astype(np.float32) * y.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(got[0], product + x)
    np.testing.assert_array_equal(got[1], np.sqrt(np.abs(x)))
    np.testing.assert_array_equal(got[2], x / y)


# Op, argument, event and name of the op in the message.
_TRAPS = {
    "inv": (tf.math.log, [-1.0, 1.0], "invalid operation", "Log"),
    "inv of NaN": (lambda x: x + 1.0, [_NAN], "invalid operation", "add"),
    "inv of zeros": (lambda x: x / x, [0.0], "invalid operation", "truediv"),
    "div0": (lambda x: 1.0 / x, [1.0, 0.0], "division by zero", "truediv"),
    "div0 of log": (tf.math.log, [0.0], "division by zero", "Log"),
    "oflo": (tf.exp, [1e3], "overflow", "Exp"),
    "oflo of sum": (lambda x: tf.reduce_sum(x * 60.0), [1e3, 1e38], "overflow", "(mul|Sum)"),
}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
@pytest.mark.parametrize("name", _TRAPS)
def test_traps_end_the_program_and_name_the_op(name: str, dtype: tf.DType) -> None:
    function, values, event, op = _TRAPS[name]
    if dtype == tf.float16:
        values = np.clip(values, -_MAX, _MAX)
    argument = tf.constant(values, dtype)
    trap = name.split()[0]
    others = {other: True for other in ("inv", "div0", "oflo") if other != trap}
    for options in ({}, others):
        _configure(**options)
        _run(function, argument)  # goes on without an error
    for options in ({trap: True}, {"set_all": True}):
        _configure(**options)
        with pytest.raises(tf.errors.InternalError, match=f"{event} in {op}") as info:
            _run(function, argument)
        for words in _TRAP_WORDS:
            assert words in info.value.message


# Programs look for these.
_TRAP_WORDS = (
    "[Poplar][Execute engine] application_runtime_error: [Recovery action: IPU_RESET] "
    "Tiles in excepted state",
    "IPU will be reset the next time a program is executed",
)


# Float, type of integers, value that fits, values that do not.
_CASTS = [
    (tf.float16, tf.int32, [-_MAX, _MAX], [_NAN, _INF]),
    (tf.float32, tf.int32, [-(2.0**31), 2.0**31 - 128], [_NAN, -_INF, 2.0**31]),
    (tf.float16, tf.int8, [-128.9, 127.9], [128.0, -129.0]),
    (tf.float32, tf.uint8, [-0.5, 255.5], [256.0, -1.0]),
]


@pytest.mark.parametrize(("floating", "integer", "fitting", "others"), _CASTS)
def test_casts_to_integers_trap_invalid_operations(
    floating: tf.DType, integer: tf.DType, fitting: list[float], others: list[float]
) -> None:
    cast = tf.function(lambda x: tf.cast(x, integer), jit_compile=True)
    _configure(inv=True)
    got = _run(cast, tf.constant(fitting, floating))
    np.testing.assert_array_equal(got, np.trunc(np.array(fitting)).astype(integer.as_numpy_dtype))
    for value in others:
        with pytest.raises(tf.errors.InternalError, match="invalid operation in Cast") as info:
            _run(cast, tf.constant([fitting[0], value], floating))
        for words in (*_TRAP_WORDS, r"as element [1]", f"for the type {integer.name}"):
            assert words in info.value.message
    # The operand may be the result of arithmetic.
    with pytest.raises(tf.errors.InternalError, match="invalid operation in Cast"):
        _run(lambda x: tf.cast(tf.maximum(x, x) + 0.0, integer), tf.constant(others[1:], floating))


def test_without_a_trap_no_number_is_least_integer() -> None:
    _configure(oflo=True, div0=True)
    assert _run(lambda x: tf.cast(x, tf.int32), _half(_NAN)) == -(2**31)


def test_infinite_operands_are_no_event() -> None:
    _configure(oflo=True, div0=True)
    result = _run(lambda x: tf.reduce_max(tf.exp(x) * 2.0 + tf.math.log(x)), _half([_INF, 1.0]))
    assert result == _INF


def test_traps_work_in_a_loop_and_a_branch() -> None:
    _configure(oflo=True)

    def program(x: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(last):
            if x > 1000.0:
                x = tf.square(x, name="grown")
            else:
                x = x * 2.0
        return x

    assert _run(program, _half(1.0), tf.constant(10)) == 1024.0
    with pytest.raises(tf.errors.InternalError, match=r"overflow in \S*grown \(Square\)"):
        _run(program, _half(1.0), tf.constant(11))
    assert _run(program, _half(1.0), tf.constant(3)) == 8.0  # the device goes on


def test_a_trap_names_the_replica() -> None:
    _configure(2, div0=True)

    def program() -> tf.Tensor:
        return 1.0 / tf.cast(1 - replication_ops.replication_index(), tf.float32)

    with pytest.raises(tf.errors.InternalError, match="on replica 1: division by zero in truediv"):
        _run(program)


def test_traps_work_in_a_session() -> None:
    _configure(oflo=True)
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [2])
        with scopes.ipu_scope("/device:IPU:0"):
            compiled = ipu_compiler.compile(lambda y: tf.exp(y, name="too_large"), [x])
        with tf1.Session() as session:
            session.run(compiled, {x: [1.0, 2.0]})
            with pytest.raises(tf.errors.InternalError, match="overflow in too_large"):
                session.run(compiled, {x: [1.0, 200.0]})


def test_the_ipu_model_has_the_default_behavior_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flags._reset_for_tests()
    monkeypatch.setenv(flags.VARIABLE, "--use_ipu_model")
    try:
        _configure(set_all=True)
        assert "floating_point_behaviour is not supported on the IPU model" in caplog.text
        assert _run(tf.square, _half(300.0)) == _INF
        assert _run(tf.exp, _half(1e3)) == _INF
        assert _run(lambda x: x / 0.0, _half(1.0)) == _INF

        def rounded() -> tf.Tensor:
            with scopes.stochastic_rounding(True):
                return _thirds()

        assert len(np.unique(_run(rounded))) == 1
    finally:
        system.reset_ipu_configuration()
        flags._reset_for_tests()


# Stochastic rounding.

# A normal value, a negative one, a subnormal one, one near the largest subnormal, a tiny one.
_ROUNDED = (1 / 3, -12.345, 3.3e-6, 6.1e-5, 2e-8)


@pytest.mark.parametrize("value", _ROUNDED)
def test_stochastic_rounding_is_unbiased(value: float) -> None:
    _configure(esr=True)
    utils.reset_ipu_seed(1)
    exact = np.float32(value)
    result = _run(lambda x: tf.cast(x, tf.float16), tf.fill([_MANY], tf.constant(exact)))
    nearest = np.float16(exact)
    towards = np.float16(np.inf if nearest < exact else -np.inf)
    below, above = sorted([nearest, np.nextafter(nearest, towards)])
    assert set(np.unique(result)) == {below, above}  # both neighbours, and nothing else
    step = float(above) - float(below)
    up = (float(exact) - float(below)) / step
    deviation = step * np.sqrt(up * (1 - up) / _MANY)
    assert abs(result.astype(np.float64).mean() - float(exact)) < 3 * deviation


def test_what_float16_holds_is_never_changed_by_rounding() -> None:
    _configure(esr=StochasticRoundingBehaviour.ON)
    values = np.arange(65536, dtype=np.uint16).view(np.float16)
    result = _run(lambda x: tf.cast(tf.cast(x, tf.float32) * 1.0, tf.float16), _half(values))
    np.testing.assert_array_equal(result, values)


def test_elements_are_rounded_independently() -> None:
    _configure(esr=True)
    utils.reset_ipu_seed(2)
    up = _run(lambda x: x + 2.0**-12, _half(np.ones(_MANY))) > 1  # a quarter of a unit: 25 %
    assert abs(up.mean() - 0.25) < 3 * np.sqrt(0.25 * 0.75 / _MANY)
    for lag in (1, 2, 3, 64):
        both = np.mean(up[lag:] & up[:-lag])
        assert abs(both - 0.0625) < 4 * np.sqrt(0.0625 / _MANY)


def test_stochastic_rounding_overflows_as_configured() -> None:
    x = _half([300.0, -300.0])
    for nanoo, expected in ((False, [_MAX, -_MAX]), (True, [_NAN, _NAN])):
        _configure(esr=True, nanoo=nanoo)
        np.testing.assert_array_equal(_run(lambda y: y * tf.abs(y), x), np.float16(expected))


def _thirds() -> tf.Tensor:
    return tf.ones([1000], tf.float16) / _half(3.0)


def test_rounding_repeats_after_a_seed_and_varies_without() -> None:
    _configure(esr=True)
    program = tf.function(lambda: (_thirds(), _thirds()), jit_compile=True)
    strategy = ipu_strategy.IPUStrategy()
    runs = []
    with strategy.scope():
        for _ in range(2):
            utils.reset_ipu_seed(7)
            runs.append([strategy.run(program)[i].numpy() for _ in range(2) for i in range(2)])
    for first, second in zip(*runs):
        np.testing.assert_array_equal(first, second)
    assert np.any(runs[0][0] != runs[0][1])  # two ops
    assert np.any(runs[0][0] != runs[0][2])  # two executions


def test_rounding_varies_over_the_iterations_of_a_loop() -> None:
    _configure(esr=True)

    def program() -> tf.Tensor:
        total = tf.zeros([1000], tf.float16)
        for _ in tf.range(500):
            total += _half(2.0**-12 + 2.0**-13)
        return total

    result = _run(program)
    # Rounded to nearest, sums stop growing at 2^-2: there a unit of the last place is 2^-12.
    assert abs(result.astype(np.float64).mean() - 500 * (2.0**-12 + 2.0**-13)) < 1e-4
    _configure()
    assert len(np.unique(_run(program))) == 1


def _of_replicas(function: Callable[[], Any]) -> Any:
    queue = IPUOutfeedQueue()

    def program() -> tf.Tensor:
        queue.enqueue(function())
        return tf.constant(0)

    _run(program)
    return tf.nest.map_structure(lambda array: array.numpy()[0], queue.dequeue())


def _own_and_shared() -> dict[str, tf.Tensor]:
    index = tf.cast(replication_ops.replication_index(), tf.float16)
    own = (tf.ones([1000], tf.float16) + index * 0) / _half(3.0)
    return {
        "shared": _thirds(),
        "own": own,
        "sum": cross_replica_ops.cross_replica_sum(own),
    }


@pytest.mark.parametrize("seed_is_shared", [False, True])
def test_replicas_round_differently_except_joint_work(seed_is_shared: bool) -> None:
    _configure(2, esr=True)
    utils.reset_ipu_seed(3, experimental_identical_replicas=seed_is_shared)
    results = _of_replicas(_own_and_shared)
    for name in ("shared", "own"):
        assert np.array_equal(*results[name]) == seed_is_shared
    np.testing.assert_array_equal(*results["sum"])


def test_only_what_replicas_share_rounds_alike() -> None:
    _configure(2, esr=StochasticRoundingBehaviour.REPLICA_IDENTICAL_ONLY)
    utils.reset_ipu_seed(5)
    results = _of_replicas(_own_and_shared)
    assert len(np.unique(results["shared"])) == 2
    np.testing.assert_array_equal(*results["shared"])
    np.testing.assert_array_equal(results["own"], np.full([2, 1000], 1 / 3, np.float16))
    np.testing.assert_array_equal(*results["sum"])


def test_identical_ops_round_alike_with_prng_stability() -> None:
    _configure(2, stable=True, esr=True)
    utils.reset_ipu_seed(5)
    results = _of_replicas(_own_and_shared)
    np.testing.assert_array_equal(*results["shared"])
    assert not np.array_equal(*results["own"])


@pytest.mark.parametrize("override", [True, False])
@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("default", [True, False])
def test_the_scope_goes_before_the_option(default: bool, override: bool, stable: bool) -> None:
    _configure(stable=stable, esr=default)

    def program() -> list[tf.Tensor]:
        with scopes.stochastic_rounding(override):
            first = _thirds() / _half(7.0)
            with scopes.stochastic_rounding(not override):
                inner = _thirds() / _half(7.0)
            last = _thirds() / _half(7.0)
        return [first, inner, last, _thirds() / _half(7.0)]

    rounded = [len(np.unique(result)) > 1 for result in _run(program)]
    assert rounded == [override, not override, override, default]


def test_the_scope_reaches_into_loops() -> None:
    _configure(esr=True)

    def program() -> tf.Tensor:
        with scopes.stochastic_rounding(False):
            x = tf.ones([1000], tf.float16)
            for _ in tf.range(3):
                x = x / _half(3.0)
        return x

    assert len(np.unique(_run(program))) == 1


def test_small_updates_survive_stochastic_rounding() -> None:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = [tf.Variable(tf.ones([4000], tf.float16)) for _ in range(3)]
        moments = [tf.Variable(tf.zeros([4000], tf.float16)) for _ in range(2)]

    def program() -> Any:
        step = tf.fill([4000], _half(2.0**-13))
        for _ in tf.range(100):
            weights[0].assign_sub(step)
            tf.raw_ops.ResourceApplyGradientDescent(
                var=weights[1].handle, alpha=_half(0.5), delta=2.0 * step
            )
            tf.raw_ops.ResourceApplyAdam(
                var=weights[2].handle,
                m=moments[0].handle,
                v=moments[1].handle,
                beta1_power=_half(0.0),
                beta2_power=_half(0.0),
                lr=_half(2.0**-13),
                beta1=_half(0.9),
                beta2=_half(0.999),
                epsilon=_half(1e-4),
                grad=tf.ones([4000], tf.float16),
            )
        return [weight.read_value() for weight in weights]

    def run(**options: Any) -> list[np.ndarray]:
        _configure(**options)
        for variable in weights:
            variable.assign(tf.ones([4000], tf.float16))
        for variable in moments:
            variable.assign(tf.zeros([4000], tf.float16))
        with strategy.scope():
            results = strategy.run(tf.function(program, jit_compile=True))
        for variable, result in zip(weights, results):
            np.testing.assert_array_equal(variable.numpy(), result.numpy())
        return [result.numpy().astype(np.float64) for result in results]

    expected = 1 - 100 * 2.0**-13
    for result in run(esr=True)[:2]:
        assert abs(result.mean() - expected) < 1e-4
    # A quarter of a unit of the last place: rounded to nearest, nothing changes.
    for result in run()[:2]:
        assert result.mean() == 1.0


# Partials.


@pytest.mark.parametrize("option", [None, "half", "float"])
@pytest.mark.parametrize("scope", [None, tf.float16, tf.float32])
def test_partials_round_as_option_and_scope_say(option: str | None, scope: Any) -> None:
    _configure(partials=option)

    def products(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        image = tf.reshape(x, [1, 1, 1, -1])
        return (
            tf.matmul(x[None], x[:, None])[0, 0],
            tf.nn.conv2d(image, tf.reshape(x, [1, 1, -1, 1]), 1, "VALID")[0, 0, 0, 0],
        )

    def program(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        if scope is None:
            return products(x)
        with scopes.partials_type(scope):
            return products(x)

    half = scope == tf.float16 or (scope is None and option == "half")
    # In float16, 2048 + 1 is 2048: what the kernel of TensorFlow 2.15 makes of a sum of ones.
    for x in (np.random.default_rng(0).random(4096).astype(np.float16), np.ones(4096, np.float16)):
        exact = np.float16(np.sum(x.astype(np.float64) ** 2))
        with tf.device("/device:CPU:0"):
            kernels = [tensor.numpy() for tensor in products(tf.constant(x))]
        for result, of_kernel in zip(_run(program, tf.constant(x)), kernels):
            assert result == (of_kernel if half else exact)


def test_half_partials_overflow_clips() -> None:
    _configure(partials="half")
    assert _run(lambda x: tf.matmul(x, x), _half([[300.0]])) == _MAX


# Models.


def _train(dtype: tf.DType) -> float:
    """Trains a small network, and returns its last loss."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=[64, 8])
    y = np.sin(x[:, :1]) * x[:, 1:2]
    w1, w2 = generator.normal(size=[8, 32]) * 0.5, generator.normal(size=[32, 1]) * 0.3
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = [tf.Variable(tf.constant(w, dtype)) for w in (w1, w2)]

        @tf.function(jit_compile=True)
        def program(features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            loss = tf.zeros([], dtype)
            for _ in tf.range(200):
                with tf.GradientTape() as tape:
                    hidden = tf.tanh(tf.matmul(features, weights[0]))
                    errors = tf.matmul(hidden, weights[1]) - labels
                    loss = tf.reduce_mean(tf.square(errors))
                for weight, gradient in zip(weights, tape.gradient(loss, weights)):
                    weight.assign_sub(gradient * tf.cast(0.02, dtype))
            return loss

        arguments = (tf.constant(x, dtype), tf.constant(y, dtype))
        return float(strategy.run(program, arguments))


def test_a_float16_model_learns() -> None:
    _configure()
    full = _train(tf.float32)
    half = _train(tf.float16)
    _configure(esr=True)
    utils.reset_ipu_seed(4)
    stochastic = _train(tf.float16)
    assert abs(half - full) < 0.1 * full + 0.01
    assert abs(stochastic - full) < 0.1 * full + 0.01
    _configure(inv=True, div0=True, oflo=True)
    assert _train(tf.float16) == half  # traps change nothing


@pytest.mark.parametrize("count", [1, 7, 8, 9, 1000])
def test_casts_are_those_of_numpy(count: int) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = np.resize(every[np.isfinite(every)], count) if count < 1000 else every
    wide = native.ops().ipu_half_to_float(tf.constant(halves)).numpy()
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    back = native.ops().ipu_float_to_half(tf.constant(wide)).numpy()
    np.testing.assert_array_equal(back, halves)


def test_a_loop_rounds_each_result_as_without_one() -> None:
    """Against NumPy, which rounds each result to float16."""
    generator = np.random.default_rng(3)
    start = generator.normal(size=[4, 4]).astype(np.float16)
    factor = generator.normal(size=[4, 4]).astype(np.float16)

    def program(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.TensorArray(tf.float16, 5, element_shape=[4, 4])
        for index in tf.range(5):
            x = x * y + x
            rows = rows.write(index, x)
        return x, rows.stack()

    _configure()
    last, stacked = _run(program, tf.constant(start), tf.constant(factor))
    expected = []
    for _ in range(5):
        product = (start.astype(np.float32) * factor).astype(np.float16)
        start = (product.astype(np.float32) + start).astype(np.float16)
        expected.append(start)
    assert last.dtype == stacked.dtype == np.float16
    np.testing.assert_array_equal(stacked, expected)
    np.testing.assert_array_equal(last, expected[-1])
