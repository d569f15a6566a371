// Applies operations on tensors that are read from the input, and prints the elements.
//
//   tensor 2 3     a new variable of that shape, whose elements count on from those before
//   slice 0 1 1    an operation on the last tensor
//   concat 0       of the last two
//   print          shape and elements of the last
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device.getTarget());
  Sequence program;
  std::vector<Tensor> stack;
  std::vector<std::vector<size_t>> shapes;
  int next = 0;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string op;
    words >> op;
    std::vector<size_t> n;
    for (size_t value; words >> value;) n.push_back(value);
    if (op == "tensor") {
      Tensor t = graph.addVariable(INT, n);
      std::vector<int> values(t.numElements());
      for (int &value : values) value = next++;
      graph.setInitialValue(t, values);
      graph.setTileMapping(t, 1);
      stack.push_back(t);
      continue;
    }
    Tensor t = stack.back();
    if (op == "concat") {
      stack.pop_back();
      t = concat(stack.back(), t, static_cast<unsigned>(n[0]));
    }
    const std::vector<unsigned> u(n.begin(), n.end());
    if (op == "slice") t = t.slice(n[0], n[1], u[2]);
    if (op == "index") t = t[n[0]];
    if (op == "reshape") t = t.reshape(n);
    if (op == "shuffle") t = t.dimShuffle(u);
    if (op == "broadcast") t = t.broadcast(u[0], u[1]);
    if (op == "upsample") t = t.upsample(u[0], u[1], UpsampleMethod::REPEAT);
    if (op == "subsample") t = t.subSample(u[0], u[1]);
    if (op == "reverse") t = t.reverse(u[0]);
    if (op == "expand") t = t.expand(n);
    if (op == "roll") t = t.dimRoll(u[0], u[1]);
    if (op == "print") {
      Tensor result = graph.addVariable(INT, t.shape());
      graph.setTileMapping(result, 0);
      program.add(Copy(t, result));
      graph.createHostRead("result" + std::to_string(shapes.size()), result);
      shapes.push_back(t.shape());
    }
    stack.back() = t;
  }
  Engine engine(graph, program);
  engine.load(device);
  engine.run();
  for (size_t i = 0; i < shapes.size(); ++i) {
    size_t count = 1;
    for (size_t size : shapes[i]) {
      std::cout << size << " ";
      count *= size;
    }
    std::cout << ":";
    std::vector<int> values(count);
    engine.readTensor("result" + std::to_string(i), values.data(), values.data() + count);
    for (int value : values) std::cout << " " << value;
    std::cout << "\n";
  }
}
