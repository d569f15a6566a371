"""Agreement of the table of ops with TensorFlow's registry."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.framework import op_def_registry
from tensorflow.python.util import pywrap_xla_ops

from tensorflow_ipu.compiler.checks import operator_table
from tensorflow_ipu.compiler.passes import random_streams
from tensorflow_ipu.util import op_names

# The ops that XLA compiles in the TensorFlow that is installed, without TensorFlow's internal ones.
XLA = {op for op in pywrap_xla_ops.get_cpu_kernel_names() if not op.startswith("_")}


def test_every_xla_op_is_supported_or_has_reason():
    tables = [
        set(operator_table.ON_CHIP),
        set(operator_table.NOT_ON_CHIP),
        set(op_names.DROPPED_CHECKS),
    ]
    assert XLA - set.union(*tables) == set()
    assert [op for op in XLA if sum(op in names for names in tables) > 1] == []


def test_ops_without_xla_are_lowered_or_stand_ins():
    assert set(operator_table.ON_CHIP) - XLA == {
        *("Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"),
        *("OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone"),
        *("LogUniformCandidateSampler", "UniformCandidateSampler"),
        *("Placeholder", "PlaceholderV2", "VarHandleOp"),
        *("BlockLSTMV2", "BlockLSTMGradV2"),
    }


def test_lowered_random_ops_stay_with_originals():
    for op, stateless in random_streams._SAMPLERS.items():
        assert (op in operator_table.ON_CHIP) == (stateless.op in operator_table.ON_CHIP), op


def test_inputs_to_be_known_are_inputs_of_op():
    for op, inputs in operator_table.ON_CHIP.items():
        names = {argument.name for argument in op_def_registry.get(op).input_arg}
        assert set(inputs) <= names, op


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("Where", "shapes depend on values"),
        ("UniqueWithCounts", "shapes depend on values"),
        ("SparseTensorDenseMatMul", "shapes depend on values"),
        ("RaggedRange", "shapes depend on values"),
        ("CTCGreedyDecoder", "shapes depend on values"),
        ("MatrixInverse", "QR decomposition"),
        ("Svd", "decompositions"),
        ("DenseBincount", "TensorFlow 2.6"),
        ("Lu", "no kernel"),
        ("SparseApplyAdam", "no kernel"),
        ("AnOpOfSomebody", "no kernel"),
    ],
)
def test_op_that_is_not_on_chip_has_reason(op, reason):
    assert op not in operator_table.ON_CHIP
    assert reason in operator_table.reason(op)


def test_the_table_needs_no_tensorflow(run_python):
    run_python(
        "import sys\n"
        "from tensorflow_ipu.compiler.checks import operator_table as table\n"
        "assert table.ON_CHIP and table.mend('Where')\n"
        "assert 'tensorflow' not in sys.modules"
    )


# --- Tests of what is named in the place of ops that the chip lacks ---


@pytest.mark.parametrize(
    "text", [text for _, text in operator_table.INSTEAD] + [operator_table.mend("Lu2")]
)
def test_what_is_named_exists(text):
    for path in re.findall(r"\b(?:tf|ipu)(?:\.\w+)+", text):
        module, *names = path.split(".")
        found = {"tf": tf, "ipu": ipu}[module]
        for name in names:
            found = getattr(found, name)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("Where", "three arguments"),
        ("NonMaxSuppressionV3", "boxes"),
        ("SparseSegmentSum", "unsorted_segment_sum"),
        ("SparseReorder", "dense before the program"),
        ("PrintV2", "print_tensor"),
        ("Range", "a Python number"),
        ("Svd", "on the host"),
    ],
)
def test_there_is_something_to_do_about_each_op(op, expected):
    assert expected in operator_table.mend(op)


def test_nothing_special_is_known_of_most_ops():
    assert operator_table.instead("Svd") is None
