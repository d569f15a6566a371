// Heat on a square: each tile has rows of the grid, and reads one row of its neighbors.
//
//     eval "$(tensorflow-ipu sdk)"
//     g++ -std=c++17 main.cpp -lpoplar -o stencil && ./stencil
#ifdef __POPC__

#include <poplar/Vertex.hpp>

using namespace poplar;

class Heat : public Vertex {
 public:
  Input<Vector<float>> in;  // a row more on each side than `out`
  Output<Vector<float>> out;
  unsigned width;

  bool compute() {
    for (unsigned i = 0; i < out.size(); ++i) {
      const unsigned x = i % width, at = i + width;
      const bool border = x == 0 || x + 1 == width;
      out[i] = border ? in[at]
                      : 0.25f * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width]);
    }
    return true;
  }
};

#else

#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <iostream>
#include <vector>

using namespace poplar;
using namespace poplar::program;

int main() {
  const unsigned size = 66, rowsOfTile = 4, steps = 2000;
  Device device = IPUModel().createDevice();
  Graph graph(device);
  graph.addCodelets(__FILE__);
  // Two grids that take turns. The outermost rows and columns keep their values.
  Tensor grids[2];
  for (Tensor &grid : grids) {
    grid = graph.addVariable(FLOAT, {size, size}, "grid");
    for (unsigned row = 0; row < size; ++row) graph.setTileMapping(grid[row], row / rowsOfTile);
    graph.setInitialValue(grid, 0.0f);
    graph.setInitialValue(grid[0], 100.0f);
  }
  Sequence twice;
  for (int from = 0; from < 2; ++from) {
    ComputeSet step = graph.addComputeSet("step");
    for (unsigned row = 1; row + 1 < size; row += rowsOfTile) {
      const unsigned end = std::min(row + rowsOfTile, size - 1);
      VertexRef vertex = graph.addVertex(
          step, "Heat", {{"in", grids[from].slice(row - 1, end + 1).flatten()},
                         {"out", grids[1 - from].slice(row, end).flatten()}});
      graph.setInitialValue(vertex["width"], size);
      graph.setTileMapping(vertex, row / rowsOfTile);
    }
    twice.add(Execute(step));
  }
  graph.createHostRead("grid", grids[0]);
  Engine engine(graph, Repeat(steps / 2, twice));
  engine.load(device);
  engine.run();
  std::vector<float> grid(size * size);
  engine.readTensor("grid", ArrayRef<float>(grid));
  std::cout << "middle " << grid[size * (size / 2) + size / 2] << "\n";
  engine.printProfileSummary(std::cout);
}

#endif
