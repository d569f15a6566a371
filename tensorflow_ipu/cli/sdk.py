"""`tensorflow-ipu sdk`: prints the variables with which a shell compiles programs for Poplar."""

from __future__ import annotations

import argparse
import os
import sys

from tensorflow_ipu.cli.console import Parser
from tensorflow_ipu.frontends.poplar import sdk

_EXAMPLES = (
    (
        "tensorflow-ipu sdk > poplar.sh",
        "lines for a shell: after `source poplar.sh`, g++, make, cmake and popc find Poplar",
    ),
    ("tensorflow-ipu sdk --path", "the folder with headers and libraries"),
)

_FIRST_PROGRAM = """
A first program, first.cpp, is host code and codelets in one file:

    #ifdef __POPC__
    #include <poplar/Vertex.hpp>
    struct Twice : poplar::Vertex {
      poplar::InOut<poplar::Vector<float>> x;
      void compute() { for (float &v : x) v *= 2; }
    };
    #else
    #include <poplar/Engine.hpp>
    #include <poplar/IPUModel.hpp>
    using namespace poplar;
    int main() {
      Device device = IPUModel().createDevice();
      Graph graph(device);
      graph.addCodelets(__FILE__);
      Tensor x = graph.addVariable(FLOAT, {4}, VariableMappingMethod::LINEAR);
      graph.setInitialValue(x, 21.0f);
      ComputeSet twice = graph.addComputeSet();
      graph.setTileMapping(graph.addVertex(twice, "Twice", {{"x", x}}), 0);
      Engine engine(graph, program::Sequence(program::Execute(twice),
                                             program::PrintTensor("x", x)));
      engine.loadAndRun(device);
    }
    #endif

    g++ -std=c++17 first.cpp -lpoplar -o first && ./first
"""


def add(parser: Parser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: of the command.
    """
    parser.examples = _EXAMPLES
    parser.description = (
        "Prints `export` lines that name the headers and libraries of Poplar and its compiler of "
        'codelets, popc. In a shell that has read them, as with `eval "$(tensorflow-ipu sdk)"`, '
        "C++ programs that use Poplar's core compile unchanged and run on this machine: "
        "g++ -std=c++17 main.cpp -lpoplar -lpoputil."
    )
    parser.closing = _FIRST_PROGRAM
    parser.add_argument("--path", action="store_true", help="print the folder only")


def run(options: argparse.Namespace) -> int:
    """Prints the lines, or the folder; returns 1 if Poplar is not installed."""
    folder = sdk.folder()
    if not (folder / "lib" / "libpoplar.so").exists():
        print(
            f"There is no Poplar in {folder}: install tensorflow_ipu again (in a checkout: "
            "`make native`).",
            file=sys.stderr,
        )
        return 1
    print(folder if options.path else sdk.exports(os.environ))
    return 0
