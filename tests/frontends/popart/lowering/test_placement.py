"""Schedules: values of the plain program, and the plan of the schedule."""

from __future__ import annotations

import numpy as np
import popart
import pytest

from tensorflow_ipu.tuning.edits import workload_edits
from tensorflow_ipu.util.op_names import CROSS_REPLICA_SUM
from tests.support.popart import popart_models
from tests.support.popart import popart_training as models
from tests.support.popart.popart_training import Trained

MANUAL = popart.VirtualGraphMode.Manual
OFF_CHIP = popart.TensorStorage.OffChip
SHARDED = popart.ReplicatedTensorSharding.On


def adam():
    return popart.Adam({"defaultLearningRate": (0.01, True), "lossScaling": (4.0, False)})


def options(**values):
    made = popart.SessionOptions()
    for name, value in values.items():
        setattr(made, name, value)
    return made


@pytest.fixture(scope="module")
def plain():
    """Weights after two steps, by accumulation and replicas, from a program on one IPU."""
    found = {}

    def trained(micro, replicas):
        # The data of replicas are further micro-batches.
        if (micro, replicas) not in found:
            with Trained(adam(), 2, micro * replicas) as session:
                found[micro, replicas] = session.run(2).read()
        return found[micro, replicas]

    return trained


def check(read, expected):
    for name, value in expected.items():
        np.testing.assert_allclose(read[name], value, 1e-5, 1e-5)


@pytest.mark.parametrize("replicas, recompute", [(1, False), (2, True), (4, False)])
def test_a_pipeline_computes_what_the_plain_program_does(plain, replicas, recompute):
    kind = popart.RecomputationType
    chosen = options(
        virtualGraphMode=MANUAL,
        enablePipelining=True,
        autoRecomputation=kind.Pipeline if recompute else kind.NoRecompute,
    )
    anchors = {"x": popart.AnchorReturnType("All"), "Tanh:0": popart.AnchorReturnType("Final")}
    with Trained(adam(), 2, 3, replicas, chosen, anchors, stages=[0, 1]) as trained:
        check(trained.run(2).read(), plain(3, replicas))
        np.testing.assert_array_equal(trained.results["x"], trained.data.squeeze())
        workload = trained.workload
        described = workload.pipeline
        assert described.device_mapping == (0, 1)
        assert (described.count, described.repeat_count) == (3, 2)
        assert (described.recomputation is not None) == recompute
        assert workload.ipus == 2 and workload.copies
        assert workload.api == "popart"  # whose words remedies are written in
        roles = {v.name: (v.role, v.ipu) for v in workload.variables if v.shape}
        assert roles["w1"] == ("weight", 0) and roles["w2"] == ("weight", 1)
        assert roles["Accum___w2"] == ("accumulator", 1)
        assert roles["Accl1___w2"] == ("optimizer state", 1)
        timing = trained.session._program.executable.plan.timeline.schedule
        assert timing is not None


def test_accumulation_and_updates_are_in_the_plan(plain):
    with Trained(adam(), 2, 3) as trained:
        check(trained.run(2).read(), plain(3, 1))
        workload = trained.workload
        assert {v.name: v.role for v in workload.variables}["Accum___w1"] == "accumulator"
        products = [op for op in workload.ops if op.type == "MatMul"]
        assert {op.runs for op in products} == {6}
        updates = [op for op in workload.ops if op.phase == "update" and op.type == "Sqrt"]
        assert updates and {op.runs for op in updates} == {2}
        sums = [
            op
            for op in workload_edits.with_replica_sums(workload).ops
            if op.type == CROSS_REPLICA_SUM
        ]
        weights = [(v.shape, 2) for v in workload.variables if v.role == "accumulator"]
        assert sorted((op.inputs[0].shape, op.runs) for op in sums) == sorted(weights)


def test_locations_are_in_plan_and_change_no_values(plain):
    location = popart.TensorLocation(OFF_CHIP, SHARDED)
    remote = popart.TensorLocationSettings(location, 0, 0)
    large_only = popart.TensorLocationSettings(OFF_CHIP, 10, 8192)
    chosen = options(
        optimizerStateTensorLocationSettings=remote,
        weightTensorLocationSettings=large_only,
        accumulatorTensorLocationSettings=popart.TensorLocationSettings(OFF_CHIP),
    )
    chosen.tensorLocationSettingsOverride["Accl2___w2"] = popart.TensorLocation()
    with Trained(adam(), 2, 2, 2, chosen) as trained:
        read = trained.run(2).read(
            w1=np.empty((3, 4), np.float32), Accl1___w1=np.empty((3, 4), np.float32)
        )
        np.testing.assert_allclose(read["w1"], plain(2, 2)["w1"], 1e-5, 1e-5)
        assert read["Accl1___w1"].all()
        found = {v.name: (v.offloaded, v.split) for v in trained.workload.variables}
    assert found["w1"] == (True, 1) and found["w2"] == (False, 1)  # 12 and 8 elements
    assert found["Accl1___w1"] == (True, 2) and found["Accl2___w2"] == (False, 1)
    assert found["Accum___w2"] == (True, 1)


def test_phases_alternate_between_ipus(plain):
    settings = popart.ExecutionPhaseSettings()
    settings.phases, settings.stages = 2, 2
    chosen = options(
        virtualGraphMode=popart.VirtualGraphMode.ExecutionPhases, executionPhaseSettings=settings
    )

    def annotate(builder, ids):
        for phase, outputs in enumerate((["MatMul:0", "Tanh:0"], ["MatMul:0/1", "L1:0"])):
            for output in outputs:
                builder.executionPhase(output, phase)

    with Trained(adam(), 2, 1, 1, chosen, stages=[0, 1], annotate=annotate) as trained:
        check(trained.run(2).read(), plain(1, 1))
        assert {v.name: v.ipu for v in trained.workload.variables if v.shape}["w2"] == 1
    with pytest.raises(popart.popart_exception, match="ExecutionPhases"):
        Trained(adam(), options=options(executionPhaseSettings=settings))


def test_nodes_are_divided_among_ipus():
    chosen = options(virtualGraphMode=popart.VirtualGraphMode.Auto)
    with Trained(adam(), 1, 1, 1, chosen, stages=[0, 1]) as trained:
        assert {op.ipu for op in trained.workload.ops if op.type == "MatMul"} == {0, 1}


def inference(stages, batches, chosen):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    y = x
    for ipu in stages:
        with builder.virtualGraph(ipu):
            y = builder.aiOnnx.relu([builder.aiOnnx.neg([y])])
    with popart_models.device(max(stages) + 1) as device:
        session = popart.InferenceSession(
            builder.getModelProto(), popart.DataFlow(batches, [y]), device, userOptions=chosen
        )
        session.prepareDevice()
        results = session.initAnchorArrays()
        data = np.arange(2 * batches, dtype=np.float32).reshape(batches, 2)
        session.run(popart.PyStepIO({x: data}, results))
        return data, results[y], session._program.executable


def test_inference_is_pipelined_over_batches_of_a_step():
    chosen = options(virtualGraphMode=MANUAL, enablePipelining=True)
    data, found, executable = inference([0, 1], 5, chosen)
    np.testing.assert_array_equal(found, np.zeros_like(data))
    assert executable.workload.pipeline.count == 5 and not executable.workload.pipeline.training
    with pytest.raises(popart.popart_exception, match=r"depth \(batchesPerStep\) must equal at"):
        inference([0, 1], 1, chosen)


PIPELINED = {"virtualGraphMode": MANUAL, "enablePipelining": True}


def stage(of_first, of_second):
    def annotate(builder, ids):
        for stages, outputs in (
            (of_first, ["MatMul:0", "Tanh:0"]),
            (of_second, ["MatMul:0/1", "L1:0"]),
        ):
            for number, output in zip(stages, outputs):
                if number is not None:
                    builder.pipelineStage(output, number)

    return annotate


@pytest.mark.parametrize(
    "values, arguments, message",
    [
        ({**PIPELINED, "virtualGraphMode": popart.VirtualGraphMode.Off}, {}, "more than 1 IPU"),
        (PIPELINED, {"micro": 1}, r"depth \(batchesPerStep\) must equal at least the number"),
        (
            PIPELINED,
            {"micro": 2, "annotate": stage([0, 1], [2, 2])},
            r"depth \(gradient accumulation factor\) must equal at least",
        ),
        (PIPELINED, {"annotate": stage([0, 0], [1, None])}, "Only some ops have had"),
        (PIPELINED, {"annotate": stage([0, 0], [0, 1])}, "have the same pipeline stage"),
        (PIPELINED, {"annotate": stage([0, 0], [2, 2])}, "stage 1 is missing"),
        (
            PIPELINED,
            {"annotate": lambda b, ids: b.recomputeOutputInBackwardPass("Tanh:0")},
            "user annotation for recomputation is not allowed",
        ),
        (
            {"autoRecomputation": popart.RecomputationType.Standard},
            {"annotate": lambda b, i: b.recomputeOutputInBackwardPass("Tanh:0"), "stages": None},
            "A mixture of auto and manual recomputation is not supported",
        ),
        (PIPELINED, {"anchors": {"x": popart.AnchorReturnType("EveryN", 1)}}, "EVERYN is not"),
        ({"virtualGraphMode": MANUAL}, {"stages": None}, "no Ops have been annotated"),
        (
            {
                "virtualGraphMode": popart.VirtualGraphMode.Auto,
                "virtualGraphSplitRatios": [1.0] * 9,
            },
            {},
            "Couldn't find enough splits",
        ),
    ],
)
def test_misfit_annotations_and_options_are_refused(values, arguments, message):
    given = {"micro": 3, "stages": [0, 1], "options": options(**values), **arguments}
    with pytest.raises(popart.popart_exception, match=message):
        Trained(popart.SGD({}), **given)


def test_clip_norms_in_pipelines_need_other_order(plain):
    clipped = popart.SGD({}, [popart.ClipNormSettings.clipAllWeights(1.0)])
    with pytest.raises(popart.popart_exception, match="Incompatible accumulateOuterFragment"):
        Trained(clipped, micro=2, stages=[0, 1], options=options(**PIPELINED))
    settings = popart.AccumulateOuterFragmentSettings(
        popart.AccumulateOuterFragmentSchedule.Scheduler
    )
    chosen = options(**PIPELINED, accumulateOuterFragmentSettings=settings)
    with Trained(clipped, micro=2, stages=[0, 1], options=chosen) as trained:
        found = models.summed(models.start(), trained.data)
        norm = np.sqrt(sum((g**2).sum() for g in found.values()))
        expected = {n: w - 0.1 / max(1, norm) * found[n] for n, w in models.start().items()}
        check(trained.run().read(), expected)


@pytest.mark.parametrize("is_pipelined", [False, True])
def test_inputs_and_weights_are_used_on_several_ipus(is_pipelined):
    builder = popart.Builder()
    start = np.array([[0.1, 0.2], [0.3, 0.4]], np.float32)
    x = y = builder.addInputTensor("FLOAT", [2, 2])
    w = builder.addInitializedInputTensor(start)
    for ipu in range(2):
        with builder.virtualGraph(ipu):
            y = builder.aiOnnx.add([builder.aiOnnx.matmul([y, w]), x])
    with builder.virtualGraph(1):
        loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    chosen = options(virtualGraphMode=MANUAL, enablePipelining=is_pipelined)
    data = np.random.RandomState(0).randn(3, 2, 2).astype(np.float32)
    rate, expected, ones = 0.1, start.astype(np.float64), np.ones((2, 2))
    for one in data:
        hidden = one @ expected + one
        expected = expected - rate * (hidden.T @ ones + one.T @ (ones @ expected.T))
    with popart_models.device(2) as device:
        session = popart_models.trainer(
            builder.getModelProto(), loss, device, popart.ConstSGD(rate), None, chosen, 3
        )
        popart_models.run(session, {x: data})
        (found,) = popart_models.weights(session, w)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_pipelines_update_each_batch_without_accumulation():
    with Trained(popart.SGD({}), 4, options=options(**PIPELINED), stages=[0, 1]) as trained:
        pipeline = trained.workload.pipeline
        assert pipeline.count == 4 and pipeline.training
        weights = models.start()
        for batch in trained.data:
            found = models.summed(weights, batch)
            weights = {name: weights[name] - 0.1 * found[name] for name in weights}
        check(trained.run().read(), weights)


def test_anchors_of_all_kinds_with_accumulation_and_replicas():
    art = popart.AnchorReturnType
    anchors = {"x": art("All"), "Tanh:0": art("EveryN", 2), "L1:0": art("Sum"), "w1": art("All")}
    with Trained(popart.SGD({}), 4, 3, 2, anchors=anchors) as trained:
        results = trained.run().results
        weights = {name: value.astype(np.float64) for name, value in models.start().items()}
        hidden, losses = [], np.zeros(2)
        for batch in trained.data:
            for of_replicas in batch:
                hidden.append(np.tanh(of_replicas @ weights["w1"]))
                losses += 0.1 * np.abs(hidden[-1] @ weights["w2"]).sum((1, 2))
            found = models.summed(weights, batch)
            weights = {name: w - 0.1 * found[name] for name, w in weights.items()}
    np.testing.assert_array_equal(results["x"], trained.data)
    # Every second micro-batch of the 12 of a step.
    expected = np.reshape(hidden[1::2], (2, 3, 2, 2, 4))
    np.testing.assert_allclose(results["Tanh:0"], expected, 1e-5, 1e-5)
    np.testing.assert_allclose(results["L1:0"], losses, 1e-5)
    # Weights are read before the update that follows the last micro-batch of a batch.
    assert results["w1"].shape == (4, 3, 2, 3, 4)
    np.testing.assert_array_equal(results["w1"][0, 2, 1], models.start()["w1"])
    assert (results["w1"][1, 0, 0] != results["w1"][0, 2, 0]).any()
