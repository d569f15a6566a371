"""Products of narrower types take no longer than products of wider types."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1, MK2
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.contractions.matmul import matmul
from tensorflow_ipu.costs.cost import Resources, TensorType
from tests.support.planner.op_specs import i32, op

MANY = settings(max_examples=150, deadline=None, derandomize=True)
# Of any size, with small ones as often as large ones.
DIMENSIONS = st.integers(0, 11).flatmap(lambda power: st.integers(2**power, 2 ** (power + 1)))
RESOURCES = st.builds(
    Resources,
    st.sampled_from((MK1, MK2, BOW)),
    st.sampled_from((10, 100, 1216)),
    st.sampled_from((0.1, 0.6)),
    st.sampled_from(("float16", "float32")),
)


def convolution(kind, dtype, side, inputs, outputs, size):
    image, result = (TensorType(dtype, (2, side, side, n)) for n in (inputs, outputs))
    kernel = TensorType(dtype, (size, size, inputs, outputs))
    operands = {
        "Conv2D": ((image, kernel), result),
        "Conv2DBackpropInput": ((i32(4), kernel, result), image),
        "Conv2DBackpropFilter": ((image, i32(4), result), kernel),
    }
    return op(kind, *operands[kind], strides=[1, 1, 1, 1])


@MANY
@given(batch=st.sampled_from((1, 4, 64)), m=DIMENSIONS, k=DIMENSIONS, n=DIMENSIONS, given=RESOURCES)
def test_float16_product_is_never_slower_than_float32_one(batch, m, k, n, given):
    half, single = (matmul(batch, m, k, n, dtype, given) for dtype in ("float16", "float32"))
    assert half.cycles <= 1.02 * single.cycles


@MANY
@given(
    kind=st.sampled_from(("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")),
    side=st.sampled_from((4, 7, 14, 28)),
    inputs=st.sampled_from((1, 3, 4, 16, 64)),
    outputs=st.sampled_from((1, 4, 8, 64)),
    size=st.sampled_from((1, 3, 5, 7)),
    given=RESOURCES,
)
def test_nor_is_a_convolution_or_its_gradient(kind, side, inputs, outputs, size, given):
    half, single = (
        cost_of(convolution(kind, dtype, side, inputs, outputs, size), given)
        for dtype in ("float16", "float32")
    )
    assert half.cycles <= 1.02 * single.cycles
