"""Errors of pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.api import gradient_accumulation
from tensorflow_ipu.api.config import IPUConfig
from tensorflow_ipu.distributed import ipu_strategy
from tensorflow_ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from tensorflow_ipu.ops import pipelining_ops
from tensorflow_ipu.runtime import system
from tests.support.models import pipelines

Schedule = pipelining_ops.PipelineSchedule
Recomputation = pipelining_ops.RecomputationMode
Options = pipelining_ops.PipelineStageOptions
SUM = gradient_accumulation.GradientAccumulationReductionMethod.SUM
MEAN = gradient_accumulation.GradientAccumulationReductionMethod.MEAN


def _run(count: int | None = 4, stages: Any = None, **arguments: Any) -> None:
    pipelines.run(
        pipelines.stages(2) if stages is None else stages,
        pipelines.data(4),
        **{"gradient_accumulation_count": count, **arguments},
    )


@pytest.mark.parametrize(
    ("arguments", "error", "phrase"),
    [
        ({"count": None}, ValueError, "gradient_accumulation_count must be specified."),
        ({"count": -2}, ValueError, "gradient_accumulation_count must be >= 0"),
        ({"count": 0}, ValueError, "gradient_accumulation_count must be >= 0, and not 0 either"),
        ({"count": 2.5}, ValueError, "it is an integer in the range 1 to"),
        (
            {"count": np.float32([4, 4])},
            ValueError,
            "gradient_accumulation_count must be >= 0, and not 0 either",
        ),
        ({"stages": [max]}, ValueError, "Pipeline requires at least two computational stages."),
        ({"stages": max}, TypeError, "computational_stages must be a list or tuple"),
        ({"stages": [max, 3]}, TypeError, "Received for stage 1: 3"),
        ({"device_mapping": 3}, TypeError, "device_mapping argument needs to be a list or a tuple"),
        ({"device_mapping": [0]}, ValueError, "Each stage must be mapped to an IPU"),
        ({"device_mapping": [0, "1"]}, TypeError, "the index of an IPU for stage 1"),
        ({"device_mapping": [0, -2]}, ValueError, "Each stage must be mapped to an IPU"),
        ({"device_mapping": [0, [1]]}, ValueError, "Each stage must be mapped to an IPU"),
        ({"pipeline_schedule": 1}, TypeError, "pipeline_schedule must be a PipelineSchedule"),
        ({"recomputation_mode": "Auto"}, TypeError, "must be a RecomputationMode"),
        ({"infeed_queue": []}, TypeError, "infeed_queue must be an IPUInfeedQueue"),
        ({"outfeed_queue": 3}, TypeError, "outfeed_queue must be an IPUOutfeedQueue"),
        ({"continuous_weight_updates": True}, NotImplementedError, "not implemented"),
        (
            {"batch_serialization_iterations": 2, "pipeline_schedule": Schedule.Grouped},
            NotImplementedError,
            "only supported with the `Sequential` schedule",
        ),
        (
            {"batch_serialization_iterations": 2, "device_mapping": [0, 1]},
            NotImplementedError,
            "all the pipeline stages need to be mapped to a single IPU",
        ),
        (
            {"batch_serialization_iterations": 2, "reduction_method": MEAN},
            ValueError,
            "reduction method SUM",
        ),
        (
            {"pipeline_schedule": Schedule.Interleaved, "device_mapping": [0, 0]},
            NotImplementedError,
            "multiple pipeline stages on the same device for training graphs",
        ),
        (
            {"pipeline_schedule": Schedule.Interleaved, "device_mapping": [0, -1]},
            NotImplementedError,
            "multiple pipeline stages on the same device for training graphs",
        ),
        (
            {"forward_propagation_stages_poplar_options": [Options()]},
            ValueError,
            "a list or a tuple of PipelineStageOptions objects of length 2",
        ),
        (
            {"backward_propagation_stages_poplar_options": [Options(), {}]},
            TypeError,
            "every entry of backward_propagation_stages_poplar_options",
        ),
        ({"weight_update_poplar_options": {}}, TypeError, "to be of type PipelineStageOptions"),
        ({"outfeed_loss": True, "opt": None}, ValueError, "An optimizer_function must be provided"),
        (
            {"outfeed_mask": [True], "opt": None},
            ValueError,
            "An optimizer_function must be provided",
        ),
        (
            {"outfeed_loss": True, "outfeed_mask": [True]},
            ValueError,
            "Only one of `outfeed_loss` and `outfeed_mask` can be set.",
        ),
        ({"outfeed_loss": True, "has_outfeed": False}, ValueError, "An outfeed_queue must be"),
        ({"outfeed_mask": [True, False]}, ValueError, "2 entries for 1 outputs"),
        ({"accumulate_outfeed": True, "has_outfeed": False}, ValueError, "`outfeed_queue`"),
        (
            {
                "accumulate_outfeed": True,
                "outfeed_queue": IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST),
            },
            ValueError,
            "it must be in IPUOutfeedMode ALL.",
        ),
        ({"opt": None, "has_outfeed": False}, ValueError, "last computational stage has tensor"),
        ({"opt": None, "has_outfeed": False}, ValueError, "no outfeed_queue has been provided"),
        ({"reduction_method": "most"}, ValueError, "as one of GradientAccumulationReductionMethod"),
        ({"gradient_accumulation_dtype": "no type"}, TypeError, "a tf.DType, or a function"),
        ({"optimizer_function": lambda loss: loss}, TypeError, "an OptimizerFunctionOutput"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], phrase: str
) -> None:
    with pytest.raises(error) as raised:
        _run(**arguments)
    assert phrase in str(raised.value)


def test_a_stage_that_cannot_take_its_arguments() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        _run(stages=[lambda x: x, lambda x: x])


def test_a_tensor_from_outside_is_refused() -> None:
    outside = []

    def first(x: tf.Tensor, labels: tf.Tensor) -> Any:
        return x * outside[0], labels

    def model_input() -> list[tf.Tensor]:
        outside.append(tf.constant(2.0) + tf.compat.v1.placeholder_with_default(1.0, []))
        return []

    with tf.Graph().as_default():
        model_input()
        with pytest.raises(ValueError, match="Trying to capture the tensor") as raised:
            pipelines.build([first, pipelines.stages(2)[1]], count=4)
    assert "which is not a resource" in str(raised.value)
    assert outside[0].name in str(raised.value)


def test_one_variable_on_two_ipus_is_refused() -> None:
    def stage(x: tf.Tensor, labels: tf.Tensor) -> Any:
        with tf.compat.v1.variable_scope("shared", reuse=tf.compat.v1.AUTO_REUSE):
            return x * tf.compat.v1.get_variable("w", initializer=1.0), labels

    def last(x: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(stage(x, labels)[0])

    with pytest.raises(ValueError, match=r"\(shared/w\) on the IPUs 0 and 1, but an input"):
        _run(stages=[stage, last])


def test_one_eager_variable_on_two_ipus_is_refused() -> None:
    with tf.init_scope():
        weight = tf.Variable(1.0, name="weight")

    def program() -> None:
        pipelining_ops.pipeline(
            [lambda: weight * 2.0, lambda x: x * weight, lambda x: None],
            4,
            device_mapping=[0, 1, 1],
        )

    pipelines.configure(2)
    strategy = ipu_strategy.IPUStrategy()
    with pytest.raises(ValueError, match=r"\(weight:0\) on the IPUs 0 and 1"):
        strategy.run(tf.function(program, jit_compile=True))


@pytest.mark.parametrize(
    ("schedule", "opt", "count", "multiple"),
    [
        (Schedule.Grouped, "sgd", 2, 4),
        (Schedule.Grouped, "sgd", 6, 4),
        (Schedule.Grouped, None, 3, 2),
        (Schedule.Interleaved, "sgd", 3, 2),
    ],
)
@pytest.mark.parametrize("phrase", ["number of iterations of the pipeline", "pipeline depth"])
def test_counts_that_do_not_suit_the_schedule(
    schedule: Schedule, opt: str | None, count: int, multiple: int, phrase: str
) -> None:
    with pytest.raises(tf.errors.FailedPreconditionError) as raised:
        _run(count, pipeline_schedule=schedule, opt=opt)
    assert phrase in str(raised.value)
    assert f"must be a multiple of {multiple}" in str(raised.value)


def test_overlapped_io_needs_two_more_mini_batches() -> None:
    def run(count: int) -> None:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            compiled = pipelines.build(pipelines.stages(2), count=count)
            config = IPUConfig()
            config.auto_select_ipus = 2
            config.io_tiles.num_io_tiles = 32
            config.io_tiles.place_ops_on_io_tiles = True
            config.configure_ipu_system()
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(compiled)

    run(8)
    system.reset_ipu_configuration()
    with pytest.raises(tf.errors.FailedPreconditionError, match="at least 6"):
        run(4)


@pytest.mark.parametrize(
    ("schedule", "mode"),
    [
        (Schedule.Sequential, Recomputation.RecomputeThenBackpropagate),
        (Schedule.Interleaved, Recomputation.RecomputeAndBackpropagateInterleaved),
    ],
)
def test_recomputation_modes_that_a_schedule_lacks_are_refused(
    schedule: Schedule, mode: Recomputation
) -> None:
    with pytest.raises(tf.errors.UnimplementedError, match="recomputation mode"):
        _run(pipeline_schedule=schedule, recomputation_mode=mode)


def test_more_ipus_than_there_are() -> None:
    with pytest.raises(tf.errors.InternalError, match="needs to divide the number of IPUs"):
        _run(device_mapping=[0, 5])
    with pytest.raises(tf.errors.InternalError, match="names is 99, .* use the IPUs 0 to 15 only"):
        _run(device_mapping=[99, 99])


def test_two_pipelines_in_one_program_are_refused() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        compiled = pipelines.build(pipelines.stages(2), count=4, times=2)
        pipelines.configure(2)
        session.run(tf.compat.v1.global_variables_initializer())
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=r"Only a single ipu.pipeline\(\) is allowed"
        ):
            session.run(compiled)


SGD = tf.compat.v1.train.GradientDescentOptimizer(0.1)
KERAS = tf.keras.optimizers.SGD()
WEIGHT = tf.Variable(1.0)
TAPE = tf.GradientTape()


@pytest.mark.parametrize(
    ("given", "name", "value", "error", "phrase"),
    [
        ({}, "compute_gradients_args", 3, TypeError, "must be a list or tuple"),
        ({}, "apply_gradients_args", {}, TypeError, "must be a list or tuple"),
        ({}, "compute_gradients_kwargs", [], TypeError, "must be a dict"),
        ({}, "apply_gradients_kwargs", 1, TypeError, "must be a dict"),
        ({}, "opt", "sgd", TypeError, "opt must be an optimizer"),
        ({}, "captured_gradient_outfeed", "queue", TypeError, "must be a IPUOutfeedQueue"),
        ({}, "gradient_capture_context", {}, TypeError, "must be a GradientCaptureContext"),
        ({"opt": KERAS}, "tape", 3, TypeError, "OptimizerFunctionOutput.tape must be a GradientT"),
        (
            {"opt": KERAS},
            "compute_gradients_args",
            [1],
            ValueError,
            "OptimizerFunctionOutput.compute_gradients_args may not be used with OptimizerV2 inst",
        ),
        (
            {"opt": KERAS, "variables": [WEIGHT]},
            "compute_gradients_kwargs",
            {"a": 1},
            ValueError,
            "OptimizerFunctionOutput.compute_gradients_kwargs may not be used with OptimizerV2 i",
        ),
        ({}, "tape", TAPE, ValueError, "OptimizerFunctionOutput.tape may only be used with Opt"),
        ({}, "variables", [WEIGHT], ValueError, "variables may only be used with OptimizerV2"),
        (
            {"opt": KERAS, "variables": [WEIGHT]},
            "tape",
            TAPE,
            ValueError,
            "OptimizerFunctionOutput.tape may not be used when OptimizerFunctionOutput.variables "
            "is nonempty",
        ),
    ],
)
def test_wrong_optimizer_function_outputs_are_refused(
    given: dict[str, Any], name: str, value: Any, error: type[Exception], phrase: str
) -> None:
    make = pipelining_ops.OptimizerFunctionOutput
    arguments = {"opt": SGD, "loss": None, **given}
    with pytest.raises(error) as made:
        make(**{**arguments, name: value})
    output = make(**arguments)
    before = getattr(output, name)
    with pytest.raises(error) as was_set:
        setattr(output, name, value)
    assert phrase in str(made.value)
    assert phrase in str(was_set.value)
    assert getattr(output, name) is before


def test_variables_after_a_tape_are_refused() -> None:
    output = pipelining_ops.OptimizerFunctionOutput(KERAS, None, tape=TAPE)
    with pytest.raises(ValueError, match=r"variables must be empty when \w+\.tape is used"):
        output.variables = [WEIGHT]
    output.variables = []
    output.tape = None
    output.variables = [WEIGHT]


def test_keras_optimizer_has_to_know_what_to_train() -> None:
    pipelining_ops.OptimizerFunctionOutput(KERAS, None)
    with pytest.raises(RuntimeError, match="pass `variables` or a `tape`"):
        _run(
            optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(
                tf.keras.optimizers.SGD(), loss
            )
        )


def test_wrong_stage_options_are_refused() -> None:
    with pytest.raises(TypeError, match="convolution_options of PipelineStageOptions"):
        Options(convolution_options=["availableMemoryProportion"])  # type: ignore[arg-type]
