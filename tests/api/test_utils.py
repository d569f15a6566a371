"""The public module `ipu.utils`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.api import utils
from tensorflow_ipu.api.utils import move_variable_initialization_to_cpu
from tensorflow_ipu.configs import flags
from tensorflow_ipu.runtime import native

# --- Moving initial values to the CPU, judged by the attributes of the graph's ops ---


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def _ipu_attributes(graph: tf.Graph) -> None:
    """Adds the attributes of IPU scopes to all ops."""
    for op in graph.get_operations():
        op._set_device("/device:IPU:0")
        op._set_attr("_XlaCompile", attr_value_pb2.AttrValue(b=True))
        op._set_attr("_XlaScope", attr_value_pb2.AttrValue(s=b"jit_scope_ipu_0"))
        op._set_attr("_XlaSeparateCompiledGradients", attr_value_pb2.AttrValue(b=False))


def _is_moved(op: tf.Operation) -> bool:
    attributes = op.node_def.attr
    moved = op.device == "/device:CPU:0"
    assert moved == (list(attributes["_class"].list.s) == [b"loc:@cpu"])
    assert moved == ("_XlaCompile" not in attributes)
    assert moved == ("_XlaScope" not in attributes)
    assert moved == ("_XlaSeparateCompiledGradients" not in attributes)
    return moved


def _variable(**arguments: bool) -> tf.Variable:
    return tf.compat.v1.get_variable(
        "v", [2, 3], initializer=tf.compat.v1.random_uniform_initializer(2, 3), **arguments
    )


def test_only_ops_of_initial_value_move(graph: tf.Graph) -> None:
    variable = _variable(use_resource=True)
    other = variable + 1.0
    _ipu_attributes(graph)
    move_variable_initialization_to_cpu()
    moved = {op.name for op in graph.get_operations() if op.name != "cpu" and _is_moved(op)}
    assert moved == {
        op.name
        for op in graph.get_operations()
        if op.name.startswith("v/Initializer/random_uniform")
    }
    assert moved
    assert not _is_moved(other.op)
    assert not _is_moved(variable.handle.op) and not _is_moved(variable.initializer)


def test_an_op_named_cpu_is_added_once(graph: tf.Graph) -> None:
    _variable(use_resource=True)
    before = tf.control_dependencies([tf.no_op()])
    with tf.device("/device:IPU:0"), tf.name_scope("scope"), before:
        move_variable_initialization_to_cpu(graph)
    move_variable_initialization_to_cpu(graph)
    anchor = graph.get_operation_by_name("cpu")
    assert (anchor.type, anchor.device) == ("NoOp", "/device:CPU:0")
    assert not anchor.control_inputs
    assert not [op for op in graph.get_operations() if op.name == "cpu_1"]


def test_another_op_of_that_name_is_an_error(graph: tf.Graph) -> None:
    tf.constant(1.0, name="cpu")
    with pytest.raises(ValueError, match="Rename it"):
        move_variable_initialization_to_cpu()


def test_ops_that_use_a_resource_are_left(graph: tf.Graph) -> None:
    first = _variable(use_resource=True)
    second = tf.compat.v1.get_variable("w", initializer=first.read_value() * 2.0, use_resource=True)
    _ipu_attributes(graph)
    move_variable_initialization_to_cpu()
    uses = [op for op in graph.get_operations() if any(t.dtype == tf.resource for t in op.inputs)]
    assert uses and not any(_is_moved(op) for op in uses)
    assert _is_moved(second.initializer.inputs[1].op)


def test_only_the_given_graph_changes() -> None:
    with tf.Graph().as_default() as other:
        _variable(use_resource=True)
    with tf.Graph().as_default() as default:
        move_variable_initialization_to_cpu(other)
        assert not default.get_operations()
    assert other.get_operation_by_name("v/Initializer/random_uniform").device == "/device:CPU:0"


@pytest.mark.parametrize("use_resource", [True, False])
def test_the_graph_still_runs(graph: tf.Graph, use_resource: bool) -> None:
    variable = _variable(use_resource=use_resource)
    move_variable_initialization_to_cpu()
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        value = session.run(variable)
    assert np.all((value >= 2) & (value < 3))


# --- The public module `ipu.utils` ---


@pytest.fixture(autouse=True)
def fresh_flags(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(flags.VARIABLE, raising=False)
    flags._reset_for_tests()
    yield
    flags._reset_for_tests()


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, bool]]:
    """The calls that reach the engine."""
    calls: list[tuple[int, int, bool]] = []
    monkeypatch.setattr(native, "reset_seed", lambda *call: calls.append(call))
    return calls


def test_every_name_is_there_and_documented() -> None:
    for name in utils.__all__:
        assert inspect.getdoc(getattr(utils, name)), name
    assert len(set(utils.__all__)) == len(utils.__all__)


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("extract_all_events", "events"),
        ("extract_all_strings_from_event_trace", "events"),
        ("extract_all_types_from_event_trace", "events"),
        ("extract_compile_reports", "events"),
        ("extract_execute_reports", "events"),
        ("extract_poplar_serialized_graphs", "events"),
        ("get_num_of_ipus_in_device", "ipu_device device"),
        ("move_variable_initialization_to_cpu", "graph"),
        ("reset_ipu_seed", "seed device cpu_device experimental_identical_replicas"),
        ("running_on_ipu_model", ""),
        ("use_synthetic_data_for", "synthetic_data_category"),
    ],
)
def test_signatures_are_those_of_the_reference(name: str, parameters: str) -> None:
    assert list(inspect.signature(getattr(utils, name)).parameters) == parameters.split()


def test_no_data_is_synthetic_by_default() -> None:
    for category in utils.SyntheticDataCategory:
        assert utils.use_synthetic_data_for(category) is False


def test_flags_choose_categories_of_synthetic_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flags.VARIABLE, "--synthetic_data_categories=infeed,seed")
    synthetic = {c.name for c in utils.SyntheticDataCategory if utils.use_synthetic_data_for(c)}
    assert synthetic == {"Infeed", "Seed"}
    with tf.Graph().as_default():
        assert utils.use_synthetic_data_for(utils.SyntheticDataCategory.Infeed) is True


def test_a_category_must_be_one() -> None:
    with pytest.raises(TypeError, match="SyntheticDataCategory"):
        utils.use_synthetic_data_for("infeed")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value, expected",
    [
        (None, False),
        ("--use_ipu_model", True),
        ("--max_infeed_threads=2", False),
        ("--max_infeed_threads=2 --use_ipu_model", True),
    ],
)
def test_running_on_ipu_model_follows_the_flags(
    value: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv(flags.VARIABLE, value)
    assert utils.running_on_ipu_model() is expected


def test_a_seed_reaches_the_engine(seeds: list[tuple[int, int, bool]]) -> None:
    utils.reset_ipu_seed(42)
    utils.reset_ipu_seed(np.int64(-1), "/device:IPU:0", experimental_identical_replicas=True)
    with tf.Graph().as_default():
        utils.reset_ipu_seed(7, cpu_device="cpu")
    assert seeds == [(0, 42, False), (0, -1, True), (0, 7, False)]
    assert all(type(seed) is int for _, seed, _ in seeds)


@pytest.mark.parametrize("device", ["IPU", "/device:CPU:0", "", "/device:IPU:x"])
def test_a_wrong_device_name_is_refused(device: str, seeds: list[tuple[int, int, bool]]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid device name"):
        utils.reset_ipu_seed(1, device)
    assert seeds == []


def test_a_device_that_is_not_there(seeds: list[tuple[int, int, bool]]) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError, match="ordinal 5"):
        utils.reset_ipu_seed(1, "/device:IPU:5")
    assert seeds == []


def test_a_seed_must_be_an_integer(seeds: list[tuple[int, int, bool]]) -> None:
    with pytest.raises(TypeError):
        utils.reset_ipu_seed(1.5)  # type: ignore[arg-type]
    assert seeds == []
