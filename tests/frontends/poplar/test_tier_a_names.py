"""Each function that programs need most has a test of values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent

#: Functions and classes that public programs use, by library: a case of its programs uses each.
NAMES = {
    "poplin": (
        "PlanningCache",
        "matmul::PlanningCache",
        "addCodelets",
        "matMul",
        "createMatMulInputRHS",
        "createMatMulInputLHS",
        "matMulGrouped",
        "convolution",
        "createMatMulGroupedInputRHS",
        "createMatMulGroupedInputLHS",
        "ConvParams",
    ),
    "popnn": (
        "NonLinearityType",
        "addCodelets",
        "nonLinearity",
        "nonLinearityInPlace",
        "maxAndArgMax",
        "calcLoss",
        "CROSS_ENTROPY_LOSS",
        "SUM_SQUARED_LOSS",
        "topK",
        "sigmoid",
        "relu",
        "tanh",
        "softmax",
        "PoolingType",
        "pooling::pool",
        "rnn::RnnParams",
        "rnn::RnnSlice",
        "rnn::StateSequence",
        "rnn::TimeStepState",
    ),
    "poprand": ("addCodelets", "uniform", "normal", "truncatedNormal", "setSeed"),
    "popsparse": (
        "addCodelets",
        "CSRMatrix",
        "COOMatrix",
        "static_::MatMulParams",
        "static_::Partitioner",
        "static_::sparseDenseMatMul",
        "static_::denseSparseMatMul",
        "static_::createSparseDenseMatMulLHS",
        "static_::createDenseSparseMatMulRHS",
        "dynamic::SparsityParams",
        "dynamic::SparsityType",
        "dynamic::Partitioner",
        "dynamic::PlanningCache",
        "dynamic::createFullyConnectedWeights",
        "dynamic::createSparseDenseMatMulLHS",
        "dynamic::sparseDenseMatMul",
        "experimental::SubBlockMask",
        "experimental::BSMatMulParams",
        "experimental::bsMatMul",
    ),
}


def sources(library: str) -> str:
    """Returns the programs of a library's tests."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (HERE / library).glob("*.cpp"))


def uses(text: str, library: str, name: str) -> bool:
    """Returns whether a program uses a name, whole or after `using namespace`."""
    if re.search(rf"\b{library}::{name}\b", text):
        return True
    *space, last = name.split("::")
    whole = "::".join([library, *space])
    return f"using namespace {whole};" in text and re.search(rf"\b{last}\b", text) is not None


@pytest.mark.parametrize("library", NAMES)
def test_tier_a_names_have_cases(library: str) -> None:
    text = sources(library)
    assert [name for name in NAMES[library] if not uses(text, library, name)] == []


@pytest.mark.parametrize("library", NAMES)
def test_every_case_is_run(library: str) -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in (HERE / library).glob("test_*.py")
    )
    for program in (HERE / library).glob("*.cpp"):
        table = program.read_text(encoding="utf-8").split("const Cases cases = {")[1]
        for case in re.findall(r'\{"(\w+)",', table.split("};")[0]):
            assert f'"{case}"' in tests, f"{program.name}: {case}"
