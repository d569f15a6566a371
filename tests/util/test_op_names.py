"""The table of op properties, compared with TensorFlow, the native library and other tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import op_def_registry

from tensorflow_ipu.compiler.checks import operator_table
from tensorflow_ipu.compiler.workload import describe
from tensorflow_ipu.costs.chip import collectives
from tensorflow_ipu.runtime import native
from tensorflow_ipu.util import op_names

NATIVE = Path(__file__).parents[2] / "native"
SETS = {
    name: sorted(value)
    for name, value in vars(op_names).items()
    if name.isupper() and not name.startswith("_") and not isinstance(value, str)
}
# Attributes of our ops that say how many replicas do something together.
GROUPS = {"replication_factor", "replica_group_size"}


@pytest.fixture(scope="module")
def definitions():
    """The definitions of all ops of TensorFlow and of the native library, by name."""
    native.ops()
    return {name: op_def_registry.get(name) for name in _own_ops()}


def _own_ops() -> set[str]:
    sources = "".join(path.read_text() for path in sorted(NATIVE.rglob("*.cc")))
    return set(re.findall(r'REGISTER_OP\("(\w+)"\)', sources))


@pytest.mark.parametrize("name", SETS)
def test_every_op_of_a_set_exists(name, definitions) -> None:
    ops = [op for op in SETS[name] if definitions.get(op) or op_def_registry.get(op)]
    assert ops == SETS[name]


def test_own_ops_are_those_of_the_native_library(definitions) -> None:
    assert all(op_names.is_own(op) for op in definitions)
    assert not any(op_names.is_own(op) for op in operator_table.ON_CHIP)


def test_ops_that_run_functions(definitions) -> None:
    """TensorFlow's definitions have the attributes that the table says."""
    for op in op_names.CONTROL_FLOW:
        attributes = {a.name: a.type for a in op_def_registry.get(op).attr}
        assert (attributes.get("body") == attributes.get("cond") == "func") is op_names.is_loop(op)
        assert (attributes.get("f") == "func") is op_names.is_call(op)
        choice = "then_branch" in attributes or attributes.get("branches") == "list(func)"
        assert choice is op_names.is_conditional(op)


def test_ops_that_write_variables() -> None:
    """On the chip, an op that changes the variable it is given takes a handle and makes nothing.

    So do ops on other resources: lists, and generators of random numbers.
    """
    known = {op: op_def_registry.get(op) for op in operator_table.ON_CHIP}
    writers = {
        op
        for op, definition in known.items()
        if definition is not None
        and definition.input_arg
        and definition.input_arg[0].type == types_pb2.DT_RESOURCE
        and not definition.output_arg
        and not re.match("Stack|TensorArray|Destroy|Rng", op)
    }
    assert {op for op in known if op_names.is_update(op)} == writers


@pytest.mark.parametrize(
    "op, update, optimizer",
    [
        ("ResourceApplyAdam", True, True),
        ("ResourceSparseApplyAdagrad", True, True),
        ("ResourceScatterAdd", True, False),
        ("AssignVariableOp", True, False),
        ("AssignSubVariableOp", True, False),
        ("ResourceStridedSliceAssign", True, False),
        ("ResourceGather", False, False),
        ("ReadVariableOp", False, False),
    ],
)
def test_updates(op: str, update: bool, optimizer: bool) -> None:
    assert op_names.is_update(op) is update
    assert op_names.is_optimizer_update(op) is optimizer


@pytest.mark.parametrize(
    "name, backward",
    [
        ("gradients/dense/MatMul_grad/MatMul", True),
        ("tower/gradients_1/MatMul_grad/MatMul", True),
        ("gradient_tape/dense/MatMul", True),
        ("gradients", False),
        ("dense/MatMul", False),
        ("gradients_of_users/MatMul", False),
        ("my_gradients/MatMul", False),
    ],
)
def test_backward_ops(name: str, backward: bool) -> None:
    assert op_names.is_backward(name) is backward


def test_collectives_are_those_of_the_native_library(definitions) -> None:
    """All ops with an attribute for a group of replicas, and those that always take all of them."""
    with_groups = {
        op: (GROUPS & {attribute.name for attribute in definition.attr}).pop()
        for op, definition in definitions.items()
        if GROUPS & {attribute.name for attribute in definition.attr}
        and not op.endswith("Start")  # the first half, which only the engine makes
    }
    rows = {op: row.group for op, row in op_names.COLLECTIVES.items() if row.group}
    assert rows == with_groups


def test_every_collective_on_links_has_a_cost() -> None:
    assert set(collectives.FORMULAS) == op_names.LINK_COLLECTIVES


def test_options_that_merge_collectives_are_passed_to_planner() -> None:
    named = {row.merged_up_to for row in op_names.COLLECTIVES.values()} - {""}
    assert named <= set(describe.MERGING)


def test_checks_that_the_native_library_drops() -> None:
    source = (NATIVE / "kernels" / "support.cc").read_text()
    body = re.search(r"bool IsDroppedCheck\(.*?\{(.*?)\}", source, re.DOTALL)
    assert body is not None
    assert set(re.findall(r'"(\w+)"', body[1])) == op_names.DROPPED_CHECKS


def _names_in(path: str, function: str) -> set[str]:
    """Returns the names of ops that a function of the native library tests for."""
    source = (NATIVE / path).read_text()
    body = re.search(rf"{function}\(.*?\n}}\n", source, re.DOTALL)
    assert body is not None
    return set(re.findall(r'"(\w{5,})"', body[0]))


def test_engine_knows_collectives_reads_and_writes() -> None:
    """The engine works on graphs that TensorFlow has optimized, where Python has no part."""
    uniform = "engine/uniform_values.cc"
    assert _names_in(uniform, "bool IsCollective") == set(op_names.COLLECTIVES)
    assert op_names.QUERIES <= _names_in(uniform, "bool IsRead")
    assert all(map(op_names.is_update, _names_in(uniform, "bool IsWrite")))
    assert op_names.ASSIGNMENTS <= _names_in(uniform, "bool IsWrite")


def test_engine_splits_collectives_by_their_groups() -> None:
    source = (NATIVE / "engine" / "split_collectives.cc").read_text()
    split = dict(re.findall(r'{"(Ipu\w+)", "(\w*)"}', source))
    assert split == {op: op_names.COLLECTIVES[op].group for op in split}
    assert len(split) == 4


def test_it_needs_no_tensorflow(run_python) -> None:
    code = (
        "import sys\nfrom tensorflow_ipu.util import op_names\n"
        "sys.exit(any(name.split('.')[0] in ('tensorflow', 'numpy') for name in sys.modules))"
    )
    run_python(code)
