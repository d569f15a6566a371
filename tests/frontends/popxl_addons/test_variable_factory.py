"""Factories: where values come from, and the variables and inputs that are made."""

from __future__ import annotations

from functools import partial

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

from tests.support.popxl.popxl_modules import Net

SPEC = popxl.TensorSpec((2, 4), popxl.float32)


def test_variables_are_made_in_order_with_own_names(main):
    factories, _ = Net().create_graph(SPEC)
    first, second = factories.init(), factories.init("copy")
    assert list(first.to_dict()) == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    assert first.fc1.weight.name == "fc1.weight" and second.fc1.weight.name == "copy.fc1.weight"
    assert factories.init().fc1.bias.name.startswith("fc1.bias__t")
    assert isinstance(first.fc1.weight, popxl.Variable)
    assert [t.name for t in first.tensors] == sorted(t.name for t in first.tensors)
    both = addons.NamedTensors(a=first, b=second)
    assert both.named_tensors == both.to_dict() and len(both.tensors) == 8
    assert both.remap({t: t.name for t in both.tensors})["b.fc2.bias"] == "copy.fc2.bias"


def test_function_is_tried_once_before_it_gives_values(main):
    values = iter(range(10))
    factory = addons.VariableFactory(lambda: np.float32(next(values)), name="x")
    assert factory.dtype is popxl.float32
    assert [factory.create_tensor().data for _ in range(3)] == [1, 2, 3]
    limited = addons.VariableFactory([np.zeros(2), np.ones(2)], popxl.float16)
    assert [limited.create_tensor().data.tolist() for _ in range(2)] == [[0, 0], [1, 1]]
    with pytest.raises(StopIteration):
        limited.create_tensor()
    assert limited.create_tensor(empty=True).dtype is popxl.float16


def test_what_gives_no_values_is_refused(main):
    def fails():
        raise OSError("no file")

    with pytest.raises(StopIteration):
        addons.VariableFactory([])

    for data, phrase in (
        (fails, "throws error"),
        (5, "must be an iterable or callable"),
        (["text"], "must return arrays or numbers"),
    ):
        with pytest.raises(ValueError, match=phrase):
            addons.VariableFactory(data)


def test_values_in_files_are_kept(main, tmp_path):
    factory = addons.VariableFactory([np.ones((2, 3)), np.zeros((2, 3))], popxl.float32, "w")
    made = factory.create_tensor(memmap_dir=tmp_path / "new")
    assert isinstance(made.data, np.memmap) and (made.data == 1).all()
    again = factory.create_tensor(memmap_dir=tmp_path / "new", read_only_if_exists=True)
    assert (again.data == 1).all() and not again.data.flags.writeable
    empty = factory.next_memmap(tmp_path, "empty", empty=True)
    assert empty.shape == (2, 3) and (factory.next_data() == 0).all()


def drawing(*shape):
    """Returns a function that draws from the global generator, and its expected next draws."""
    np.random.seed(7)
    expected = [np.random.normal(size=shape) for _ in range(9)]
    np.random.seed(7)
    return partial(np.random.normal, size=shape), expected


def test_second_draw_repeats_value_once_per_group():
    ir = popxl.Ir(4)
    with ir.main_graph:
        draw, expected = drawing(2)
        factory = addons.VariableFactory(draw, popxl.float32, "w")
        made = [factory.create_tensor() for _ in range(2)]
        assert [variable.name for variable in made] == ["w", "w__t0"]
        np.testing.assert_allclose([v.data for v in made], expected[1:3], rtol=1e-6)
        draw, expected = drawing(2)
        pairs = ir.replica_grouping(group_size=2)
        grouped = addons.VariableFactory(draw, popxl.float32, "w", replica_grouping=pairs)
        variable = grouped.create_tensor("v")
        assert variable.shape == (2,) and variable.replica_grouping == pairs
        assert variable.name == "v"
        np.testing.assert_allclose(variable.data, expected[1:3], rtol=1e-6)
        assert grouped.next_data(empty=True).shape == (2, 2)
        np.testing.assert_allclose(grouped.next_data(), expected[3:5], rtol=1e-6)


def test_variables_draw_in_the_order_of_their_names(main):
    draw, expected = drawing(3)
    factories = addons.NamedVariableFactories()
    for name in ("b.x", "b.a", "a"):  # each takes two draws at once, and keeps the second
        factories.insert(name, addons.VariableFactory(draw, popxl.float32), overwrite=True)
    factories.init()
    again = factories.init()
    for name, value in zip(("a", "b.a", "b.x"), expected[6:]):
        np.testing.assert_allclose(again[name].data, value, rtol=1e-6)


def test_types_follow_data_and_shapes_replica():
    with popxl.Ir(2).main_graph as main:
        factory = addons.VariableFactory(lambda: np.zeros((4, 3)))
        assert factory.dtype is popxl.float64 and factory.shape == (4, 3)
        assert factory.meta_shape is None and not factory.by_ref
        assert factory.replica_grouping == main.ir.replica_grouping()
        sharded = addons.VariableFactory(
            lambda: np.ones((4, 3)), popxl.float16, "w", True, shard_over=2
        )
        assert sharded.shape == (6,) and sharded.meta_shape == (4, 3)
        with main.ir.create_empty_graph() as graph:
            inner = sharded.create_input("fc1")
            assert inner.name == "fc1.w" and inner.by_ref and inner.meta_shape == (4, 3)
            assert inner.shape == (6,) and graph.inputs == (inner,)
            t, made = addons.add_variable_input("b", lambda: np.zeros(3), popxl.float32)
            assert t.name == "b" and t.shape == (3,) and made.dtype is popxl.float32
            t, made = addons.add_replica_sharded_variable_input(
                "s", lambda: np.zeros((2, 3)), popxl.float32, True
            )
            assert t.shape == (3,) and t.by_ref and made.shard_over == 2
        buffer = popxl.replica_sharded_buffer((4, 3), popxl.float16, entries=2)
        remote = sharded.create_remote_tensor(buffer, 1, "r")
        assert remote.name == "r" and buffer.meta_shape == (4, 3)
        plain = popxl.remote_buffer((4, 3), popxl.float32)
        assert addons.VariableFactory(lambda: np.zeros((4, 3)), popxl.float32).create_remote_tensor(
            plain, 0
        ).shape == (4, 3)


def test_files_hold_values_alone_under_names_of_variables(main, tmp_path):
    factories, _ = Net().create_graph(SPEC)
    variables = factories.init("p", memmap_dir=tmp_path)
    assert variables.fc1.weight.name == "p.fc1.weight"
    names = ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"p.{n}.npy" for n in names]
    raw = np.fromfile(tmp_path / "p.fc1.weight.npy", np.float32).reshape(4, 5)
    np.testing.assert_array_equal(raw, variables.fc1.weight.data)
    again = factories.init("p", memmap_dir=tmp_path, read_only_if_exists=True)
    np.testing.assert_array_equal(raw, again.fc1.weight.data)
    assert factories.init("e", empty=True).fc1.weight.shape == (4, 5)


def test_zero_tensors_are_made_in_current_graph(main):
    factories, graph = Net().create_graph(SPEC)
    with main.ir.create_empty_graph() as inner:
        for made in (factories.init_zero(), factories.init_undef()):
            assert made.keys_flat() == ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"]
            assert all(tensor in inner for tensor in made.tensors)
            assert made.fc1.weight.spec == graph.args.fc1.weight.spec
    groups = factories.replica_groupings
    assert groups.keys_flat() == factories.keys_flat()
    assert groups.fc1.weight == main.ir.replica_grouping()


@pytest.mark.parametrize(("replicas", "stride"), [(1, None), (2, None), (4, 2)])
def test_seeds_are_those_of_the_host_and_last(replicas, stride):
    """With a stride, replicas at that distance have one seed."""
    ir = popxl.Ir(replicas)
    groups = replicas if stride is None else stride
    with ir.main_graph, popxl.in_sequence():
        grouping = None if stride is None else ir.replica_grouping(stride)
        variable, seed = addons.seed_variable(11, grouping)
        assert (seed.shape, seed.dtype) == ((2,), popxl.uint32)
        used = addons.ops.host_store(seed)
        ops.var_updates.copy_var_update_(seed, seed + 1)
    expected = popxl.create_seeds(11, replicas=groups)
    lanes = np.tile(expected.reshape(groups, 2), (replicas // groups, 1)).reshape(
        (replicas, 2) if replicas > 1 else (2,)
    )
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run()[used], lanes)
        np.testing.assert_array_equal(session.run()[used], lanes + 1)
        np.testing.assert_array_equal(session.get_tensor_data(variable), expected + 2)
