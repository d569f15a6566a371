"""Ops made of others, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons.ops import grad_reduce_square_add, rotary_pos_embed

from tests.support.popxl import popxl_programs

RNG = np.random.default_rng(9)
T = RNG.normal(size=(2, 5, 3, 8)).astype(np.float32)  # batch, sequence, heads, size


def rotated(t, sin, cos, dim):
    """The rotation of pairs by the angles of their positions, in the type of the tables."""
    found = t.copy()
    sin, cos = sin[:, np.newaxis], cos[:, np.newaxis]
    first, second = t[..., 0:dim:2], t[..., 1:dim:2]
    found[..., 0:dim:2] = first * cos - second * sin
    found[..., 1:dim:2] = second * cos + first * sin
    return found


@pytest.mark.parametrize(
    ("dim", "dtype"), [(None, np.float32), (0, np.float32), (4, np.float32), (4, np.float16)]
)
def test_pairs_are_rotated_and_their_gradients_back(dim, dtype):
    sin, cos = rotary_pos_embed.trig_tables(5, dim or 8)

    def build(t, slope):
        def turn(t: popxl.Tensor):
            tables = rotary_pos_embed.trig_table_constants(5, dim or 8, dtype=t.dtype)
            if dim:
                tables = [table.reshape((1, *table.shape)) for table in tables]
            return rotary_pos_embed.rotary_pos_embed(t, *tables, rotary_dim=dim)

        graph = popxl.gir().create_graph(turn, t)
        gradient = addons.autodiff(graph)
        call = popxl.ops.call_with_info(graph, t)
        inputs = gradient.grad_graph_info.inputs_dict(call)
        return {"y": call.outputs[0], "dt": gradient.call(slope, args=inputs)[0]}

    t = T.astype(dtype)
    expected = {"y": rotated(t, sin, cos, dim or 8), "dt": rotated(t, -sin, cos, dim or 8)}
    popxl_programs.check(build, [t, t], expected, 1e-7 if dtype is np.float32 else 4e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_angles_are_computed_in_type_of_tables(dtype):
    found = rotary_pos_embed.trig_tables(700, 6, 500, dtype)
    powers = np.array([np.power(dtype(500), dtype(-i) / dtype(6)) for i in (0, 2, 4)])
    angles = np.arange(700).astype(dtype)[:, np.newaxis] * powers
    for table, expected in zip(found, (np.sin(angles), np.cos(angles))):
        assert table.dtype == dtype
        np.testing.assert_allclose(table, expected, rtol=1e-6 if dtype != np.float16 else 1e-3)


def test_rotations_need_tables_of_their_shape():
    with popxl.Ir().main_graph:
        t = popxl.constant(T)
        sin, cos = rotary_pos_embed.trig_table_constants(5, 8, dtype=np.float32)
        rotate = rotary_pos_embed.rotary_pos_embed
        with pytest.raises(ValueError, match="cos must have the shape"):
            rotate(t, sin, sin.transpose())
        with pytest.raises(ValueError, match="four dimensions"):
            rotate(t.flatten(), sin, cos)
        for dim in (3, 10):
            with pytest.raises(ValueError, match="even number of at most 8"):
                rotate(t, sin, cos, dim)


def test_gradient_squares_are_summed_without_loss_scale():
    def build(t, scale):
        add = grad_reduce_square_add.grad_reduce_square_add
        return {"number": add(t, 4), "tensor": add(t, scale)}

    total = np.float32((T.astype(np.float64) ** 2).sum() / 16)
    inputs = [T.astype(np.float32), np.float32(4)]
    popxl_programs.check(build, inputs, {"number": total, "tensor": total})


REDUCTIONS = ("mean", "sum", "none")


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("ignored", [None, 2])
def test_losses_are_not_scaled_and_their_gradients_are(ignored, dtype):
    logits = RNG.normal(size=(2, 3, 4)).astype(dtype)
    labels = np.array([[0, 2, 1], [2, 3, 0]], np.int32)
    exp = np.exp(logits.astype(np.float64))
    probs = exp / exp.sum(-1, keepdims=True)
    counts = np.ones((2, 3)) if ignored is None else labels != ignored
    losses = -np.log(np.take_along_axis(probs, labels[..., None], -1)[..., 0]) * counts
    slopes = (probs - np.eye(4)[labels]) * counts[..., None]

    def build(x, n, scale):
        found = {}
        for how in REDUCTIONS:
            found[how] = addons.cross_entropy(x, n, ignored, how)
            for name, factor in (("number", 8), ("tensor", scale)):
                pair = addons.cross_entropy_with_grad(x, n, factor, ignored, how)
                found |= dict(zip((f"{how} loss {name}", f"{how} dx {name}"), pair))
        graph = popxl.gir().create_graph(addons.cross_entropy, x, n, ignored)
        gradient = addons.autodiff(graph, grads_required=graph.inputs[:1])
        call = popxl.ops.call_with_info(graph, x, n)
        inputs = gradient.grad_graph_info.inputs_dict(call)
        one = popxl.constant(1.0, x.dtype)
        return found | {"derived": gradient.call(one, args=inputs)[0]}

    expected = {"derived": slopes / counts.sum()}
    for how in REDUCTIONS:
        divisor = counts.sum() if how == "mean" else 1
        loss = losses if how == "none" else losses.sum() / divisor
        expected[how] = loss
        for name in ("number", "tensor"):
            expected[f"{how} loss {name}"] = loss
            expected[f"{how} dx {name}"] = slopes * 8 / divisor
    expected = {name: np.asarray(value, dtype) for name, value in expected.items()}
    inputs = [logits, labels, np.float32(8)]
    popxl_programs.check(build, inputs, expected, 1e-5 if dtype is np.float32 else 1e-2)


def test_losses_refuse_other_reductions():
    with popxl.Ir().main_graph:
        x, n = popxl.constant(np.zeros((2, 3), np.float32)), popxl.constant([0, 1])
        for loss in (addons.cross_entropy, addons.cross_entropy_with_grad):
            with pytest.raises(ValueError, match="Not a valid reduction"):
                loss(x, n, reduction="median")
