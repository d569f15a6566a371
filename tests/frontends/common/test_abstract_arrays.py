"""Arrays without values, and variables of PopXL that keep no copies, in a process that plans."""

from __future__ import annotations

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl_addons.layers import Linear

from tensorflow_ipu.compiler.hooks import plan_hooks
from tensorflow_ipu.configs import flags
from tensorflow_ipu.frontends.common import abstract_arrays


@pytest.fixture
def planning(monkeypatch):
    """Makes front ends take this process for a plan without a run."""
    monkeypatch.setenv(flags.PLAN_VARIABLE, "plan.json")


def test_abstract_arrays_have_shape_and_type():
    made = abstract_arrays.make([1 << 20, 1 << 20], np.float16)
    assert made.shape == (1 << 20, 1 << 20) and made.dtype == np.float16
    assert abstract_arrays.is_abstract(made)
    assert not abstract_arrays.is_abstract(np.zeros(2))
    assert not abstract_arrays.is_abstract(np.zeros(()))


def test_variables_share_the_memory_of_arrays(planning):
    given = np.ones((4, 3), np.float32)
    with popxl.Ir().main_graph:
        kept = popxl.variable(given)
        converted = popxl.variable(given.astype(np.float64))
        narrow = popxl.variable(given, popxl.float16)
    assert kept.data is given
    for made, dtype in ((converted, popxl.float32), (narrow, popxl.float16)):
        assert abstract_arrays.is_abstract(made.data)
        assert made.dtype is dtype and made.shape == (4, 3)


def test_layers_of_addons_draw_nothing(planning):
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        spec = popxl.TensorSpec((1, 1 << 16), popxl.float16)
        grouping = ir.replica_grouping(group_size=2)
        factories, _ = Linear(1 << 17, replica_grouping=grouping).create_graph(spec)
        weights = factories.init()
    assert weights.weight.shape == (1 << 16, 1 << 17)
    assert weights.weight.data.shape == (2, 1 << 16, 1 << 17)
    assert weights.weight.dtype is popxl.float16
    assert abstract_arrays.is_abstract(weights.weight.data)


def test_factories_call_for_a_value_no_more(planning):
    calls = []

    def draw():
        calls.append(None)
        return np.zeros((2, 3), np.float64)

    with popxl.Ir().main_graph:
        factory = addons.VariableFactory(draw, popxl.float32, "w")
        before = len(calls)
        made = [factory.create_tensor() for _ in range(3)]
    assert len(calls) == before
    assert {(w.shape, w.dtype) for w in made} == {((2, 3), popxl.float32)}


def test_reading_an_abstract_value_ends_the_plan(planning, monkeypatch):
    def need(name):
        raise RuntimeError(name)

    monkeypatch.setattr(plan_hooks, "need", need)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        kept = popxl.variable(np.ones(3, np.float32), name="kept")
        drawn = popxl.variable(abstract_arrays.make([3], np.float32), name="drawn")
        ops.var_updates.accumulate_(kept, drawn)
    session = popxl.Session(ir, "ipu_hw")
    np.testing.assert_array_equal(session.get_tensor_data(kept), np.ones(3))
    with pytest.raises(RuntimeError, match="drawn"):
        session.get_tensor_data(drawn)
