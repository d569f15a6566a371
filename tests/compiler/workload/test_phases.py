"""Phases of the ops of really compiled programs, and what follows from them."""

from __future__ import annotations

from tensorflow_ipu.planner.program.structure import ACCUMULATOR
from tensorflow_ipu.planner.workload import Op, Workload
from tests.support.planner import real_programs


def _phases(workload: Workload, op_type: str) -> set[str]:
    return {op.phase for op in workload.ops if op.type == op_type}


def _on_sums(workload: Workload, op_type: str) -> list[Op]:
    """The ops of a type that work on sums of gradients: one for each."""
    sums = {i for i, variable in enumerate(workload.variables) if variable.role == ACCUMULATOR}
    found = []
    for op in workload.ops:
        buffer = op.inputs[0].buffer if op.type == op_type else None
        if buffer is not None and workload.buffers[buffer].variable in sums:
            found.append(op)
    assert len(found) == len(sums) > 0
    return found


def test_sums_over_mini_batches_are_part_of_the_backward_pass() -> None:
    workload = real_programs.workload("encoder", 8, count=4)
    adding = _on_sums(workload, "AssignAddVariableOp")
    assert {(op.phase, op.runs) for op in adding} == {("backward", 4)}
    resets = _on_sums(workload, "AssignVariableOp")
    assert {(op.phase, op.runs) for op in resets} == {("update", 1)}


def test_the_whole_gradient_of_a_table_is_part_of_the_backward_pass() -> None:
    assert _phases(real_programs.workload("encoder", 8), "UnsortedSegmentSum") == {"backward"}


def test_a_pipeline_adds_gradients_up_backward_and_copies_numbers_of_the_update_once() -> None:
    cut = (("conv2d",), ("conv2d_2",))
    workload = real_programs.workload("residual", 8, count=4, cut=cut)
    assert {op.phase for op in _on_sums(workload, "AssignAddVariableOp")} == {"backward"}
    (rate,) = [copy for copy in workload.copies if copy.tensor == "learning_rate"]
    assert (rate.runs, rate.phase, rate.stage) == (1, "update", None)
    assert {copy.runs for copy in workload.copies if copy is not rate} == {4}


def test_the_loss_of_a_pipeline_has_the_gradient_that_it_has_without() -> None:
    """Loops of TensorFlow compute another softmax, for a gradient that is zero."""
    cut = (("conv2d",), ("conv2d_2",))
    pipelined = real_programs.workload("residual", 8, count=4, cut=cut)
    for workload in (pipelined, real_programs.workload("residual", 8)):
        assert not _phases(workload, "Softmax")
        assert _phases(workload, "SparseSoftmaxCrossEntropyWithLogits") == {""}
