"""How an op is divided over the tiles, as its cost says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW, MK1
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.catalogue import cost_of
from tensorflow_ipu.costs.cost import (
    Cost,
    OpSpec,
    Partition,
    Resources,
    Rule,
    TensorType,
    UnknownCostError,
    largest,
    memory_bound,
)
from tensorflow_ipu.costs.label import Label
from tests.support.planner.op_specs import FAMILIES, f16, f32, i32, op

HALVES = Partition((("rows", 2), ("columns", 1)))

THIRDS = Partition((("positions", 3),))


@pytest.mark.parametrize(
    ("partition", "text", "tiles"),
    [
        (Partition((("rows", 24), ("columns", 1), ("indices", 50))), "rows 24, indices 50", 1200),
        (Partition((("rows", 1),)), "1 tile", 1),
        (
            Partition((("inputs", 2), ("outputs", 8)), 3, "float16"),
            "inputs 2, outputs 8; 3 serial parts; partials float16",
            16,
        ),
    ],
)
def test_a_partition_names_the_dimensions_that_are_divided(partition, text, tiles):
    assert (str(partition), partition.tiles) == (text, tiles)


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ((Cost(9.0), Cost(1.0, partition=HALVES)), HALVES),
        ((Cost(1.0, partition=HALVES), Cost(9.0)), HALVES),
        ((Cost(1.0, partition=HALVES), Cost(9.0, partition=THIRDS)), THIRDS),
        ((Cost(9.0), Cost(1.0)), None),
    ],
)
def test_sum_keeps_the_partition_of_the_longest_step(steps, kept):
    assert (steps[0] + steps[1]).partition == kept


@pytest.mark.parametrize("chip", [MK1, BOW])
@pytest.mark.parametrize("tiles", [1, 100, 1216])
@pytest.mark.parametrize(
    "spec",
    [
        op("MatMul", (f16(1024, 512), f16(512, 2048)), f16(1024, 2048)),
        op("Conv2D", (f16(4, 28, 28, 64), f16(3, 3, 64, 64)), f16(4, 28, 28, 64)),
        op(
            "DepthwiseConv2dNative",
            (f32(4, 28, 28, 64), f32(3, 3, 64, 1)),
            f32(4, 28, 28, 64),
            strides=[1, 1, 1, 1],
        ),
    ],
    ids=lambda spec: spec.type,
)
def test_products_use_no_more_tiles_than_there_are(spec, tiles, chip):
    partition = cost_of(spec, Resources(chip, tiles)).partition
    assert 1 <= partition.tiles <= tiles
    assert tiles < 100 or partition.tiles > tiles / 2


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        # The matrix unit takes 16 channels of float16 at a time, and makes 8 with float32 sums.
        # Rows of the left or columns of the right operand stream through it.
        (op("MatMul", (f16(5, 48), f16(48, 20)), f16(5, 20)), max(5 * 3 * 3, 20 * 3 * 1)),
        (op("BatchMatMulV2", (f16(3, 2, 16), f16(3, 16, 8)), f16(3, 2, 8)), 3 * max(2, 8)),
        (
            op(
                "DepthwiseConv2dNative",
                (f32(1, 3, 3, 2), f32(1, 1, 2, 1)),
                f32(1, 3, 3, 2),
                strides=[1, 1, 1, 1],
            ),
            3 * 3,
        ),
    ],
    ids=lambda value: getattr(value, "type", None),
)
def test_parts_are_those_that_have_something(spec, most):
    partition = cost_of(spec, Resources(BOW, BOW.tiles)).partition
    assert partition.tiles <= most


def test_less_memory_makes_more_serial_parts():
    spec = op("MatMul", (f16(4096, 4096), f16(4096, 4096)), f16(4096, 4096))
    few, many = (
        cost_of(spec, Resources(BOW, BOW.tiles, proportion, "float16")).partition
        for proportion in (1.0, 0.02)
    )
    assert 1 <= few.serial < many.serial
    assert many.partials == "float16"


def test_elementwise_ops_have_none():
    assert (
        cost_of(op("AddV2", (f32(100), f32(100)), f32(100)), Resources(BOW, 10)).partition is None
    )
    sums = cost_of(op("Sum", (f32(8, 8), i32(1)), f32(8), axes=[1]), Resources(BOW, 10))
    assert sums.partition is None


# --- Memory bound ---


@pytest.mark.parametrize(
    ("proportion", "num_bytes"),
    [(0.5, 312 * 1024), (0.0, 624 * 1024 / 64), (0.001, 624 * 1024 / 64)],
)
def test_bound_is_tile_part_of_at_least_64th(proportion, num_bytes):
    assert memory_bound(Resources(BOW, 1472, proportion)) == num_bytes


@pytest.mark.parametrize("proportion", [-0.1, float("nan")])
def test_a_negative_proportion_is_not_known(proportion):
    with pytest.raises(UnknownCostError, match="memory proportion of 0 or more"):
        memory_bound(Resources(BOW, 1472, proportion))


# --- Rules ---

ODD = settings(max_examples=15, deadline=None, derandomize=True)

TENSORS = st.builds(
    TensorType,
    st.sampled_from(("float32", "float16", "int32", "int64", "bool", "complex64", "resource", "x")),
    st.lists(st.sampled_from((0, 1, 2, 3, 8, 17, 64)), max_size=5).map(tuple),
)

# What an attribute may be in a report that was changed by hand.
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(),
    st.sampled_from(("", "NHWC", "NCHW", "ij->i", "a,b->", "->", "ij,jk->ik", ",")),
    st.lists(st.integers(-9, 9), max_size=5).map(tuple),
    st.tuples(st.text(max_size=3)),
)

RESOURCES = st.builds(
    Resources,
    st.just(BOW),
    st.sampled_from((1, 7, BOW.tiles)),
    st.sampled_from((0.6, 0.0, -1.0, float("nan"))),
    st.sampled_from(("float32", "float16", "int8")),
)


@st.composite
def odd_ops(draw: st.DrawFn, op_type: str, reads: tuple[str, ...]) -> OpSpec:
    """Draws an op with any operands, and any values of the attributes that its rule reads."""
    return OpSpec(
        op_type,
        tuple(draw(st.lists(TENSORS, max_size=7))),
        tuple(draw(st.lists(TENSORS, max_size=2))),
        draw(st.dictionaries(st.sampled_from(reads), VALUES)) if reads else {},
    )


@st.composite
def damaged(draw: st.DrawFn, spec: OpSpec) -> OpSpec:
    """Draws an op of which something is missing, unknown or another tensor."""
    tensors = {"inputs": list(spec.inputs), "outputs": list(spec.outputs)}
    attributes = dict(spec.attributes)
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("missing", "rank", "tensor", "attribute")))
        some = tensors[draw(st.sampled_from(sorted(tensors)))]
        if kind == "attribute" and attributes:
            attributes.pop(draw(st.sampled_from(sorted(attributes))))
        elif some:
            index = draw(st.integers(0, len(some) - 1))
            if kind == "missing":
                del some[index]
            elif kind == "rank":
                some[index] = some[index]._replace(shape=())
            else:
                some[index] = draw(TENSORS)
    return OpSpec(spec.type, tuple(tensors["inputs"]), tuple(tensors["outputs"]), attributes)


def check(spec: OpSpec, resources: Resources) -> None:
    """Checks that the rule of an op prices it or raises the one error, and the catalogue does."""
    rule = catalogue.RULES.get(spec.type, catalogue.UNKNOWN)
    try:
        assert isinstance(rule.cost(spec, resources), Cost)
    except UnknownCostError:
        assert catalogue.cost_of(spec, resources).label in (Label.ASSUMED, Label.EXACT)


@pytest.mark.parametrize("family", FAMILIES)
@ODD
@given(data=st.data(), resources=RESOURCES)
def test_rule_prices_damaged_op_or_refuses(family, data, resources):
    check(data.draw(damaged(FAMILIES[family](3, 8, 17))), resources)


# The op types of each rule.
TYPES: dict[Rule, list[str]] = {}


for _type, _rule in catalogue.RULES.items():
    TYPES.setdefault(_rule, []).append(_type)


@pytest.mark.parametrize("rule", TYPES, ids=lambda rule: TYPES[rule][0])
@ODD
@given(data=st.data(), resources=RESOURCES)
def test_rule_prices_any_op_or_refuses(rule, data, resources):
    op_type = data.draw(st.sampled_from(TYPES[rule]))
    check(data.draw(odd_ops(op_type, rule.reads)), resources)


@pytest.mark.parametrize("fault", [IndexError, ValueError, StopIteration, KeyError])
def test_a_fault_of_a_rule_is_raised(monkeypatch, fault):
    def cost(spec: OpSpec, resources: Resources) -> Cost:
        raise fault("of the rule")

    rules: dict[str, Any] = {**catalogue.RULES, "Faulty": Rule(cost)}
    monkeypatch.setattr(catalogue, "RULES", rules)
    with pytest.raises(fault, match="of the rule"):
        catalogue.cost_of(op("Faulty", f32(3), f32(3)), Resources(BOW, 4))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda spec: spec.input(2), "Sum: expected an input 2; received 2"),
        (lambda spec: spec.input(-3), "Sum: expected an input -3; received 2"),
        (lambda spec: spec.output(1), "Sum: expected a result 1; received 1"),
        (lambda spec: spec.input(0).dimension(2), r"a dimension 2; received the shape \(4, 5\)"),
        (lambda spec: spec.output().dimension(-2), r"a dimension -2; received the shape \(4,\)"),
        (lambda spec: spec.input(0).dimensions(3), r"3 dimensions; received the shape \(4, 5\)"),
        (lambda spec: spec.integers("equation"), "equation to be a list of integers; received 'a'"),
        (lambda spec: spec.integer("axes", 1), r"axes to be an integer; received \[1\]"),
        (lambda spec: largest(()), "one or more tensors"),
    ],
)
def test_what_an_op_does_not_have(ask, message):
    spec = op("Sum", (f32(4, 5), i32(1)), f32(4), axes=[1], equation="a")
    with pytest.raises(UnknownCostError, match=message):
        ask(spec)


def test_what_an_op_has():
    spec = op("Sum", (f32(4, 5), i32(1)), f32(4), axes=[1], width=3)
    assert (spec.input(-1), spec.output()) == (i32(1), f32(4))
    assert (spec.input(0).dimension(-1), spec.input(0).dimensions(2)) == (5, (4, 5))
    assert (spec.integers("axes"), spec.integers("ksize")) == ((1,), None)
    assert (spec.integer("width", 1), spec.integer("height", 1)) == (3, 1)
    assert largest(spec.inputs) == f32(4, 5)
