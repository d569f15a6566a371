"""Words of errors, which programs compare with the original's.

"=" is the whole message, "^" its beginning, "$" its end; without a mark the words are in it.
"""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tests.support.popart import popart_models

ERROR, RUNTIME = popart.popart_exception, popart.popart_runtime_error


def check(error, mark, words, kind=ERROR):
    message = str(error.value)
    fits = {
        "=": message == words,
        "^": message.startswith(words),
        "$": message.endswith(words),
        "": words in message,
    }
    assert fits[mark], message
    assert type(error.value) is kind


class Case:
    """A model with one node that a session refuses."""

    def __init__(self, mark, words, add, *shapes, opset=10, dtype="FLOAT", train=False):
        self.mark, self.words, self.add, self.shapes = mark, words, add, shapes
        self.opset, self.dtype, self.train = opset, dtype, train

    def session(self, device):
        builder = popart.Builder(opsets={"ai.onnx": self.opset, "ai.graphcore": 1})
        ids = [
            builder.addInitializedInputTensor(np.ones(shape, "f"), f"w{i}")
            if self.train
            else builder.addInputTensor(self.dtype, shape)
            for i, shape in enumerate(self.shapes)
        ]
        made = self.add(builder, builder.aiOnnx, ids)
        output = made if isinstance(made, str) else made[0]
        if not self.train:
            flow = popart.DataFlow(1, [output])
            return popart.InferenceSession(builder.getModelProto(), flow, device)
        loss = builder.aiGraphcore.identityloss([output])
        flow = popart.DataFlow(1, [loss])
        sgd = popart.ConstSGD(0.1)
        return popart.TrainingSession(builder.getModelProto(), flow, loss, sgd, device)


def numbers(builder, *values, dtype=np.int64):
    return builder.aiOnnx.constant(np.array(values, dtype))


def attribute(builder, made, name, value):
    builder.addNodeAttribute(name, value, set([made] if isinstance(made, str) else made))
    return made


def serialized(builder, made, mode, factor):
    builder.setSerializeMatMul({made}, mode, factor)
    return made


def excluding(builder, made):
    builder.excludePatterns({made}, ["PreUniRepl", "Nothing"])
    return made


X = [2, 3, 4]
OPS = [
    Case("=", "Axis 3 is out of acceptable range [-3, 2]", lambda b, o, i: o.reducesum(i, [3]), X),
    Case(
        "=",
        "Axis -4 is out of acceptable range [-3, 2]",
        lambda b, o, i: b.aiGraphcore.reducemedian(i, [-4])[0],
        X,
    ),
    *(
        Case(
            "$",
            "Optional seed attribute is not supported. Use session::setRandomSeed instead.",
            add,
            X,
        )
        for add in (
            lambda b, o, i: o.randomnormal([2], seed=1.0),
            lambda b, o, i: o.randomuniformlike(i, seed=1),
        )
    ),
    Case(
        "",
        "The data type DOUBLE is not supported in Poplar",
        lambda b, o, i: o.randomuniform([2], dtype=11),
        X,
    ),
    Case("", "Unsupported data type requested", lambda b, o, i: o.randomnormallike(i, dtype=11), X),
    Case(
        "=",
        "Op name(ai.onnx.Clip:11), inputs=[input] currently only supports constant min/max "
        "parameters. Input 'min' (input/1) has no data.",
        lambda b, o, i: o.clip([*i, i[1]], "name"),
        X,
        [],
        opset=11,
    ),
    Case("^", "Op (ai.onnx.Clip:11), inputs=", lambda b, o, i: o.clip(i), X, [], opset=11),
    Case(
        "$",
        "ratio value 1.5 is not valid. Please use a value in the interval [0,1)",
        lambda b, o, i: o.dropout(i, 1, 1.5),
        X,
    ),
    Case(
        "$",
        "ShapedDropout: incompatible input tensor and dropout shape.",
        lambda b, o, i: b.aiGraphcore.shapeddropout(i, [5]),
        X,
    ),
    Case(
        "^",
        "The label tensor (INT32   [2 5]) must have shape [2 4] to match all but the final "
        "dimension of the probabilities tensor (FLOAT   [2 4 3])",
        lambda b, o, i: b.aiGraphcore.nllloss(
            [*i, b.aiOnnx.constant(np.zeros([2, 5], np.int32))], popart.ReductionType.NoReduction
        ),
        [2, 4, 3],
    ),
    Case(
        "",
        "Values must be non-negative in each shape dimension",
        lambda b, o, i: o.tile([*i, numbers(b, 1, -1, 1)]),
        X,
    ),
    Case(
        "$",
        "should have one element for each dimension of the data tensor",
        lambda b, o, i: o.tile([*i, numbers(b, 1, 1)]),
        X,
    ),
    Case(
        "$",
        "must be of type Constant",
        lambda b, o, i: o.tile([i[0], b.addInputTensor("INT64", [3])]),
        X,
    ),
    Case(
        "",
        "only supports 1 activation",
        lambda b, o, i: o.rnn(i, 2, activations=["Tanh", "Relu"]),
        [1, 1, 2],
        [1, 3, 2],
        [1, 3, 3],
    ),
    Case(
        "",
        "only supports",
        lambda b, o, i: attribute(b, o.rnn(i, 2), "direction", "reverse"),
        [1, 1, 2],
        [1, 3, 2],
        [1, 3, 3],
    ),
    Case(
        "",
        "does not match",
        lambda b, o, i: o.rnn(i, 2, hidden_size=4),
        [1, 1, 2],
        [1, 3, 2],
        [1, 3, 3],
    ),
    Case(
        "",
        "corresponding dimensions must have the same value or one of them must be 1",
        lambda b, o, i: o.expand([*i, numbers(b, 3, 4)]),
        [2, 3, 5],
    ),
    Case(
        "^",
        "Invalid serialisation factor 3 for output channels dim 4. output_channels dim should be a "
        "multiple of the serialisation factor",
        lambda b, o, i: serialized(b, o.matmul(i), "output_channels", 3),
        [2, 3],
        [3, 4],
    ),
    Case(
        "=",
        "Op(ai.onnx.MatMul:9, inputs=[input, input/1], outputs=[MatMul:0]) contracting dimensions "
        "unequal: lhs 'input' [3 4], rhs 'input/1' [3 4]",
        lambda b, o, i: o.matmul(i),
        [3, 4],
        [3, 4],
    ),
    Case(
        "=",
        "Op(ai.onnx.MatMul:9, inputs=[input, input/1], outputs=[MatMul:0]) doesn't support scalar "
        "tensor input as the lhs input",
        lambda b, o, i: o.matmul(i),
        [],
        [3],
    ),
    Case(
        "^",
        "np broadcasting failed on 'Op(ai.onnx.Add:7, inputs=[input, input/1], outputs=[Add:0])'",
        lambda b, o, i: o.add(i),
        [2, 3],
        [4],
    ),
    Case(
        "$",
        "incompatible types FLOAT16 and FLOAT (shapes [2 2] and [2 2])",
        lambda b, o, i: o.sub([o.cast(i, "FLOAT16"), *i]),
        [2, 2],
    ),
    Case(
        "^",
        "Inputs to ai.onnx.Mean:6 do not all the same type & shape",
        lambda b, o, i: o.mean(i),
        [2],
        [1],
        opset=6,
    ),
    Case(
        "=",
        "Need the value of the ai.onnx.Slice:10 input 'starts' to determine the output shape, but "
        "was unable because [Tensor::getDataViaGraphTraversal] Could not work out tensor data for "
        "input.",
        lambda b, o, i: o.slice([o.cast(i, "FLOAT"), *i, *i]),
        [1],
        dtype="INT64",
    ),
    Case(
        "^",
        "Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be "
        "present. ",
        lambda b, o, i: o.resize(
            [
                *i,
                numbers(b, dtype="f"),
                numbers(b, 2, dtype="f"),
                numbers(b, 4),
            ]
        ),
        [2],
        opset=11,
    ),
    Case(
        "",
        "Dilations of value other than 1 are currently not supported.",
        lambda b, o, i: o.maxpool(i, 1, [2], dilations=[2]),
        [1, 1, 8],
    ),
    Case(
        "^",
        "`count_include_pad` is not supported",
        lambda b, o, i: o.averagepool(i, [2], count_include_pad=1),
        [1, 1, 8],
    ),
    Case(
        "",
        "invalid dimension '-2'. Only positive dimensions are supported",
        lambda b, o, i: b.aiGraphcore.reverse(i, [-2]),
        X,
    ),
    Case(
        "",
        "shape input to ReshapeOp can only use -1 to specify one unknown dimension",
        lambda b, o, i: o.reshape([*i, numbers(b, -1, -1)]),
        X,
    ),
    Case(
        "=",
        "Rank of permutation tensor [1 3 0 4], rank 4 must be equal to rank of input tensor, shape "
        "[1 3 2 7 5], rank 5.",
        lambda b, o, i: o.transpose(i, [1, 3, 0, 4]),
        [1, 3, 2, 7, 5],
    ),
    Case(
        "^",
        "Strides invalid. 0 stride at index 1",
        lambda b, o, i: b.aiGraphcore.subsample(i, [1, 0, 1]),
        X,
    ),
    Case(
        "",
        "batch norm requires",
        lambda b, o, i: o.batchnormalization(i, 1),
        [2, 3, 4],
        *([3] for _ in "sbmv"),
    ),
    Case(
        "",
        "expected shape of mean to be [3]",
        lambda b, o, i: o.batchnormalization([*i, i[1]], 1),
        [2, 3, 4, 4],
        [3],
        [3],
        [4],
    ),
    Case(
        "$",
        "To use the BatchNorm Op in inference mode during training, it has to be detached first.",
        lambda b, o, i: o.batchnormalization(i, 1),
        [2, 3, 4, 4],
        *([3] for _ in "sbmv"),
        train=True,
    ),
    Case(
        "=",
        "The Constant op attribute 'sparse_value' is not supported.",
        lambda b, o, i: o.relu([o.constant(np.eye(2, dtype="f"), True)]),
        X,
    ),
    Case("^", "Invalid pattern name 'Nothing'", lambda b, o, i: excluding(b, o.relu(i)), X),
    Case("$", "must be a scalar tensor", lambda b, o, i: o.relu(i), X, train=None),
]


@pytest.fixture(scope="module")
def device():
    with popart_models.device() as device:
        yield device


@pytest.mark.parametrize("case", OPS, ids=[case.words[:40] for case in OPS])
def test_ops_are_refused_in_the_originals_words(case, device):
    if case.train is None:
        case = Case("$", case.words, case.add, *case.shapes)
        builder = popart.Builder()
        loss = case.add(builder, builder.aiOnnx, [builder.addInputTensor("FLOAT", X)])
        flow = popart.DataFlow(1, [loss])
        with pytest.raises(ERROR) as error:
            popart.TrainingSession(
                builder.getModelProto(), flow, loss, popart.ConstSGD(0.1), device
            )
    else:
        with pytest.raises(ERROR) as error:
            case.session(device)
    check(error, case.mark, case.words)


def test_errors_of_ops_name_node_in_a_note(device):
    case = next(case for case in OPS if "contracting" in case.words)
    with pytest.raises(ERROR) as error:
        case.session(device)
    (note,) = error.value.__notes__
    assert note.startswith("In the node MatMul (MatMul:0) at ") and "test_error_phrases" in note


def builder_calls():
    b = popart.Builder()
    o, own = b.aiOnnx, b.aiGraphcore
    x = b.addInputTensor("FLOAT", [1, 2, 2, 2], "x")
    w = b.addInputTensor("FLOAT", [2, 2, 1, 1], "w")
    large = b.addInputTensor("FLOAT", [2, 2, 10, 10])
    conv, relu = o.conv([x, w]), o.relu([x])
    sub = b.createSubgraphBuilder()
    pool = "number of spatial dimensions 2"
    return [
        (
            "=",
            "For CallOp 'call', number of outputs (1) does not match that of the callee subgraph "
            "(0)",
            lambda: own.call([], 1, sub, "call"),
        ),
        (
            "=",
            "For CallOp '', number of inputs (1) does not match that of the callee subgraph (0)",
            lambda: own.call([x], 0, sub),
        ),
        (
            "=",
            "Node already has attribute a.",
            lambda: [b.addNodeAttribute("a", 1, {conv}) for _ in "ab"],
        ),
        (
            "=",
            "Node does not have an attribute b.",
            lambda: b.getInt64NodeAttribute("b", {conv}),
        ),
        (
            "=",
            "Cannot remove attribute b as it does not exist.",
            lambda: b.removeNodeAttribute("b", {conv}),
        ),
        (
            "",
            ": Could not find a node with outputs i, j.",
            lambda: b.addNodeAttribute("a", 1, {"j", "i"}),
        ),
        (
            "=",
            "Window parameter values combine to give invalid spatial output shape: [-7 -7]",
            lambda: o.conv([x, large]),
        ),
        (
            "=",
            "kernel_shape, [64 64], does not match inferred shape from weight input 'w', [1 1]",
            lambda: o.conv([x, w], kernel_shape=[64, 64]),
        ),
        ("^", "Padding vector (length 4) ", lambda: o.pad([x], [0, 0, 1, 1])),
        (
            "=",
            "Builder::setEnableConvDithering should only be called on convolutions but was given: "
            "Relu",
            lambda: b.setEnableConvDithering(relu, 1),
        ),
        (
            "=",
            "enableConvDithering must be a bool value",
            lambda: b.setEnableConvDithering(conv, 2),
        ),
        (
            "^",
            "availableMemoryProportion must be in (0,1]",
            lambda: b.setAvailableMemoryProportion(conv, 0.0),
        ),
        ("=", "Pipeline stage not set in current scope", b.getPipelineStage),
        ("=", "Virtual graph not set in current scope", b.getVirtualGraph),
        (
            "^",
            "Unsupported mat mul serialization mode 'x'. Supported modes are 'input_channels', "
            "'reducing_dim', 'output_channels' or 'none'",
            lambda: b.setSerializeMatMul({conv}, "x"),
        ),
        (
            "=",
            f"Length of dilations vector 3 != {pool}",
            lambda: own.multiconv([[x, w]], dilations=[[1, 1, 1]]),
        ),
        ("$", "or is a valid onnx ModelProto string.", lambda: popart.Builder(b"no model")),
    ]


def calls_of_other_classes():
    art, manager = popart.AnchorReturnType, popart.DeviceManager()
    transformer = popart.GraphTransformer(popart_models_add())
    period = "A return period should not be supplied for this anchor return type"
    return [
        ("=", "Invalid anchor return type ID supplied: Some", lambda: art("Some")),
        ("=", period, lambda: art("All", 2)),
        ("=", period, lambda: art("Sum").rp()),
        ("=", "Anchor return period must be greater than zero", lambda: art("EveryN", 0)),
        ("=", "Must specify return period with option 'EVERYN'", lambda: art("EveryN")),
        (
            "^",
            "Failed to acquire device with 256 IPUs. Ensure that there are sufficient IPUs "
            "available",
            lambda: manager.acquireAvailableDevice(256),
        ),
        (
            "$",
            "it is not c-contiguous. Pass np.ascontiguousarray(array).",
            lambda: popart.PyWeightsIO({"w": np.ones([2, 3]).T}),
        ),
        (
            "=",
            "TensorId nothing not in the model initalizers",
            lambda: transformer.convertInitializersToConstants(["nothing"]),
        ),
    ]


def popart_models_add():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    builder.addOutputTensor(builder.aiOnnx.add([x, w]))
    return builder.getModelProto()


@pytest.mark.parametrize("make", [builder_calls, calls_of_other_classes])
def test_calls_are_refused_in_the_originals_words(make):
    for mark, words, call in make():
        with pytest.raises(ERROR) as error:
            call()
        check(error, mark, words)


def test_sessions_refuse_in_the_originals_words(device, tmp_path):
    model, other = popart_models_add(), popart.Builder()
    other.aiOnnx.relu([other.addInitializedInputTensor(np.ones(2, np.float32), "other")])
    random = popart.Builder()
    noise = random.aiOnnx.randomnormal([2])
    options, written = popart.SessionOptions(), popart.SessionOptions()
    written.constantWeights = False

    def infer(proto, anchor="Add:0", chosen=options):
        flow = popart.DataFlow(1, [anchor] if anchor else [])
        return popart.InferenceSession(proto, flow, device, userOptions=chosen)

    def step(session):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": np.ones(2, np.float32)}, anchors))

    session, constant = infer(model, chosen=written), infer(model)
    weights = popart.PyWeightsIO({"w": np.ones(2, np.float32)})
    prepare = "Devicex::prepare() must be called before Devicex::"
    mixed = popart.SessionOptions()
    mixed.autoRecomputation = popart.RecomputationType.Standard
    annotated = popart.Builder(model)
    annotated.recomputeOutputInBackwardPass("Add:0")
    for kind, mark, words, call in (
        (
            RUNTIME,
            "=",
            f"{prepare}setRandomSeedFromHost(uint64_t) is called.",
            lambda: infer(random.getModelProto(), noise).setRandomSeed(1),
        ),
        (RUNTIME, "^", f"{prepare}weightsToHost", lambda: session.modelToHost("never")),
        (RUNTIME, "^", "Must call weightsFromHost before run as the", lambda: step(session)),
        (
            RUNTIME,
            "$",
            "Cannot call writeWeights when constantWeights is set. Set `constantWeights` to False "
            "in the `SessionOption`s when initialising the session to enable this behaviour.",
            lambda: constant.writeWeights(weights),
        ),
        (
            RUNTIME,
            "=",
            "resetWeights, no tensor 'other' in tensors",
            lambda: session.resetHostWeights(other.getModelProto()),
        ),
        (
            ERROR,
            "^",
            "Failed to load a ModelProto from the string",
            lambda: infer(b"no model", anchor=None),
        ),
        (
            ERROR,
            "=",
            "All operations in the main graph were pruned, nothing to compute",
            lambda: infer(model, "x"),
        ),
        (
            ERROR,
            "=",
            "A mixture of auto and manual recomputation is not supported",
            lambda: infer(annotated.getModelProto(), chosen=mixed),
        ),
    ):
        with pytest.raises(ERROR) as error:
            call()
        check(error, mark, words, kind)
    counted = popart.SessionOptions()
    counted.instrumentWithHardwareCycleCounter = True
    for chosen, cycles, mark, words in (
        (options, "", "^", "SessionOption 'instrumentWithHardwareCycleCounter' must be"),
        (
            counted,
            "nothing",
            "$",
            "Make sure you have set SessionOption::hardwareInstrumentations correctly.",
        ),
    ):
        ready = infer(model, chosen=chosen)
        ready.prepareDevice()
        step(ready)
        with pytest.raises(RUNTIME) as error:
            ready.getCycleCount(cycles)
        check(error, mark, words, RUNTIME)


def test_unknown_sizes_of_inputs_are_named(device):
    for size, shown in (("fubar", "fubar"), (-1, "-1")):
        builder = popart.Builder()
        y = builder.aiOnnx.relu([builder.addInputTensor("FLOAT", [1, 2, 32, 32], "x")])
        model = popart_models.parsed(builder.getModelProto())
        dim = model.graph.input[0].type.tensor_type.shape.dim[0]
        setattr(dim, "dim_param" if isinstance(size, str) else "dim_value", size)
        with pytest.raises(ERROR) as error:
            popart.InferenceSession(model.SerializeToString(), popart.DataFlow(1, [y]), device)
        words = f"has shape [{shown}, 2, 32, 32], which uses an unknown value '{shown}'."
        check(error, "=", f"Input tensor 'x' must be specified in InputShapeInfo, as it {words}")


class TestPipelines:
    def refused(self, places, stages=(), ipus=2, mode="Manual", anchors=None, inner=None):
        builder = popart.Builder()
        y = builder.addInputTensor("FLOAT", [2])
        for position, place in enumerate(places):
            with builder.virtualGraph(place):
                y = builder.aiOnnx.relu([y])
            if stages:
                builder.pipelineStage(y, stages[position])
        if inner is not None:
            callee = builder.createSubgraphBuilder()
            x = callee.addUntypedInputTensor("x")
            z = callee.aiOnnx.relu([x])
            if inner >= 0:
                callee.virtualGraph(z, inner)
            callee.addOutputTensor(z)
            with builder.virtualGraph(places[-1]):
                (y,) = builder.aiGraphcore.call([y], 1, callee)
        options = popart.SessionOptions()
        options.enablePipelining = True
        options.virtualGraphMode = getattr(popart.VirtualGraphMode, mode)
        flow, model = popart.DataFlow(4, anchors or [y]), builder.getModelProto()
        with popart_models.device(ipus) as device, pytest.raises(ERROR) as error:
            popart.InferenceSession(model, flow, device, userOptions=options)
        return str(error.value)

    def test_pipelines_are_refused_in_the_originals_words(self):
        found = self.refused([0, 0], ipus=1, anchors=["nothing"])
        assert found.startswith("Pipelining requires more than")
        found = self.refused([0, 1, 0], [0, 1, 1])
        assert found.startswith("Ops Op(") and "have the same pipeline stage 1, " in found
        assert self.refused([0, 1, 0]).startswith("Ops Op(")
        assert self.refused([0, 0], mode="Auto", ipus=4).startswith(
            "[AutoVirtualGraph] Couldn't find enough splits"
        )

    def test_called_graphs_are_on_ipu_of_call(self):
        for inner, begin, end in (
            (
                -1,
                "Op Op(ai.onnx.Relu:6, ",
                "does not have a virtual graph id. When pipelining, subgraph ops must have a "
                "virtual graph id set.",
            ),
            (
                0,
                "The virtual graph id (0) for Op Op(",
                "subgraph ops must be on the IPU of the call.",
            ),
        ):
            found = self.refused([0, 1], inner=inner)
            assert found.startswith(begin) and found.endswith(end)
            assert ' in subgraph "BuilderGraph_' in found


def test_automatic_loss_scaling_is_refused_in_originals_words(device):
    builder = popart.Builder()
    w = builder.addInitializedInputTensor(np.ones(2, np.float32))
    loss = builder.aiGraphcore.identityloss([builder.aiOnnx.relu([w])])
    options = popart.SessionOptions()
    options.automaticLossScalingSettings = popart.AutomaticLossScalingSettings(enabled=True)
    piped = popart.SessionOptions()
    piped.automaticLossScalingSettings = popart.AutomaticLossScalingSettings(enabled=True)
    piped.enablePipelining = True
    flow, model = popart.DataFlow(1, [loss]), builder.getModelProto()
    for chosen, is_const, words in (
        (
            options,
            False,
            "[AutomaticLossScale transform] No tracked gradient tensors of type fp16 were found.",
        ),
        (
            options,
            True,
            "[AutomaticLossScale transform] No tracked gradient tensors of type fp16 were found.",
        ),
        (
            piped,
            False,
            "Automatic loss scaling is not currently supported when the 'enablePipelining' "
            "SessionOption is set to 'true', but the 'enableGradientAccumulation' SessionOption is "
            "set to 'false'",
        ),
    ):
        optimizer = popart.SGD({"lossScaling": (2.0, is_const)})
        with pytest.raises(ERROR) as error:
            popart.TrainingSession(model, flow, loss, optimizer, device, userOptions=chosen)
        check(error, "$", words)
    with pytest.raises(ERROR):
        popart.InferenceSession(model, flow, device, userOptions=options)
