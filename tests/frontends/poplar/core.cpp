// Values of the core's functions, each against one worked out by hand. Prints those that differ.
#include <poplar/CSRFunctions.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/TypeConversion.hpp>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

int checked = 0;

template <typename A, typename B>
void expect(const char *name, const A &actual, const B &expected) {
  ++checked;
  if (!(actual == expected)) std::cout << name << " differs\n";
}
#define EXPECT(ACTUAL, EXPECTED) expect(#ACTUAL, ACTUAL, EXPECTED)

using Shape = std::vector<std::size_t>;

template <typename T>
std::string text(const T &value) {
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

void utilities(const Target &target) {
  const std::vector<int> numbers{1, 2, 3};
  const ArrayRef<int> array(numbers);
  EXPECT(array.size(), 3u);
  EXPECT(array.front() + array.back() + array[1], 6);
  EXPECT(array.cloneAsVector(), numbers);
  const StringRef word("word");
  EXPECT(word.cloneAsString() + std::string(StringRef("ly", 2)), "wordly");
  EXPECT(word < StringRef("x") && word == StringRef(std::string("word")), true);
  EXPECT(Interval(2, 5).size(), 3u);
  EXPECT(Interval(0, 2) < Interval(1, 2), true);
  OptionFlags flags{{"b", "1"}};
  flags.set({{"a", "2"}});
  readJSON("{\"c\": \"3\", \"b\": \"4\"}", flags);
  EXPECT(flags.at("b") + flags.begin()->first, "4a");
  EXPECT(equivalent_device_type<unsigned>().value, UNSIGNED_INT);
  EXPECT(text(HALF) + INT.toString().cloneAsString(), "halfint");
  const DebugNameAndId parent("parent");
  EXPECT(DebugContext(parent, "child").getPathName(), "parent/child");
  EXPECT(versionString().cloneAsString(), "3.4.0");
  EXPECT(packageHash().empty(), false);
  const float from[3] = {1.0f, 1.00048828125f, 1e6f};  // to even; beyond the largest half
  std::uint16_t bits[3];
  float back[3];
  copyFloatToDeviceHalf(target, from, bits, 3);
  copyDeviceHalfToFloat(target, bits, back, 3);
  EXPECT(bits[0], 0x3c00);
  EXPECT(bits[1], 0x3c00);
  EXPECT(back[2], 65504.0f);
  EXPECT(static_cast<float>(IeeeHalf::fromBits(0xc000)), -2.0f);
  int ints[2];
  const float floats[2] = {2.5f, -2.5f};
  convertToDeviceType(INT, ArrayRef<float>(floats, 2), ints);
  EXPECT(ints[0] - ints[1], 4);
}

void devices() {
  DeviceManager manager = DeviceManager::createDeviceManager();
  std::vector<Device> devices = manager.getDevices(TargetType::IPU, 2);
  EXPECT(devices.size(), 8u);
  Device &device = devices[0];
  EXPECT(device.isAttached(), false);
  EXPECT(device.attach(), true);
  EXPECT(device.isAttached() && device.supportsRemoteBuffers(), true);
  const Target &target = device.getTarget();
  EXPECT(text(target.getTargetType()), "IPU");
  EXPECT(target.getNumIPUs(), 2u);
  EXPECT(target.getTilesPerIPU(), 1472u);
  EXPECT(target.getNumTiles(), 2944u);
  EXPECT(target.getNumWorkerContexts(), 6u);
  EXPECT(target.getBytesPerTile(), 638976u);
  EXPECT(target.getTypeSize(FLOAT) + target.getTypeSize(HALF) + target.getTypeSize(BOOL), 7u);
  EXPECT(target.getDataPathWidth(), 64u);
  EXPECT(target.getVectorWidth(HALF), 4u);
  EXPECT(target.getFloatVectorWidth() + target.getHalfVectorWidth(), 6u);
  EXPECT(target.getTileClockFrequency() > 1e9, true);
  EXPECT(target == Target::createIPUTarget(2, "ipu2"), true);
  EXPECT(manager.getDevice(device.getId()).getTarget() == target, true);
  device.detach();
  EXPECT(device.isAttached(), false);
  EXPECT(Device::createCPUDevice().getTarget().getNumTiles(), 1u);
}

// The values of tensors, by a host read of each.
class Values {
 public:
  explicit Values(Graph &graph) : graph_(graph) {}

  void add(const Tensor &tensor, std::vector<int> expected) {
    graph_.createHostRead("t" + std::to_string(expected_.size()), tensor);
    expected_.push_back(std::move(expected));
  }

  void check(Engine &engine) {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      std::vector<int> actual(expected_[i].size());
      engine.readTensor("t" + std::to_string(i), ArrayRef<int>(actual));
      expect(("tensor " + std::to_string(i)).c_str(), actual, expected_[i]);
    }
  }

 private:
  Graph &graph_;
  std::vector<std::vector<int>> expected_;
};

void tensors(Graph &graph, Values &values) {
  const Tensor t = graph.addConstant<int>(INT, {2, 3}, {0, 1, 2, 3, 4, 5});
  graph.setTileMapping(t, 1);
  EXPECT(Tensor().valid(), false);
  EXPECT(t.elementType(), INT);
  EXPECT(t.shape(), (Shape{2, 3}));
  EXPECT(t.rank() + t.dim(1), 5u);
  EXPECT(t.shapeToString(), "{2,3}");
  EXPECT(graph.addVariable(INT, {1}, "name").getDebugStr().find("name") != std::string::npos, true);
  values.add(t.transpose().flatten(), {0, 3, 1, 4, 2, 5});
  values.add(t.slice(1, 3, 1), {1, 2, 4, 5});
  values.add(t.slices({Interval(0, 1), Interval(2, 3)}, 1)[1], {2, 5});
  values.add(t.reshape({3, 2})[1], {2, 3});
  values.add(t.expand({0}).dimShuffle({2, 0, 1}), {0, 3, 1, 4, 2, 5});
  EXPECT(t.expand({0, 2}).dimShufflePartial({1}, {3}).shape(), (Shape{1, 3, 1, 2}));
  EXPECT(t.expand({0}).squeeze({0}).shape(), (Shape{2, 3}));
  values.add(t[0].broadcast(2, 0), {0, 1, 2, 0, 1, 2});
  values.add(concat(t[1], t[0].slice(0, 1)), {3, 4, 5, 0});
  const Tensor one = graph.addConstant(FLOAT, {1}, 1.0f);
  graph.setTileMapping(one, 0);
  values.add(one.reinterpret(INT), {0x3f800000});
}

void mapping(Graph &graph) {
  const Tensor t = graph.addVariable(FLOAT, {4});
  graph.setTileMapping(t.slice(0, 3), 2);
  bool complete = true;
  graph.getTileMapping(t, &complete);
  EXPECT(complete, false);
  graph.setTileMapping(t[3], 1);
  EXPECT(graph.getTileMapping(t)[2], (std::vector<Interval>{Interval(0, 3)}));
  Graph part = graph.createVirtualGraph(1, 3);
  EXPECT(part.getTarget().getNumTiles(), 2u);
  EXPECT(part.getTileMapping(t)[0], (std::vector<Interval>{Interval(3, 4)}));
  EXPECT(part.getTopLevelGraph().getTarget().getNumTiles(), 4u);
  const Tensor clone = part.clone(t);
  EXPECT(graph.getTileMapping(clone), graph.getTileMapping(t));
  const auto regions = graph.getSortedContiguousRegions(t, {Interval(2, 4), Interval(0, 1)});
  EXPECT(regions.size(), 2u);
  EXPECT(regions[1], (std::vector<Interval>{Interval(2, 4)}));
  std::stringstream file, picture;
  graph.serializeTensors(file, {t}, SerializationFormat::JSON);
  const Tensor again = graph.deserializeTensors(file, SerializationFormat::JSON)[0];
  EXPECT(graph.getTileMapping(again), graph.getTileMapping(t));
  graph.outputVertexGraph(picture);
  graph.outputComputeGraph(picture);
  EXPECT(picture.str().find("Intrinsics") != std::string::npos, true);
}

// A vertex whose functions of the chip have known results.
ComputeSet intrinsics(Graph &graph, Values &values) {
  const Tensor in = graph.addConstant<float>(FLOAT, {4}, {0.0, 1.0, 2.0, -3.0});
  const Tensor out = graph.addVariable(INT, {11}, "out");
  graph.setTileMapping(in, 0);
  graph.setTileMapping(out, 3);
  ComputeSet cs = graph.addComputeSet("cs");
  VertexRef v = graph.addVertex(cs, "Intrinsics", {{"in", in}, {"out", out}});
  graph.setTileMapping(v, 3);
  values.add(out, {2, -2, 3, 4, -2, 1, 1, 0, 2, 1, 3});
  const Tensor workers = graph.addVariable(INT, {6}, "workers");
  graph.setTileMapping(workers, 0);
  VertexRef many = graph.addVertex(cs, "Workers", {{"out", workers}});
  graph.setTileMapping(many, 0);
  values.add(workers, {0, 1, 2, 3, 4, 5});
  return cs;
}

}  // namespace

int main() {
  IPUModel model;
  model.tilesPerIPU = 4;
  Device device = model.createDevice();
  Graph graph(device.getTarget());
  graph.addCodelets("intrinsics_codelets.cpp");
  utilities(device.getTarget());
  devices();
  Values values(graph);
  tensors(graph, values);
  ComputeSet cs = intrinsics(graph, values);
  mapping(graph);
  Engine engine(graph, Sequence(Execute(cs), Sync(SyncType::INTERNAL)));
  engine.loadAndRun(device);
  values.check(engine);
  std::cout << checked << " checks\n";
}
