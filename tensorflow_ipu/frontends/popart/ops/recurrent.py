"""Recurrent layers: LSTM, GRU and RNN of ONNX, and the LSTM of ai.graphcore."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tensorflow_ipu.frontends.popart.errors import popart_exception
from tensorflow_ipu.frontends.popart.ops.registry import GRAPHCORE, op
from tensorflow_ipu.ops.rnn import cells, recurrence
from tensorflow_ipu.ops.rnn import recurrence as scans
from tensorflow_ipu.ops.rnn.arguments import PRECISE_TANH, precise_tanh

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
# For each direction of a layer, whether it is from the end of a sequence to its start.
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
_LSTM_DEFAULT = ("Sigmoid", "Tanh", "Tanh")


@dataclasses.dataclass(frozen=True)
class _LSTMCell:
    """A time step of an LSTM with gates in the order i, f, candidate, o; states are h and c."""

    gate: str
    other: str
    has_peepholes: bool = False

    def step(self, inputs: Any, states: Any, product: Any) -> Any:
        """Computes a time step; see `scan.Cell`."""
        gate, other = _ACTIVATIONS[self.gate], _ACTIVATIONS[self.other]
        h, c = states
        i, f, candidate, o = tf.split(inputs[0] + product(0, h), 4, 1)
        if self.has_peepholes:
            i_own, f_own = tf.split(product(1, c), 2, 1)
            i, f = i + i_own, f + f_own
        c = gate(f) * c + gate(i) * other(candidate)
        if self.has_peepholes:
            o = o + product(2, c)
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
    _as_onnx: bool = False,
) -> Any:
    _refuse(
        "LSTM",
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        clip=clip,
        input_forget=input_forget,
    )
    ways = _directions("LSTM", direction)
    as_onnx = _as_onnx or direction != "forward"
    names = _activations("LSTM", activations, _LSTM_DEFAULT, len(ways))
    for _, other, last in names:
        if other != last:
            raise popart_exception(
                f"LSTM: the second and third activation must be equal. Received: {names}"
            )
    _check("LSTM", len(ways), hidden_size, w, r, 4)
    if not _as_onnx and (initial_h is None or initial_c is None):  # one of them does not count
        initial_h = initial_c = None
    # ONNX has the gates in the order i, o, f, candidate.
    order = (0, 2, 3, 1)

    def run(way: int, x: Any) -> list[Any]:
        kernel = tf.concat([_reordered(w[way], order), _reordered(r[way], order)], 0)
        summed = _zeros(x, r, 4) if bias is None else _summed(bias[way], 4, order)
        h, c = (_initial(x, r, given, way) for given in (initial_h, initial_c))
        own = None if peepholes is None else tf.split(peepholes[way], 3)
        gate, other, _ = names[way]
        outputs, states = _run_lstm(gate, other, x, kernel, summed, h, c, own)
        y, last = _masked(outputs, c, states, sequence_lens)
        return [y, _last_output(outputs, y, h, sequence_lens, as_onnx), last]

    return _in_directions(ways, run, x, sequence_lens)


def _run_lstm(
    gate: str,
    other: str,
    x: Any,
    kernel: Any,
    bias: Any,
    h: Any,
    c: Any,
    peepholes: Sequence[Any] | None = None,
) -> Any:
    """Returns outputs and cell states of all steps, with gates in the order i, f, candidate, o.

    Peepholes are those of i, o and f.
    """
    if (gate, other) == _LSTM_DEFAULT[:2] and peepholes is None:
        return cells.lstm(cells.LSTMCell(PRECISE_TANH, "sigmoid"), x, kernel, bias, h, c)
    size = x.shape[-1]
    inputs = tf.tensordot(x, kernel[:size], 1)
    weights = [(kernel[size:], bias)]
    if peepholes is not None:
        i, o, f = (tf.linalg.diag(part) for part in peepholes)
        weights += [
            (matrix, tf.zeros([matrix.shape[1]], x.dtype)) for matrix in (tf.concat([i, f], 1), o)
        ]
    cell = _LSTMCell(gate, other, peepholes is not None)
    return scans.scan(cell, [inputs], [h, c], weights)


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
    _as_onnx: bool = False,
) -> Any:
    _refuse(
        "GRU",
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
    )
    ways = _directions("GRU", direction)
    as_onnx = _as_onnx or direction != "forward"
    _check("GRU", len(ways), hidden_size, w, r, 3)
    units = r.shape[-1]
    cell = cells.GRUCell(PRECISE_TANH, "sigmoid", bool(linear_before_reset))

    def run(way: int, x: Any) -> list[Any]:
        h = _initial(x, r, initial_h, way)
        kernel = tf.concat([tf.transpose(w[way]), tf.transpose(r[way])], 0)
        biases = tf.zeros([6 * units], x.dtype) if bias is None else bias[way]
        outputs = cells.gru(cell, x, kernel, biases[: 3 * units], biases[3 * units :], h)
        y, _ = _masked(outputs, h, outputs, sequence_lens)
        return [y, _last_output(outputs, y, h, sequence_lens, as_onnx)]

    return _in_directions(ways, run, x, sequence_lens)


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
    _as_onnx: bool = False,
) -> Any:
    _refuse("RNN", activation_alpha=activation_alpha, activation_beta=activation_beta, clip=clip)
    if direction != "forward" and not _as_onnx:
        raise popart_exception(
            f"RNN only supports the direction forward before opset 12. Received: {direction}"
        )
    ways = _directions("RNN", direction)
    names = _activations("RNN", activations, ("Tanh",), len(ways))
    _check("RNN", len(ways), hidden_size, w, r, 1)

    def run(way: int, x: Any) -> list[Any]:
        h = _initial(x, r, initial_h, way)
        inputs = tf.tensordot(x, tf.transpose(w[way]), 1)
        summed = _zeros(x, r, 1) if bias is None else _summed(bias[way], 1, (0,))
        weights = [(tf.transpose(r[way]), summed)]
        (outputs,) = scans.scan(_RNNCell(*names[way]), [inputs], [h], weights)
        y, _ = _masked(outputs, h, outputs, sequence_lens)
        return [y, _last_output(outputs, y, h, sequence_lens, _as_onnx)]

    return _in_directions(ways, run, x, sequence_lens)


#: The layers of ONNX. With `_as_onnx` they follow ONNX where PopART differs from it.
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


def _activations(
    type_: str, given: Any, default: tuple[str, ...], ways: int
) -> list[tuple[str, ...]]:
    """Returns the activations of each direction; those that are left out have their defaults."""
    names = [name.decode() if isinstance(name, bytes) else name for name in given or ()]
    for name in names:
        if name not in _ACTIVATIONS:
            raise popart_exception(
                f"{type_}: the activation {name} is not supported. Expected one of: "
                f"{', '.join(_ACTIVATIONS)}."
            )
    count = len(default) * ways
    if len(names) > count:
        raise popart_exception(
            f"{type_} only supports {count} activation{'s' if count > 1 else ''}, in "
            f"{'its one direction' if ways == 1 else 'two directions'}. Received: {names}"
        )
    names += [*default, *default][len(names) : count]
    return [tuple(names[start : start + len(default)]) for start in range(0, count, len(default))]


def _directions(type_: str, direction: str) -> tuple[bool, ...]:
    """Returns for each direction of a layer whether it runs backward."""
    if direction not in _DIRECTIONS:
        raise popart_exception(
            f"{type_} only supports the directions {', '.join(_DIRECTIONS)}. Received: {direction}"
        )
    return _DIRECTIONS[direction]


def _in_directions(
    ways: Sequence[bool], run: Callable[[int, Any], list[Any]], x: Any, sequence_lens: Any
) -> list[Any]:
    """Runs a layer in each of its directions.

    Args:
        ways: for each direction, whether it is from the end to the start.
        run: takes the number of a direction and the inputs in its order; returns the outputs of
            all steps and the last states.
        x: the inputs, [time, batch, size].
        sequence_lens: lengths of the sequences; None if all have all steps.

    Returns:
        The outputs, [time, directions, batch, units], and states, [directions, batch, units].
    """
    results = []
    for way, is_reversed in enumerate(ways):
        y, *states = run(way, _reversed(x, sequence_lens) if is_reversed else x)
        results.append([_reversed(y, sequence_lens) if is_reversed else y, *states])
    outputs, *states = zip(*results)
    return [tf.stack(outputs, 1), *(tf.stack(state) for state in states)]


def _reversed(x: Any, sequence_lens: Any) -> Any:
    """Returns [time, batch, size] with the steps of each sequence in reverse order."""
    if sequence_lens is None:
        return tf.reverse(x, [0])
    return tf.reverse_sequence(x, tf.cast(sequence_lens, tf.int32), seq_axis=0, batch_axis=1)


def _last_output(outputs: Any, kept: Any, h: Any, sequence_lens: Any, as_onnx: bool) -> Any:
    """Returns the output after a sequence; in PopART the one at the last step of the longest."""
    if sequence_lens is None or not as_onnx:
        return kept[-1]
    return recurrence.last(h, outputs, tf.cast(sequence_lens, tf.int32))


def _check(type_: str, ways: int, hidden_size: int | None, w: Any, r: Any, gates: int) -> None:
    """Refuses weights of other shapes."""
    units = r.shape[-1]
    if hidden_size is not None and hidden_size != units:
        raise popart_exception(
            f"{type_}: hidden_size {hidden_size} does not match the {units} units of the recurrent "
            "weights."
        )
    for name, tensor in (("W", w), ("R", r)):
        if tensor.shape.rank != 3 or tensor.shape.as_list()[:2] != [ways, gates * units]:
            raise popart_exception(
                f"{type_}: {name} must have the shape [{ways}, {gates * units}, size]. Received: "
                f"{tensor.shape.as_list()}"
            )


def _initial(x: Any, r: Any, given: Any, way: int) -> Any:
    """Returns the state of a direction before its first step."""
    return tf.zeros([x.shape[1], r.shape[-1]], x.dtype) if given is None else given[way]


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
    kept = recurrence.without_padding(outputs, recurrence.valid(outputs, counts))
    return kept, recurrence.last(initial, states, counts)
