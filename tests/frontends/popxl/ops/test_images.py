"""Resizing and regions of images: values, gradients and errors."""

from __future__ import annotations

import numpy as np
import popxl
import pytest
import tensorflow as tf
from popxl import ops

from tests.support.popxl import popxl_programs
from tests.support.popxl.popxl_cases import Case, check

IMAGE = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
ROIS = np.float32([[0, 0, 6, 4], [2, 1, 9, 7.5], [-3, -2, 3, 3]])
WHICH = np.array([0, 1, 1], np.int32)
ERROR = popxl.errors.popart_exception


def resized(method, *size):
    return lambda t: tf.transpose(
        tf.image.resize(tf.transpose(t, [0, 2, 3, 1]), size, method), [0, 3, 1, 2]
    )


def aligned(t, rois, which, size=(2, 3), scale=0.5, ratio=2):
    """RoiAlign sample by sample."""
    height, width = t.shape[2:]

    def sample(image, y, x):
        if not (-1 <= y <= height and -1 <= x <= width):
            return tf.zeros(t.shape[1])
        y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
        a, b = int(y), int(x)
        c, d = min(a + 1, height - 1), min(b + 1, width - 1)
        v, u = y - a, x - b
        upper = (1 - u) * image[:, a, b] + u * image[:, a, d]
        lower = (1 - u) * image[:, c, b] + u * image[:, c, d]
        return (1 - v) * upper + v * lower

    found = []
    for roi, index in zip(np.asarray(rois), np.asarray(which)):
        x1, y1, x2, y2 = roi * scale
        step = max(y2 - y1, 1) / size[0] / ratio, max(x2 - x1, 1) / size[1] / ratio
        for i in range(size[0]):
            for j in range(size[1]):
                samples = [
                    sample(
                        t[index],
                        y1 + (i * ratio + p + 0.5) * step[0],
                        x1 + (j * ratio + q + 0.5) * step[1],
                    )
                    for p in range(ratio)
                    for q in range(ratio)
                ]
                found.append(tf.add_n(samples) / ratio**2)
    return tf.transpose(tf.reshape(tf.stack(found), [-1, *size, t.shape[1]]), [0, 3, 1, 2])


CASES = [
    Case(
        "nearest",
        lambda t: ops.interpolate(t, (1, 1, 2, 3)),
        resized("nearest", 8, 15),
        [IMAGE],
    ),
    Case(
        "linear",
        lambda t: ops.interpolate(t, (1, 1, 2, 1.6), "linear"),
        resized("bilinear", 8, 8),
        [IMAGE],
    ),
    Case(
        "align_corners",
        lambda t: ops.interpolate(
            t, (1, 1, 2, 2), "linear", coordinate_transformation_mode="align_corners"
        ),
        lambda t: tf.transpose(
            tf.compat.v1.image.resize_bilinear(
                tf.transpose(t, [0, 2, 3, 1]), [8, 10], align_corners=True
            ),
            [0, 3, 1, 2],
        ),
        [IMAGE],
    ),
    Case(
        "roi_align",
        lambda t, r, b: ops.roi_align(t, r, b, (2, 3), 0.5, 2),
        aligned,
        [IMAGE, ROIS, WHICH],
        differentiable=[0],
    ),
]


def test_values_and_gradients():
    check(CASES)


def test_half_precision():
    check(CASES[1:], np.float16, 4e-3)


@pytest.mark.parametrize(
    "nearest_mode, coordinates, expected",
    [
        ("round_prefer_floor", "asymmetric", [0, 0, 1, 1, 2, 2]),
        ("round_prefer_ceil", "asymmetric", [0, 1, 1, 2, 2, 2]),
        ("floor", "half_pixel", [0, 0, 0, 1, 1, 2]),
        ("ceil", "half_pixel", [0, 1, 1, 2, 2, 2]),
        ("floor", "tf_half_pixel_for_nn", [0, 0, 1, 1, 2, 2]),
        ("floor", "pytorch_half_pixel", [0, 0, 0, 1, 1, 2]),
        ("floor", "align_corners", [0, 0, 0, 1, 1, 2]),
    ],
)
def test_nearest_elements(nearest_mode, coordinates, expected):
    x = np.float32([0, 1, 2])

    def build(t):
        return {"y": ops.interpolate(t, (2.0,), "nearest", nearest_mode, coordinates)}

    popxl_programs.check(build, [x], {"y": np.float32(expected)})


def test_linear_interpolation_is_that_of_float32():
    data, factor = np.linspace(-3, 5, 41, dtype=np.float32), 0.3

    def build(t):
        return {"y": ops.interpolate(t, (factor,), "linear")}

    one, half, step = np.float32(1), np.float32(0.5), np.float32(1 / factor)
    expected = []
    for i in range(int(41 * factor)):
        place = max((np.float32(i) + half) * step - half, np.float32(0))
        low = int(place)
        rest = place - np.float32(low)
        expected.append((one - rest) * data[low] + rest * data[min(low + 1, 40)])
    popxl_programs.check(build, [data], {"y": np.float32(expected)}, 1e-7)


def test_cubic_interpolation_weighs_four_elements():
    x = np.float32([1, 2, 3, 4, 5, 6, 7, 8])
    bump = np.float32([0, 0, 0, 1, 0, 0, 0, 0])

    def build(t, bump):
        return {
            "line": ops.interpolate(t, (2,), "cubic"),
            "bump": ops.interpolate(bump, (2,), "cubic"),
        }

    found = popxl_programs.run(build, [x, bump])
    places = (np.arange(16) + 0.5) / 2 - 0.5
    # Away from the edges; the kernel with a = -0.75 is not exact between elements.
    d = np.abs(places - 3)
    near = 1.25 * d**3 - 2.25 * d**2 + 1
    far = -0.75 * (d**3 - 5 * d**2 + 8 * d - 4)
    weights = np.where(d <= 1, near, np.where(d < 2, far, 0))
    np.testing.assert_allclose(found["bump"], weights, atol=1e-6)
    np.testing.assert_allclose(found["line"][4:12].sum(), (places[4:12] + 1).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda t, r, b: ops.interpolate(t, (1, 2)), ERROR, "a scale for each"),
        (lambda t, r, b: ops.interpolate(t, mode="area"), ValueError, "is not valid"),
        (lambda t, r, b: ops.interpolate(t, nearest_mode="up"), ValueError, "is not valid"),
        (
            lambda t, r, b: ops.interpolate(t, coordinate_transformation_mode="tf_crop_and_resize"),
            ERROR,
            "not supported",
        ),
        (lambda t, r, b: ops.roi_align(t[0], r, b, (2, 2), 1.0, 2), ERROR, "must have rank 4"),
        (lambda t, r, b: ops.roi_align(t, r, b[:2], (2, 2), 1.0, 2), ERROR, "must have the shape"),
        (lambda t, r, b: ops.roi_align(t, r, b, (2, 2), 1.0, 0), ERROR, "at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(build, error, message):
    with popxl.Ir().main_graph, pytest.raises(error, match=message):
        build(popxl.variable(IMAGE), popxl.variable(ROIS), popxl.variable(WHICH))
