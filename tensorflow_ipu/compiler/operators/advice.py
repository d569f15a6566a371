"""Advice on replacements for ops that the chip lacks."""

from __future__ import annotations

from tensorflow_ipu.compiler.operators import table

_DENSE_GRADIENT = (
    "use ipu.embedding_ops.embedding_lookup or ipu.keras.layers.Embedding, whose gradients are "
    "dense: those of tf.gather and of stock embeddings are sparse"
)
_BOXES = "let the program return all boxes and scores, and suppress boxes on the host"
_COUNT = "use tf.reduce_sum(tf.one_hot(x, n), 0), or tf.math.unsorted_segment_sum of ones"
_DENSE = (
    "make the tensor dense before the program, in the dataset, and mask what it was filled with"
)

#: Prefixes of names of ops, and advice. The first match counts.
INSTEAD: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("Where",),
        "use tf.where(condition, x, y), with three arguments. In the place of tf.boolean_mask, "
        "multiply by the mask, and divide sums by the number of elements it keeps",
    ),
    (
        ("Unique",),
        "work on all values that there can be, for example with tf.math.unsorted_segment_sum. If "
        f"it belongs to a sparse gradient, {_DENSE_GRADIENT}",
    ),
    (("ResourceSparseApply",), _DENSE_GRADIENT),
    (("DynamicPartition",), "multiply by a mask for each part"),
    (("NonMaxSuppression", "CombinedNonMaxSuppression"), _BOXES),
    (("DenseBincount", "Bincount"), _COUNT),
    (("Segment",), "use tf.math.unsorted_segment_sum and its kind, with num_segments"),
    (("SparseSegment",), "use tf.gather and tf.math.unsorted_segment_sum, with num_segments"),
    (("SparseTensorDenseMatMul",), "multiply dense matrices with tf.matmul"),
    (("SparseApply",), "use resource variables"),
    (("Sparse", "Ragged"), _DENSE),
    (("EditDistance",), "let the program return both sequences, and compare them on the host"),
    (("CTCGreedyDecoder",), "use ipu.nn_ops.ctc_beam_search_decoder, or decode on the host"),
    (("CTCBeamSearchDecoder",), "use ipu.nn_ops.ctc_beam_search_decoder"),
    (("CTCLoss",), "use ipu.nn_ops.ctc_loss_v2"),
    (
        ("MatrixInverse", "MatrixSolve", "Lu"),
        "solve with tf.linalg.cholesky_solve where the matrix is positive definite, or with "
        "tf.linalg.triangular_solve",
    ),
    (
        ("TensorListResize", "TensorListSetItem"),
        "give the tf.TensorArray its size, and leave out dynamic_size=True",
    ),
    (
        ("EmptyTensorList", "StackV2"),
        "give tf.while_loop its maximum_iterations: what the gradient of a loop keeps has to have "
        "a size",
    ),
    (("ResizeNearestNeighborGrad",), "enlarge with tf.repeat, along each dimension"),
    (("ResizeBicubic", "ResizeArea"), "use the method bilinear, or resize in the dataset"),
    (("Print", "StringFormat"), "print tensors with ipu.internal_ops.print_tensor"),
)

_KNOWN = (
    "make it a Python number, or take it from a shape. Where it varies, work on the largest size, "
    "and mask the rest"
)
_ON_HOST = (
    "compute it on the host: before the program (in the dataset), after it, or in the middle with "
    "ipu.scopes.outside_compilation_scope()"
)


def instead(op: str) -> str | None:
    """Returns the replacement for an op, None if no special one is known.

    Args:
        op: type of the op.
    """
    return next((advice for starts, advice in INSTEAD if op.startswith(starts)), None)


def mend(op: str) -> str:
    """Returns advice for an op that the chip cannot run.

    Args:
        op: type of the op.
    """
    return instead(op) or (_KNOWN if op in table.ON_CHIP else _ON_HOST)
