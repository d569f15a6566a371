"""Normalization of images, resampling on grids, against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import popart
import pytest
from onnx import helper, numpy_helper
from popart import popart_exception

from tests.support.popart import popart_models

OFFSETS, SCALES = np.array([0.1, 0.2, 0.3], np.float32), np.array([2, 1, 0.5], np.float32)


@pytest.mark.parametrize("dtype, wanted", [(np.uint8, np.float16), (np.float32, np.float32)])
def test_images_get_a_fourth_channel(dtype, wanted):
    image = np.random.RandomState(0).randint(0, 255, (2, 3, 3, 3)).astype(dtype)
    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo(image))
    given = [builder.aiOnnx.constant(array.astype(wanted)) for array in (OFFSETS, SCALES)]
    y = builder.aiGraphcore.normalize_image([x, *given], 1 / 255)
    found = popart_models.infer(builder.getModelProto(), {x: image}, [y])[y]
    expected = np.pad((image / 255 - OFFSETS) * SCALES, [(0, 0)] * 3 + [(0, 1)])
    assert found.dtype == wanted
    np.testing.assert_allclose(found, expected, 2e-3, 1e-3)


def test_other_channels_are_refused():
    builder = popart.Builder()
    x, v = builder.addInputTensor("FLOAT", [2, 2, 4]), builder.addInputTensor("FLOAT", [3])
    y = builder.aiGraphcore.normalize_image([x, v, v])
    with pytest.raises(popart.popart_exception, match="with 3 channels last"):
        popart_models.infer(builder.getModelProto(), {}, [y])


KERNELS = {
    "linear": lambda d: max(0.0, 1 - d),
    "cubic": lambda d: (
        1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4) * (d < 2)
    ),
}


def pixel(p, size, padding, align_corners):
    """The index of the pixel that stands for a place outside too; None for zeros."""
    if 0 <= p < size:
        return p
    if padding == "border":
        return min(max(p, 0), size - 1)
    if padding == "zeros":
        return None
    period = 2 * (size - 1 if align_corners else size)
    p %= period
    return p if p < size else period - p - (not align_corners)


def sampled(x, grid, mode, padding, align_corners):
    """Sums kernel times pixel around each place, in float64."""
    result = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *where in np.ndindex(grid.shape[:-1]):
        taps = []
        for place, size in zip(grid[(n, *where)][::-1], x.shape[2:]):
            at = (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2
            around = range(int(np.floor(at)) - 1, int(np.floor(at)) + 3)
            indices = [(pixel(p, size, padding, align_corners), abs(at - p)) for p in around]
            taps.append([(i, KERNELS[mode](d)) for i, d in indices if i is not None])
        for chosen in itertools.product(*taps):
            index, weights = zip(*chosen)
            result[(n, slice(None), *where)] += x[(n, slice(None), *index)] * np.prod(weights)
    return result


CASES = [
    ("linear", "zeros", 0, 2),
    ("linear", "border", 1, 2),
    ("linear", "reflection", 0, 3),
    ("cubic", "zeros", 1, 2),
    ("cubic", "border", 0, 2),
    ("cubic", "reflection", 1, 2),
]


def test_values_and_gradients_follow_the_kernels():
    random = np.random.RandomState(0)
    nodes, tensors, data = [], [], {}
    for i, (mode, padding, align, rank) in enumerate(CASES):
        x = random.randn(2, 2, *range(3, 3 + rank))
        grid = random.uniform(-1.6, 1.6, (2, *range(2, 2 + rank), rank))
        scale = random.randn(2, 2, *range(2, 2 + rank))
        data[i] = x, grid, scale
        for name, array in zip("xgs", data[i]):
            tensors.append(numpy_helper.from_array(array.astype(np.float32), f"{name}{i}"))
        chosen = {"mode": mode, "padding_mode": padding, "align_corners": align}
        nodes += [
            helper.make_node("GridSample", [f"x{i}", f"g{i}"], [f"y{i}"], **chosen),
            helper.make_node("Mul", [f"y{i}", f"s{i}"], [f"m{i}"]),
            helper.make_node("ReduceSum", [f"m{i}"], [f"l{i}"], keepdims=0),
        ]
    nodes.append(helper.make_node("Sum", [f"l{i}" for i in data], ["loss"]))
    graph = helper.make_graph(nodes, "grids", [], [], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    wanted = [f"{name}{i}" for i in data for name in "xg"]
    found = popart_models.differentiate(
        model.SerializeToString(), "loss", {}, wanted, [f"y{i}" for i in data]
    )
    for i, (x, grid, scale) in data.items():
        case = CASES[i][:3]
        np.testing.assert_allclose(found[f"y{i}"], sampled(x, grid, *case), 1e-3, 1e-4)
        ways = [random.randn(*array.shape) * 1e-6 for array in (x, grid)]
        for name, (dx, dg) in (("x", (ways[0], 0)), ("g", (0, ways[1]))):
            later, before = (sampled(x + s * dx, grid + s * dg, *case) for s in (1, -1))
            slope = (found[f"{name}{i}"] * (dx + dg)).sum()
            expected = ((later - before) * scale).sum() / 2
            np.testing.assert_allclose(slope, expected, 1e-3, 1e-9, err_msg=f"{case} {name}")


@pytest.mark.parametrize(
    ("attributes", "shape", "message"),
    [
        ({"mode": "bilinear"}, [1, 2, 2, 2], "mode bilinear is not supported. Expected one of"),
        ({"padding_mode": "wrap"}, [1, 2, 2, 2], "padding_mode wrap is not supported"),
        ({}, [1, 2, 2, 3], "2 coordinates. Received the shape"),
    ],
)
def test_what_does_not_fit_is_refused(attributes, shape, message):
    tensors = [
        numpy_helper.from_array(np.ones(sizes, np.float32), name)
        for name, sizes in (("x", [1, 1, 3, 3]), ("g", shape))
    ]
    node = helper.make_node("GridSample", ["x", "g"], ["y"], **attributes)
    graph = helper.make_graph([node], "grids", [], [], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(popart_exception, match=message):
        popart_models.infer(model.SerializeToString(), {}, ["y"])
