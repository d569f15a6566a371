"""Workloads whose ops know their layer, by the name of the layer in their own."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tensorflow_ipu.planner.workload import Workload
from tests.support.planner.workloads import Builder


def named(workload: Workload) -> Workload:
    """Returns the program with the layer `dense<i>` of each op that has it in its name."""
    found = [re.search(r"dense\d+", op.name) for op in workload.ops]
    return dataclasses.replace(
        workload,
        ops=tuple(
            dataclasses.replace(op, layer=match.group(0) if match else "")
            for op, match in zip(workload.ops, found)
        ),
    )


def dense(widths: Sequence[int], batch: int = 64, momentum: bool = True) -> Workload:
    """Dense layers from width to width, trained with momentum; nothing but products.

    Layer `i` has the matrix `widths[i] x widths[i + 1]`.
    """
    make = Builder()
    value = make.input("x", (batch, widths[0]))
    kept, weights, states = [], [], []
    for i, (rows, columns) in enumerate(zip(widths, widths[1:])):
        weights.append(make.variable(f"dense{i}/kernel", (rows, columns)))
        if momentum:
            states.append(
                make.variable(f"dense{i}/momentum", (rows, columns), role="optimizer state")
            )
        kept.append(value)
        value = make.op("MatMul", [value, weights[i]], (batch, columns), name=f"dense{i}/MatMul")
    gradient = make.op("Neg", [value], (batch, widths[-1]), name="gradients/Neg")
    gradients = {}
    for i in reversed(range(len(weights))):
        scope = f"gradients/dense{i}"
        gradients[i] = make.op(
            "MatMul", [kept[i], gradient], (widths[i], widths[i + 1]), name=f"{scope}/MatMul_1",
            attributes={"transpose_a": True},
        )  # fmt: skip
        if i:
            gradient = make.op(
                "MatMul", [gradient, weights[i]], (batch, widths[i]), name=f"{scope}/MatMul",
                attributes={"transpose_b": True},
            )  # fmt: skip
    for i, weight in enumerate(weights):
        state = [states[i]] if momentum else []
        kind = "ResourceApplyMomentum" if momentum else "ResourceApplyGradientDescent"
        make.op(kind, [weight, *state, gradients[i]], name=f"dense{i}/update")
    return named(make.workload(batch=batch))
