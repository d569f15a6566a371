"""Recurrent layers against their equations, written with TensorFlow step by step."""

from __future__ import annotations

import functools

import numpy as np
import popart
import pytest
import tensorflow as tf

from tests.support.popart import popart_models

T, N, SIZE, H = 3, 2, 4, 5


def arrays(dtype, *shapes):
    random = np.random.RandomState(0)
    return [(random.randn(*shape) * 0.4).astype(dtype) for shape in shapes]


def lstm(gate, other, x, w, r, b=None, h=None, c=None, p=None):
    """The LSTM of ONNX: gates in the order i, o, f, candidate; peepholes in the order i, o, f."""
    bias = tf.zeros(4 * H) if b is None else b[0][: 4 * H] + b[0][4 * H :]
    h = tf.zeros([N, H]) if h is None else h[0]
    c = tf.zeros([N, H]) if c is None else c[0]
    to_i, to_o, to_f = tf.split(tf.zeros(3 * H) if p is None else p[0], 3)
    outputs = []
    for step in tf.unstack(x):
        parts = step @ tf.transpose(w[0]) + h @ tf.transpose(r[0]) + bias
        i, o, f, candidate = tf.split(parts, 4, 1)
        c = gate(f + to_f * c) * c + gate(i + to_i * c) * other(candidate)
        h = gate(o + to_o * c) * other(c)
        outputs.append(h)
    return tf.stack(outputs)[:, None], h[None], c[None]


def gru(after, x, w, r, b, h):
    h, units, outputs = h[0], H, []
    of_input, of_state = b[0][: 3 * units], b[0][3 * units :]
    for step in tf.unstack(x):
        z_in, r_in, h_in = tf.split(step @ tf.transpose(w[0]) + of_input, 3, 1)
        z_own, r_own, h_own = tf.split(h @ tf.transpose(r[0]) + of_state, 3, 1)
        z, reset = tf.sigmoid(z_in + z_own), tf.sigmoid(r_in + r_own)
        own = reset * h_own
        if not after:
            own = (reset * h) @ tf.transpose(r[0][2 * units :]) + of_state[2 * units :]
        h = (1 - z) * tf.tanh(h_in + own) + z * h
        outputs.append(h)
    return tf.stack(outputs)[:, None], h[None]


def rnn(activation, x, w, r, b):
    h, outputs = tf.zeros([N, H]), []
    for step in tf.unstack(x):
        h = activation(step @ tf.transpose(w[0]) + h @ tf.transpose(r[0]) + b[0][:H] + b[0][H:])
        outputs.append(h)
    return tf.stack(outputs)[:, None], h[None]


def both(reference, x, *tensors):
    """A layer from the start to the end, and one from the end to the start."""
    onward = reference(x, *(tensor[:1] for tensor in tensors))
    y, *states = reference(x[::-1], *(tensor[1:] for tensor in tensors))
    return [tf.concat(pair, i == 0) for i, pair in enumerate(zip(onward, [y[::-1], *states]))]


def short_sequences(x, w, r, b, h, lengths):
    """A GRU in both directions over each sequence by itself."""
    found = []
    for i, length in enumerate(lengths.numpy()):
        y, last = both(
            functools.partial(gru, True), x[:length, i : i + 1], w, r, b, h[:, i : i + 1]
        )
        found.append((tf.pad(y, [(0, T - length), *[(0, 0)] * 3]), last))
    return [tf.concat(parts, axis) for axis, parts in zip((2, 1), zip(*found))]


def add(method, outputs, attributes, onnx, _, ids):
    """Adds a layer; the states come after the lengths of sequences, which are left out."""
    given = [*ids[:4], *[""] * (len(ids) > 4), *ids[4:]]
    return getattr(onnx, method)(given, outputs, **attributes)


SWISH = {"activations": ["Relu", "Swish", "Swish"]}


def sequences(x, w, r, lengths):
    """An LSTM over sequences of one and three steps."""
    (y, _, whole), (_, _, short) = (lstm(tf.sigmoid, tf.tanh, part, w, r) for part in (x, x[:1]))
    inside = np.arange(T)[:, None, None, None] < lengths.numpy()[:, None]
    return y * inside, (y * inside)[-1], tf.stack([whole[:, 0], short[:, 1]], 1)


def graphcore(is_whole, x, weights, bias, initial):
    """The LSTM of ai.graphcore: gates in the order f, i, candidate, o."""
    order = [1, 3, 0, 2]
    w = tf.concat([tf.transpose(weights[gate, :SIZE]) for gate in order], 0)
    r = tf.concat([tf.transpose(weights[gate, SIZE:]) for gate in order], 0)
    b = tf.concat([bias[gate] for gate in order] + [tf.zeros(4 * H)], 0)
    y, _, c = lstm(tf.sigmoid, tf.tanh, x, w[None], r[None], b[None], initial[:1], initial[1:])
    return (y[:, 0] if is_whole else y[-1, 0]), c[0]


def layer(method, gates, outputs, states, attributes, reference, ways=1):
    """A case of `check_ops`."""
    shapes = [(T, N, SIZE), (ways, gates * H, SIZE), (ways, gates * H, H), (ways, 2 * gates * H)]
    adds = functools.partial(add, method, outputs, attributes)
    return adds, arrays(np.float32, *shapes, *[(ways, N, H)] * states), reference


OWN = arrays(np.float32, (T, N, SIZE), (4, SIZE + H, H), (4, H), (2, N, H))
BOTH = {
    "lstm": layer("lstm", 4, 3, 2, {}, functools.partial(lstm, tf.sigmoid, tf.tanh)),
    "gru": layer("gru", 3, 2, 1, {"linear_before_reset": 1}, functools.partial(gru, True)),
    "rnn": layer("rnn", 1, 2, 0, {"activations": ["Relu"]}, functools.partial(rnn, tf.nn.relu)),
    "last of graphcore": (
        lambda _, own, ids: own.lstm(ids, 0),
        OWN,
        functools.partial(graphcore, False),
    ),
}
CASES = {
    **BOTH,
    "lstm, swish": layer("lstm", 4, 3, 0, SWISH, functools.partial(lstm, tf.nn.relu, tf.nn.silu)),
    "gru, reset before": layer("gru", 3, 2, 1, {}, functools.partial(gru, False)),
    "lengths": (
        lambda onnx, _, ids: onnx.lstm([*ids[:3], "", ids[3]], 3),
        [
            *arrays(np.float32, (T, N, SIZE), (1, 4 * H, SIZE), (1, 4 * H, H)),
            np.array([3, 1], np.int32),
        ],
        sequences,
    ),
    "lengths, both directions": (
        lambda onnx, _, ids: onnx.gru(
            [*ids[:4], ids[5], ids[4]], 2, linear_before_reset=1, direction="bidirectional"
        ),
        [
            *arrays(np.float32, (T, N, SIZE), (2, 3 * H, SIZE), (2, 3 * H, H), (2, 6 * H)),
            *arrays(np.float32, (2, N, H)),
            np.array([3, 2], np.int32),
        ],
        short_sequences,
    ),
    "lstm, both directions": layer(
        *("lstm", 4, 3, 2, {"direction": "bidirectional"}),
        functools.partial(both, functools.partial(lstm, tf.sigmoid, tf.tanh)),
        ways=2,
    ),
    "gru, reverse": layer(
        *("gru", 3, 2, 1, {"direction": "reverse"}),
        lambda x, *others: [
            t[:: 1 - 2 * (i == 0)] for i, t in enumerate(gru(False, x[::-1], *others))
        ],
    ),
    "peepholes": (
        lambda onnx, _, ids: onnx.lstm([*ids[:4], "", *ids[4:]], 3),
        arrays(
            *(np.float32, (T, N, SIZE), (1, 4 * H, SIZE), (1, 4 * H, H), (1, 8 * H)),
            *((1, N, H), (1, N, H), (1, 3 * H)),
        ),
        functools.partial(lstm, tf.sigmoid, tf.tanh),
    ),
    "graphcore": (lambda _, own, ids: own.lstm(ids), OWN, functools.partial(graphcore, True)),
}


def test_layers_follow_their_equations():
    popart_models.check_ops(CASES)


@pytest.mark.parametrize("method, gates, outputs", [("rnn", 1, 2), ("gru", 3, 2), ("lstm", 4, 3)])
def test_saturated_gates_have_gradients(method, gates, outputs):
    """One step of weights 1, so that all gates see the input, from the state 0."""
    x = np.linspace(-9, 9, 37).reshape(1, -1, 1)
    builder = popart.Builder()
    data = builder.addInitializedInputTensor(x.astype(np.float32))
    w = builder.aiOnnx.constant(np.ones((1, gates, 1), np.float32))
    y = getattr(builder.aiOnnx, method)([data, w, w], outputs)[0]
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [data], [y])
    t, s = np.tanh(x), 1 / (1 + np.exp(-x))
    if method == "rnn":
        value, slope = t, 1 - t * t
    elif method == "gru":
        value, slope = (1 - s) * t, (1 - s) * (1 - t * t) - s * (1 - s) * t
    else:
        outer = np.tanh(s * t)
        inner = s * (1 - s) * t + s * (1 - t * t)
        value, slope = s * outer, s * (1 - s) * outer + s * (1 - outer * outer) * inner
    np.testing.assert_allclose(found[y][:, 0], value, 0, 1.5e-7)
    np.testing.assert_allclose(found[data], slope, 1e-5, 1.5e-7)


def test_layers_in_float16():
    cases = {
        name: (adds, [array.astype(np.float16) for array in given], reference)
        for name, (adds, given, reference) in BOTH.items()
    }
    popart_models.check_ops(cases, rtol=2e-2, atol=1e-2)


def test_directions_of_rnn_as_of_opset_12():
    x, w, r = arrays(np.float32, (T, N, SIZE), (2, H, SIZE), (2, H, H))
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    ids = [builder.addInitializedInputTensor(array) for array in (x, w, r)]
    outputs = builder.aiOnnx.rnn(ids, 2, direction="bidirectional")
    model = popart_models.parsed(builder.getModelProto())
    with pytest.raises(popart.popart_exception, match="RNN only supports the direction forward"):
        popart_models.infer(model.SerializeToString(), {}, outputs)
    next(opset for opset in model.opset_import if not opset.domain).version = 12
    found = popart_models.infer(model.SerializeToString(), {}, outputs)
    expected = both(lambda *own: rnn(tf.tanh, *own, tf.zeros([1, 2 * H])), x, w, r)
    for output, value in zip(outputs, expected):
        np.testing.assert_allclose(found[output], value, 1e-4, 1e-5)


def test_what_layers_lack_is_refused():
    x, w, r = arrays(np.float32, (T, N, SIZE), (2, 4 * H, SIZE), (2, 4 * H, H))
    for attributes, message in (
        ({"direction": "upward"}, "only supports the directions forward, reverse"),
        ({"direction": "bidirectional"}, r"W must have the shape \[2, 20, size\]"),
        ({"clip": 1.0}, "clip is not supported"),
        ({"input_forget": 1}, "input_forget is not supported"),
        ({"activations": ["Elu"]}, "Elu is not supported"),
        ({"activations": ["tanh"]}, "tanh is not supported"),
        ({"activations": ["Tanh", "Tanh", "Relu"]}, "must be equal"),
    ):
        builder = popart.Builder()
        ids = [builder.addInitializedInputTensor(array) for array in (x, w[:1], r[:1])]
        outputs = builder.aiOnnx.lstm(ids, 3, **attributes)
        with pytest.raises(popart.popart_exception, match=message):
            popart_models.infer(builder.getModelProto(), {}, outputs[:1])
    builder = popart.Builder()
    ids = [
        builder.addInitializedInputTensor(np.zeros(shape, np.float32))
        for shape in ((T, N, SIZE), (4, SIZE, H), (4, H), (2, N, H))
    ]
    outputs = builder.aiGraphcore.lstm(ids)
    with pytest.raises(popart.popart_exception, match="Bad weights shape"):
        popart_models.infer(builder.getModelProto(), {}, outputs[:1])
