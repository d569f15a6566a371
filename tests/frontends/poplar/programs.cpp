// Programs of each kind. The argument chooses one; see test_programs.py.
#include <unistd.h>
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

struct Setup {
  Setup() : device(IPUModel().createDevice()), graph(device.getTarget()) {
    graph.addCodelets("codelets.cpp");
  }

  Tensor variable(const Type &type, std::vector<size_t> shape, const std::string &name) {
    Tensor tensor = graph.addVariable(type, shape, name);
    graph.setTileMapping(tensor, 0);
    return tensor;
  }

  template <typename T>
  Tensor constant(const Type &type, std::vector<T> values) {
    Tensor tensor = graph.addConstant(type, {values.size()}, ArrayRef<T>(values));
    graph.setTileMapping(tensor, 1);
    return tensor;
  }

  VertexRef vertex(ComputeSet cs, const std::string &name) {
    VertexRef result = graph.addVertex(cs, name);
    graph.setTileMapping(result, 2);
    return result;
  }

  void run() {
    Engine engine(graph, program);
    engine.setPrintStream(std::cout);
    engine.load(device);
    engine.run();
  }

  Device device;
  Graph graph;
  Sequence program;
};

void fields(Setup &s) {
  Tensor in = s.constant<float>(FLOAT, {1, 2, 3, 4});
  Tensor out = s.variable(FLOAT, {4}, "out");
  ComputeSet cs = s.graph.addComputeSet("fields");
  VertexRef edges = s.vertex(cs, "forms::Edges");
  s.graph.connect(edges["in"], in);
  s.graph.connect(edges["out"], out.reverse(0));
  s.graph.setInitialValue(edges["factor"], 10.0f);
  s.graph.setInitialValue(edges["runs"], 0u);
  Tensor rows = s.constant<int>(INT, {1, 2, 3, 4, 5, 6});
  Tensor sums = s.variable(INT, {2}, "sums");
  VertexRef regions = s.vertex(cs, "forms::Regions");
  s.graph.connect(regions["in"], std::vector<Tensor>{rows.slice(0, 4), rows.subSample(3, 0)});
  s.graph.connect(regions["sums"], sums);
  s.graph.setInitialValue(regions["sizes"], std::vector<unsigned>{4, 2});
  Tensor list = s.variable(FLOAT, {2, 3}, "list");
  s.program.add(Copy(concat(in, in.slice(0, 2)).reshape({2, 3}), list));
  VertexRef reversed = s.vertex(cs, "forms::List");
  s.graph.connect(reversed["rows"], list);
  s.program.add(Repeat(3, Execute(cs)));
  s.program.add(PrintTensor(out));
  s.program.add(PrintTensor("sums", sums));
  s.program.add(PrintTensor("list", list));
}

void templates(Setup &s) {
  ComputeSet cs = s.graph.addComputeSet("templates");
  for (const Type &type : {FLOAT, HALF}) {
    Tensor in = s.constant<float>(type, {0.5f, 1, 2, 1.0f / 3});
    Tensor out = s.variable(type, {4}, "out");
    VertexRef v =
        s.vertex(cs, type == FLOAT ? "forms::Scale<float,true>" : "forms::Scale<half,false>");
    s.graph.connect(v["in"], in);
    s.graph.connect(v["out"], out);
    if (type == FLOAT) s.program.add(Execute(cs));
    s.program.add(PrintTensor(type.toString(), out));
  }
}

void control(Setup &s) {
  Tensor value = s.variable(UNSIGNED_INT, {1}, "value"), goes_on = s.variable(BOOL, {1}, "flag");
  ComputeSet cs = s.graph.addComputeSet("control");
  VertexRef v = s.vertex(cs, "forms::Supervised");
  s.graph.connect(v["value"], value[0]);
  Function print = s.graph.addFunction(PrintTensor("value", value));
  s.program.add(RepeatWhileTrue(Execute(cs, goes_on[0]), goes_on[0], Call(print)));
  Switch choice(value.reinterpret(INT)[0], PrintTensor("other", value));
  choice.add(5, PrintTensor("five", value));
  s.program.add(choice);
  s.program.add(If(goes_on[0], PrintTensor("true", value), PrintTensor("false", value)));
  Tensor four = s.constant<unsigned>(UNSIGNED_INT, {4});
  s.program.add(Copy(four, value));
  s.program.add(choice);
}

void abort_if(Setup &s) {
  Tensor one = s.constant<int>(INT, {1});
  s.program.add(AbortOnCondition(one[0], std::string("enough")));
}

void host(Setup &s) {
  Tensor t = s.variable(FLOAT, {4}, "t");
  DataStream in = s.graph.addHostToDeviceFIFO("in", FLOAT, 4);
  DataStream out = s.graph.addDeviceToHostFIFO("out", FLOAT, 4);
  RemoteBuffer buffer = s.graph.addRemoteBuffer("rows", FLOAT, 2, 4);
  Tensor rows = s.constant<int>(INT, {3, 1});
  HostFunction twice = s.graph.addHostFunction("twice", {HostFunctionArgument{FLOAT, 4}},
                                               {HostFunctionArgument{FLOAT, 4}});
  s.program.add(Repeat(2, Sequence({Copy(in, t.reverse(0)), Copy(t, out)})));
  s.program.add(Copy(t, buffer, rows));
  s.program.add(Call(twice, {t}, {t}));
  s.program.add(PrintTensor("twice", t));
  s.graph.createHostWrite("w", t);
  s.graph.createHostRead("r", t);
  Engine engine(s.graph, {s.program, Copy(buffer, t.slice(0, 2))});
  engine.setPrintStream(std::cout);
  float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  engine.connectStream("in", data, data + 8);
  engine.connectStreamToCallback(
      "out", [](void *p) { std::cout << "out " << static_cast<float *>(p)[0] << "\n"; });
  engine.connectHostFunction("twice", 0, [](ArrayRef<const void *> from, ArrayRef<void *> to) {
    for (int i = 0; i < 4; ++i) {
      static_cast<float *>(to[0])[i] = 2 * static_cast<const float *>(from[0])[i];
    }
  });
  engine.load(s.device);
  engine.run(0);
  float row[2];
  engine.copyFromRemoteBuffer("rows", row, 3);
  std::cout << "row 3: " << row[0] << " " << row[1] << "\n";
  row[0] = 42;
  engine.copyToRemoteBuffer(row, "rows", 0);
  engine.run(1);
  float result[4];
  engine.readTensor("r", result, result + 4);
  std::cout << "read " << result[0] << " " << result[3] << "\n";
  s.program = Sequence();
}

// Errors, by name.
void unmapped(Setup &s) {
  Tensor t = s.graph.addVariable(FLOAT, {4}, "loose");
  s.program.add(WriteUndef(t));
  s.program.add(PrintTensor(t));
}

void conflict(Setup &s) {
  Tensor value = s.variable(UNSIGNED_INT, {1}, "value");
  ComputeSet cs = s.graph.addComputeSet("conflict");
  for (int i = 0; i < 2; ++i) s.graph.connect(s.vertex(cs, "forms::Supervised")["value"], value[0]);
  s.program.add(Execute(cs));
}

void unconnected(Setup &s) {
  ComputeSet cs = s.graph.addComputeSet("unconnected");
  s.vertex(cs, "forms::Supervised");
  s.program.add(Execute(cs));
}

void unknown_vertex(Setup &s) { s.graph.addVertex(s.graph.addComputeSet(), "forms::None"); }

void no_field(Setup &s) { s.vertex(s.graph.addComputeSet(), "forms::Supervised")["none"]; }

void wrong_type(Setup &s) {
  Tensor t = s.variable(FLOAT, {1}, "t");
  s.graph.connect(s.vertex(s.graph.addComputeSet(), "forms::Supervised")["value"], t[0]);
}

void constant_written(Setup &s) {
  Tensor c = s.constant<unsigned>(UNSIGNED_INT, {4});
  s.graph.connect(s.vertex(s.graph.addComputeSet(), "forms::Supervised")["value"], c[0]);
}

void copy_sizes(Setup &s) {
  s.program.add(Copy(s.variable(FLOAT, {4}, "a"), s.variable(FLOAT, {3}, "b")));
}

// Vertices on tiles 0, 3 and 0, which run twice.
void statics(Setup &s) {
  std::stringstream source(
      "static int runs = 0; namespace { int scale() { static int value = 100; return value; } }"
      "struct Count : poplar::Vertex { poplar::Output<int> out;"
      "void compute() { static int more = scale(); *out = ++runs * 1000 + ++more; } };");
  s.graph.addCodelets(source);
  Tensor counts = s.variable(INT, {3}, "counts");
  ComputeSet cs = s.graph.addComputeSet("statics");
  for (unsigned v = 0; v < 3; ++v) {
    s.graph.setTileMapping(s.graph.addVertex(cs, "Count", {{"out", counts[v]}}), v == 1 ? 3 : 0);
  }
  s.program.add(Execute(cs));
  s.program.add(PrintTensor("first", counts));
  s.program.add(Execute(cs));
  s.program.add(PrintTensor("second", counts));
}

// The first vertex waits until another thread runs the last one, which makes a folder.
void threads(Setup &s) {
  const std::string folder = "/tmp/poplar_threads_" + std::to_string(getpid());
  std::stringstream source(
      "#include <chrono>\n#include <sys/stat.h>\n"
      "struct Meet : poplar::Vertex { poplar::Output<int> out; unsigned number;"
      "bool here(const char *path) { struct stat found; return stat(path, &found) == 0; }"
      "void compute() { const char *path = \"" +
      folder +
      "\"; if (number == 2) mkdir(path, 0700);"
      "const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);"
      "while (number == 0 && !here(path) && std::chrono::steady_clock::now() < end) {}"
      "*out = here(path); } };");
  s.graph.addCodelets(source);
  Tensor met = s.variable(INT, {128}, "met");
  ComputeSet cs = s.graph.addComputeSet("threads");
  for (unsigned v = 0; v < 128; ++v) {
    const VertexRef vertex = s.graph.addVertex(cs, "Meet", {{"out", met[v]}});
    s.graph.setInitialValue(vertex["number"], v == 0 ? 0u : v == 127 ? 2u : 1u);
    s.graph.setTileMapping(vertex, v);
  }
  s.program.add(Execute(cs));
  s.program.add(PrintTensor("met", met.slice(0, 1)));
  s.run();
  rmdir(folder.c_str());
  s.program = Sequence();
}

void slice_outside(Setup &s) { s.variable(FLOAT, {4}, "a").slice(2, 5); }

void stream_not_connected(Setup &s) {
  DataStream in = s.graph.addHostToDeviceFIFO("in", FLOAT, 4);
  s.program.add(Copy(in, s.variable(FLOAT, {4}, "t")));
}

void no_option(Setup &s) { Engine(s.graph, s.program, {{"debug.instruments", "true"}}); }

void does_not_compile(Setup &s) {
  std::stringstream source(
      "class V : public poplar::Vertex { public: bool compute() { return x; } };");
  s.graph.addCodelets(source);
}

void pointer_field(Setup &s) {
  std::stringstream source(
      "struct V : poplar::Vertex { char *buffer; bool compute() { return true; } };");
  s.graph.addCodelets(source);
}

void assembly(Setup &s) {
  std::stringstream source(
      "struct V : poplar::Vertex { bool compute() { asm volatile(\"nop\"); return true; } };");
  s.graph.addCodelets(source);
}

void symbol(Setup &s) {
  std::stringstream source(
      "int nowhere(); struct V : poplar::Vertex { bool compute() { return nowhere(); } };");
  s.graph.addCodelets(source);
}

}  // namespace

int main(int, char **arguments) {
  const std::map<std::string, std::function<void(Setup &)>> cases = {
      {"fields", fields},
      {"templates", templates},
      {"control", control},
      {"abort", abort_if},
      {"host", host},
      {"statics", statics},
      {"threads", threads},
      {"unmapped", unmapped},
      {"conflict", conflict},
      {"unconnected", unconnected},
      {"unknown_vertex", unknown_vertex},
      {"unknown_field", no_field},
      {"wrong_type", wrong_type},
      {"constant_written", constant_written},
      {"copy_sizes", copy_sizes},
      {"slice_outside", slice_outside},
      {"stream_not_connected", stream_not_connected},
      {"no_option", no_option},
      {"does_not_compile", does_not_compile},
      {"pointer_field", pointer_field},
      {"assembly", assembly},
      {"symbol", symbol},
  };
  try {
    Setup setup;
    cases.at(arguments[1])(setup);
    setup.run();
  } catch (const poplar_error &error) {
    std::cout << error.type << ": " << error.what() << "\n";
  }
}
