"""`pipeline`: models split over several IPUs; the public module `ipu.pipelining_ops`.

A pipeline is one loop over mini-batches inside one program. Each iteration takes a mini-batch
through all stages, forward and (in training) backward, and adds its gradients to accumulators; the
last one of an execution applies them. In which order the chip would do that, on which IPU and in
which time step, is the schedule that the compiled program carries
(`tensorflow_ipu.planner.schedule`). All schedules, and recomputation, give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import array_ops
from tensorflow.python.util import nest

from tensorflow_ipu.api.accumulators import AccumulatorDtype
from tensorflow_ipu.api.gradient_accumulation import GradientAccumulationReductionMethod
from tensorflow_ipu.compiler.analysis import pipeline_plan
from tensorflow_ipu.compiler.hooks import tensorflow_hooks
from tensorflow_ipu.compiler.ir.program import CHECKPOINT_ATTRIBUTE
from tensorflow_ipu.configs.ranges import COUNT
from tensorflow_ipu.ops.pipeline import loop, pipeline_arguments
from tensorflow_ipu.ops.pipeline import pipeline_arguments as _arguments
from tensorflow_ipu.ops.pipeline.types import OptimizerFunctionOutput, PipelineStageOptions
from tensorflow_ipu.planner.schedule import PipelineSchedule, RecomputationMode

__all__ = [
    "OptimizerFunctionOutput",
    "PipelineSchedule",
    "PipelineStageOptions",
    "RecomputationMode",
    "pipeline",
    "recomputation_checkpoint",
]

tensorflow_hooks.install()


def pipeline(
    computational_stages: Sequence[pipeline_arguments.StageOrStages],
    gradient_accumulation_count: Any = None,
    gradient_accumulation_dtype: AccumulatorDtype = None,
    repeat_count: Any = 1,
    batch_serialization_iterations: int = 1,
    inputs: Sequence[Any] | None = None,
    infeed_queue: Any = None,
    outfeed_queue: Any = None,
    optimizer_function: Callable[..., OptimizerFunctionOutput] | None = None,
    device_mapping: Sequence[Any] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    recomputation_mode: RecomputationMode | None = None,
    forward_propagation_stages_poplar_options: Sequence[PipelineStageOptions] | None = None,
    backward_propagation_stages_poplar_options: Sequence[PipelineStageOptions] | None = None,
    weight_update_poplar_options: PipelineStageOptions | None = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool | None = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: AccumulatorDtype = None,
    outfeed_mask: Sequence[bool] | None = None,
    name: str | None = None,
    reduction_method: GradientAccumulationReductionMethod | str | None = None,
    gradient_accumulation_for_captured_grads: bool = True,
) -> ops.Operation:
    """Runs mini-batches through stages on several IPUs, and trains the stages if asked to.

    Call it once in a function that is compiled for the IPU. One execution takes
    `gradient_accumulation_count` mini-batches through all stages and then applies the sum of their
    gradients; `repeat_count` executions are made.

    Args:
        computational_stages: a function for each stage. The first gets `inputs`, then the infeed's
            element; each other gets what the one before returned (a dict as keyword arguments). A
            list in place of a function is a parallel stage: its functions get the same arguments,
            and their results are joined.
        gradient_accumulation_count: Mini-batches in one execution: an int, or a scalar int32
            tensor. Of a number that is not known when the program is compiled, nobody can tell
            whether the chip's schedule can have it, and the plan shows the fewest it can have.
        gradient_accumulation_dtype: type of the accumulators: None for the variable's type, a
            type, or a function from variable to type. The optimizer gets gradients of this type.
        repeat_count: number of executions, an int or a scalar int32 tensor.
        batch_serialization_iterations: Mini-batches in one execution of a stage; an execution of
            the pipeline then takes so many times `gradient_accumulation_count`.
        inputs: tensors for the first stage, the same for each mini-batch.
        infeed_queue: where each mini-batch comes from.
        outfeed_queue: where the results of each mini-batch go: what the last stage returns. None
            if it returns nothing, or `outfeed_mask` leaves everything out.
        optimizer_function: takes what the last stage returned, and says what to minimise.
        device_mapping: the IPU of each stage; stage `i` is on IPU `i` when None. A list of IPUs
            for a parallel stage. With -1 a stage is on all IPUs of the pipeline: on which its ops
            are, `ipu_shard` says in the stage.
        pipeline_schedule: in which order the chip does it. Grouped when None, Sequential with
            batch serialization.
        recomputation_mode: how activations are recomputed, if `IPUConfig.allow_recompute` is set.
        forward_propagation_stages_poplar_options: options for the forward pass of each stage.
        backward_propagation_stages_poplar_options: options for the backward pass of each stage.
        weight_update_poplar_options: options for the weight update.
        offload_weight_update_variables: whether variables that only the update uses are in remote
            memory. As for all such options: None is "if it is there", and results stay the same.
        replicated_optimizer_state_sharding: whether those variables are split over the replicas.
        offload_activations: whether activations that wait for the backward pass are in remote
            memory.
        offload_gradient_accumulation_buffers: whether accumulators are in remote memory.
        replicated_weight_sharding: whether the variables of the stages are split over the replicas.
        offload_weights: whether those split variables are in remote memory.
        continuous_weight_updates: not implemented, as in the original.
        outfeed_loss: whether the outfeed gets the loss only.
        accumulate_outfeed: whether the outfeed gets one sum for each execution.
        accumulate_outfeed_dtype: type of those sums, like `gradient_accumulation_dtype`.
        outfeed_mask: for each result of the last stage, whether to leave it out of the outfeed.
        name: name for the pipeline.
        reduction_method: how the gradients of mini-batches become one; their sum when None. A
            program that names it gets the single result of an inference pipeline as a bare tensor
            in graph mode, too, and not as a list of one.
        gradient_accumulation_for_captured_grads: whether captured gradients are accumulated like
            the others. If not, the optimizer gets those of the last mini-batch.

    Returns:
        The operation that runs the pipeline. Results come through the outfeed.

    Raises:
        TypeError: If an argument is of the wrong type, or a stage cannot take what it is given.
        ValueError: If arguments contradict each other, or a stage uses a tensor from outside.
        NotImplementedError: For what no IPU can do: continuous weight updates, batch serialization
            over several IPUs or with another schedule than Sequential, the Interleaved schedule
            with two trained stages on one IPU.
    """
    if continuous_weight_updates:
        raise NotImplementedError(
            "Continuous weight updates are not implemented. Leave continuous_weight_updates False: "
            "gradients are applied once for each execution of the pipeline."
        )
    serialization = COUNT.whole("batch_serialization_iterations", batch_serialization_iterations)
    count = _arguments.mini_batch_count(gradient_accumulation_count)
    if pipeline_schedule is None:
        pipeline_schedule = (
            PipelineSchedule.Sequential if serialization > 1 else PipelineSchedule.Grouped
        )
    recomputation_mode = recomputation_mode or RecomputationMode.Auto
    _arguments.check_type(
        "pipeline_schedule", pipeline_schedule, PipelineSchedule, "a PipelineSchedule"
    )
    _arguments.check_type(
        "recomputation_mode", recomputation_mode, RecomputationMode, "a RecomputationMode"
    )
    _arguments.check_queues(infeed_queue, outfeed_queue)
    memory = {
        "offload_weight_update_variables": offload_weight_update_variables,
        "replicated_optimizer_state_sharding": replicated_optimizer_state_sharding,
        "offload_activations": offload_activations,
        "offload_gradient_accumulation_buffers": offload_gradient_accumulation_buffers,
        "replicated_weight_sharding": replicated_weight_sharding,
        "offload_weights": offload_weights,
    }
    pipeline_plan.check_options(memory)
    stages = pipeline_arguments.stage_list(computational_stages)
    arguments = _arguments.PipelineArguments(
        stages=stages,
        devices=pipeline_arguments.stage_devices(
            device_mapping, computational_stages, serialization
        ),
        count=count,
        repeat_count=_arguments.repetitions("repeat_count", repeat_count, count * serialization),
        serialization=serialization,
        inputs=tuple(ops.convert_to_tensor(value) for value in _arguments.input_list(inputs)),
        infeed_queue=infeed_queue,
        outfeed_queue=outfeed_queue,
        optimizer_function=optimizer_function,
        schedule=pipeline_schedule,
        recomputation_mode=recomputation_mode,
        gradient_dtype=gradient_accumulation_dtype,
        reduction=GradientAccumulationReductionMethod.parse(
            GradientAccumulationReductionMethod.SUM
            if reduction_method is None
            else reduction_method
        ),
        names_reduction=reduction_method is not None,
        outfeed_loss=bool(outfeed_loss),
        outfeed_mask=None if outfeed_mask is None else tuple(bool(out) for out in outfeed_mask),
        accumulate_outfeed=bool(accumulate_outfeed),
        accumulate_outfeed_dtype=accumulate_outfeed_dtype,
        memory=memory,
        stage_options=_arguments.stage_options(
            forward_propagation_stages_poplar_options,
            backward_propagation_stages_poplar_options,
            weight_update_poplar_options,
            len(stages),
        ),
        accumulate_captured=bool(gradient_accumulation_for_captured_grads),
        name=name or "pipeline",
    )
    return loop.build(arguments)


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Marks tensors of a stage that are kept rather than recomputed in the backward pass.

    Args:
        tensors: a tensor or a structure of tensors.
        name: name for the operations.

    Returns:
        The same structure, to use instead of `tensors`.
    """

    def checkpoint(tensor: Any) -> Any:
        kept = array_ops.identity(tensor, name=name or "recomputation_checkpoint")
        if ops.is_symbolic_tensor(kept):
            kept.op._set_attr(CHECKPOINT_ATTRIBUTE, attr_value_pb2.AttrValue(b=True))
        return kept

    return nest.map_structure(checkpoint, tensors)
