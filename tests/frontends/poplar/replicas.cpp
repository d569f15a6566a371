// Programs on several replicas. The argument chooses one; see test_replicas.py.
#include <gcl/Collectives.hpp>
#include <gcl/TileAllocation.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>

#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

Device makeDevice(unsigned ipus) {
  IPUModel model;
  model.numIPUs = ipus;
  model.tilesPerIPU = 4;
  return model.createDevice();
}

struct Setup {
  explicit Setup(unsigned replicas, unsigned ipus = 0)
      : replicas(replicas),
        device(makeDevice(ipus == 0 ? replicas : ipus)),
        graph(device.getTarget(), replication_factor(replicas)) {}

  Tensor variable(const Type &type, std::vector<size_t> shape, const std::string &name) {
    Tensor tensor = graph.addVariable(type, shape, VariableMappingMethod::LINEAR, name);
    graph.createHostRead("read " + name, tensor);
    graph.createHostWrite("write " + name, tensor);
    return tensor;
  }

  Engine &load(const Program &program, const OptionFlags &options = {}) {
    engines.emplace_back(graph, program, options);
    engines.back().setPrintStream(std::cout);
    engines.back().load(device);
    return engines.back();
  }

  template <typename T>
  void print(Engine &engine, const std::string &name, size_t elements) {
    std::vector<T> values(elements * replicas);
    engine.readTensor("read " + name, values.data(), values.data() + values.size());
    std::cout << name << ":";
    for (size_t i = 0; i < values.size(); ++i) {
      std::cout << (i > 0 && i % elements == 0 ? " | " : " ") << values[i];
    }
    std::cout << "\n";
  }

  unsigned replicas;
  Device device;
  Graph graph;
  std::vector<Engine> engines;
};

std::vector<float> count(size_t n, float first = 0) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

void streams() {
  Setup s(2, 4);
  std::cout << s.graph.getReplicationFactor() << " " << s.graph.getTarget().getNumIPUs() << " "
            << s.graph.getTopLevelGraph().getTarget().getNumIPUs() << "\n";
  Tensor own = s.variable(FLOAT, {2}, "own"), all = s.variable(FLOAT, {2}, "all");
  Tensor index = s.graph.addReplicationIndexConstant(), copy = s.variable(UNSIGNED_INT, {}, "copy");
  s.graph.setTileMapping(index, 1);
  DataStream split = s.graph.addHostToDeviceFIFO("split", FLOAT, 2);
  DataStream same = s.graph.addHostToDeviceFIFO("same", FLOAT, 2, ReplicatedStreamMode::BROADCAST);
  DataStream called =
      s.graph.addHostToDeviceFIFO("called", FLOAT, 2, ReplicatedStreamMode::BROADCAST);
  DataStream out = s.graph.addDeviceToHostFIFO("out", FLOAT, 2);
  DataStream sink = s.graph.addDeviceToHostFIFO("sink", FLOAT, 2);
  RemoteBuffer buffer = s.graph.addRemoteBuffer("rows", FLOAT, 2, 3);
  Tensor row = s.graph.addConstant<int>(INT, {1}, 1);
  s.graph.setTileMapping(row, 0);
  Engine &engine =
      s.load(Sequence({Copy(index, copy), Copy(same, all), Copy(split, own), Copy(own, out),
                       Copy(split, own), Copy(own, out), Copy(buffer, own, row), Copy(own, sink),
                       Copy(called, own), Copy(own, sink), Copy(all, buffer, row)}));
  std::vector<float> in = count(8), shared = count(4, 100), results(8), rows(2);
  engine.connectStream("split", in.data(), in.data() + 8);
  engine.connectStream("same", shared.data(), shared.data() + 4);
  engine.connectStream("out", results.data(), results.data() + 8);
  int calls = 0;
  engine.connectStreamToCallback("called", [&](void *p) {
    std::cout << "call " << calls << "\n";
    static_cast<float *>(p)[0] = static_cast<float *>(p)[1] = static_cast<float>(10 + calls++);
  });
  for (unsigned r = 0; r < 2; ++r) {
    engine.connectStreamToCallback("sink", r, [r](void *p) {
      const float *values = static_cast<float *>(p);
      std::cout << "replica " << r << ": " << values[0] << " " << values[1] << "\n";
    });
    const std::vector<float> first = count(2, 50 + 10 * static_cast<float>(r));
    engine.copyToRemoteBuffer(ArrayRef<float>(first), "rows", 1, r);
  }
  engine.run();
  s.print<unsigned>(engine, "copy", 1);
  s.print<float>(engine, "all", 2);
  for (float v : results) std::cout << v << (v < 7 ? " " : "\n");
  engine.copyFromRemoteBuffer("rows", rows.data(), 1, 1);
  std::cout << rows[0] << " " << rows[1] << "\n";
}

void copies() {
  Setup s(3);
  Tensor a = s.variable(FLOAT, {2}, "a"), b = s.variable(FLOAT, {2}, "b");
  Engine &engine = s.load(Sequence({Copy(a, b), CrossReplicaCopy(a, b.reverse(0), {{0, 1}, {1, 0}}),
                                    AssumeEqualAcrossReplicas(b), Copy(b, a)}));
  const std::vector<float> values = count(6);
  engine.writeTensor("write a", values.data(), values.data() + 6);
  engine.run();
  s.print<float>(engine, "a", 2);
}

// Each collective on four replicas, of which replica r has r * 10 + {0, 1, 2, 3}.
void collectives() {
  using gcl::CollectiveOperator;
  Setup s(4);
  Tensor data = s.variable(FLOAT, {4}, "data"), ints = s.variable(INT, {3}, "ints");
  Sequence prog;
  std::vector<std::pair<std::string, size_t>> names;
  const auto keep = [&](const std::string &name, const Tensor &tensor) {
    s.graph.createHostRead("read " + name, tensor);
    names.emplace_back(name, tensor.numElements());
  };
  const gcl::CommGroup pairs(gcl::CommGroupType::CONSECUTIVE, 2);
  const gcl::CommGroup halves(gcl::CommGroupType::ORTHOGONAL, 2);
  keep("sum", gcl::allReduceCrossReplica(s.graph, data, CollectiveOperator::ADD, prog, "sum"));
  keep("mean", gcl::allReduceCrossReplica(s.graph, data, CollectiveOperator::MEAN, prog));
  keep("pairs", gcl::allReduceCrossReplica(s.graph, data, CollectiveOperator::MAX, prog, pairs));
  keep("halves", gcl::allReduceCrossReplica(s.graph, data, CollectiveOperator::MIN, prog, halves));
  Tensor squares = s.graph.clone(data);
  gcl::allReduceToDestinationCrossReplica(s.graph, data, squares, CollectiveOperator::SQUARE_ADD,
                                          prog);
  keep("squares", squares);
  keep("scatter", gcl::reduceScatterCrossReplica(s.graph, data.slice(0, 3), CollectiveOperator::ADD,
                                                 prog, pairs, {}, {{"method", "auto"}}));
  keep("local", gcl::reduceScatterCrossReplica(s.graph, data, CollectiveOperator::LOCAL, prog));
  Tensor gathered = gcl::allGatherCrossReplica(s.graph, data.slice(1, 3), prog, halves);
  std::cout << gathered.shapeToString() << "\n";
  keep("gather", gathered);
  keep("toAll", gcl::allToAllCrossReplica(s.graph, data.reshape({2, 2}).transpose(), prog, pairs));
  gcl::allReduceInPlaceCrossReplica(s.graph, ints.reverse(0), CollectiveOperator::MUL, prog);
  Engine &engine = s.load(prog);
  std::vector<float> values;
  for (int r = 0; r < 4; ++r) {
    for (int i = 0; i < 4; ++i) values.push_back(static_cast<float>(10 * r + i));
  }
  engine.writeTensor("write data", values.data(), values.data() + 16);
  const std::vector<int> numbers{1, 2, 3, 1, 2, 3, 2, 2, 2, 5, 1, 1};
  engine.writeTensor("write ints", numbers.data(), numbers.data() + 12);
  engine.run();
  for (const auto &name : names) s.print<float>(engine, name.first, name.second);
  s.print<int>(engine, "ints", 3);
}

void withinReplica() {
  Setup s(1, 2);
  Tensor data = s.variable(HALF, {2, 3}, "data");
  Sequence prog;
  s.graph.createHostRead(
      "sum", gcl::allReduceWithinReplica(s.graph, data, gcl::CollectiveOperator::ADD, prog));
  Engine &engine = s.load(prog);
  std::vector<IeeeHalf> values;
  for (int i = 0; i < 6; ++i) values.emplace_back(static_cast<float>(i));
  engine.writeTensor("write data", values.data(), values.data() + 6);
  engine.run();
  engine.readTensor("sum", values.data(), values.data() + 6);
  for (const IeeeHalf &v : values) std::cout << static_cast<float>(v) << " ";
  std::cout << gcl::getMinIoTiles(s.graph) << " " << gcl::perIPUTiles(s.graph, 2, 2)[1] << "\n";
}

class Filler : public StreamCallback {
 public:
  Result prefetch(void *p) override {
    if (next_ == 2) return Result::NotAvailable;
    fetch(p);
    std::cout << "early ";
    return Result::Success;
  }
  void fetch(void *p) override {
    *static_cast<float *>(p) = next_++;
    std::cout << "fill ";
  }
  void complete() override { std::cout << "complete\n"; }
  void invalidatePrefetched() override { std::cout << "unused\n"; }

 private:
  float next_ = 0;
};

void prefetch() {
  Setup s(1);
  Tensor t = s.variable(FLOAT, {1}, "t");
  DataStream in = s.graph.addHostToDeviceFIFO("in", FLOAT, 1);
  Engine &engine =
      s.load(Repeat(4, Sequence(Copy(in, t), PrintTensor("t", t))),
             {{"exchange.enablePrefetch", "true"}, {"exchange.streamBufferOverlap", "none"}});
  engine.connectStreamToCallback("in", std::unique_ptr<Filler>(new Filler));
  engine.run();
}

void diverge() {
  Setup s(2);
  Tensor t = s.variable(FLOAT, {1}, "t"), index = s.graph.addReplicationIndexConstant();
  Sequence sum;
  gcl::allReduceInPlaceCrossReplica(s.graph, t, gcl::CollectiveOperator::ADD, sum);
  s.load(If(index, sum, Sequence())).run();
}

void indivisible() { Setup(3, 4); }

void group() {
  Setup s(4);
  Sequence prog;
  gcl::allReduceCrossReplica(s.graph, s.variable(FLOAT, {1}, "t"), gcl::CollectiveOperator::ADD,
                             prog, gcl::CommGroup(gcl::CommGroupType::CONSECUTIVE, 3));
}

void option() {
  Setup s(1);
  Sequence prog;
  gcl::allReduceCrossReplica(s.graph, s.variable(FLOAT, {1}, "t"), gcl::CollectiveOperator::ADD,
                             prog, "name", {{"methods", "auto"}});
}

void copyOutside() {
  Setup s(2);
  Tensor t = s.variable(FLOAT, {1}, "t");
  s.load(CrossReplicaCopy(t, t, {{0, 2}}));
}

}  // namespace

int main(int, char **arguments) {
  const std::map<std::string, std::function<void()>> cases = {
      {"streams", streams},         {"copies", copies},     {"collectives", collectives},
      {"within", withinReplica},    {"prefetch", prefetch}, {"diverge", diverge},
      {"indivisible", indivisible}, {"group", group},       {"option", option},
      {"copy_outside", copyOutside}};
  try {
    cases.at(arguments[1])();
  } catch (const poplar_error &error) {
    std::cout << error.type << ": " << error.what() << "\n";
  } catch (const std::runtime_error &error) {
    std::cout << error.what() << "\n";
  }
}
