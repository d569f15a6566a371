"""Tests of image operations."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.ops.image_ops import normalise_image
from tests.support.programs import replicas

OFFSETS = [0.5, 0.25, -1.0]
SCALES = [2.0, -1.5, 0.1]
ATOL = {"uint8": 2e-3, "float16": 2e-3, "float32": 1e-6}


def images(*shape, dtype):
    generator = np.random.default_rng([*shape])
    if dtype == "uint8":
        return generator.integers(0, 256, shape).astype(dtype)
    return (255 * generator.random(shape)).astype(dtype)


def reference(image, scale):
    wide = (image.astype(np.float64) * scale - OFFSETS) * SCALES
    return np.concatenate([wide, np.zeros([*image.shape[:-1], 1])], -1)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (5, 6, 3), (2, 5, 6, 3), (0, 3)])
@pytest.mark.parametrize("scale", [1, 1 / 255])
def test_images_are_normalized_as_by_numpy(shape, dtype, scale):
    image = images(*shape, dtype=dtype)
    result = normalise_image(image, OFFSETS, SCALES, scale)
    expected = reference(image, scale)
    assert result.dtype == ("float32" if dtype == "float32" else "float16")
    np.testing.assert_allclose(result, expected, rtol=1e-3 if scale == 1 else 0, atol=ATOL[dtype])


@pytest.mark.parametrize("in_session", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_images_are_normalized_on_two_replicas(dtype, in_session):
    image = images(2, 2, 3, 3, dtype=dtype)

    def program():
        return normalise_image(replicas.own_row(image), OFFSETS, np.float32(SCALES), 0.01)

    results = replicas.run(2, program, in_session)
    np.testing.assert_allclose(results, reference(image, 0.01), atol=ATOL[dtype])


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_gradients_are_scaled(dtype):
    image = tf.constant(images(2, 2, 3, dtype=dtype))
    upstream = np.arange(16).reshape(2, 2, 4).astype(dtype)
    with tf.GradientTape() as tape:
        tape.watch(image)
        result = normalise_image(image, OFFSETS, SCALES, 2)
    gradient = tape.gradient(result, image, tf.constant(upstream))
    assert gradient.dtype == dtype
    np.testing.assert_allclose(gradient, upstream[..., :3] * 2 * SCALES, rtol=1e-3)


def test_gradients_reach_the_parameters():
    image = images(2, 2, 3, dtype="float32")
    offsets, scales = tf.constant(OFFSETS), tf.constant(SCALES)
    with tf.GradientTape() as tape:
        tape.watch([offsets, scales])
        result = tf.reduce_sum(normalise_image(image, offsets, scales))
    of_offsets, of_scales = tape.gradient(result, [offsets, scales])
    np.testing.assert_allclose(of_offsets, -4 * np.array(SCALES), rtol=1e-6)
    np.testing.assert_allclose(of_scales, (image - OFFSETS).sum((0, 1)), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int32", "float64", "int8"])
def test_other_types_are_refused(dtype):
    with pytest.raises(TypeError, match=f"uint8, float16, float32. Received: image of {dtype}"):
        normalise_image(tf.zeros([2, 3], dtype), OFFSETS, SCALES)


@pytest.mark.parametrize("shape", [(4,), (3, 1)])
def test_images_without_three_channels_are_refused(shape):
    match = f"The image has {shape[-1]} channels, expected 3."
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        normalise_image(np.zeros(shape, np.float32), OFFSETS, SCALES)


def test_an_image_without_a_dimension_is_refused():
    with pytest.raises(ValueError, match="image must have a last dimension"):
        normalise_image(np.float32(0), OFFSETS, SCALES)


@pytest.mark.parametrize("wrong", [1.0, [1.0, 2.0], [[1.0, 2.0, 3.0]]])
def test_wrong_shapes_of_the_parameters_are_refused(wrong):
    image = np.zeros([2, 3], np.float32)
    must = "must be the same size as the number of image channels 3, but was"
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"The channel_offsets {must}"):
        normalise_image(image, wrong, SCALES)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"The channel_scales {must}"):
        normalise_image(image, OFFSETS, wrong)
    with pytest.raises(ValueError, match="scale must be a number"):
        normalise_image(image, OFFSETS, SCALES, [1.0])


@pytest.mark.parametrize("in_session", [False, True])
def test_shapes_are_checked_when_a_program_is_compiled(in_session):
    built = []

    def program():
        result = normalise_image(tf.zeros([4, 2]), OFFSETS, SCALES)
        built.append(result.shape.as_list())
        return result

    match = "The image has 2 channels, expected 3"
    with pytest.raises(tf.errors.InvalidArgumentError, match=match) as info:
        replicas.run(1, program, in_session)
    assert built == [[4, 4]]
    assert __file__ in info.value.message  # the user's line


def test_wrong_image_not_used_is_no_error():
    def program():
        normalise_image(tf.zeros([4, 2]), OFFSETS, SCALES)
        return tf.constant(3.0)

    assert replicas.run(1, program) == 3
