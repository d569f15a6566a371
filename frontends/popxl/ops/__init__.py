"""The ops: the module `popxl.ops`.

Each family has a module: it registers a record for each op in the table (`core.kinds`), and has the
function that programs call, which checks what the record cannot.
"""

from tensorflow_ipu.frontends.popxl.ops.arithmetic import (
    add,
    add_,
    div,
    equal,
    fmod,
    greater,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    mul,
    pow,  # noqa: A004
    sub,
    where,
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
from tensorflow_ipu.frontends.popxl.ops.host import host_load, host_store
from tensorflow_ipu.frontends.popxl.ops.linear import matmul
