// Writes an executable to a file, or runs one from a file. See test_executables.py.
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <fstream>
#include <iostream>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

// The programs have each kind of step that an executable holds.
Executable compile(const Device &device) {
  Graph graph(device.getTarget());
  graph.addCodelets("codelets.cpp");
  Tensor value = graph.addVariable(FLOAT, {2, 2}, "value");
  graph.setTileMapping(value, 0);
  graph.setInitialValue(value, std::vector<float>{1, 2, 3, 4});
  Tensor scaled = graph.addVariable(FLOAT, {4}, "scaled");
  graph.setTileMapping(scaled, 1);
  Tensor three = graph.addConstant<int>(INT, {1}, 3);
  graph.setTileMapping(three, 0);
  ComputeSet cs = graph.addComputeSet("scale");
  VertexRef vertex = graph.addVertex(cs, "forms::Edges");
  graph.setTileMapping(vertex, 1);
  graph.connect(vertex["in"], value.transpose().flatten());
  graph.connect(vertex["out"], scaled);
  graph.setInitialValue(vertex["factor"], 10.0f);
  graph.setInitialValue(vertex["runs"], 0u);
  DataStream in = graph.addHostToDeviceFIFO("in", FLOAT, 4);
  DataStream out = graph.addDeviceToHostFIFO("out", FLOAT, 4);
  RemoteBuffer buffer = graph.addRemoteBuffer("rows", FLOAT, 4, 5);
  HostFunction twice = graph.addHostFunction("twice", {HostFunctionArgument{FLOAT, 4}},
                                             {HostFunctionArgument{FLOAT, 4}});
  graph.createHostWrite("write", value);
  graph.createHostRead("read", scaled);
  Function run = graph.addFunction(Execute(cs));
  Switch choice(three[0]);
  choice.add(3, Copy(scaled, buffer, three));
  Sequence second(PrintTensor("scaled", scaled), AbortOnCondition(three[0], std::string("three")));
  return compileGraph(graph, {Sequence(Copy(in, value), Repeat(2, Call(run)),
                                       Call(twice, {scaled}, {scaled}), choice, Copy(scaled, out)),
                              second});
}

void run(Executable &&executable, const Device &device) {
  Engine engine(std::move(executable));
  engine.setPrintStream(std::cout);
  std::vector<float> in{5, 6, 7, 8}, out(4), row(4), read(4);
  engine.connectStream("in", in.data(), in.data() + 4);
  engine.connectStream("out", out.data(), out.data() + 4);
  engine.connectHostFunction("twice", 0, [](ArrayRef<const void *> from, ArrayRef<void *> to) {
    for (int i = 0; i < 4; ++i) {
      static_cast<float *>(to[0])[i] = 2 * static_cast<const float *>(from[0])[i];
    }
  });
  engine.load(device);
  engine.run();
  engine.copyFromRemoteBuffer("rows", row.data(), 3);
  engine.readTensor("read", read.data(), read.data() + 4);
  for (const std::vector<float> &values : {out, row, read}) {
    for (float v : values) std::cout << v << " ";
    std::cout << "\n";
  }
  engine.run(1);
}

}  // namespace

int main(int, char **arguments) {
  const std::string task = arguments[1], file = arguments[2];
  try {
    IPUModel model;
    model.tilesPerIPU = 4;
    Device device = model.createDevice();
    if (task == "run") run(compile(device), device);
    if (task == "write") {
      std::ofstream out(file, std::ios::binary);
      Executable executable = compile(device);
      executable.serialize(out);
      executable.serialize(out);
    }
    if (task == "read") {
      std::ifstream in(file, std::ios::binary);
      Executable first = Executable::deserialize(in);
      run(Executable::deserialize(in), device);
    }
  } catch (const poplar_error &error) {
    std::cout << error.type << ": " << error.what() << "\n";
  }
}
