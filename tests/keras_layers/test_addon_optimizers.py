"""Optimizers of the addons, against stock Keras and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from ipu_tensorflow_addons.keras.optimizers import (
    AdamIpuOptimizer,
    IpuOptimizerBase,
    LAMBIpuOptimizer,
    SGDIpuOptimizer,
)
from tensorflow.python import ipu

from tests.support.models import keras_models as models
from tests.support.programs import replicas

legacy = tf.keras.optimizers.legacy
STEPS = 4
INITIAL = np.float32([[1, -2, 0.5], [0.25, 3, -1], [0.5, 0.5, 4]])
GRADIENTS = np.random.default_rng(3).normal(size=(STEPS, *INITIAL.shape)).astype(np.float32)

# Ours, and the one of stock Keras that computes the same.
PAIRS = {
    "adam": (lambda: AdamIpuOptimizer(0.05), lambda: legacy.Adam(0.05)),
    "amsgrad": (
        lambda: AdamIpuOptimizer(0.05, amsgrad=True, epsilon=1e-3),
        lambda: legacy.Adam(0.05, amsgrad=True, epsilon=1e-3),
    ),
    "adam with a schedule": (
        lambda: AdamIpuOptimizer(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
        lambda: legacy.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
    ),
    "clipped": (
        lambda: AdamIpuOptimizer(0.05, clipnorm=0.5, decay=0.1),
        lambda: legacy.Adam(0.05, clipnorm=0.5, decay=0.1),
    ),
    "sgd": (lambda: SGDIpuOptimizer(0.1), lambda: legacy.SGD(0.1)),
    "momentum": (lambda: SGDIpuOptimizer(0.1, 0.9), lambda: legacy.SGD(0.1, 0.9)),
    "nesterov": (
        lambda: SGDIpuOptimizer(0.1, 0.9, nesterov=True),
        lambda: legacy.SGD(0.1, 0.9, nesterov=True),
    ),
}


def sparse(gradient):
    """Returns two rows of a gradient, one of them in two parts."""
    values = np.stack([gradient[2], gradient[0], gradient[0]])
    return tf.IndexedSlices(tf.constant(values), tf.constant([2, 0, 0]), tf.constant([3, 3]))


def apply(optimizer, form=tf.constant, dtype=tf.float32, name="weight"):
    """Returns the weight after each step in eager mode."""
    weight = tf.Variable(INITIAL, dtype=dtype, name=name)
    found = []
    for gradient in GRADIENTS:
        gradient = form(gradient)
        optimizer.apply_gradients([(tf.cast(gradient, dtype), weight)])
        found.append(weight.numpy())
    return np.asarray(found)


def apply_on_ipu(optimizer, count=1, step=None):
    """Returns the weights after all steps in one program."""
    replicas.configure(1)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        weights = [tf.Variable(INITIAL, name=f"weight_{index}") for index in range(count)]

        @tf.function(jit_compile=True)
        def program(gradients):
            for index in range(STEPS):
                optimizer.apply_gradients([(gradients[index], weight) for weight in weights])

        strategy.run(program, [tf.constant(GRADIENTS)])
    return [weight.numpy() for weight in weights]


@pytest.mark.parametrize("form", [tf.constant, sparse])
@pytest.mark.parametrize("pair", PAIRS)
def test_steps_are_those_of_stock_keras(pair, form):
    mine, theirs = PAIRS[pair]
    np.testing.assert_allclose(apply(mine(), form), apply(theirs(), form), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("pair", ["amsgrad", "momentum"])
def test_steps_in_a_program_equal_stock_keras(pair):
    mine, theirs = PAIRS[pair]
    (found,) = apply_on_ipu(mine())
    np.testing.assert_allclose(found, apply(theirs())[-1], rtol=2e-6, atol=1e-6)


def lamb(decay, clip=None, adapted=True, debiasing=True):
    """Returns the weight after steps of LAMB, computed with NumPy in float64."""
    weight, m, v = INITIAL.astype(np.float64), 0.0, 0.0
    found = []
    for number, gradient in enumerate(GRADIENTS.astype(np.float64), 1):
        m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
        left = (1 - 0.9**number, 1 - 0.99**number) if debiasing else (1, 1)
        step = m / left[0] / (np.sqrt(v / left[1]) + 1e-6) + decay * weight
        length = np.linalg.norm(weight) if clip is None else min(np.linalg.norm(weight), clip)
        weight = weight - 0.1 * step * (length / np.linalg.norm(step) if adapted else 1)
        found.append(weight)
    return np.asarray(found)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({}, {"decay": 0}),
        ({"weight_decay_rate": 0.5}, {"decay": 0.5}),
        ({"weight_decay_rate": 0.5, "weight_norm_clip": 2.0}, {"decay": 0.5, "clip": 2.0}),
        ({"debiasing": False}, {"decay": 0, "debiasing": False}),
        (
            {"weight_decay_rate": 0.5, "exclude_from_weight_decay": ["bias", "wei.*t"]},
            {"decay": 0, "adapted": False},
        ),
        (
            {
                "weight_decay_rate": 0.5,
                "exclude_from_weight_decay": ["weight"],
                "exclude_from_layer_adaptation": ["bias"],
            },
            {"decay": 0},
        ),
        (
            {"weight_decay_rate": 0.5, "exclude_from_layer_adaptation": ["weight"]},
            {"decay": 0.5, "adapted": False},
        ),
    ],
)
def test_lamb_follows_its_formula(arguments, want):
    made = LAMBIpuOptimizer(0.1, beta_2=0.99, **arguments)
    np.testing.assert_allclose(apply(made), lamb(**want), rtol=1e-5, atol=1e-6)


def test_lamb_updates_a_weight_of_zeros():
    weight = tf.Variable(tf.zeros([2]))
    LAMBIpuOptimizer(0.5).apply_gradients([(tf.constant([3.0, -1.0]), weight)])
    np.testing.assert_allclose(weight.numpy(), [-0.5, 0.5], rtol=1e-5)


def test_adam_without_debiasing_follows_its_formula():
    found = apply(AdamIpuOptimizer(0.1, beta_2=0.99, debiasing=False))
    weight, m, v = INITIAL.astype(np.float64), 0.0, 0.0
    for step, gradient in enumerate(GRADIENTS.astype(np.float64)):
        m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
        weight = weight - 0.1 * m / (np.sqrt(v) + 1e-7)
        np.testing.assert_allclose(found[step], weight, rtol=1e-5, atol=1e-6)


STATES = [
    (lambda **types: AdamIpuOptimizer(0.05, amsgrad=True, **types), ["m", "v", "vhat"]),
    (lambda **types: LAMBIpuOptimizer(0.05, **types), ["m", "v"]),
]


@pytest.mark.parametrize("weight_dtype", [tf.float16, tf.float32])
@pytest.mark.parametrize(("make", "parts"), STATES)
def test_each_part_of_the_state_has_its_type(make, parts, weight_dtype):
    """One part after the other; the others are of the type of the weight."""
    for part in parts:
        optimizer = make(**{f"{part}_dtype": "float32"})
        weight = tf.Variable(INITIAL, dtype=weight_dtype)
        optimizer.apply_gradients([(tf.cast(GRADIENTS[0], weight_dtype), weight)])
        found = {name: optimizer.get_slot(weight, name).dtype for name in parts}
        assert found == {**dict.fromkeys(parts, weight_dtype), part: tf.float32}
        assert weight.dtype == weight_dtype


def test_momentum_has_the_type_asked_for():
    optimizer = SGDIpuOptimizer(0.1, 0.9, momentum_accum_dtype=tf.float32)
    weight = tf.Variable(INITIAL, dtype=tf.float16)
    optimizer.apply_gradients([(tf.cast(GRADIENTS[0], tf.float16), weight)])
    assert optimizer.get_slot(weight, "momentum").dtype == tf.float32
    want = -0.1 * GRADIENTS[0].astype(np.float16).astype(np.float32)
    np.testing.assert_allclose(optimizer.get_slot(weight, "momentum"), want, rtol=1e-6)


def test_squares_of_float16_gradients_are_computed_in_float32():
    """1e-4 squared is no number of float16."""
    weight = tf.Variable([1.0], dtype=tf.float16)
    optimizer = AdamIpuOptimizer(0.125, v_dtype=tf.float32)
    optimizer.apply_gradients([(tf.constant([1e-4], tf.float16), weight)])
    np.testing.assert_allclose(optimizer.get_slot(weight, "v"), [1e-11], rtol=1e-2)
    np.testing.assert_allclose(weight.numpy(), [0.875], rtol=1e-2)


def test_the_arithmetic_has_the_precision_asked_for():
    """Of the moments, and of the weight."""
    large = tf.constant([300.0])
    found = []
    for precisions in [(tf.float32, tf.float32), (tf.float16, tf.float32), ("float16",)]:
        optimizer = AdamIpuOptimizer(2**-12, optimizer_compute_precisions=precisions)
        weight = tf.Variable([1.0])
        optimizer.apply_gradients([(large, weight)])
        found.append((float(optimizer.get_slot(weight, "v")[0]), float(weight[0])))
    exact, moments, everything = found
    np.testing.assert_allclose(exact, (90.0, 1 - 2**-12), rtol=1e-4)
    assert np.isinf(moments[0])  # 300 squared is beyond float16
    assert np.isinf(everything[0])
    assert everything[1] == 1.0


@pytest.mark.parametrize("outlines", [True, False])
def test_updates_of_a_shape_are_one_function(outlines):
    found = apply_on_ipu(AdamIpuOptimizer(0.05, outline_apply_gradients=outlines), count=3)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    (executable,) = ipu.profiler.executables()
    # The listing of a function follows its call.
    called = [
        after.function
        for op, after in zip(executable.ops, executable.ops[1:])
        if "PartitionedCall" in op.type
    ]
    assert len(called) == (3 * STEPS if outlines else 0)
    assert len(set(called)) == int(outlines)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    "make",
    [
        lambda: AdamIpuOptimizer(0.05, m_dtype=tf.float16),
        lambda: LAMBIpuOptimizer(0.05, weight_decay_rate=0.1),
        lambda: SGDIpuOptimizer(0.1, 0.9),
    ],
)
def test_fit_accumulates_gradients_with_all_optimizers(make, number):
    """On replicas as on one, if the learning rate does not matter to the sum."""
    replicas.configure(number)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = models.Kind(models._built_sequential).compiled(
            make, steps_per_execution=6 // number
        )
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=6 // number,
            gradient_accumulation_reduction_method="MEAN",
        )
        history = model.fit(
            models.X, models.Y, batch_size=models.BATCH, epochs=3, shuffle=False, verbose=0
        )
        assert model.optimizer.iterations.numpy() == 3
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_mixed_float16_models_train():
    replicas.configure(1)
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        kind = models.Kind(models.sequential)
        scope = ipu.ipu_strategy.IPUStrategy().scope()
        trained = models.train(kind, scope, optimizer=lambda: AdamIpuOptimizer(0.01))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    assert trained.history["loss"][1] < trained.history["loss"][0]


ALL = {
    "adam": lambda: AdamIpuOptimizer(
        0.1,
        0.8,
        0.9,
        1e-3,
        True,
        m_dtype=tf.float16,
        debiasing=False,
        outline_apply_gradients=False,
    ),
    "lamb": lambda: LAMBIpuOptimizer(
        0.1,
        weight_decay_rate=0.1,
        exclude_from_weight_decay=["b"],
        exclude_from_layer_adaptation=[],
        v_dtype=tf.float32,
        weight_norm_clip=3.0,
        outline_apply_gradients_kwargs={"unique_sharding": True},
    ),
    "sgd": lambda: SGDIpuOptimizer(
        0.1, 0.5, True, momentum_accum_dtype="float16", optimizer_compute_precisions=("float16",)
    ),
}


@pytest.mark.parametrize("name", ALL)
def test_configurations_make_the_same_optimizer(name):
    made = ALL[name]()
    again = type(made).from_config(made.get_config())
    assert again.get_config() == made.get_config()
    saved = tf.keras.optimizers.serialize(made)
    loaded = tf.keras.optimizers.deserialize(saved)
    assert type(loaded) is type(made) and loaded.get_config() == made.get_config()
    np.testing.assert_array_equal(apply(again), apply(made))


def test_checkpoint_has_the_types_of_the_state(tmp_path):
    first = tf.Variable(INITIAL)
    optimizer = AdamIpuOptimizer(0.1, m_dtype=tf.float16)
    optimizer.apply_gradients([(GRADIENTS[0], first)])
    path = tf.train.Checkpoint(weight=first, optimizer=optimizer).save(str(tmp_path / "c"))
    second = tf.Variable(tf.zeros_like(first))
    restored = AdamIpuOptimizer(0.1, m_dtype=tf.float16)
    status = tf.train.Checkpoint(weight=second, optimizer=restored).restore(path)
    optimizer.apply_gradients([(GRADIENTS[1], first)])
    restored.apply_gradients([(GRADIENTS[1], second)])
    status.assert_existing_objects_matched()
    assert restored.get_slot(second, "m").dtype == tf.float16
    np.testing.assert_array_equal(first.numpy(), second.numpy())


def test_subclass_may_have_an_update_of_its_own():
    class Sign(IpuOptimizerBase):
        def __init__(self, rate):
            super().__init__("Sign")
            self._set_hyper("learning_rate", rate)

        def _create_slots(self, var_list):
            pass

        def _update(self, weight_name, gradient, weight, state, scalars):
            return weight - scalars[0] * tf.sign(gradient), state

    want = INITIAL - 0.5 * np.cumsum(np.sign(GRADIENTS), axis=0)
    np.testing.assert_allclose(apply(Sign(0.5)), want, rtol=1e-6)
    with pytest.raises(NotImplementedError, match="does not say how to update a weight"):
        apply(type("Nothing", (Sign,), {"_update": IpuOptimizerBase._update})(0.5))


@pytest.mark.parametrize(
    ("make", "error", "phrase"),
    [
        (lambda: AdamIpuOptimizer(m_dtype=tf.int32), ValueError, "m_dtype must be a floating"),
        (lambda: AdamIpuOptimizer(v_dtype="float64"), ValueError, "v_dtype must be a floating"),
        (lambda: LAMBIpuOptimizer(v_dtype="half_"), ValueError, "v_dtype must be a floating"),
        (
            lambda: AdamIpuOptimizer(optimizer_compute_precisions=(tf.float32,) * 3),
            ValueError,
            "tuple of 2 floating-point types",
        ),
        (
            lambda: SGDIpuOptimizer(optimizer_compute_precisions=tf.float32),
            ValueError,
            "tuple of one floating-point type",
        ),
        (lambda: SGDIpuOptimizer(momentum=1.5), ValueError, "momentum"),
        (
            lambda: SGDIpuOptimizer(outline_apply_gradients_kwargs={"shape": 1}),
            TypeError,
            "are arguments of outlined_function: unique_sharding",
        ),
    ],
)
def test_wrong_arguments_are_refused(make, error, phrase):
    with pytest.raises(error, match=phrase):
        make()
