"""The ops: the module `popxl.ops`.

Each family has a module: it registers a record for each op in the table (`core.kinds`), and has the
function that programs call, which checks what the record cannot.
"""

from tensorflow_ipu.frontends.popxl.ops import collectives, random_seed, utils, var_updates
from tensorflow_ipu.frontends.popxl.ops.arithmetic import (
    add,
    add_,
    div,
    fmod,
    maximum,
    mul,
    pow,  # noqa: A004
    sub,
)
from tensorflow_ipu.frontends.popxl.ops.casts import cast, init, io_tile_copy, ipu_copy
from tensorflow_ipu.frontends.popxl.ops.control.call_sites import CallSiteInfo
from tensorflow_ipu.frontends.popxl.ops.control.calls import call, call_with_info
from tensorflow_ipu.frontends.popxl.ops.control.conditional_sites import ConditionalSiteInfo
from tensorflow_ipu.frontends.popxl.ops.control.conditionals import (
    conditional,
    conditional_with_info,
)
from tensorflow_ipu.frontends.popxl.ops.control.loops import repeat, repeat_with_info
from tensorflow_ipu.frontends.popxl.ops.elements.dynamic_slices import (
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
)
from tensorflow_ipu.frontends.popxl.ops.elements.grouped import (
    grouped_scatter_reduce,
    groupedgather,
    scatter_reduce,
)
from tensorflow_ipu.frontends.popxl.ops.elements.indexing import (
    gather,
    onehot,
    scatter,
    tied_gather,
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
    pow2scale_cast_from_fp8,
    pow2scale_cast_to_fp8,
    pow2scale_then_cast,
)
from tensorflow_ipu.frontends.popxl.ops.float8_products import (
    conv_pow2scaled,
    conv_transpose_pow2scaled,
    matmul_pow2scaled,
)
from tensorflow_ipu.frontends.popxl.ops.host import host_load, host_store
from tensorflow_ipu.frontends.popxl.ops.joining import concat, concat_, split
from tensorflow_ipu.frontends.popxl.ops.linear import matmul
from tensorflow_ipu.frontends.popxl.ops.logic import (
    equal,
    greater,
    logical_and,
    logical_not,
    logical_or,
    where,
)
from tensorflow_ipu.frontends.popxl.ops.misc import (
    clamp,
    clip,
    increment_mod,
    increment_mod_,
    scaled_add,
    scaled_add_,
)
from tensorflow_ipu.frontends.popxl.ops.movement import (
    detach,
    detach_,
    flatten,
    flatten_,
    identity,
    rename,
    reshape,
    reshape_,
    squeeze,
    transpose,
    transpose_,
)
from tensorflow_ipu.frontends.popxl.ops.nn.convolution import conv
from tensorflow_ipu.frontends.popxl.ops.nn.interpolation import interpolate
from tensorflow_ipu.frontends.popxl.ops.nn.losses import nll_loss, nll_loss_with_softmax_grad
from tensorflow_ipu.frontends.popxl.ops.nn.normalization import (
    batch_norm_inference,
    group_norm,
    layer_norm,
)
from tensorflow_ipu.frontends.popxl.ops.nn.pooling import average_pool, max_pool
from tensorflow_ipu.frontends.popxl.ops.nn.regions import roi_align
from tensorflow_ipu.frontends.popxl.ops.nn.transposed import conv_transpose
from tensorflow_ipu.frontends.popxl.ops.optimizers import lamb_square
from tensorflow_ipu.frontends.popxl.ops.printing import print_tensor
from tensorflow_ipu.frontends.popxl.ops.random import (
    dropout,
    random_normal,
    random_uniform,
    shaped_dropout,
)
from tensorflow_ipu.frontends.popxl.ops.random_seed import split_random_seed
from tensorflow_ipu.frontends.popxl.ops.reductions import (
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
)
from tensorflow_ipu.frontends.popxl.ops.remote import (
    remote_code_load,
    remote_load,
    remote_load_,
    remote_store,
)
from tensorflow_ipu.frontends.popxl.ops.slicing import slice, slice_, subsample  # noqa: A004
from tensorflow_ipu.frontends.popxl.ops.sorting import argmax, argmin, cumsum, histogram, topk
