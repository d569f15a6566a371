"""Cost of recurrent layers as one op: LSTM and GRU blocks."""

from __future__ import annotations

from tensorflow_ipu.costs.chip.vertex import phase, share, type_name
from tensorflow_ipu.costs.contractions.matmul import matmul
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, Rule, TensorType, rules
from tensorflow_ipu.costs.rules.elementwise import expression_cycles

# On each unit of each sample: biases, three sigmoids and two hyperbolic tangents, and the state.
_LSTM = ("add",) * 4 + ("sigmoid",) * 3 + ("tanh",) * 2 + ("multiply",) * 3 + ("add",)
_GRU = ("add",) * 3 + ("sigmoid",) * 2 + ("tanh",) + ("multiply",) * 3 + ("add", "subtract")
# The gradient of each gate takes about two products and a difference more than the gate.
_LSTM_GRADIENT = ("multiply",) * 14 + ("subtract",) * 5 + ("add",) * 4
_GRU_GRADIENT = ("multiply",) * 10 + ("subtract",) * 4 + ("add",) * 3


def _step(names: tuple[str, ...], batch: int, units: int, dtype: str, resources: Resources) -> Cost:
    """Prices the elementwise work on the gates of one time step."""
    on_tile = share(batch * units, TensorType(dtype, ()).element_size, resources.tiles)
    cycles = expression_cycles(names, on_tile, dtype, resources.chip)
    return phase(cycles, f"Gates_{type_name(dtype)}", resources.chip, operands=8)


def lstm(
    steps: int,
    batch: int,
    inputs: int,
    units: int,
    dtype: str,
    resources: Resources,
    gradient: bool = False,
) -> Cost:
    """Returns the cost of an LSTM over some time steps.

    Formula: for each step a product with the weights of 4 gates, and 13 functions on each unit. Its
    gradient: two products for each step, and 23 functions. Source: the equations; as `popnn` of
    graphcore/poplibs does, the steps are a loop whose code is there once.

    Args:
        steps: time steps.
        batch: samples.
        inputs: features of a sample.
        units: units of the layer.
        dtype: element type.
        resources: what it has at its disposal.
        gradient: whether this is the gradient.
    """
    return _layer(
        4, _LSTM, _LSTM_GRADIENT, (steps, batch, inputs, units), dtype, resources, gradient
    )


def gru(
    steps: int,
    batch: int,
    inputs: int,
    units: int,
    dtype: str,
    resources: Resources,
    gradient: bool = False,
) -> Cost:
    """Returns the cost of a GRU over some time steps; see `lstm`. It has 3 gates.

    Args:
        steps: time steps.
        batch: samples.
        inputs: features of a sample.
        units: units of the layer.
        dtype: element type.
        resources: what it has at its disposal.
        gradient: whether this is the gradient.
    """
    return _layer(3, _GRU, _GRU_GRADIENT, (steps, batch, inputs, units), dtype, resources, gradient)


def _layer(
    gates: int,
    forward: tuple[str, ...],
    backward: tuple[str, ...],
    sizes: tuple[int, int, int, int],
    dtype: str,
    resources: Resources,
    gradient: bool,
) -> Cost:
    """Prices a layer with a number of gates; sizes are steps, batch, inputs and units."""
    steps, batch, inputs, units = sizes
    rows, columns = inputs + units, gates * units
    product = matmul(1, batch, rows, columns, dtype, resources)
    if gradient:
        back = matmul(1, batch, columns, rows, dtype, resources)
        weights = matmul(1, rows, batch, columns, dtype, resources)
        return (back + weights + _step(backward, batch, units, dtype, resources)).times(steps)
    return (product + _step(forward, batch, units, dtype, resources)).times(steps)


def _block_lstm(spec: OpSpec, resources: Resources) -> Cost:
    """Prices BlockLSTM: the second input is [steps, batch, inputs], the fifth the weights."""
    steps, batch, inputs = spec.input(1).dimensions(3)
    units = spec.input(4).dimension(1) // 4
    gradient = "Grad" in spec.type
    return lstm(steps, batch, inputs, units, spec.input(1).dtype, resources, gradient)


def _lstm_cell(spec: OpSpec, resources: Resources) -> Cost:
    """Prices LSTMBlockCell: one step. Its gradient leaves the products to other ops."""
    batch, inputs = spec.input(0).dimensions(2)
    units, dtype = spec.input(1).dimension(1), spec.input(0).dtype
    if "Grad" in spec.type:
        return _step(_LSTM_GRADIENT, batch, units, dtype, resources)
    return lstm(1, batch, inputs, units, dtype, resources)


def _gru_cell(spec: OpSpec, resources: Resources) -> Cost:
    """Prices GRUBlockCell: one step."""
    batch, inputs = spec.input(0).dimensions(2)
    units, dtype = spec.input(1).dimension(1), spec.input(0).dtype
    return gru(1, batch, inputs, units, dtype, resources, "Grad" in spec.type)


RULES: dict[str, Rule] = {
    **rules(_block_lstm, "BlockLSTM BlockLSTMV2 BlockLSTMGrad BlockLSTMGradV2"),
    **rules(_lstm_cell, "LSTMBlockCell LSTMBlockCellGrad"),
    **rules(_gru_cell, "GRUBlockCell GRUBlockCellGrad"),
}
