"""Pass: removes the gate that makes the gradients of one op wait for each other."""

from __future__ import annotations

import re

from tensorflow.core.framework import function_pb2

from tensorflow_ipu.compiler.ir.program import (
    ACCUMULATION_ATTRIBUTE,
    PIPELINE_ATTRIBUTE,
    Program,
    input_node,
)
from tensorflow_ipu.compiler.ir.target import Target

# TensorFlow's names of the ops that hold the gradients of an op together.
_GATED = re.compile(r"_grad/tuple/control_dependency(_\d+)?$")
_GATE = re.compile(r"_grad/tuple/group_deps(_\d+)?$")


def run(program: Program, target: Target) -> None:
    """Removes the gates of gradients where gradients are accumulated.

    Optimizers of TensorFlow 1 make every gradient of an op wait for its other gradients, so that a
    variable is not updated while one of them still has to read it. Accumulated gradients do not
    need that: the update waits for all of them, and where gates stay the two gradients of a
    convolution cannot run side by side.

    Before: any legal Program. After: functions that accumulate have no such gates; the ops they
    were made of are left for pruning.
    """
    del target
    for function in program.functions.values():
        if _accumulates(function):
            _ungate(function)


def _accumulates(function: function_pb2.FunctionDef) -> bool:
    marks = (PIPELINE_ATTRIBUTE, ACCUMULATION_ATTRIBUTE)
    return any(mark in node.attr for node in function.node_def for mark in marks)


def _ungate(function: function_pb2.FunctionDef) -> None:
    for node in function.node_def:
        if node.op == "Identity" and _GATED.search(node.name):
            kept = [
                name
                for name in node.input
                if not (name.startswith("^") and _GATE.search(input_node(name)))
            ]
            node.ClearField("input")
            node.input.extend(kept)
