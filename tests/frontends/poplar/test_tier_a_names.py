"""Each function that programs need most has a test of values."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.checkout.repository import ROOT

HERE = Path(__file__).parent

LIBRARIES = ("gcl", "popfloat", "poplin", "popnn", "popops", "poprand", "popsparse", "poputil")

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

#: Functions that no case calls yet, by library. Others of the headers have one.
NOT_CALLED = {
    "gcl": {
        "allGatherToDestinationCrossReplica",
        "allGatherWithinReplica",
        "reduceScatterToDestinationCrossReplica",
        "reduceScatterWithinReplica",
    },
    "poplin": {
        "distributedNormStatistics",
        "distributedNormStatisticsGradients",
    },
    # The last three are what the public functions call.
    "popops": {
        "addTransposeVertices",
        "regroupIfPossible",
        "regroupTensor",
        "elementWise",
        "elementWiseInto",
        "fillOp",
    },
}

INCLUDE = ROOT / "native" / "poplar" / "include"


def declared(library: str) -> set[str]:
    """Returns the functions of a library's headers that take a graph."""
    names: set[str] = set()
    for header in (INCLUDE / library).rglob("*.hpp"):
        text = re.sub(r"//.*|#define.*", "", header.read_text(encoding="utf-8"))
        names.update(
            re.findall(r"[\w>&*] [&*]?([a-z]\w*)\(\s*(?:const )?(?:poplar::)?Graph &", text)
        )
    return names


def calls(text: str, name: str) -> bool:
    """Returns whether programs call a function, also by a macro that makes its name."""
    if re.search(rf"\b{name}\b", text):
        return True
    endings = (end for end in re.findall(r"##(\w+)", text) if name.endswith(end))
    return any(re.search(rf"\b{name[: -len(end)]}\b", text) for end in endings)


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


@pytest.mark.parametrize("library", LIBRARIES)
def test_declared_functions_have_cases(library: str) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in HERE.rglob("*.[ch]pp"))
    found = {name for name in declared(library) if not calls(text, name)}
    assert found == NOT_CALLED.get(library, set())


@pytest.mark.parametrize("library", NAMES)
def test_every_case_is_run(library: str) -> None:
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in (HERE / library).glob("test_*.py")
    )
    for program in (HERE / library).glob("*.cpp"):
        table = program.read_text(encoding="utf-8").split("const Cases cases = {")[1]
        for case in re.findall(r'\{"(\w+)",', table.split("};")[0]):
            assert f'"{case}"' in tests, f"{program.name}: {case}"
