"""Subgraphs: If, Loop, Scan and calls."""

from __future__ import annotations

import re

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


W = np.array([0.5, -1, 2], np.float32)


SUM = popart.ReductionType.Sum


def raises(builder, output, message):
    with pytest.raises(popart.popart_exception, match=message):
        popart_models.infer(builder.getModelProto(), {}, [output])


@pytest.mark.parametrize("chosen", [True, False])
def test_gradients_flow_through_branches_and_calls(chosen):
    builder, micro = popart.Builder(), 2
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    c = builder.addInputTensor("BOOL", [], "c")
    w, u = (builder.addInitializedInputTensor(W, name) for name in "wu")
    then, other = builder.createSubgraphBuilder(), builder.createSubgraphBuilder()
    then.addInputTensorFromParentGraph(x)
    then.addOutputTensor(then.aiOnnx.mul([x, w]))
    other.addOutputTensor(other.aiOnnx.mul([other.aiOnnx.exp([u]), x]))
    (y,) = builder.aiOnnx.logical_if([c], 1, other, then)
    callee = builder.createSubgraphBuilder()
    first, second = callee.addInputTensor("FLOAT", [3]), callee.addUntypedInputTensor()
    callee.addOutputTensor(callee.aiOnnx.mul([first, second]))
    (z,) = builder.aiGraphcore.call([w, y], 1, callee)
    (z,) = builder.aiGraphcore.call([w, z], 1, callee)
    assert builder.getTensorShape(z) == [2, 3] and builder.getTensorDtypeString(z) == "float32"
    loss = builder.aiGraphcore.identityloss([z], SUM)
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, micro
    data = {x: np.stack([X] * micro), c: np.array([chosen, not chosen])}
    found = popart_models.differentiate(builder.getModelProto(), loss, data, [w, u], [z], options)
    for i, branch in enumerate((chosen, not chosen)):
        y = X * (W if branch else np.exp(W))
        np.testing.assert_allclose(found[z][i], W * W * y, 1e-5)
        of_y, of_w = W * W, (2 * W * y).sum(0)
        of_w = of_w + ((X * of_y).sum(0) if branch else 0)
        np.testing.assert_allclose(found[w][i], of_w, 1e-5)
        of_u = 0 * W if branch else (X * of_y * np.exp(W)).sum(0)
        np.testing.assert_allclose(found[u][i], of_u, 1e-5)


def test_loop_stops_at_its_condition_and_stacks():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3])
    count = builder.aiOnnx.constant(np.array(4, np.int64))
    begins = builder.aiOnnx.constant(np.array(True))
    body = builder.createSubgraphBuilder()
    i, _ = body.addInputTensor("INT64", []), body.addInputTensor("BOOL", [])
    number = body.aiOnnx.cast([i], "FLOAT")
    moved = body.aiOnnx.add([body.addUntypedInputTensor(), x])
    limit = body.aiOnnx.constant(np.array(2, np.float32))
    body.addOutputTensor(body.aiOnnx.less([number, limit]))
    body.addOutputTensor(moved)
    body.addOutputTensor(body.aiOnnx.mul([moved, number]))
    outputs = builder.aiOnnx.loop([count, begins, x], 2, body)
    assert [builder.getTensorShape(name) for name in outputs] == [[3], [4, 3]]
    found = popart_models.infer(builder.getModelProto(), {x: W}, outputs)
    np.testing.assert_allclose(found[outputs[0]], 4 * W)
    np.testing.assert_allclose(found[outputs[1]], [0 * W, 3 * W, 8 * W, 0 * W])


def test_what_loops_cannot_carry_is_refused():
    for count, shape, message in (
        (np.array(2, np.float32), [3], "unsupported trip count data type"),
        (np.array(2, np.int32), [4], "before an iteration"),
        (None, [3], "Need the value of the ai.onnx.Loop:1 input 'M'"),
    ):
        builder = popart.Builder()
        x = builder.aiOnnx.constant(np.zeros(3, np.float32))
        given = (
            builder.addInputTensor("INT32", []) if count is None else builder.aiOnnx.constant(count)
        )
        body = builder.createSubgraphBuilder()
        _, goes_on, _ = (
            body.addInputTensor(*a) for a in (("INT32", []), ("BOOL", []), ("FLOAT", [3]))
        )
        body.addOutputTensor(goes_on)
        body.addOutputTensor(body.aiOnnx.constant(np.zeros(shape, np.float32)))
        begins = builder.aiOnnx.constant(np.array(True))
        raises(builder, builder.aiOnnx.loop([given, begins, x], 1, body)[0], message)


def printing(builder, x, title, outputs=1):
    """Returns a subgraph that prints its input, and negates it if it has an output."""
    inner = builder.createSubgraphBuilder()
    taken = inner.addInputTensor("FLOAT", [3]) if x is None else x
    inner.aiGraphcore.printtensor([taken], title=title)
    if outputs:
        inner.addOutputTensor(inner.aiOnnx.neg([taken]))
    return inner


@pytest.mark.parametrize("replicas", [1, 2])
def test_effects_of_subgraphs_with_unused_results(replicas, capfd):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3], "x")
    true = builder.aiOnnx.constant(np.array(True))
    builder.aiGraphcore.call([x], 1, printing(builder, None, "call"))
    builder.aiGraphcore.printtensor([x], title="main")
    builder.aiGraphcore.call([x], 0, printing(builder, None, "no outputs", 0))
    builder.aiOnnx.logical_if([true], 1, printing(builder, x, "else"), printing(builder, x, "then"))
    body = builder.createSubgraphBuilder()
    body.addInputTensor("INT64", []), body.addInputTensor("BOOL", [])
    carried = body.addInputTensor("FLOAT", [3])
    body.aiGraphcore.printtensor([carried], title="loop")
    for result in (body.aiOnnx.constant(np.array(True)), body.aiOnnx.neg([carried])):
        body.addOutputTensor(result)
    builder.aiOnnx.loop([builder.aiOnnx.constant(np.array(2, np.int64)), true, x], 1, body)
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = replicas > 1, replicas
    y = builder.aiOnnx.neg([x])
    values = np.ones([replicas, 3] if replicas > 1 else [3], np.float32)
    popart_models.infer(builder.getModelProto(), {x: values}, [y], options, ipus=replicas)
    lines = [line for line in capfd.readouterr().err.splitlines() if ": [" in line]
    titles = [line.partition(":")[0] for line in lines]
    expected = ["call", "main", "no outputs", "then", "loop", "loop"]
    assert sorted(titles) == sorted(expected * replicas)
    assert replicas > 1 or titles == expected


def scan(builder, *inputs, axes=(0, 1)):
    body = builder.createSubgraphBuilder()
    state, a, b = (body.addInputTensor("FLOAT", shape) for shape in ([1, 2], [1, 2], [2, 1]))
    b = body.aiOnnx.transpose([b], [1, 0])
    total = body.aiOnnx.add([state, body.aiOnnx.mul([a, b])])
    body.addOutputTensor(total)
    body.addOutputTensor(body.aiOnnx.sub([total, a]))
    return builder.aiOnnx.scan(list(inputs), 2, body, 2, list(axes), [0, 1], [1], [1])


def test_scan_keeps_axes_and_joins_results():
    builder = popart.Builder()
    state, a, b = np.float32([[1, 2]]), X.T, X[:, ::-1] * 0.5
    ids = [builder.addInputTensor(popart.TensorInfo(array)) for array in (state, a, b)]
    outputs = scan(builder, *ids)
    found = popart_models.infer(builder.getModelProto(), dict(zip(ids, (state, a, b))), outputs)
    stacked = []
    for one, two in zip(a, b.T[::-1]):
        state = state + one * two
        stacked.append(state - one)
    expected = np.concatenate(stacked[::-1], 1)
    np.testing.assert_allclose(found[outputs[0]], state)
    np.testing.assert_allclose(found[outputs[1]], expected)


def test_scans_of_other_lengths_are_refused():
    builder = popart.Builder()
    ids = [builder.addInputTensor("FLOAT", shape) for shape in ([1, 2], [3, 2], [2, 4])]
    raises(builder, scan(builder, *ids)[0], "Number of iterations required by the inputs do not")


def test_calls_that_do_not_fit_are_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    callee = builder.createSubgraphBuilder()
    callee.addOutputTensor(callee.aiOnnx.exp([callee.addInputTensor("FLOAT", [3])]))
    with pytest.raises(popart.popart_exception, match=r"number of inputs \(2\) does not match"):
        builder.aiGraphcore.call([x, x], 1, callee)
    i = builder.addInputTensor("INT32", [3])
    raises(builder, builder.aiGraphcore.call([i], 1, callee)[0], "does not match callee input")
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    branches = [builder.createSubgraphBuilder() for _ in range(2)]
    branches[0].addOutputTensor(branches[0].aiOnnx.exp([x]))
    branches[1].addOutputTensor(branches[1].aiOnnx.concat([x, x], 0))
    raises(builder, builder.aiOnnx.logical_if([x], 1, *branches)[0], "must have one element")
    c = builder.aiOnnx.constant(np.array(True))
    raises(builder, builder.aiOnnx.logical_if([c], 1, *branches)[0], "outputs of its branches")


def test_conditions_and_inputs_may_differ_in_shape():
    builder = popart.Builder()
    x, c = builder.addInputTensor("FLOAT", [3]), builder.addInputTensor("FLOAT", [1])
    branches = [builder.createSubgraphBuilder() for _ in range(2)]
    branches[0].addOutputTensor(branches[0].aiOnnx.neg([x]))
    branches[1].addOutputTensor(branches[1].aiOnnx.abs([x]))
    (y,) = builder.aiOnnx.logical_if([c], 1, *branches)
    callee = builder.createSubgraphBuilder()
    callee.addOutputTensor(callee.aiOnnx.exp([callee.addInputTensor("FLOAT", [2])]))
    (z,) = builder.aiGraphcore.call([y], 1, callee)
    for value, expected in ((0.0, -W), (2.0, np.abs(W))):
        data = {x: W, c: np.array([value], np.float32)}
        found = popart_models.infer(builder.getModelProto(), data, [y, z])
        np.testing.assert_array_equal(found[y], expected)
        np.testing.assert_allclose(found[z], np.exp(expected), 1e-6)


def test_graphs_run_on_ipu_of_what_calls_them():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [3])
    callee = builder.createSubgraphBuilder()
    callee.addOutputTensor(callee.aiOnnx.exp([callee.addInputTensor("FLOAT", [3])]))
    with builder.virtualGraph(0):
        y = builder.aiOnnx.add([x, x])
    with builder.virtualGraph(1):
        (z,) = builder.aiGraphcore.call([y], 1, callee)
    options = popart.SessionOptions()
    options.virtualGraphMode = popart.VirtualGraphMode.Manual
    with popart_models.device(2) as info:
        session = popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(1, [z]), info, userOptions=options
        )
        session.prepareDevice()
        found = popart_models.run(session, {x: W})
        summary = session.getSummaryReport()
    np.testing.assert_allclose(found[z], np.exp(2 * W), 1e-5)
    assert re.search(r" Exp +- +1 .* Exp/Exp ", summary), "Exp is not on IPU 1"


def test_packed_sequences_are_computed_and_differentiated():
    builder = popart.Builder()
    data = np.arange(14, dtype=np.float32).reshape(7, 2)
    x = builder.addInitializedInputTensor(data)
    offsets, lengths, places = (
        builder.aiOnnx.constant(np.array(values, np.uint32))
        for values in ([0, 3, 4, 5], [3, 1, 1, 2], [0, 4, 6, 7])
    )
    callback = builder.createSubgraphBuilder()
    rows = callback.addInputTensor("FLOAT", [2, 3, 2])
    callback.addOutputTensor(callback.aiOnnx.mul([rows, rows]))
    y = builder.aiGraphcore.packedDataBlock(
        [x, offsets, lengths, places, lengths], [3], 9, 2, callback
    )
    loss = builder.aiGraphcore.identityloss([y], SUM)
    found = popart_models.differentiate(builder.getModelProto(), loss, {}, [x], [y])
    expected = np.zeros((9, 2))
    expected[[0, 1, 2, 4, 6, 7, 8]] = data**2
    np.testing.assert_allclose(found[y], expected)
    np.testing.assert_allclose(found[x], 2 * data)


def test_sequences_that_fill_no_batch_are_refused():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [4])
    numbers = [builder.addInputTensor("UINT32", [3]) for _ in range(4)]
    callback = builder.createSubgraphBuilder()
    callback.addOutputTensor(callback.aiOnnx.exp([callback.addInputTensor("FLOAT", [2, 2])]))
    y = builder.aiGraphcore.packedDataBlock([x, *numbers], [2], 4, 2, callback)
    with pytest.raises(popart.popart_exception, match="must be a multiple of callbackBatchSize"):
        popart_models.infer(builder.getModelProto(), {}, [y])
