"""Recurrent layers: LSTM, GRU and RNN of ONNX, and the LSTM of ai.graphcore."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.kinds import GRAPHCORE, op
from tensorflow_ipu.ops.rnn import cells, lengths
from tensorflow_ipu.ops.rnn import scan as scans
from tensorflow_ipu.ops.rnn.activations import PRECISE_TANH, precise_tanh

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "Sigmoid": tf.sigmoid,
    "Relu": tf.nn.relu,
    "Tanh": precise_tanh,
    "Gelu": lambda x: tf.nn.gelu(x, approximate=True),
    "Swish": tf.nn.silu,
    "Softmax": tf.nn.softmax,
    "SoftmaxStable": tf.nn.softmax,
    "SoftmaxScaled": tf.nn.softmax,
}
_LSTM_DEFAULT = ("Sigmoid", "Tanh", "Tanh")


@dataclasses.dataclass(frozen=True)
class _LSTMCell:
    """A time step of an LSTM with gates in the order i, f, candidate, o; states are h and c."""

    gate: str
    other: str

    def step(self, inputs: Any, states: Any, product: Any) -> Any:
        """Computes a time step; see `scan.Cell`."""
        gate, other = _ACTIVATIONS[self.gate], _ACTIVATIONS[self.other]
        h, c = states
        i, f, candidate, o = tf.split(inputs[0] + product(0, h), 4, 1)
        c = gate(f) * c + gate(i) * other(candidate)
        return [gate(o) * other(c), c]


@dataclasses.dataclass(frozen=True)
class _RNNCell:
    """A time step of an RNN; the state is h."""

    activation: str

    def step(self, inputs: Any, states: Any, product: Any) -> Any:
        """Computes a time step; see `scan.Cell`."""
        return [_ACTIVATIONS[self.activation](inputs[0] + product(0, states[0]))]


@op("LSTM", 1, 7)
def _lstm(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    peepholes: Any = None,
    *,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    output_sequence: int = 1,
) -> Any:
    _refuse(
        "LSTM",
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        input_forget=input_forget,
        peepholes=peepholes,
    )
    names = _activations("LSTM", activations, _LSTM_DEFAULT)
    if names[1] != names[2]:
        raise popart_exception(
            f"LSTM: the second and third activation must be equal. Received: {names}"
        )
    _check("LSTM", direction, hidden_size, w, r, 4)
    h, c = _initial(x, r), _initial(x, r)
    if initial_h is not None and initial_c is not None:  # one of them alone does not count
        h, c = initial_h[0], initial_c[0]
    # ONNX has the gates in the order i, o, f, candidate.
    order = (0, 2, 3, 1)
    kernel = tf.concat([_reordered(w[0], order), _reordered(r[0], order)], 0)
    summed = _zeros(x, r, 4) if bias is None else _summed(bias[0], 4, order)
    outputs, cell_states = _run_lstm(names[0], names[1], x, kernel, summed, h, c)
    y, last = _masked(outputs, c, cell_states, sequence_lens)
    return [y[:, tf.newaxis], y[-1:], last[tf.newaxis]]


def _run_lstm(gate: str, other: str, x: Any, kernel: Any, bias: Any, h: Any, c: Any) -> Any:
    """Returns outputs and cell states of all steps, with gates in the order i, f, candidate, o."""
    if (gate, other) == _LSTM_DEFAULT[:2]:
        return cells.lstm(cells.LSTMCell(PRECISE_TANH, "sigmoid"), x, kernel, bias, h, c)
    size = x.shape[-1]
    inputs = tf.tensordot(x, kernel[:size], 1)
    return scans.scan(_LSTMCell(gate, other), [inputs], [h, c], [(kernel[size:], bias)])


@op("GRU", 3, 7)
def _gru(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    *,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    linear_before_reset: int = 0,
    output_sequence: int = 1,
) -> Any:
    _refuse(
        "GRU",
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
    )
    _check("GRU", direction, hidden_size, w, r, 3)
    units = r.shape[-1]
    h = _initial(x, r) if initial_h is None else initial_h[0]
    kernel = tf.concat([tf.transpose(w[0]), tf.transpose(r[0])], 0)
    biases = tf.zeros([6 * units], x.dtype) if bias is None else bias[0]
    cell = cells.GRUCell(PRECISE_TANH, "sigmoid", bool(linear_before_reset))
    outputs = cells.gru(cell, x, kernel, biases[: 3 * units], biases[3 * units :], h)
    y, _ = _masked(outputs, h, outputs, sequence_lens)
    return [y[:, tf.newaxis], y[-1:]]


@op("RNN", 1, 7)
def _rnn(
    x: Any,
    w: Any,
    r: Any,
    bias: Any = None,
    sequence_lens: Any = None,
    initial_h: Any = None,
    *,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    output_sequence: int = 1,
) -> Any:
    _refuse("RNN", activation_alpha=activation_alpha, activation_beta=activation_beta, clip=clip)
    (name,) = _activations("RNN", activations, ("Tanh",))
    _check("RNN", direction, hidden_size, w, r, 1)
    h = _initial(x, r) if initial_h is None else initial_h[0]
    inputs = tf.tensordot(x, tf.transpose(w[0]), 1)
    summed = _zeros(x, r, 1) if bias is None else _summed(bias[0], 1, (0,))
    (outputs,) = scans.scan(_RNNCell(name), [inputs], [h], [(tf.transpose(r[0]), summed)])
    y, _ = _masked(outputs, h, outputs, sequence_lens)
    return [y[:, tf.newaxis], y[-1:]]


#: The layers of ONNX.
LAYERS = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}


@op("LSTM", 1, domain=GRAPHCORE)
def _lstm_graphcore(
    x: Any, weights: Any, bias: Any, initial: Any, *, outputFullSequence: int = 1
) -> Any:
    size, units = x.shape[-1], weights.shape[-1]
    batch = x.shape[1] if x.shape.rank == 3 else None
    for name, tensor, shape in (
        ("input", x, [x.shape[0], batch, size]),
        ("weights", weights, [4, size + units, units]),
        ("bias", bias, [4, units]),
        ("initial state", initial, [2, batch, units]),
    ):
        if tensor.shape.as_list() != shape:
            raise popart_exception(
                f"Bad {name} shape {tensor.shape.as_list()} of the LSTM. Expected: {shape}"
            )
    # The gates are in the order f, i, candidate, o.
    kernel = tf.concat([weights[gate] for gate in (1, 0, 2, 3)], 1)
    summed = tf.concat([bias[gate] for gate in (1, 0, 2, 3)], 0)
    outputs, states = _run_lstm("Sigmoid", "Tanh", x, kernel, summed, initial[0], initial[1])
    return [outputs if outputFullSequence else outputs[-1], states[-1]]


def _refuse(type_: str, **given: Any) -> None:
    """Refuses attributes and inputs that the device has nothing for."""
    for name, value in given.items():
        if value is not None and not (isinstance(value, int) and value == 0):
            raise popart_exception(f"{type_}: {name} is not supported. Leave it out.")


def _activations(type_: str, given: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of activations; those that are left out have their defaults."""
    names = [name.decode() if isinstance(name, bytes) else name for name in given or ()]
    for name in names:
        if name not in _ACTIVATIONS:
            raise popart_exception(
                f"{type_}: the activation {name} is not supported. Expected one of: "
                f"{', '.join(_ACTIVATIONS)}."
            )
    if len(names) > len(default):
        raise popart_exception(
            f"{type_} only supports {len(default)} activation{'s' if len(default) > 1 else ''}, in "
            f"its one direction. Received: {names}"
        )
    return (*names, *default[len(names) :])


def _check(type_: str, direction: str, hidden_size: int | None, w: Any, r: Any, gates: int) -> None:
    """Refuses other directions, and weights of other shapes."""
    if direction != "forward":
        raise popart_exception(
            f"{type_} only supports the direction forward. Received: {direction}"
        )
    units = r.shape[-1]
    if hidden_size is not None and hidden_size != units:
        raise popart_exception(
            f"{type_}: hidden_size {hidden_size} does not match the {units} units of the recurrent "
            "weights."
        )
    for name, tensor in (("W", w), ("R", r)):
        if tensor.shape.rank != 3 or tensor.shape.as_list()[:2] != [1, gates * units]:
            raise popart_exception(
                f"{type_}: {name} must have the shape [1, {gates * units}, size]. Received: "
                f"{tensor.shape.as_list()}"
            )


def _initial(x: Any, r: Any) -> Any:
    return tf.zeros([x.shape[1], r.shape[-1]], x.dtype)


def _zeros(x: Any, r: Any, gates: int) -> Any:
    return tf.zeros([gates * r.shape[-1]], x.dtype)


def _reordered(matrix: Any, order: tuple[int, ...]) -> Any:
    """Returns the transpose of a matrix, with its gates in another order."""
    gates = tf.split(matrix, len(order), 0)
    return tf.transpose(tf.concat([gates[gate] for gate in order], 0))


def _summed(bias: Any, gates: int, order: tuple[int, ...]) -> Any:
    """Returns the bias of inputs and states together, with its gates in another order."""
    parts = tf.split(bias, 2 * gates)
    return tf.concat([parts[gate] + parts[gates + gate] for gate in order], 0)


def _masked(outputs: Any, initial: Any, states: Any, sequence_lens: Any) -> tuple[Any, Any]:
    """Returns the outputs, zero after the ends of sequences, and the states at these ends."""
    if sequence_lens is None:
        return outputs, states[-1]
    counts = tf.cast(sequence_lens, tf.int32)
    kept = lengths.without_padding(outputs, lengths.valid(outputs, counts))
    return kept, lengths.last(initial, states, counts)
