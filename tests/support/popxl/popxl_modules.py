"""Modules of PopXL's addons, for tests."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
from popxl import ops


class Linear(addons.Module):
    """A product and a sum, as in the tutorial of the original."""

    def __init__(self, out_features: int, bias: bool = True, **options):
        super().__init__(**options)
        self.out_features = out_features
        self.bias = bias

    def build(self, x: popxl.Tensor) -> popxl.Tensor:
        size = (x.shape[-1], self.out_features)
        y = x @ self.add_variable_input("weight", partial(np.random.normal, 0, 0.5, size), x.dtype)
        if self.bias:
            zeros = partial(np.zeros, self.out_features)
            y = y + self.add_variable_input("bias", zeros, x.dtype)
        return y


class Net(addons.Module):
    """Layers that are parts of the graph."""

    def __init__(self):
        super().__init__()
        self.fc1 = Linear(5)
        self.fc2 = Linear(3)

    def build(self, x: popxl.Tensor):
        return self.fc2(ops.gelu(self.fc1(x)))


class Outlined(addons.Module):
    """Layers that are calls of one graph."""

    def __init__(self):
        super().__init__()
        self.last = Linear(3)

    def build(self, x: popxl.Tensor):
        factories, graph = Linear(4).create_graph(x)
        for name in ("fc1", "fc2"):
            (x,) = graph.bind(self.add_variable_inputs(name, factories)).call(x)
            x = ops.gelu(x)
        return self.last(x)


class Square(addons.Module):
    """x² w with a gradient of its own, which is three times the true one by x."""

    def build(self, x: popxl.Tensor):
        w = self.add_variable_input("w", partial(np.full, (), 2.0), x.dtype)
        square = x * x
        self.aux["x"], self.aux["w"], self.aux["square"] = x, w, square
        self.aux["factor"] = 6.0
        return square * w

    def build_grad(self, slope: popxl.Tensor):
        self.var_grad["w"] = ops.sum(slope * self.aux["square"])
        return slope * self.aux["x"] * self.aux["w"] * self.aux["factor"]
