"""Costs of variable updates: assignments and optimizer rules, in place."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_ipu.configs.chips import Chip
from tensorflow_ipu.costs.chip.vertex import per_worker, phase, share, type_name
from tensorflow_ipu.costs.cost import (
    Cost,
    OpSpec,
    Resources,
    Rule,
    TensorType,
    UnknownCostError,
    largest,
    rules,
)
from tensorflow_ipu.costs.rules import slicing
from tensorflow_ipu.costs.rules.data_movement import local_copy, rearrangement
from tensorflow_ipu.costs.rules.elementwise import (
    expression_cycles,
    expression_label,
    is_float,
    vector_width,
)
from tensorflow_ipu.costs.rules.slicing import lookup, update
from tensorflow_ipu.util import op_names

# Scaled add: cycles besides the workers, of a worker, and of each vector. Source: `popops`.
_SCALED, _SCALED_WORKER, _SCALED_VECTOR = 38, 21, 3

_M, _A, _S, _D, _R = "multiply", "add", "subtract", "divide", "sqrt"

#: Functions on each element, from the equations in TensorFlow's description of each op. Products
#: and quotients of scalars are left out.
_EQUATIONS: Mapping[str, tuple[str, ...]] = {
    "Momentum": (_M, _A, _M, _S),
    "KerasMomentum": (_M, _M, _S, _A),
    "Adam": (_S, _M, _A, _M, _S, _M, _A, _R, _A, _M, _D, _S),
    "AdamWithAmsgrad": (_S, _M, _A, _M, _S, _M, _A, "maximum", _R, _A, _M, _D, _S),
    "AdaMax": (_S, _M, _A, _M, "abs", "maximum", _A, _M, _D, _S),
    "Adagrad": (_M, _A, "rsqrt", _M, _M, _S),
    "AdagradV2": (_M, _A, _R, _A, _M, _D, _S),
    "AdagradDA": (_A, _M, _A, "sign", _M, _S, "maximum", _R, _D, _M),
    "Adadelta": (_M, _M, _M, _A, _A, _R, _A, _R, _D, _M, _M, _S, _M, _M, _M, _A),
    "RMSProp": (_M, _S, _M, _A, _A, "rsqrt", _M, _M, _M, _A, _S),
    "CenteredRMSProp": (_M, _S, _M, _A, _S, _M, _A, _M, _S, _A, "rsqrt", _M, _M, _M, _A, _S),
    "Ftrl": (_M, _A, "power", "power", _S, _D, _M, _A, _S, _D, _A, "sign", _M, _S, _D, "select"),
    "AddSign": (_M, _M, _A, "sign", "sign", _M, _M, _A, _M, _M, _S),
    "PowerSign": (_M, _M, _A, "sign", "sign", _M, _M, "exp", _M, _M, _S),
    "ProximalGradientDescent": (_M, _S, "sign", "abs", _S, "maximum", _M, _D),
    "ProximalAdagrad": (_M, _A, "rsqrt", _M, _M, _S, "sign", "abs", _S, "maximum", _M, _D),
}


def scaled_add_cycles(elements: int, dtype: str, chip: Chip) -> float:
    """Returns the tile's cycles of `a += scale x b`: `38 + workers x (21 + 3 x vectors)`."""
    vectors = -(-per_worker(elements, chip) // vector_width(dtype, chip))
    return _SCALED + chip.workers_per_tile * (_SCALED_WORKER + _SCALED_VECTOR * vectors)


def scaled_add(tensor: TensorType, resources: Resources) -> Cost:
    """Returns the cost of adding a multiple of a tensor to another in place.

    Args:
        tensor: type and shape of both.
        resources: what it has at its disposal.
    """
    on_tile = share(tensor.elements, tensor.element_size, resources.tiles)
    cycles = scaled_add_cycles(on_tile, tensor.dtype, resources.chip)
    codelet = f"ScaledAdd_{type_name(tensor.dtype)}"
    return phase(cycles, codelet, resources.chip, operands=2)


def _by_equations(names: tuple[str, ...], spec: OpSpec, resources: Resources) -> Cost:
    """Prices an optimizer's rule as one map of its inputs, of the largest one's size."""
    whole = largest(spec.inputs)
    on_tile = share(whole.elements, whole.element_size, resources.tiles)
    cycles = expression_cycles(names, on_tile, whole.dtype, resources.chip)
    codelet = f"{spec.type}_{type_name(whole.dtype)}"
    label = expression_label(names)
    return phase(cycles, codelet, resources.chip, operands=len(spec.inputs), label=label)


def _dense(names: tuple[str, ...]) -> Rule:
    """Returns a rule for an optimizer's op on all of a variable."""
    return Rule(lambda spec, resources: _by_equations(names, spec, resources))


def _sparse(names: tuple[str, ...]) -> Rule:
    """Returns a rule for an optimizer's op on some rows: they are taken, changed and put back.

    The indices are the one input of integers; the gradient before them has the rows' shape.
    """

    def cost(spec: OpSpec, resources: Resources) -> Cost:
        integers = [i for i, t in enumerate(spec.inputs) if t.dtype in ("int32", "int64")]
        if not integers:
            raise UnknownCostError(f"{spec.type}: expected an input of integers, the indices.")
        gradient, count = spec.input(integers[0] - 1), spec.input(integers[0]).elements
        table = slicing.table_of(spec.input(0), gradient, count)
        # Rows of the variable and of the state, instead of all of them.
        dense = [gradient if t.elements > 1 else t for t in spec.inputs if is_float(t.dtype)]
        changed = OpSpec(spec.type, tuple(dense), (), {})
        return (
            lookup(count, table, resources)
            + _by_equations(names, changed, resources)
            + update(count, table, resources)
        )

    return Rule(cost)


def _last(spec: OpSpec, resources: Resources) -> Cost:
    """Prices AssignAdd, AssignSub and gradient descent: a scaled add of the last input."""
    return scaled_add(spec.input(-1), resources)


def _assign(spec: OpSpec, resources: Resources) -> Cost:
    """Prices an assignment, which copies the value within each tile."""
    return local_copy(spec.input(-1).num_bytes, resources)


def _assign_part(spec: OpSpec, resources: Resources) -> Cost:
    """Prices a part of a variable that is written over."""
    return rearrangement(spec.input(-1).num_bytes, 8, resources)


RULES: dict[str, Rule] = {
    **rules(_last, " ".join((*op_names.ACCUMULATIONS, "AssignAdd", "AssignSub"))),
    **rules(_last, "ResourceApplyGradientDescent ApplyGradientDescent"),
    **rules(_assign, f"{op_names.ASSIGN} Assign"),
    **rules(_assign_part, "ResourceStridedSliceAssign StridedSliceAssign"),
    **{f"ResourceApply{name}": _dense(names) for name, names in _EQUATIONS.items()},
    **{f"ResourceSparseApply{name}": _sparse(names) for name, names in _EQUATIONS.items()},
    "ResourceApplyFtrlV2": _dense(_EQUATIONS["Ftrl"]),
    "ResourceSparseApplyFtrlV2": _sparse(_EQUATIONS["Ftrl"]),
}
