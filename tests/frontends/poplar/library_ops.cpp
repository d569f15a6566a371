// Ops of a library whose kernels are in this program. The argument chooses one; see
// test_library_ops.py.
#include <poplar/Engine.hpp>
#include <poplar/IPUModel.hpp>
#include <poplar/core/LibraryOp.hpp>

#include <atomic>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;

namespace {

// Output i is input i of the one before it, times a number: so it reads elements that it wrote.
struct Shift : core::Kernel {
  explicit Shift(const core::KernelSpec &spec)
      : factor(std::stoi(spec.parameters)), count(spec.outputs[0].shape[0]) {}
  void run(const std::vector<const void *> &inputs, const std::vector<void *> &outputs) override {
    const int *in = static_cast<const int *>(inputs[0]);
    int *out = static_cast<int *>(outputs[0]);
    for (std::size_t i = 1; i < count; ++i) out[i] = factor * in[i - 1];
  }
  int factor;
  std::size_t count;
};

// Adds its input to its output, and says whether both are one memory.
struct Add : core::Kernel {
  explicit Add(const core::KernelSpec &spec) : count(spec.outputs[0].shape[0]) {}
  void run(const std::vector<const void *> &inputs, const std::vector<void *> &outputs) override {
    const int *in = static_cast<const int *>(inputs[0]);
    int *out = static_cast<int *>(outputs[0]);
    std::cout << (in == out ? "same" : "apart") << "\n";
    core::parallelFor(count, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) out[i] += in[i];
    });
  }
  std::size_t count;
};

template <typename K>
std::unique_ptr<core::Kernel> make(const core::KernelSpec &spec) {
  return std::unique_ptr<core::Kernel>(new K(spec));
}

const core::KernelRegistration shift("test::shift", make<Shift>), add("test::add", make<Add>);

struct Setup {
  Setup() : device(IPUModel().createDevice()), graph(device.getTarget()) {
    t = graph.addVariable(INT, {2, 3}, "t");
    graph.setInitialValue<int>(t, std::vector<int>{1, 2, 3, 4, 5, 6});
    graph.setTileMapping(t, 0);
  }

  void op(const std::string &name, const Tensor &in, const Tensor &out,
          core::KernelAliasing aliasing = core::KernelAliasing::None) {
    program.add(core::libraryOp(graph, name, "10", {in}, {out}, "op", aliasing));
  }

  void run() {
    program.add(PrintTensor("t", t.flatten()));
    Engine engine(graph, program);
    engine.setPrintStream(std::cout);
    engine.load(device);
    engine.run();
  }

  Device device;
  Graph graph;
  Sequence program;
  Tensor t;
};

void overlap(Setup &s) { s.op("test::shift", s.t.flatten(), s.t.flatten()); }
void partial(Setup &s) {
  s.op("test::shift", s.t.flatten().slice(0, 4), s.t.flatten().slice(2, 6),
       core::KernelAliasing::SameTensor);
}
void same(Setup &s) {
  s.op("test::add", s.t.flatten(), s.t.flatten(), core::KernelAliasing::SameTensor);
}
void views(Setup &s) {
  s.op("test::add", s.t.flatten().reverse(0), s.t.transpose().flatten(),
       core::KernelAliasing::SameTensor);
}
void unwritten(Setup &s) { s.op("test::shift", s.t[0], s.t.transpose().flatten().slice(0, 3)); }
// This program does not link the library.
void loaded(Setup &s) {
  s.program.add(core::libraryOp(s.graph, "popops::iota", "5 ", {}, {s.t}, "op"));
}
void missing(Setup &s) { s.op("nowhere::op", s.t, s.t); }
void parts(Setup &) {
  std::vector<int> seen(10007, 0);
  std::atomic<unsigned> calls(0);
  core::parallelFor(seen.size(), 100, [&](std::size_t begin, std::size_t end) {
    ++calls;
    for (std::size_t i = begin; i < end; ++i) ++seen[i];
  });
  for (int count : seen) {
    if (count != 1) throw std::runtime_error("an element was not seen once");
  }
  core::parallelFor(10, 100, [&](std::size_t, std::size_t) { calls = 0; });
  std::cout << "parts " << (calls == 0 ? "right" : "wrong") << "\n";
  core::parallelFor(1000, 1, [&](std::size_t begin, std::size_t) {
    if (begin > 0) throw std::runtime_error("thrown by a part");
  });
}

}  // namespace

int main(int, char **arguments) {
  const std::map<std::string, std::function<void(Setup &)>> cases = {
      {"overlap", overlap},     {"partial", partial}, {"same", same},       {"views", views},
      {"unwritten", unwritten}, {"loaded", loaded},   {"missing", missing}, {"parts", parts}};
  try {
    Setup setup;
    cases.at(arguments[1])(setup);
    setup.run();
  } catch (const poplar_error &e) {
    std::cout << e.type << ": " << e.what() << "\n";
  } catch (const std::exception &e) {
    std::cout << e.what() << "\n";
  }
}
