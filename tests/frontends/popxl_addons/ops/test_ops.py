"""Ops made of others, against NumPy."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons.ops import grad_reduce_square_add, rotary_pos_embed

from tests.support import popxl_programs

RNG = np.random.default_rng(9)
T = RNG.normal(size=(2, 3, 5, 8)).astype(np.float32)


def rotated(t, sin, cos, dim):
    """The rotation as a product of complex numbers."""
    found = t.copy()
    turned = (t[..., 0:dim:2] + 1j * t[..., 1:dim:2]) * (cos + 1j * sin)
    found[..., 0:dim:2], found[..., 1:dim:2] = turned.real, turned.imag
    return found


@pytest.mark.parametrize(("dim", "dtype"), [(None, np.float32), (4, np.float32), (4, np.float16)])
def test_pairs_are_rotated_and_their_gradients_back(dim, dtype):
    sin, cos = rotary_pos_embed.trig_tables(5, dim or 8)
    angles = np.arange(5)[:, None] * 10000.0 ** (-np.arange(0, dim or 8, 2) / (dim or 8))
    np.testing.assert_allclose(sin, np.sin(angles), rtol=1e-6)

    def build(t, slope):
        def turn(t: popxl.Tensor):
            tables = rotary_pos_embed.trig_table_constants(5, dim or 8, dtype=t.dtype)
            if dim is not None:
                tables = [table.reshape((1, *table.shape)) for table in tables]
            return rotary_pos_embed.rotary_pos_embed(t, *tables, rotary_dim=dim)

        graph = popxl.gir().create_graph(turn, t)
        gradient = addons.autodiff(graph)
        call = popxl.ops.call_with_info(graph, t)
        inputs = gradient.grad_graph_info.inputs_dict(call)
        return {"y": call.outputs[0], "dt": gradient.call(slope, args=inputs)[0]}

    t = T.astype(dtype)
    expected = {"y": rotated(t, sin, cos, dim or 8), "dt": rotated(t, -sin, cos, dim or 8)}
    popxl_programs.check(build, [t, t], expected, 1e-5 if dtype is np.float32 else 4e-3)


def test_rotations_need_tables_of_their_shape():
    with popxl.Ir().main_graph:
        t = popxl.constant(T)
        sin, cos = rotary_pos_embed.trig_table_constants(5, 8)
        rotate = rotary_pos_embed.rotary_pos_embed
        with pytest.raises(ValueError, match="cos must have the shape"):
            rotate(t, sin, sin.transpose())
        with pytest.raises(ValueError, match="four dimensions"):
            rotate(t.flatten(), sin, cos)
        for dim in (3, 10, 0):
            with pytest.raises(ValueError, match="even number of at most 8"):
                rotate(t, sin, cos, dim)


def test_squares_of_gradients_are_summed_without_the_scale_of_the_loss():
    def build(t, scale):
        add = grad_reduce_square_add.grad_reduce_square_add
        return {"number": add(t, 4), "tensor": add(t, scale)}

    total = np.float32((T.astype(np.float64) ** 2).sum() / 16)
    inputs = [T.astype(np.float32), np.float32(4)]
    popxl_programs.check(build, inputs, {"number": total, "tensor": total})


def test_losses_are_not_scaled_and_their_gradients_are():
    logits = RNG.normal(size=(4, 3)).astype(np.float32)
    labels = np.array([0, 2, 1, 2], np.int32)
    exp = np.exp(logits)
    probs = exp / exp.sum(1, keepdims=True)
    loss = -np.log(probs[np.arange(4), labels]).mean()

    def build(x, n):
        with_grad, dx = addons.cross_entropy_with_grad(x, n, loss_scaling=8.0)
        return {"plain": addons.cross_entropy(x, n), "loss": with_grad, "dx": dx}

    expected = {"plain": loss, "loss": loss, "dx": (probs - np.eye(3)[labels]) * 2}
    expected = {name: np.asarray(value, np.float32) for name, value in expected.items()}
    popxl_programs.check(build, [logits, labels], expected)
