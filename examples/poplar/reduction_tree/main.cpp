// Sums numbers that are spread over all tiles: each tile adds its own, then pairs of tiles add theirs.
//
//     eval "$(tensorflow-ipu sdk)"
//     g++ -std=c++17 main.cpp -lpoplar -o reduction_tree && ./reduction_tree
#ifdef __POPC__

#include <poplar/Vertex.hpp>

using namespace poplar;

class Sum : public Vertex {
 public:
  Input<Vector<float>> in;
  Output<float> out;

  bool compute() {
    float sum = 0;
    for (unsigned i = 0; i < in.size(); ++i) sum += in[i];
    *out = sum;
    return true;
  }
};

#else

#include <poplar/CycleCount.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <iostream>
#include <numeric>
#include <vector>

using namespace poplar;
using namespace poplar::program;

int main() {
  const size_t count = 100000;
  Device device = IPUModel().createDevice();
  Graph graph(device);
  graph.addCodelets(__FILE__);
  Tensor level = graph.addVariable(FLOAT, {count}, VariableMappingMethod::LINEAR, "numbers");
  graph.createHostWrite("numbers", level);
  Sequence prog;
  // The elements of each tile, then two sums at a time: the result is on the first one's tile.
  auto mapping = graph.getTileMapping(level);
  while (level.numElements() > 1) {
    ComputeSet sums = graph.addComputeSet("sums");
    std::vector<Tensor> results;
    for (unsigned tile = 0; tile < mapping.size(); ++tile) {
      for (const Interval &elements : mapping[tile]) {
        Tensor result = graph.addVariable(FLOAT, {1}, "sum");
        VertexRef vertex =
            graph.addVertex(sums, "Sum", {{"in", level.slice(elements)}, {"out", result[0]}});
        graph.setTileMapping(result, tile);
        graph.setTileMapping(vertex, tile);
        results.push_back(result);
      }
    }
    prog.add(Execute(sums));
    level = concat(results);
    const auto places = graph.getTileMapping(level);
    mapping.assign(mapping.size(), {});
    for (unsigned tile = 0; tile < places.size(); ++tile) {
      for (const Interval &element : places[tile]) {
        if (element.begin() % 2 == 1) continue;
        mapping[tile].push_back(
            Interval(element.begin(), std::min(element.begin() + 2, level.numElements())));
      }
    }
  }
  graph.createHostRead("sum", level);
  graph.createHostRead("cycles", cycleCount(graph, prog, 0, SyncType::INTERNAL));
  Engine engine(graph, prog);
  engine.load(device);
  std::vector<float> numbers(count, 0.5f), sum(1);
  std::vector<unsigned> cycles(2);
  engine.writeTensor("numbers", ArrayRef<float>(numbers));
  engine.run();
  engine.readTensor("sum", ArrayRef<float>(sum));
  engine.readTensor("cycles", ArrayRef<unsigned>(cycles));
  std::cout << "sum " << sum[0] << ", host " << std::accumulate(numbers.begin(), numbers.end(), 0.0)
            << ", modelled cycles " << cycles[0] << "\n";
}

#endif
