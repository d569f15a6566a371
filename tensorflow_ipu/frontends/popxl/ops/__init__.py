"""The ops: the module `popxl.ops`.

Each family has a module: it registers a record for each op in the table (`core.kinds`), and has the
function that programs call, which checks what the record cannot.
"""

from tensorflow_ipu.frontends.popxl.ops import collectives, random, utils, var_updates
from tensorflow_ipu.frontends.popxl.ops.arithmetic import (
    add,
    add_,
    clamp,
    clip,
    div,
    equal,
    fmod,
    greater,
    increment_mod,
    increment_mod_,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    mul,
    pow,  # noqa: A004
    scaled_add,
    scaled_add_,
    sub,
    where,
)
from tensorflow_ipu.frontends.popxl.ops.calls import CallSiteInfo, call, call_with_info
from tensorflow_ipu.frontends.popxl.ops.control_flow import (
    ConditionalSiteInfo,
    conditional,
    conditional_with_info,
    repeat,
    repeat_with_info,
)
from tensorflow_ipu.frontends.popxl.ops.elementwise import (
    abs,  # noqa: A004
    ceil,
    cos,
    exp,
    exp_,
    floor,
    gelu,
    gelu_,
    geluerf,
    geluerf_,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    negate,
    relu,
    relu_,
    sign,
    sin,
    softmax,
    sqrt,
    swish,
    swish_,
    tanh,
)
from tensorflow_ipu.frontends.popxl.ops.float8 import (
    cast_then_pow2scale,
    conv_pow2scaled,
    conv_transpose_pow2scaled,
    matmul_pow2scaled,
    pow2scale_cast_from_fp8,
    pow2scale_cast_to_fp8,
    pow2scale_then_cast,
)
from tensorflow_ipu.frontends.popxl.ops.host import (
    host_load,
    host_store,
    print_tensor,
    remote_code_load,
    remote_load,
    remote_load_,
    remote_store,
)
from tensorflow_ipu.frontends.popxl.ops.images import average_pool, interpolate, max_pool, roi_align
from tensorflow_ipu.frontends.popxl.ops.indexing import (
    gather,
    grouped_scatter_reduce,
    groupedgather,
    onehot,
    scatter,
    scatter_reduce,
    tied_gather,
)
from tensorflow_ipu.frontends.popxl.ops.linear import conv, conv_transpose, matmul
from tensorflow_ipu.frontends.popxl.ops.losses import nll_loss, nll_loss_with_softmax_grad
from tensorflow_ipu.frontends.popxl.ops.movement import (
    cast,
    concat,
    concat_,
    detach,
    detach_,
    flatten,
    flatten_,
    identity,
    init,
    io_tile_copy,
    ipu_copy,
    rename,
    reshape,
    reshape_,
    split,
    squeeze,
    transpose,
    transpose_,
)
from tensorflow_ipu.frontends.popxl.ops.normalization import (
    batch_norm_inference,
    group_norm,
    layer_norm,
)
from tensorflow_ipu.frontends.popxl.ops.random import (
    dropout,
    random_normal,
    random_uniform,
    shaped_dropout,
    split_random_seed,
)
from tensorflow_ipu.frontends.popxl.ops.reductions import (
    argmax,
    argmin,
    cumsum,
    histogram,
    l1,
    l2,
    logsum,
    logsumexp,
    max,  # noqa: A004
    mean,
    median,
    min,  # noqa: A004
    prod,
    sum,  # noqa: A004
    sumsquare,
    topk,
)
from tensorflow_ipu.frontends.popxl.ops.slicing import (  # noqa: A004
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
    slice,
    slice_,
    subsample,
)
from tensorflow_ipu.frontends.popxl.ops.var_updates import lamb_square
