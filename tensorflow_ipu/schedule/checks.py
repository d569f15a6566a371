"""Checks that a schedule supports a pipeline."""

from __future__ import annotations

from tensorflow_ipu.schedule.description import PipelineDescription
from tensorflow_ipu.schedule.modes import PipelineSchedule, RecomputationMode
from tensorflow_ipu.util import errors

# Mini-batches more that loading and storing beside the computation keep in flight.
_IO_OVERLAP = 2
_REFUSED = {
    PipelineSchedule.Sequential: RecomputationMode.RecomputeThenBackpropagate,
    PipelineSchedule.Interleaved: RecomputationMode.RecomputeAndBackpropagateInterleaved,
}


def check(description: PipelineDescription) -> None:
    """Raises if the schedule of a pipeline does not support it.

    Args:
        description: the pipeline.

    Raises:
        tf.errors.FailedPreconditionError: If the schedule cannot run that many mini-batches.
        tf.errors.UnimplementedError: If the schedule does not have the recomputation mode.
    """
    _check_count(description)
    _check_recomputation(description)


def required_multiple(description: PipelineDescription) -> int:
    """Returns the divisor of a valid count of mini-batches."""
    if description.schedule is PipelineSchedule.Sequential or description.any_count:
        return 1
    both_ways = description.training and description.schedule is PipelineSchedule.Grouped
    return description.stages * (2 if both_ways else 1)


def required_minimum(description: PipelineDescription) -> int:
    """Returns the least number of mini-batches."""
    overlap = description.io_overlap and description.schedule is PipelineSchedule.Grouped
    least = description.stages if description.any_count else required_multiple(description)
    return least + (_IO_OVERLAP if overlap else 0)


def fewest(description: PipelineDescription) -> int:
    """Returns the least count of mini-batches that the schedule can run."""
    multiple = required_multiple(description)
    return -(-required_minimum(description) // multiple) * multiple


def _check_count(description: PipelineDescription) -> None:
    multiple, minimum = required_multiple(description), required_minimum(description)
    if description.count % multiple == 0 and description.count >= minimum:
        return
    need = f"{multiple}" + (f" and at least {minimum}" if minimum > multiple else "")
    purpose = "trains" if description.training else "runs inference"
    overlap = " and overlaps I/O with I/O tiles" if minimum > multiple else ""
    good = -(-max(description.count, minimum) // multiple) * multiple
    # TensorFlow 1 programs look for the first sentence, TensorFlow 2 programs for the second.
    raise errors.failed_precondition(
        f"The pipeline depth of the pipeline must be a multiple of {need}, but it is "
        f"{description.count}. The number of iterations of the pipeline must be a multiple of "
        f"{need}, as it {purpose} with {description.stages} stages in the "
        f"{description.schedule.name} schedule{overlap}. Set gradient_accumulation_count to "
        f"{good}, say, or choose another pipeline_schedule.",
    )


def _check_recomputation(description: PipelineDescription) -> None:
    mode = description.resolved_recomputation
    if mode is None or mode is not _REFUSED.get(description.schedule):
        return
    raise errors.unimplemented(
        f"The recomputation mode {mode.name} is not supported by the pipeline schedule "
        f"{description.schedule.name}. Set recomputation_mode to RecomputationMode.Auto, or choose "
        "another pipeline_schedule.",
    )
