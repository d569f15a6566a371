// Profiles, cycles, registers and checked runs. The argument chooses one; see test_profiles.py.
#include <poplar/CSRFunctions.hpp>
#include <poplar/CycleCount.hpp>
#include <poplar/DeviceManager.hpp>
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/RandomSeed.hpp>
#include <poplin/MatMul.hpp>
#include <pva/pva.hpp>
#include <pvti/pvti.hpp>

#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

// Two vertices on tiles 0 and 1 copy what tile 0 has: 4 and 12 bytes go to tile 1.
struct Setup {
  explicit Setup(Device &&chosen) : device(std::move(chosen)), graph(device.getTarget()) {
    graph.addCodelets("codelets.cpp");
    in = graph.addVariable(FLOAT, {4}, "in");
    out = graph.addVariable(FLOAT, {4}, "out");
    graph.setTileMapping(in, 0);
    graph.setTileMapping(out.slice(0, 1), 0);
    graph.setTileMapping(out.slice(1, 4), 1);
    computeSet = graph.addComputeSet("copy");
    for (unsigned tile = 0; tile < 2; ++tile) {
      const Interval elements = tile == 0 ? Interval(0, 1) : Interval(1, 4);
      VertexRef v = graph.addVertex(computeSet, "Faulty");
      graph.connect(v["in"], in.slice(elements));
      graph.connect(v["out"], out.slice(elements));
      graph.setInitialValue(v["fault"], 0u);
      graph.setTileMapping(v, tile);
      vertices.push_back(v);
    }
    program.add(Execute(computeSet));
  }

  static Device model() {
    IPUModel model;
    model.tilesPerIPU = 2;
    return model.createDevice();
  }
  static Device hardware() {
    Device device = std::move(DeviceManager().getDevices(TargetType::IPU, 1)[0]);
    device.attach();
    return device;
  }

  // Makes a vertex faulty.
  void fault(unsigned tile, unsigned kind) {
    VertexRef v = graph.addVertex(computeSet, "Faulty");
    graph.setTileMapping(v, tile);
    Tensor target = graph.addVariable(FLOAT, {2}, "target");
    graph.setTileMapping(target, tile);
    graph.connect(v["in"], in.slice(0, 2));
    graph.connect(v["out"], target);
    graph.setInitialValue(v["fault"], kind);
  }

  Device device;
  Graph graph;
  Tensor in, out;
  ComputeSet computeSet;
  std::vector<VertexRef> vertices;
  Sequence program;
};

void report() {
  Setup s(Setup::model());
  for (const VertexRef &v : s.vertices) s.graph.setPerfEstimate(v, v.getId() == 0 ? 1000 : 10);
  Engine engine(s.graph, Repeat(3, s.program));
  engine.load(s.device);
  engine.run(0, "first");
  engine.printProfileSummary(std::cout, {{"showExecutionSteps", "true"},
                                         {"showVarStorage", "true"},
                                         {"showPerIpuMemoryUsage", "true"}});
  const ProfileValue profile = engine.getGraphProfile();
  std::cout << profile["memory"]["byTile"]["variables"][0].asUint() << " "
            << profile["memory"]["byTile"]["variables"][1].asUint() << " received "
            << profile["exchange"]["bytesByTile"][1].asUint() << "\n";
  const pva::Report report = engine.getReport();
  const pva::Compilation compilation = report.compilation();
  std::cout << compilation.graph().numComputeSets() << " " << compilation.graph().numVertices()
            << " " << compilation.graph().numEdges() << " " << compilation.graph().numVars() << " "
            << compilation.target().numTiles() << " " << compilation.tiles().size() << "\n";
  const pva::Step step = report.execution().blocks(1)[1];
  std::cout << step.program()->name() << " " << step.program()->type() << " "
            << (step.cyclesFrom() == step.cycles()) << " " << report.execution().runs()[0].name()
            << " " << report.poplarVersion().major() << "\n";
  pvti::TraceChannel channel = {"channel"};
  pvti::Tracepoint::begin(&channel, "x");
  pvti::Tracepoint::end(&channel, "x");
}

// Six workers share a tile: 1000 cycles of one, or 12 times 500, are 6000 cycles of the tile.
void cycles() {
  Setup s(Setup::model());
  s.graph.registerPerfEstimator("Faulty", [](const VertexIntrospector &v, const Target &t) {
    const bool large = v.getFieldInfo("in").size() == 3;
    return VertexPerfEstimate(large ? 1000 : v.getFieldInfo("fault").getInitialValue<unsigned>(t),
                              v.getFieldInfo("out").size());
  });
  std::cout << s.graph.getPerfEstimate(s.vertices[1]).cycles << " "
            << s.graph.getPerfEstimate(s.vertices[1]).flops << "\n";
  Sequence repeated = Sequence(Repeat(2, s.program));
  Tensor once = cycleCount(s.graph, s.program, 0, SyncType::INTERNAL);
  Tensor twice = cycleCount(s.graph, repeated, 0, SyncType::EXTERNAL);
  Sequence nothing, stamps;
  Tensor none = cycleCount(s.graph, nothing, 1);
  Tensor stamp = cycleStamp(s.graph, stamps, 1, SyncType::INTERNAL);
  Engine engine(s.graph, Sequence(s.program, repeated, nothing, stamps, PrintTensor("once", once),
                                  PrintTensor("twice", twice), PrintTensor("none", none),
                                  PrintTensor("stamp", stamp)));
  engine.setPrintStream(std::cout);
  engine.load(s.device);
  engine.run();
}

// {64, 128} times {128, 32}.
void products() {
  Setup s(Setup::model());
  Sequence prog, prints;
  for (const Type &type : {FLOAT, HALF}) {
    Tensor a = s.graph.addVariable(type, {64, 128}, "a"),
           b = s.graph.addVariable(type, {128, 32}, "b");
    s.graph.setTileMapping(a, 0);
    s.graph.setTileMapping(b, 1);
    Sequence product;
    poplin::matMul(s.graph, a, b, product, type);
    prints.add(PrintTensor("cycles", cycleCount(s.graph, product, 0, SyncType::INTERNAL)));
    prog.add(product);
  }
  Engine engine(s.graph, Sequence(prog, prints));
  engine.setPrintStream(std::cout);
  engine.load(s.device);
  engine.run();
}

void files(const std::string &file) {
  Setup s(Setup::hardware());
  {
    Engine engine(s.graph, s.program, {{"debug.instrument", "true"}});
    engine.load(s.device);
    engine.run();
  }
  const pva::Report report = pva::openReport(file);
  std::cout << report.compilation().target().numTiles() << " " << report.execution().steps().size()
            << "\n";
}

void memory() {
  Setup s(Setup::hardware());
  Tensor large = s.graph.addVariable(FLOAT, {200000}, "large");
  s.graph.setTileMapping(large, 7);
  Engine engine(s.graph, s.program);
}

void registers() {
  Setup s(Setup::model());
  Sequence prog;
  setFloatingPointBehaviour(s.graph, prog, FloatingPointBehaviour(true, true, false, true, false));
  FloatingPointBehaviour clear(true, false, false, false, false);
  FloatingPointBehaviour set(false, false, true, false, false);
  Tensor before = getAndModifyFloatingPointBehaviour(s.graph, prog, clear, set);
  setStochasticRounding(s.graph, prog, false);
  Tensor after = getAndModifyFloatingPointBehaviour(s.graph, prog, {}, {});
  setFloatingPointBehaviour(s.graph, prog, before);
  Tensor again = getAndModifyFloatingPointBehaviour(s.graph, prog, clear & !set, clear | set);
  Tensor seeds = getHwSeeds(s.graph, prog);
  Tensor changed = s.graph.clone(seeds);
  setHwSeeds(s.graph, changed, prog);
  Tensor zeros = getHwSeeds(s.graph, prog);
  std::cout << seeds.shapeToString() << "\n";
  for (const Tensor &t : {before, after, again, zeros.flatten().slice(0, 2)}) {
    prog.add(PrintTensor("bits", t));
  }
  Engine engine(s.graph, prog);
  engine.setPrintStream(std::cout);
  engine.load(s.device);
  engine.run();
}

// Runs with faults; the engine can run again afterwards.
void faults(unsigned kind, const OptionFlags &options, float value) {
  Setup s(Setup::model());
  s.fault(1, kind);
  s.graph.createHostWrite("in", s.in);
  Engine engine(s.graph, s.program, options);
  engine.load(s.device);
  std::vector<float> in(4, value);
  engine.writeTensor("in", in.data(), in.data() + 4);
  engine.run();
  std::cout << "runs\n";
}

}  // namespace

int main(int, char **arguments) {
  const OptionFlags none, traps = {{"debug.floatPointOpException", "true"}};
  const std::map<std::string, std::function<void()>> cases = {
      {"report", report},
      {"cycles", cycles},
      {"products", products},
      {"files", [&] { files(arguments[2]); }},
      {"memory", memory},
      {"registers", registers},
      {"throws", [&] { faults(1, none, 1); }},
      {"outside", [&] { faults(2, none, 1); }},
      {"division", [&] { faults(3, traps, 0); }},
      {"overflow", [&] { faults(4, traps, 2); }},
      {"no_trap", [&] { faults(3, none, 0); }},
      {"cpu", [] { Engine(Graph(Device::createCPUDevice()), Sequence()).getReport(); }},
      {"value", [] { Engine(Graph(), Sequence(), {{"debug.instrument", "maybe"}}); }}};
  try {
    cases.at(arguments[1])();
  } catch (const poplar_error &error) {
    std::cout << error.type << ": " << error.what() << "\n";
  }
}
