"""Facts of ops for plans and reports, as attributes of their nodes, and the layer of each op."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from tensorflow_ipu.api import scopes
from tensorflow_ipu.compiler import source_map
from tensorflow_ipu.compiler.ir.program import (
    API_ATTRIBUTE,
    PHASE_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    PLAN_ATTRIBUTE,
    SETTINGS_ATTRIBUTE,
    STAGE_ATTRIBUTE,
)
from tensorflow_ipu.frontends.common.errors import popart_exception
from tensorflow_ipu.frontends.popxl.ir import Op, executions
from tensorflow_ipu.frontends.popxl.tensor import Constant, Tensor, Variable
from tensorflow_ipu.planner.schedule import PipelineDescription
from tensorflow_ipu.planner.workload import POPXL

# What the Ir adds to the name of a function or class to make the id of a graph.
_NUMBERED = re.compile(r"_subgraph\(\d+\).*|_bwd(_\d+)?$|\(\d+\)$")


def layer_of(op: Op) -> str:
    """Returns the layer of an op, relative to the layer of its graph's call sites.

    That are the name scopes in which it was made, and then what its variables have in common:
    `layer0.up.weight` and `layer0.up.bias` are of `layer0/up`, and so is `accum.layer0.up.bias`.
    Inputs of a graph that have such names stand for variables. A call without variables is named
    after its graph. The gradient of an op has the layer of the op.

    Args:
        op: the op.

    Returns:
        Names, separated by slashes; empty for none.
    """
    while op.original is not None:
        op = op.original
    owners = [owner for owner in map(owner_of, op.inputs) if owner]
    common = _common(owners)
    if op.called and not owners:
        common = tuple(filter(None, [_NUMBERED.sub("", op.called[0].id)]))
    scopes = tuple(part for scope in op.scopes for part in scope.split("/"))
    shared = common[len(scopes) :] if common[: len(scopes)] == scopes else common
    return "/".join([*scopes, *shared])


def owner_of(tensor: Tensor) -> tuple[str, ...]:
    """Returns the names before the last one of a variable, or of an input that stands for one.

    Args:
        tensor: any tensor.
    """
    if isinstance(tensor, Variable):
        return tuple(re.split(r"[./]", _weight_of(tensor))[:-1])
    is_input = tensor.producer is None and not isinstance(tensor, Constant)
    return tuple(re.split(r"[./]", tensor.name)[:-1]) if is_input else ()


def _weight_of(variable: Variable) -> str:
    """Returns the weight named inside an optimizer state's name, else the variable's own name."""
    parts = variable.name.split(".")
    for size in range(len(parts) - 1, 1, -1):
        for start in range(len(parts) - size + 1):
            name = ".".join(parts[start : start + size])
            with contextlib.suppress(popart_exception):
                return variable.graph.get_tensor(name).name
    return variable.name


def _common(owners: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the names that all owners begin with."""
    return tuple(os.path.commonprefix([list(owner) for owner in owners]))


# What `Op.planned` says and goes to the plan under the same name.
_NAMED = ("exchange", "stash")


_HALVES = ("half", "float16")


@contextlib.contextmanager
def of(op: Op) -> Iterator[None]:
    """Attributes the operations made inside to an op, in the function in scope.

    They have its line and layer, its part of a training step, the memory that it may take, the type
    of its sums, its tiles, and the exchange that it is part of.

    Args:
        op: the op.

    Yields:
        Nothing.
    """
    graph = tf.compat.v1.get_default_graph()
    scope = "/".join([*op.scopes, f"{op.kind.type}.{op.id}"])
    source_map.declare(graph, scope, op.site, layer_of(op))
    attributes = {}
    if op.graph.is_gradient:
        attributes[PHASE_ATTRIBUTE] = attr_value_pb2.AttrValue(s=b"backward")
    if "stage" in op.planned:
        attributes[STAGE_ATTRIBUTE] = attr_value_pb2.AttrValue(i=op.planned["stage"])
    planned = _planned(op)
    if planned:
        attributes[PLAN_ATTRIBUTE] = _json(planned)
    with contextlib.ExitStack() as stack:
        stack.enter_context(tf.name_scope(scope + "/"))
        stack.enter_context(graph._attr_scope(attributes))
        if op.graph.ir.session_options.value("enableStochasticRounding"):
            stack.enter_context(scopes.stochastic_rounding(True))
        sums = _sums(op)
        if sums is not None:
            stack.enter_context(scopes.partials_type(sums))
        yield


def settings(asked: Mapping[str, Any]) -> tf.Operation:
    """Adds an operation that carries the Settings that a program requests for its plan.

    Args:
        asked: attributes of `tensorflow_ipu.planner.settings.Settings` by name.
    """
    said = {
        SETTINGS_ATTRIBUTE: _json(asked),
        API_ATTRIBUTE: attr_value_pb2.AttrValue(s=POPXL.encode()),
    }
    with tf.compat.v1.get_default_graph()._attr_scope(said):
        return tf.no_op("settings")


def pipeline(loop: Op) -> tf.Operation:
    """Makes an operation that says that a loop is a pipeline, with its stages.

    Backward passes are stages of their own, as programs put them into stages.

    Args:
        loop: the loop, whose `planned` has the IPUs of the stages.
    """
    ipus = loop.planned["pipeline"]
    description = PipelineDescription(
        device_mapping=tuple(tuple(i) if len(i) > 1 else i[0] for i in ipus),
        count=loop.attributes["repeat_count"],
        training=False,
        repeat_count=executions(loop.graph),
        any_count=True,
    )
    said = {
        "name": "pipeline",
        "description": description.to_json(),
        "devices": ipus,
        "memory": {},
        "stages": [[f"stage {number}"] for number in range(len(ipus))],
        "options": {},
    }
    with tf.compat.v1.get_default_graph()._attr_scope({PIPELINE_ATTRIBUTE: _json(said)}):
        return tf.no_op("pipeline")


def _planned(op: Op) -> dict[str, Any]:
    """Returns the plan hints of an op, by the names of `PLAN_ATTRIBUTE`."""
    found: dict[str, Any] = {}
    proportion = _given(op, "memory_proportion", "memory_proportions")
    if proportion is not None:
        found["memory_proportion"] = float(proportion)
    if op.tile_set == "io":
        found["tile_set"] = op.tile_set
    return {**found, **{name: op.planned[name] for name in _NAMED if name in op.planned}}


def _sums(op: Op) -> tf.DType | None:
    """The type of sums that an op asks for; None for none."""
    given = _given(op, "partials_type", "partials_types")
    if given is None:
        return None
    return tf.float16 if getattr(given, "name", given) in _HALVES else tf.float32


def _given(op: Op, *names: str) -> Any:
    """Returns the first value of an attribute. A gradient op has its forward op's value."""
    while op.original is not None:
        op = op.original
    for name in names:
        value = op.attributes.get(name)
        if isinstance(value, (list, tuple)):
            value = value[0] if value else None
        if value is not None:
            return value
    return None


def _json(value: Mapping[str, Any]) -> attr_value_pb2.AttrValue:
    return attr_value_pb2.AttrValue(s=json.dumps(dict(value), sort_keys=True).encode())
