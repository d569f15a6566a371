"""Wrappers of Keras optimizers: delegation, configuration, checkpoints, use in models."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.keras_layers import optimizers
from tests.keras_layers.optimizers import training

keras = tf.keras
each_generation = pytest.mark.parametrize("generation", list(training.GENERATIONS))
each_wrapper = pytest.mark.parametrize("wrapper", list(training.WRAPPERS))
# Those that make a step in each call, without a loop on the device.
each_eager_wrapper = pytest.mark.parametrize(
    "wrapper", [name for name in training.WRAPPERS if "Accumulation" not in name]
)


@each_generation
@each_wrapper
def test_is_an_optimizer_of_its_generation(wrapper: str, generation: str) -> None:
    inner = training.make("adam", generation)
    opt = training.WRAPPERS[wrapper](inner)
    assert isinstance(opt, getattr(optimizers, wrapper))
    assert isinstance(opt, optimizers.IpuOptimizer)
    assert isinstance(opt, keras.optimizers.Optimizer) == (generation == "new")
    assert isinstance(opt, keras.optimizers.legacy.Optimizer) == (generation == "legacy")
    assert type(opt).__name__ == opt.name == wrapper
    assert keras.optimizers.get(opt) is opt
    # Keras's own: gradient accumulation and pipelines refuse optimizers that override it.
    base = training.GENERATIONS[generation].Optimizer
    assert type(opt).minimize is base.minimize


@each_generation
@pytest.mark.parametrize("inner", list(training.INNER))
@each_eager_wrapper
def test_trains_like_the_wrapped_optimizer(wrapper: str, inner: str, generation: str) -> None:
    got = training.train_eagerly(
        training.WRAPPERS[wrapper](training.make(inner, generation)), steps=7
    )
    want = training.train_eagerly(training.make(inner, generation), steps=7)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


@each_generation
@pytest.mark.parametrize("inner", ["momentum", "adam"])
@each_eager_wrapper
def test_trains_like_the_wrapped_optimizer_on_the_ipu(
    wrapper: str, inner: str, generation: str
) -> None:
    data = training.targets(4)
    _, got = training.run(
        lambda: training.WRAPPERS[wrapper](training.make(inner, generation)),
        training.minimize,
        data[:, None],
    )
    want = training.train_eagerly(training.make(inner, generation), steps=4)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@each_generation
@each_wrapper
def test_hyperparameters_are_those_of_the_wrapped_optimizer(wrapper: str, generation: str) -> None:
    inner = training.GENERATIONS[generation].SGD(0.5, momentum=0.9, clipnorm=2.0)
    opt = training.WRAPPERS[wrapper](inner)
    assert opt.clipnorm == 2.0
    assert float(opt.momentum) == pytest.approx(0.9)
    opt.clipnorm = 3.0
    assert inner.clipnorm == 3.0
    for name in ("learning_rate", "lr"):
        setattr(opt, name, 0.25)
        assert float(inner.learning_rate) == float(opt.learning_rate) == float(opt.lr) == 0.25
    keras.backend.set_value(opt.lr, 0.125)  # as the callbacks do
    assert float(inner.learning_rate) == 0.125
    assert opt.iterations is inner.iterations
    opt.my_own = 3
    assert not hasattr(inner, "my_own")
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = opt.no_such_thing


@each_eager_wrapper
def test_legacy_optimizer_state_equals_wrapped_one(wrapper: str) -> None:
    inner = keras.optimizers.legacy.SGD(0.1, momentum=0.5)
    opt = training.WRAPPERS[wrapper](inner)
    weight = tf.Variable([1.0, 2.0])
    opt.minimize(lambda: training.loss(weight, 0.0), [weight])
    assert opt.get_slot_names() == ["momentum"]
    assert opt.get_slot(weight, "momentum") is inner.get_slot(weight, "momentum")
    assert [v.name for v in opt.weights] == [v.name for v in inner.variables()]
    opt.set_weights([np.int64(3), np.float32([7, 8])])
    np.testing.assert_array_equal(inner.get_weights()[1], [7, 8])
    assert opt.iterations.numpy() == 3


@each_eager_wrapper
def test_new_optimizer_state_equals_wrapped_one(wrapper: str) -> None:
    inner = keras.optimizers.Adam(0.1, weight_decay=0.1, use_ema=True)
    opt = training.WRAPPERS[wrapper](inner)
    weight = tf.Variable([1.0, 2.0])
    opt.exclude_from_weight_decay([weight])
    opt.minimize(lambda: training.loss(weight, 0.0), [weight])
    assert [v.name for v in opt.variables] == [v.name for v in inner.variables]
    np.testing.assert_allclose(weight.numpy(), [0.9, 1.9], rtol=1e-5)
    opt.finalize_variable_values([weight])
    assert weight.numpy()[0] > 0.9  # the moving average


@each_generation
def test_learning_rate_schedules_are_followed(generation: str) -> None:
    def make() -> Any:
        schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
        return training.GENERATIONS[generation].SGD(schedule)

    got = training.train_eagerly(optimizers.ALSOptimizer(make()), steps=3)
    np.testing.assert_allclose(got, training.train_eagerly(make(), steps=3), rtol=1e-6)


@pytest.mark.parametrize("opt", [None, "sgd", tf.compat.v1.train.GradientDescentOptimizer(0.1)])
@pytest.mark.parametrize("wrapper", ["IpuOptimizer", "CrossReplicaOptimizer", "ALSOptimizer"])
def test_refuses_what_is_no_keras_optimizer(wrapper: str, opt: Any) -> None:
    with pytest.raises(ValueError, match=f"{wrapper} wraps a Keras optimizer"):
        getattr(optimizers, wrapper)(opt)


class TestConfiguration:
    """`get_config` and `from_config`."""

    @each_generation
    @each_wrapper
    def test_a_configuration_makes_the_same_optimizer(self, wrapper: str, generation: str) -> None:
        opt = training.WRAPPERS[wrapper](training.make("momentum", generation))
        config = opt.get_config()
        assert config["inner_optimizer_config"] == opt.inner_optimizer.get_config()
        assert config["inner_optimizer_type"] == type(opt.inner_optimizer).__name__ or (
            config["inner_optimizer_type"] == "tensorflow_ipu>ALSOptimizer"
        )
        for cls in (type(opt), getattr(optimizers, wrapper)):
            again = cls.from_config(config)
            assert type(again) is type(opt)
            assert again.get_config() == config
            assert type(again.inner_optimizer) is type(opt.inner_optimizer)

    @each_generation
    @pytest.mark.parametrize("legacy_format", [False, True])
    def test_keras_serializes_nested_wrappers(self, generation: str, legacy_format: bool) -> None:
        opt = optimizers.CrossReplicaOptimizer(
            optimizers.ALSOptimizer(training.make("adam", generation), lpf_alpha=0.25)
        )
        serialized = keras.optimizers.serialize(opt, use_legacy_format=legacy_format)
        again = keras.optimizers.deserialize(serialized, use_legacy_format=legacy_format)
        assert again.get_config() == opt.get_config()
        assert type(again.inner_optimizer) is type(opt.inner_optimizer)

    def test_the_type_may_be_a_class(self) -> None:
        config = optimizers.IpuOptimizer(keras.optimizers.legacy.Adam(0.5)).get_config()
        config["inner_optimizer_type"] = keras.optimizers.legacy.Adam
        opt = optimizers.IpuOptimizer.from_config(config)
        assert isinstance(opt.inner_optimizer, keras.optimizers.legacy.Adam)

    @each_generation
    def test_custom_optimizers_are_found_by_custom_objects(self, generation: str) -> None:
        class Mine(training.GENERATIONS[generation].SGD):  # type: ignore[name-defined, misc]
            pass

        config = optimizers.ALSOptimizer(Mine(0.5)).get_config()
        again = optimizers.ALSOptimizer.from_config(config, custom_objects={"Mine": Mine})
        assert type(again.inner_optimizer) is Mine

    @pytest.mark.parametrize("key", ["inner_optimizer_config", "inner_optimizer_type"])
    def test_missing_keys_of_a_configuration_are_refused(self, key: str) -> None:
        config = optimizers.IpuOptimizer(keras.optimizers.SGD()).get_config()
        del config[key]
        with pytest.raises(ValueError, match=f"must have '{key}'"):
            optimizers.IpuOptimizer.from_config(config)

    @pytest.mark.parametrize("kind", [keras.layers.Layer, "Dense", 3])
    def test_types_that_are_no_optimizers(self, kind: Any) -> None:
        config = optimizers.IpuOptimizer(keras.optimizers.SGD()).get_config()
        config["inner_optimizer_type"] = kind
        config["inner_optimizer_config"] = {}
        with pytest.raises(ValueError):
            optimizers.IpuOptimizer.from_config(config)


class TestCheckpoints:
    """The saved state equals the state that the wrapped optimizer saves."""

    @each_generation
    @pytest.mark.parametrize("wrapped_first", [True, False])
    @each_eager_wrapper
    def test_checkpoints_load_with_and_without_a_wrapper(
        self, wrapper: str, wrapped_first: bool, generation: str, tmp_path: pathlib.Path
    ) -> None:
        def make(wrapped: bool) -> tuple[Any, tf.Variable, tf.train.Checkpoint]:
            inner = training.make("adam", generation)
            opt = training.WRAPPERS[wrapper](inner) if wrapped else inner
            weight = tf.Variable(training.INITIAL)
            training.build(opt, [weight])
            return opt, weight, tf.train.Checkpoint(opt=opt, weight=weight)

        def step(opt: Any, weight: tf.Variable) -> None:
            opt.minimize(lambda: training.loss(weight, 0.5), [weight])

        first, weight, checkpoint = make(wrapped_first)
        step(first, weight)
        path = checkpoint.write(str(tmp_path / "saved"))
        step(first, weight)
        second, again, checkpoint = make(not wrapped_first)
        checkpoint.read(path).expect_partial()
        assert second.iterations.numpy() == 1
        step(second, again)
        np.testing.assert_allclose(again.numpy(), weight.numpy(), rtol=1e-6)

    @each_generation
    def test_loss_scaling_is_saved_too(self, generation: str, tmp_path: pathlib.Path) -> None:
        def make() -> Any:
            return optimizers.ALSOptimizer(training.make("sgd", generation), update_frequency=1)

        opt = make()
        training.train_eagerly(opt, 3)
        path = tf.train.Checkpoint(opt=opt).write(str(tmp_path / "saved"))
        again = make()
        tf.train.Checkpoint(opt=again).read(path).expect_partial()
        assert again.loss_scaling_factor.numpy() == opt.loss_scaling_factor.numpy() == 8


@each_generation
@pytest.mark.parametrize("suffix", [".keras", ".h5", ""])
@pytest.mark.filterwarnings("ignore:.*HDF5 file.*:UserWarning")
def test_models_are_saved_with_their_optimizer(
    generation: str, suffix: str, tmp_path: pathlib.Path
) -> None:
    x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)

    def fitted(opt: Any) -> Any:
        kernel = keras.initializers.GlorotUniform(seed=1)
        model = keras.Sequential([keras.layers.Dense(2, kernel_initializer=kernel)])
        model.compile(opt, "mse")
        model.fit(x, x[:, :2], batch_size=4, epochs=2, verbose=0, shuffle=False)
        return model

    model = fitted(optimizers.ALSOptimizer(training.make("adam", generation)))
    plain = fitted(training.make("adam", generation))
    for got, want in zip(model.get_weights(), plain.get_weights()):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    path = str(tmp_path / f"model{suffix}")
    model.save(path)
    loaded = keras.models.load_model(path)
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    if suffix == "" or (suffix, generation) == (".keras", "legacy"):
        return  # Keras does not restore the state of its own optimizers there
    for one in (model, loaded):
        one.fit(x, x[:, :2], batch_size=4, verbose=0, shuffle=False)
    for got, want in zip(loaded.get_weights(), model.get_weights()):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@each_generation
def test_subclasses_of_users_change_the_update(generation: str) -> None:
    class Halved(optimizers.IpuOptimizer):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = [(gradient / 2, variable) for gradient, variable in grads_and_vars]
            return super().apply_gradients(pairs, *args, **kwargs)

    weight = tf.Variable([2.0])
    opt = Halved(training.make("sgd", generation))
    opt.minimize(lambda: weight * 3, [weight])
    assert weight.numpy() == pytest.approx(2 - 0.1 * 1.5)
    assert type(Halved.from_config(opt.get_config())) is type(opt)


def test_copies_have_an_inner_optimizer_of_their_own() -> None:
    opt = optimizers.ALSOptimizer(keras.optimizers.legacy.SGD(0.5))
    assert copy.deepcopy(opt).get_config() == opt.get_config()
    assert copy.deepcopy(opt).inner_optimizer is not opt.inner_optimizer
