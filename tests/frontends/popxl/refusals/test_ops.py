"""Uses of ops that are refused."""

from __future__ import annotations

import numpy as np
import popxl
from popxl import ops
from popxl.ops import var_updates

from tests.support.popxl.popxl_refusals import PE, elsewhere, f16, f32, graph_of, i32, table

# Calls with one tensor, of each op that takes tensors: what else they take is right.
ONE_TENSOR = {
    name: getattr(ops, name)
    for name in (
        "abs argmax argmin ceil cos cumsum detach detach_ exp exp_ flatten flatten_ floor gelu "
        "gelu_ geluerf geluerf_ identity io_tile_copy isfinite isinf isnan l1 l2 lamb_square log "
        "log2 logical_not logsum logsumexp max mean median min negate print_tensor prod relu "
        "relu_ rename sign sin sqrt squeeze sum sumsquare swish swish_ tanh transpose transpose_"
    ).split()
}
ONE_TENSOR.update(
    softmax=lambda t: ops.softmax(t, 0),
    clip=lambda t: ops.clip(t, 0, 1),
    cast=lambda t: ops.cast(t, popxl.int32),
    increment_mod=lambda t: ops.increment_mod(t, 1, 2),
    increment_mod_=lambda t: ops.increment_mod_(t, 1, 2),
    reshape=lambda t: ops.reshape(t, (-1,)),
    reshape_=lambda t: ops.reshape_(t, (-1,)),
    slice=lambda t: ops.slice(t, 0, 1),
    slice_=lambda t: ops.slice_(t, 0, 1),
    subsample=lambda t: ops.subsample(t, 1),
    split=lambda t: ops.split(t, 2),
    ipu_copy=lambda t: ops.ipu_copy(t, 1, 0),
    host_store=lambda t: ops.host_store(popxl.d2h_stream((2, 2), popxl.float32), t),
    histogram=lambda t: ops.histogram(t, [0.0], False),
    topk=lambda t: ops.topk(t, 1, 0, True, True),
    average_pool=lambda t: ops.average_pool(t, (1, 1)),
    max_pool=lambda t: ops.max_pool(t, (1, 1)),
    interpolate=lambda t: ops.interpolate(t),
    remote_store=lambda t: ops.remote_store(popxl.remote_buffer((2, 2), popxl.float32), 0, t),
    remote_load_=lambda t: ops.remote_load_(popxl.remote_buffer((2, 2), popxl.float32), 0, t),
    all_reduce=lambda t: ops.collectives.all_reduce([t]),
    replicated_all_reduce=ops.collectives.replicated_all_reduce,
    replicated_all_reduce_=ops.collectives.replicated_all_reduce_,
    replicated_all_gather=ops.collectives.replicated_all_gather,
    replicated_reduce_scatter=ops.collectives.replicated_reduce_scatter,
    replica_sharded_slice=ops.collectives.replica_sharded_slice,
    replicated_slice=ops.collectives.replicated_slice,
    accumulator_zero_=var_updates.accumulator_zero_,
    accumulator_scale_=lambda t: var_updates.accumulator_scale_(t, 2.0),
    concat=lambda t: ops.concat([t, t]),
    concat_=lambda t: ops.concat_([t, t]),
    maximum=ops.maximum,
)
TWO_TENSORS = {
    name: getattr(ops, name)
    for name in (
        "add add_ sub mul div fmod maximum equal greater logical_and logical_or matmul scaled_add "
        "scaled_add_ pow"
    ).split()
}
TWO_TENSORS.update(
    {
        name: getattr(var_updates, name)
        for name in "accumulate_ accumulate_square_ copy_var_update_ adam_updater".split()
    },
    accumulate_mean_=lambda t, x: var_updates.accumulate_mean_(t, x, 1.0),
    accumulate_moving_average_=lambda t, x: var_updates.accumulate_moving_average_(t, x, 0.5),
    accumulate_moving_average_square_=lambda t, x: var_updates.accumulate_moving_average_square_(
        t, x, 0.5
    ),
    concat=lambda t, x: ops.concat([t, x]),
    where=lambda t, x: ops.where(popxl.constant(True), t, x),
)


def _calls(calls, wrong):
    return [(name, lambda call=call: call(*wrong())) for name, call in calls.items()]


@table(
    *(
        (name, TypeError, "is not a Tensor", build)
        for name, build in _calls(ONE_TENSOR, lambda: [[[1.0, 2.0], [3.0, 4.0]]])
    ),
    *(
        (name, TypeError, "is not a Tensor", build)
        for name, build in _calls(TWO_TENSORS, lambda: [f32(2, 2), np.ones((2, 2), np.float32)])
        if name not in ("pow",)
    ),
    *(
        (f"{name} elsewhere", ValueError, "is not in the current Graph", build)
        for name, build in _calls(ONE_TENSOR, lambda: [elsewhere(2, 2)])
    ),
    *(
        (f"{name} elsewhere", ValueError, "is not in the current Graph", build)
        for name, build in _calls(TWO_TENSORS, lambda: [f32(2, 2), elsewhere(2, 2)])
    ),
)
def test_tensors_of_the_current_graph_only(case):
    case.check()


def _on_other_ipu():
    x, y = f32(2, 2), f32(2, 2)
    with popxl.ipu(1):
        return [ops.exp(x), ops.ipu_copy(y, 0, 1)]


def _on_other_tiles():
    x, y = f32(2, 2), f32(2, 2)
    with popxl.io_tiles():
        on_io = ops.exp(x)
    return [on_io, ops.exp(y)]


@table(
    *(
        (f"{name} {words}", ValueError, words, build)
        for words, tensors in (
            ("located on different IPUs", _on_other_ipu),
            ("different tile sets", _on_other_tiles),
        )
        for name, build in _calls(TWO_TENSORS, tensors)
    ),
    *(
        (name, PE, "incompatible types FLOAT and INT32", lambda f=f: f(f32(2), i32(2)))
        for name, f in TWO_TENSORS.items()
        if name in "add add_ sub mul div fmod maximum equal greater pow where"
    ),
    *(
        (name, PE, "are not aligned", lambda f=f: f(f32(2), f32(3)))
        for name, f in TWO_TENSORS.items()
        if name
        in "add add_ sub mul div fmod maximum equal greater pow logical_and logical_or where"
    ),
    ("add_ larger", PE, "", lambda: ops.add_(f32(2), f32(2, 2))),
    ("iadd", PE, "", lambda: f32(2).__iadd__(f32(2, 2))),
)
def test_operands_that_do_not_fit(case):
    case.check()


def _scalar(value=1.0):
    return popxl.constant(value, popxl.float32)


def _printed(**options):
    return lambda: ops.print_tensor(f32(2), **options)


@table(
    ("cast", TypeError, "not supported for", lambda: ops.cast(f32(2), popxl.float8_143)),
    ("open_bracket", ValueError, "must be 1 character exactly", _printed(open_bracket="")),
    ("close_bracket", ValueError, "must be 1 character exactly", _printed(close_bracket="))")),
    ("separator", ValueError, "must be 1 character exactly", _printed(separator=", ")),
    ("float_format", KeyError, "", _printed(float_format="hex")),
    ("scaled_add", PE, "", lambda: ops.scaled_add(f32(2), f32(1))),
    (
        "shaped_dropout",
        PE,
        "",
        lambda: ops.shaped_dropout(f32(2, 3), popxl.constant([1, 2], popxl.uint32), (4,), 0.5),
    ),
    (
        "dropout seed",
        (ValueError, PE),
        "",
        lambda: ops.dropout(f32(2), popxl.constant([1, 2, 3], popxl.uint32), 0.5),
    ),
    (
        "split_random_seed",
        ValueError,
        "must be shape=(2,)",
        lambda: ops.split_random_seed(popxl.constant([1, 2, 3], popxl.uint32)),
    ),
    (
        "split_random_seed type",
        ValueError,
        "must be shape=(2,)",
        lambda: ops.split_random_seed(popxl.constant([1, 2], popxl.int32)),
    ),
    ("maximum", (ValueError, TypeError, PE), "", lambda: ops.maximum()),
    ("softmax", PE, "axis", lambda: ops.softmax(f32(2, 2), 2)),
)
def test_elementwise(case):
    case.check()


def _index(*shape):
    return popxl.constant(np.zeros(shape, np.int32))


@table(
    (
        "reshape 0",
        ValueError,
        "Invalid shape value in reshape",
        lambda: ops.reshape(f32(2), (0, 2)),
    ),
    (
        "reshape -2",
        ValueError,
        "Invalid shape value in reshape",
        lambda: ops.reshape_(f32(2), (-2,)),
    ),
    (
        "reshape -1 -1",
        ValueError,
        "Reshape shape can contain at most one '-1' value",
        lambda: f32(2).reshape((-1, -1)),
    ),
    ("reshape count", PE, "", lambda: f32(4).reshape((3,))),
    ("reshape count -1", PE, "", lambda: f32(4).reshape_((3, -1))),
    ("reshape int", TypeError, "", lambda: ops.reshape(f32(4), 4)),
    (
        "squeeze twice",
        ValueError,
        "Axes contains duplicates",
        lambda: ops.squeeze(f32(1, 2), [0, -2]),
    ),
    ("squeeze rank", ValueError, "Can't squeeze axis", lambda: ops.squeeze(f32(1, 2), [2])),
    ("squeeze size", ValueError, "Can't squeeze axis", lambda: ops.squeeze(f32(1, 2), [1])),
    (
        "transpose",
        ValueError,
        "Values in permutation must be less than the tensor's rank",
        lambda: ops.transpose(f32(1, 2), (0, 2)),
    ),
    (
        "transpose_",
        ValueError,
        "Values in permutation must be less than the tensor's rank",
        lambda: f32(1, 2).transpose_((3, 0)),
    ),
    (
        "concat type",
        ValueError,
        "All inputs to a concat operation must have the same type:",
        lambda: ops.concat([f32(2), f16(2)]),
    ),
    (
        "concat_ type",
        ValueError,
        "All inputs to a concat operation must have the same type:",
        lambda: ops.concat_([f32(2), i32(2)]),
    ),
    ("concat shape", PE, "", lambda: ops.concat([f32(2, 3), f32(2, 2)])),
    ("concat axis", PE, "", lambda: ops.concat([f32(2, 3), f32(2, 3)], axis=2)),
    ("split", ValueError, "does not equally divide", lambda: ops.split(f32(5), 2)),
    ("split sum", PE, "splits", lambda: ops.split(f32(5), [2, 2])),
    (
        "slice lengths",
        ValueError,
        "All inputs must have same length",
        lambda: ops.slice(f32(5, 5), [0], [1, 2]),
    ),
    ("slice step", (ValueError, PE), "", lambda: ops.slice(f32(5), 0, 5, 2)),
    (
        "subsample length",
        ValueError,
        "must not be greater than the rank",
        lambda: ops.subsample(f32(5), [1, 1]),
    ),
    ("subsample 0", PE, "Strides invalid", lambda: ops.subsample(f32(5), 0)),
    (
        "gather axis",
        PE,
        "outside the acceptable range",
        lambda: ops.gather(f32(2, 2), _index(1), axis=2),
    ),
    (
        "tied_gather axis",
        PE,
        "outside the acceptable range",
        lambda: ops.tied_gather(f32(2, 2), _index(1), axis=-3),
    ),
    ("gather type", PE, "", lambda: ops.gather(f32(2, 2), f32(1))),
    (
        "groupedgather",
        PE,
        "",
        lambda: ops.groupedgather(f32(2, 2), _index(2, 1), axis=0, group_size=2),
    ),
    ("scatter rank", PE, "", lambda: ops.scatter(f32(3, 3), _index(1), f32(3))),
    (
        "scatter_reduce",
        ValueError,
        "reduction must be one of",
        lambda: ops.scatter_reduce(f32(3), _index(3), "mean", axis_size=2),
    ),
    (
        "scatter_reduce size",
        ValueError,
        "One of initial_values",
        lambda: ops.scatter_reduce(f32(3), _index(3), "sum"),
    ),
    (
        "scatter_reduce indices",
        PE,
        "Partial broadcasting",
        lambda: ops.scatter_reduce(f32(3, 2, 4), _index(3, 2, 1), "sum", axis_size=2),
    ),
    (
        "dynamic_slice",
        PE,
        "",
        lambda: ops.dynamic_slice(f32(3), popxl.constant([0], popxl.uint32), [0], [4], True),
    ),
    (
        "onehot",
        PE,
        "does not have data",
        lambda: ops.onehot(_index(2), i32(), f32(2), -1),
    ),
    ("init", ValueError, "Unknown init_type", lambda: ops.init((2,), popxl.int32, init_type="one")),
    ("ipu_copy", ValueError, "Please specify `source`", lambda: ops.ipu_copy(f32(2), 1)),
    (
        "remote_store",
        ValueError,
        "does not match buffer",
        lambda: ops.remote_store(popxl.remote_buffer((2,), popxl.float32), 0, f32(3)),
    ),
    (
        "remote_load_",
        ValueError,
        "does not match buffer",
        lambda: ops.remote_load_(popxl.remote_buffer((2,), popxl.float32), 0, f16(2)),
    ),
    (
        "remote offset",
        ValueError,
        "",
        lambda: ops.remote_load(popxl.remote_buffer((2,), popxl.float32), -1),
    ),
    (
        "remote offset rank",
        ValueError,
        "",
        lambda: ops.remote_load(popxl.remote_buffer((2,), popxl.float32), _index(2)),
    ),
    (
        "code to",
        NotImplementedError,
        "",
        lambda: ops.remote_code_load(graph_of(lambda: None), "buffer"),
    ),
    (
        "code of the graph",
        ValueError,
        "^The remote_code_load op cannot load the code",
        lambda: ops.remote_code_load(popxl.gmg(), "executable"),
    ),
)
def test_shapes_and_movement(case):
    case.check()


REDUCTIONS = "sum mean prod sumsquare l1 l2 logsum logsumexp max min median".split()


@table(
    *(
        (f"{name} {axis}", PE, "", lambda name=name, axis=axis: getattr(ops, name)(f32(2, 2), axis))
        for name in REDUCTIONS
        for axis in (2, [0, -3])
    ),
    *(
        (name, PE, "", lambda name=name: getattr(ops, name)(f32(2, 2), 2))
        for name in ("argmax", "argmin", "cumsum")
    ),
    ("topk", PE, "Cannot take top-", lambda: ops.topk(f32(3), 4, 0, True, True)),
    (
        "levels",
        ValueError,
        "not a monotonically increasing list",
        lambda: ops.histogram(f32(3), [1.0, 1.0], False),
    ),
    ("histogram of int", PE, "", lambda: ops.histogram(i32(3), [1.0], False)),
)
def test_reductions(case):
    case.check()


def _float8(*shape, dtype=popxl.float8_143):
    return popxl.constant(np.ones(shape, np.float32), dtype)


def _scale(value=0, dtype=popxl.int32):
    return popxl.constant(value, dtype)


@table(
    ("scalars", PE, "doesn't support scalar", lambda: ops.matmul(f32(), f32(2))),
    ("inner", PE, "contracting dimensions unequal", lambda: ops.matmul(f32(2, 3), f32(2, 3))),
    ("inner @", PE, "contracting dimensions unequal", lambda: f32(2) @ f32(3)),
    (
        "partials",
        ValueError,
        "",
        lambda: ops.matmul(f32(2, 2), f32(2, 2), partials_type=popxl.int32),
    ),
    (
        "to fp8",
        TypeError,
        "",
        lambda: ops.pow2scale_cast_to_fp8(f32(2), _scale(), popxl.float16),
    ),
    (
        "to fp8 scale",
        ValueError,
        "must be a scalar tensor",
        lambda: ops.pow2scale_cast_to_fp8(f32(2), _scale([1]), popxl.float8_143),
    ),
    (
        "to fp8 scale type",
        TypeError,
        "must be of type popxl.int32",
        lambda: ops.pow2scale_then_cast(f32(2), _scale(1, popxl.float32), popxl.float8_152),
    ),
    (
        "from fp8",
        TypeError,
        "",
        lambda: ops.pow2scale_cast_from_fp8(_float8(2), _scale(), popxl.int32),
    ),
    (
        "from fp8 scale",
        ValueError,
        "must be a scalar tensor",
        lambda: ops.cast_then_pow2scale(_float8(2), _scale([1, 2]), popxl.float16),
    ),
    (
        "float8 matmul",
        TypeError,
        "must be of dtype popxl.float8",
        lambda: ops.matmul_pow2scaled(f16(2, 2), _float8(2, 2), _scale()),
    ),
    (
        "float8 conv",
        TypeError,
        "must be of dtype popxl.float8",
        lambda: ops.conv_pow2scaled(_float8(1, 2, 3, 3), f16(2, 2, 1, 1), _scale()),
    ),
    (
        "float8 conv_transpose",
        TypeError,
        "must be of dtype popxl.float8",
        lambda: ops.conv_transpose_pow2scaled(f16(1, 2, 3, 3), f16(2, 2, 1, 1), _scale()),
    ),
    (
        "float8 scale",
        ValueError,
        "must be a scalar tensor",
        lambda: ops.matmul_pow2scaled(_float8(2, 2), _float8(2, 2), _scale([1])),
    ),
    (
        "pad type",
        ValueError,
        "pad type",
        lambda: ops.conv(f32(1, 2, 3, 3), f32(2, 2, 1, 1), pad_type="same"),
    ),
    (
        "channels",
        PE,
        "Invalid value for group",
        lambda: ops.conv(f32(1, 3, 3, 3), f32(2, 2, 1, 1)),
    ),
    (
        "output of valid",
        PE,
        "",
        lambda: ops.conv_transpose(
            f32(1, 2, 3, 3), f32(2, 2, 1, 1), pad_type="valid", output_shape=(3, 3)
        ),
    ),
    (
        "dilation",
        PE,
        "Non default value for dilations",
        lambda: ops.conv_transpose(f32(1, 2, 3, 3), f32(2, 2, 1, 1), dilation=(2, 2)),
    ),
    (
        "storage order",
        PE,
        "storage_order",
        lambda: ops.max_pool(f32(1, 1, 3, 3), (1, 1), storage_order="column"),
    ),
    ("scale factors", PE, "", lambda: ops.interpolate(f32(1, 1, 3, 3), (1.0, 2.0))),
    (
        "crop and resize",
        PE,
        "tf_crop_and_resize",
        lambda: ops.interpolate(
            f32(1, 1, 3, 3), (1, 1, 2, 2), coordinate_transformation_mode="tf_crop_and_resize"
        ),
    ),
    *(
        (
            f"interpolate {option}",
            ValueError,
            "is not valid",
            lambda option=option: ops.interpolate(f32(1, 1, 2, 2), (1, 1, 2, 2), **{option: "odd"}),
        )
        for option in ("mode", "nearest_mode", "coordinate_transformation_mode")
    ),
    *(
        (
            f"roi_align {shapes}",
            PE,
            "",
            lambda shapes=shapes: ops.roi_align(
                f32(*shapes[0]), f32(*shapes[1]), i32(*shapes[2]), (2, 2), 1.0, 1
            ),
        )
        for shapes in (
            ((1, 3, 3), (1, 4), (1,)),
            ((1, 1, 3, 3), (4,), (1,)),
            ((1, 1, 3, 3), (1, 4), (1, 1)),
        )
    ),
    (
        "batch_norm rank",
        PE,
        "",
        lambda: ops.batch_norm_inference(f32(2, 3), f32(3), f32(3), f32(3), f32(3)),
    ),
    ("labels", PE, "must have shape", lambda: ops.nll_loss(f32(2, 3), i32(3))),
    (
        "reduction",
        ValueError,
        "Not a valid reduction",
        lambda: ops.nll_loss(f32(2, 3), i32(2), reduction="max"),
    ),
    (
        "reduction of both",
        ValueError,
        "Not a valid reduction",
        lambda: ops.nll_loss_with_softmax_grad(f32(2, 3), i32(2), reduction="max"),
    ),
)
def test_linear_algebra_images_and_losses(case):
    case.check()


@table(
    ("accumulate by 0", PE, "", lambda: var_updates.accumulate_(f32(2), f32(2), 0.0)),
    ("square by 0", PE, "", lambda: var_updates.accumulate_square_(f32(2), f32(2), 0.0)),
    *(
        (name, PE, "", lambda f=TWO_TENSORS[name]: f(f32(2), f32(1)))
        for name in TWO_TENSORS
        if name.endswith("_") and hasattr(var_updates, name)
    ),
    (
        "sparse",
        PE,
        "",
        lambda: var_updates.sparse_accumulate_(f32(4, 2), f32(3, 2), _index(2), f=1.0),
    ),
    *(
        (
            f.__name__,
            ValueError,
            "Weight decay requires weight to not be None.",
            lambda f=f, betas=betas: f(f32(2), f32(2), time_step=f32(), weight_decay=0.1, **betas),
        )
        for f, betas in (
            (var_updates.adam_updater, {"beta1": 0.9, "beta2": 0.99}),
            (var_updates.lamb_updater, {}),
            (var_updates.adamax_updater, {}),
        )
    ),
    *(
        (
            f"{f.__name__} without {left}",
            ValueError,
            "Bias correction requires both beta1 and beta2 to not be None.",
            lambda f=f, left=left: f(
                f32(2), f32(2), time_step=f32(), **{"beta1" if left == "beta2" else "beta2": 0.9}
            ),
        )
        for f in (var_updates.adam_updater, var_updates.lamb_updater)
        for left in ("beta1", "beta2")
    ),
    (
        "adamax",
        ValueError,
        "AdaMax requires time_step to not be None.",
        lambda: var_updates.adamax_updater(f32(2), f32(2)),
    ),
    (
        "norm 0",
        (ValueError, PE),
        "",
        lambda: var_updates.adam_var_update(f32(2), f32(2), f32(), f32(), 0.1, 0.0),
    ),
)
def test_updates(case):
    case.check()


COLLECTIVES = (
    ops.collectives.replicated_all_reduce,
    ops.collectives.replicated_all_reduce_,
    ops.collectives.replicated_reduce_scatter,
)


@table(
    *(
        (f"{f.__name__} {op}", ValueError, "Not a valid op", lambda f=f, op=op: f(f32(2), op), 2)
        for f in COLLECTIVES
        for op in ("local", "sum")
    ),
    (
        "op",
        ValueError,
        "Not a valid op",
        lambda: ops.collectives.all_reduce([f32(2)], [0], op="sum"),
    ),
    (
        "ipus",
        ValueError,
        "Could not automatically infer",
        lambda: ops.collectives.all_reduce([f32(2), f32(2)]),
    ),
    (
        "numbers",
        ValueError,
        "",
        lambda: ops.collectives.all_reduce([f32(2), f32(2)], ipus=[0]),
    ),
    (
        "shapes",
        PE,
        "",
        lambda: ops.collectives.all_reduce([f32(2), f32(3)], ipus=[0, 1]),
    ),
    (
        "types",
        PE,
        "",
        lambda: ops.collectives.all_reduce_identical_inputs([f32(2), f16(2)], ipus=[0, 1]),
    ),
    (
        "output_shape",
        ValueError,
        "output_shape must equal one of",
        lambda: ops.collectives.replicated_all_gather(f32(2), output_shape="flat"),
        2,
    ),
    (
        "axis",
        ValueError,
        "Axis should be an int",
        lambda: ops.collectives.replicated_all_gather(f32(2), axis=[0]),
        2,
    ),
    (
        "part",
        ValueError,
        "must equally divide axis",
        lambda: ops.collectives.replicated_slice(f32(3)),
        2,
    ),
)
def test_collectives(case):
    case.check()
