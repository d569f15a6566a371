"""Trees of names."""

from __future__ import annotations

import popxl
import popxl_addons as addons
import pytest
from popxl_addons import dot_tree
from popxl_addons.named_tensors import print_named_tensors


def tree():
    return addons.DotTree.from_dict({"b.x": 1, "a": 2, "b.y.z": 3})


def test_names_with_dots_are_those_of_trees_inside():
    made = tree()
    assert made.keys() == ["b", "a"] and len(made) == 2 and len(made.values()) == 2
    assert made.keys_flat() == ["b.x", "b.y.z", "a"] and made.values_flat() == [1, 3, 2]
    assert made.len_flat() == 3
    assert made.b.y.z == made["b.y.z"] == made.get("b").get("y.z") == getattr(made, "b.y.z") == 3
    assert "b.y" in made and "b.y.z" in made and "b.z" not in made and "a.b" not in made
    assert made.unpack() == (("a", "b.x", "b.y.z"), (2, 1, 3))
    assert addons.DotTree().unpack() == ([], [])
    assert str(made) == "{'b.x': 1, 'b.y.z': 3, 'a': 2}" and repr(made) == f"DotTree({made})"
    assert addons.DotTree.pack(*made.unpack()).to_dict() == made.to_dict()


def test_numbers_count_from_highest_if_they_are_negative():
    made = addons.DotTree.from_dict({0: "zero", "2": "two", "name": "other"})
    assert (made[0], made["2"], made[-1], made["0"]) == ("zero", "two", "two", "zero")
    assert made[-3] == "zero" and 2 in made and "1" not in made and made.get(2) == "two"
    made.insert(1, addons.DotTree(x=1))
    assert made["1.x"] == made[1].x == 1 and made.keys() == ["0", "2", "name", "1"]
    assert made.pop(-1) == "two" and made[-1] is made["1"] and len(made) == 3
    assert addons.DotTree.from_dict({3: made}).keys_flat() == ["3.0", "3.name", "3.1.x"]
    with pytest.raises(KeyError, match="Numerical key does not exist"):
        made[-4]
    with pytest.raises(ValueError, match="negative"):
        made.insert(-1, "x")


def test_entries_are_not_replaced_unless_asked_for():
    made = tree()
    inner = made.b
    for key in ("a", "b", "b.new", "b.x"):
        with pytest.raises(ValueError, match="already exists"):
            made.insert(key, 5)
    made.insert("b.new", 5, overwrite=True)
    assert made["b.new"] == 5 and "new" not in inner  # the tree that was there is copied
    with pytest.raises(ValueError, match="not a valid python identifier"):
        made.insert("b.1x", 5)
    with pytest.raises(ValueError, match="already exists"):
        made.update({"a": 1})
    made.update(addons.DotTree(a=7, c=addons.DotTree(d=8)), overwrite=True)
    assert made.a == 7 and made.c.d == 8


def test_value_in_way_of_a_tree_is_replaced():
    made = tree()
    with pytest.raises(ValueError, match="already exists"):
        made.insert("a.inner", 5)
    made.insert("a.inner", 5, overwrite=True)
    assert made.a.to_dict() == {"inner": 5} and type(made.a) is addons.DotTree
    for key in ("a b", "", "a..b", "a-b", ".a"):
        with pytest.raises(ValueError, match="not a valid python identifier"):
            made.insert(key, 5)


def test_missing_entries_are_named():
    made = tree()
    for missing in ("b.c", "c.d", "b.y.c"):
        with pytest.raises(KeyError, match="Key does not exist"):
            made.get(missing)
        with pytest.raises(KeyError):
            made.pop(missing)
        assert missing not in made
    with pytest.raises(KeyError, match="Key does not exist"):
        made["c"]
    with pytest.raises(KeyError, match="is not a sub-DotTree"):
        made["a.b"]
    with pytest.raises(AttributeError, match="'b', 'a'"):
        made.c  # noqa: B018


def test_parts_and_copies_keep_class_of_tree():
    made = addons.NamedVariableFactories.from_dict({"b.x": 1, "a": 2})
    copy = made.copy()
    assert made.pop("b.x") == 1 and copy["b.x"] == 1
    assert type(copy.b) is addons.NamedVariableFactories
    assert type(copy.filter_keys(["b", "a"])) is addons.NamedVariableFactories
    assert copy.filter_keys(["b.x"]).to_dict() == {"b.x": 1}
    with pytest.raises(ValueError, match="duplicates"):
        copy.filter_keys(["a", "a"])
    assert copy.len() == len(copy) == 2
    assert copy.map(str).to_dict() == {"b.x": "1", "a": "2"}
    other = addons.DotTree(a="one", c="two")
    assert copy.to_mapping(other) == dot_tree.to_mapping(copy, other) == {2: "one"}
    assert dot_tree.sanitise("1a/b.c") == "_a_b_c"


def test_named_tensors_are_sorted_by_their_own_names():
    with popxl.Ir().main_graph:
        b, a = popxl.variable([1.0], name="b"), popxl.variable([2.0], name="a")
        named = addons.NamedTensors.from_dict({"x": b, "y.z": a})
        assert named.tensors == (a, b) and named.named_tensors == {"x": b, "y.z": a}
        other = named.remap({a: b, b: a})
        assert other.x is a and other.y.z is b and type(other.y) is addons.NamedTensors
        with pytest.raises(KeyError):
            named.remap({a: b})
        assert repr(named) == f"NamedTensors({named})"
        assert str(named).startswith("{'x': Variable[b popxl.dtypes.float32 (1,)], 'y.z': ")
        before = len(popxl.gcg().ops)
        print_named_tensors(named)
        printed = popxl.gcg().ops[before:]
    assert [op.attributes["title"] for op in printed] == ["x", "y.z"]


def test_trees_and_modules_without_entries_are_true():
    import popxl_addons as addons

    assert all([addons.dot_tree.DotTree(), addons.NamedTensors(), addons.Module()])
    assert addons.Module.from_list([])
