"""Convolutions against TensorFlow, and against NumPy for transforms that TensorFlow lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from tests.frontends.poplar.cases import Arrays, PoplarError, Run, random_array, runner

Array = np.ndarray[Any, Any]


@pytest.fixture
def run(run_poplar: Callable[..., str]) -> Run:
    return runner(run_poplar, "poplin/conv.cpp", ("poplin", "poputil"))


class Conv(NamedTuple):
    """A convolution: sizes, and transforms by name, as the program reads them."""

    field: tuple[int, ...]
    kernel: tuple[int, ...]
    sizes: tuple[int, int, int, int] = (2, 1, 3, 4)
    changed: dict[str, tuple[int, ...]] = {}
    type: str = "float"

    def values(self) -> dict[str, object]:
        """Returns all values of the input of the program."""
        dims = len(self.field)
        values: dict[str, object] = {
            "field": self.field,
            "kernel": self.kernel,
            "sizes": self.sizes,
            "type": self.type,
        }
        for of in ("in", "kernel"):
            for name in ("cut_lower", "cut_upper", "pad_lower", "pad_upper", "flip"):
                values[f"{of}_{name}"] = (0,) * dims
            values[f"{of}_dilation"] = (1,) * dims
        for name in ("cut_lower", "cut_upper", "pad_lower", "pad_upper"):
            values[f"out_{name}"] = (0,) * dims
        values["out_stride"] = (1,) * dims
        return {**values, **self.changed}

    def operands(self) -> tuple[Array, Array]:
        """Returns an input and weights of random numbers."""
        batch, groups, ins, outs = self.sizes
        dtype = "float16" if self.type == "half" else "float32"
        x = random_array(batch, groups * ins, *self.field, dtype=dtype)
        return x, random_array(groups, outs, ins, *self.kernel, seed=1, dtype=dtype)


def transformed(values: dict[str, object], of: str, array: Array) -> Array:
    """Returns an operand with its field truncated, dilated, padded and flipped."""
    first = array.ndim - len(values[f"{of}_flip"])  # type: ignore[arg-type]
    for axis in range(first, array.ndim):
        cut_lower, cut_upper, dilation, pad_lower, pad_upper, flip = (
            values[f"{of}_{name}"][axis - first]  # type: ignore[index]
            for name in ("cut_lower", "cut_upper", "dilation", "pad_lower", "pad_upper", "flip")
        )
        array = np.moveaxis(array, axis, 0)[cut_lower : array.shape[axis] - cut_upper]
        dilated = np.zeros(((len(array) - 1) * dilation + 1, *array.shape[1:]), array.dtype)
        dilated[::dilation] = array
        rest = [(0, 0)] * (dilated.ndim - 1)
        padded = np.pad(dilated, [(pad_lower, pad_upper), *rest])
        array = np.moveaxis(padded[::-1] if flip else padded, 0, axis)
    return array


def reference(conv: Conv, x: Array, w: Array) -> Array:
    """Returns the convolution step by step."""
    values = conv.values()
    batch, groups, ins, _ = conv.sizes
    x, w = transformed(values, "in", x), transformed(values, "kernel", w)
    dims = tuple(range(2, x.ndim))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[3:], dims)
    windows = windows.reshape(batch, groups, ins, *windows.shape[2:])
    field = "xyz"[: len(dims)]
    kernel = "uvw"[: len(dims)]
    out = np.einsum(f"bgi{field}{kernel},goi{kernel}->bgo{field}", windows, w)
    out = out.reshape(batch, -1, *out.shape[3:])
    for axis in dims:
        cut_lower, cut_upper, stride, pad_lower, pad_upper = (
            values[f"out_{name}"][axis - 2]  # type: ignore[index]
            for name in ("cut_lower", "cut_upper", "stride", "pad_lower", "pad_upper")
        )
        moved = np.moveaxis(out, axis, 0)[cut_lower : out.shape[axis] - cut_upper : stride]
        moved = np.pad(moved, [(pad_lower, pad_upper)] + [(0, 0)] * (out.ndim - 1))
        out = np.moveaxis(moved, 0, axis)
    return out


CONVOLUTIONS = {
    "line": Conv((17,), (4,)),
    "plane": Conv((9, 8), (3, 2)),
    "space": Conv((5, 4, 6), (2, 3, 2)),
    "point": Conv((6, 5), (1, 1), (3, 2, 4, 5)),
    "stride": Conv((9, 8), (3, 3), changed={"out_stride": (2, 3)}),
    "groups": Conv((7, 7), (3, 3), (2, 3, 2, 4)),
    "depthwise": Conv((7, 7), (3, 3), (2, 6, 1, 1)),
    "padding": Conv((6, 7), (3, 3), changed={"in_pad_lower": (1, 2), "in_pad_upper": (2, 0)}),
    "atrous": Conv((9, 9), (3, 2), changed={"kernel_dilation": (2, 3)}),
    "transposed": Conv((4, 5), (3, 3), changed={"in_dilation": (2, 3), "in_pad_lower": (2, 2)}),
    "flips": Conv((6, 7), (3, 2), changed={"in_flip": (1, 0), "kernel_flip": (1, 1)}),
    "cuts": Conv(
        (9, 9),
        (4, 5),
        changed={"in_cut_lower": (1, 0), "in_cut_upper": (0, 2), "kernel_cut_upper": (1, 2)},
    ),
    "output": Conv(
        (8, 9),
        (3, 3),
        changed={
            "out_cut_lower": (1, 0),
            "out_cut_upper": (0, 2),
            "out_stride": (2, 2),
            "out_pad_lower": (0, 1),
            "out_pad_upper": (2, 0),
        },
    ),
    "all": Conv(
        (9, 8),
        (4, 3),
        (2, 2, 2, 3),
        changed={
            "in_cut_lower": (1, 0),
            "in_cut_upper": (1, 1),
            "in_dilation": (2, 1),
            "in_pad_lower": (1, 2),
            "in_pad_upper": (0, 3),
            "in_flip": (1, 0),
            "kernel_cut_lower": (0, 1),
            "kernel_cut_upper": (1, 0),
            "kernel_dilation": (1, 2),
            "kernel_pad_lower": (1, 0),
            "kernel_pad_upper": (0, 1),
            "kernel_flip": (1, 1),
            "out_cut_lower": (1, 0),
            "out_cut_upper": (0, 1),
            "out_stride": (2, 2),
            "out_pad_lower": (1, 0),
            "out_pad_upper": (0, 2),
        },
    ),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_passes_equal_each_transform(run: Run, name: str) -> None:
    # A convolution is linear in both operands, so that gradients are its adjoints.
    conv = CONVOLUTIONS[name]
    x, w = conv.operands()
    expected = reference(conv, x, w)
    dy = random_array(*expected.shape, seed=2)
    results = run("passes", {"x": x, "w": w, "dy": dy}, **conv.values())
    np.testing.assert_allclose(results["out"], expected, rtol=1e-4, atol=1e-4)
    dx, dw = random_array(*x.shape, seed=3), random_array(*w.shape, seed=4)
    along_x = np.sum(reference(conv, dx, w).astype("f8") * dy)
    np.testing.assert_allclose(np.sum(results["dx"].astype("f8") * dx), along_x, rtol=1e-4)
    along_w = np.sum(reference(conv, x, dw).astype("f8") * dy)
    np.testing.assert_allclose(np.sum(results["dw"].astype("f8") * dw), along_w, rtol=1e-4)
    np.testing.assert_allclose(results["dw_by_convolution"], results["dw"], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients_equal_tensorflow(run: Run, stride: int, padding: str) -> None:
    changed: dict[str, tuple[int, ...]] = {"out_stride": (stride, stride)}
    if padding == "SAME":
        # TensorFlow pads as little as makes ceil(9 / stride) positions.
        changed |= {"in_pad_lower": (1, 1), "in_pad_upper": (1, 1)}
    conv = Conv((9, 9), (3, 3), changed=changed)
    x, w = conv.operands()
    given, kernel = tf.constant(x.transpose(0, 2, 3, 1)), tf.constant(w[0].transpose(2, 3, 1, 0))
    with tf.GradientTape() as tape:
        tape.watch([given, kernel])
        out = tf.nn.conv2d(given, kernel, stride, padding)
    dy = random_array(*out.shape, seed=2)
    dx, dw = tape.gradient(out, [given, kernel], output_gradients=dy)
    results = run("passes", {"x": x, "w": w, "dy": dy.transpose(0, 3, 1, 2)}, **conv.values())
    close = {"rtol": 1e-4, "atol": 1e-4}
    np.testing.assert_allclose(results["out"].transpose(0, 2, 3, 1), out, **close)
    np.testing.assert_allclose(results["dx"].transpose(0, 2, 3, 1), dx, **close)
    np.testing.assert_allclose(results["dw"][0].transpose(2, 3, 1, 0), dw, **close)


def test_half_convolutions_are_rounded_once(run: Run) -> None:
    conv = Conv((6, 6), (3, 3), type="half")
    x, w = conv.operands()
    out = run("passes", {"x": x, "w": w}, **conv.values())["out"]
    expected = reference(conv, x.astype("f4"), w.astype("f4"))
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, expected.astype("f2"), rtol=1e-3, atol=1e-3)


def test_updates_add_scaled_gradients(run: Run) -> None:
    conv = CONVOLUTIONS["plane"]
    x, w = conv.operands()
    dy = random_array(*reference(conv, x, w).shape, seed=2)
    gradient = run("passes", {"x": x, "w": w, "dy": dy}, **conv.values())["dw"]
    inputs: Arrays = {"x": x, "w": w, "w2": w, "dy": dy, "scale": np.array([0.25], "f4")}
    inputs |= {"b": np.ones(4, "f4"), "b2": np.ones(4, "f4")}
    results = run("updates", inputs, **conv.values())
    sums = dy.sum((0, 2, 3))
    np.testing.assert_allclose(results["w"], w + 0.25 * gradient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["w2"], w - 0.5 * gradient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["b"], 1 + 0.25 * sums, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["b2"], 1 - 0.5 * sums, rtol=1e-4, atol=1e-4)
    biased = dy + results["b"][:, np.newaxis, np.newaxis]
    np.testing.assert_allclose(results["biased"], biased, rtol=1e-5, atol=1e-5)


def test_several_convolutions_equal_single_ones(run: Run) -> None:
    conv = CONVOLUTIONS["groups"]
    x, w = conv.operands()
    results = run("several", {"x": x, "w": w}, **conv.values())
    expected = reference(conv, x, w)
    np.testing.assert_allclose(results["out"], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["multi"], expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results["updated"], w + 2 * results["dw"], rtol=1e-4, atol=1e-3)
    np.testing.assert_array_equal(results["exchanged"], w.swapaxes(1, 2))


def test_figures_count_products_and_meetings(run: Run) -> None:
    changed = {"out_stride": (2, 2), "in_pad_lower": (1, 1)}
    conv = Conv((8, 8), (3, 3), (2, 1, 3, 4), changed)
    results = {name: float(value) for name, value in run("figures", **conv.values()).items()}
    # 4 outputs a dimension; the first meets one zero of padding.
    products = 2 * 3 * 4 * (4 * 3 - 1) ** 2
    assert results["flops"] == results["backward_flops"] == results["update_flops"] == 2 * products
    assert results["cycles"] == pytest.approx(products / 16)  # of a Mk2 chip, in float
    assert results["update_cycles"] == results["cycles"]
    assert results["input_index"] == 3  # output 1 begins at 2, one of which is padding
    assert results["kernel_index"] == 1
    assert results["inputs_end"] == 4
    assert results["kernels_end"] == 2
    assert (results["outputs_begin"], results["outputs_end"]) == (1, 4)
    assert results["same"]
    assert results["reported"]
    assert results["bytes"] == 4 * (2 * 3 * 64 + 4 * 3 * 9 + 2 * 4 * 16)


ERRORS = {
    "kernel": (Conv((2, 2), (3, 3)), "the kernel has 3 elements in dimension 0, the input 2"),
    "dims": (Conv((4, 4), (3, 3), changed={"out_stride": (1,)}), "expected 2"),
    "cut": (Conv((4, 4), (3, 3), changed={"in_cut_lower": (5, 0)}), "truncates more"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_sizes_that_do_not_fit_are_refused(run: Run, name: str) -> None:
    conv, text = ERRORS[name]
    x, w = conv.operands()
    with pytest.raises(PoplarError, match=text) as error:
        run("passes", {"x": x, "w": w}, **conv.values())
    assert error.value.kind == "poplibs_error"


def test_wrong_activations_are_refused(run: Run) -> None:
    conv = Conv((4, 4), (3, 3))
    x, w = conv.operands()
    inputs = {"x": x, "w": w, "dy": np.zeros((2, 4, 3, 3), "f4")}
    with pytest.raises(PoplarError, match=r"in has shape \{2,4,3,3\}; expected \{2,4,2,2\}"):
        run("passes", inputs, **conv.values())
