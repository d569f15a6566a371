"""Contract of every rule: it only prices an op, or says that it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorflow_ipu.configs.chips import BOW
from tensorflow_ipu.costs import catalogue
from tensorflow_ipu.costs.cost import Cost, OpSpec, Resources, TensorType, UnknownCostError
from tensorflow_ipu.costs.label import Label
from tensorflow_ipu.costs.rule import Rule, largest
from tests.support.planner.op_specs import FAMILIES, f32, i32, op

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
