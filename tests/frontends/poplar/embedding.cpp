// Embedded operations on buffers of the caller. Prints what test_embedding.py expects.
#include <poplar/core/Embedding.hpp>
#include <poplar/exceptions.hpp>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace poplar;
using namespace poplar::program;
using poplar::core::Embedding;
using poplar::core::EmbeddingSpec;

namespace {

// A buffer whose address is a multiple of 64 bytes, or four more.
class Buffer {
 public:
  explicit Buffer(std::vector<float> values, bool aligned = true) : size_(values.size()) {
    if (posix_memalign(&memory_, 64, 4096) != 0) std::abort();
    data_ = static_cast<float *>(memory_) + (aligned ? 0 : 1);
    for (size_t i = 0; i < size_; ++i) data_[i] = values[i];
  }
  ~Buffer() { std::free(memory_); }
  Buffer(const Buffer &) = delete;

  float *data() const { return data_; }
  void print(const std::string &name) const {
    std::cout << name << ":";
    for (size_t i = 0; i < size_; ++i) std::cout << " " << data_[i];
    std::cout << "\n";
  }

 private:
  void *memory_ = nullptr;
  float *data_;
  size_t size_;
};

EmbeddingSpec specification(size_t inputs, size_t outputs) {
  EmbeddingSpec spec;
  spec.name = "op";
  spec.target = Target::createIPUTarget(1, 4, "ipu2");
  spec.inputs.assign(inputs, {FLOAT, {4}});
  spec.outputs.assign(outputs, {FLOAT, {4}});
  return spec;
}

Tensor mapped(Graph &graph, const std::string &name) {
  Tensor tensor = graph.addVariable(FLOAT, {4}, name);
  graph.setTileMapping(tensor, 1);
  return tensor;
}

// out = in + 1, by a vertex.
Program increment(Graph &graph, const Tensor &in, const Tensor &out) {
  graph.addCodelets("codelets.cpp");
  ComputeSet cs = graph.addComputeSet("increment");
  VertexRef vertex = graph.addVertex(cs, "Increment", {{"in", in}, {"out", out}});
  graph.setTileMapping(vertex, 1);
  return Execute(cs);
}

// A vertex reads and writes the buffers, also where their addresses change or are not aligned.
void vertices() {
  EmbeddingSpec spec = specification(1, 1);
  spec.build = [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
    out.push_back(mapped(graph, "out"));
    return increment(graph, in[0], out[0]);
  };
  const Embedding embedding(spec);
  auto instance = embedding.instantiate();
  for (const bool aligned : {true, false, true}) {
    Buffer in({1, 2, 3, 4}, aligned), out({0, 0, 0, 0}, aligned);
    instance->run({in.data()}, {out.data()});
    out.print("out");
  }
}

// Outputs that are inputs, views of them, one tensor twice, constants, initial values.
void views() {
  EmbeddingSpec spec = specification(1, 5);
  spec.build = [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
    Tensor sum = mapped(graph, "sum");
    Tensor constant = graph.addConstant<float>(FLOAT, {4}, {9, 8, 7, 6});
    graph.setTileMapping(constant, 0);
    out = {in[0], in[0].reverse(0), sum, sum, constant};
    return increment(graph, in[0], sum);
  };
  Buffer in({1, 2, 3, 4});
  std::vector<std::unique_ptr<Buffer>> out;
  std::vector<void *> pointers;
  for (int i = 0; i < 5; ++i) {
    out.emplace_back(new Buffer({0, 0, 0, 0}));
    pointers.push_back(out.back()->data());
  }
  Embedding(spec).instantiate()->run({in.data()}, pointers);
  for (const auto &buffer : out) buffer->print("view");
}

// Variables keep their values from run to run in each instance, also those that are outputs.
void state() {
  EmbeddingSpec spec = specification(0, 2);
  spec.build = [](Graph &graph, const std::vector<Tensor> &, std::vector<Tensor> &out) {
    Tensor count = mapped(graph, "count"), next = mapped(graph, "next");
    out = {count, next};
    return Sequence(increment(graph, count, next), Copy(next, count));
  };
  const Embedding embedding(spec);
  auto first = embedding.instantiate(), second = embedding.instantiate();
  Buffer count({0, 0, 0, 0}), next({0, 0, 0, 0});
  for (int i = 0; i < 2; ++i) first->run({}, {count.data(), next.data()});
  count.print("first");
  second->run({}, {count.data(), next.data()});
  count.print("second");
}

// An input that the program changes is an output, declared or not. It is changed for the caller
// only where both have one buffer.
void inPlace() {
  for (const bool shared : {false, true}) {
    EmbeddingSpec spec = specification(1, 1);
    if (shared) spec.aliases[0] = 0;
    spec.build = [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
      Tensor sum = mapped(graph, "sum");
      out.push_back(in[0]);
      return Sequence(increment(graph, in[0], sum), Copy(sum, in[0]));
    };
    Buffer in({1, 2, 3, 4}), out({0, 0, 0, 0});
    const Embedding embedding(spec);
    embedding.instantiate()->run({in.data()}, {shared ? in.data() : out.data()});
    std::cout << "shares: " << embedding.aliases().at(0) << "\n";
    in.print("in");
    out.print("out");
  }
}

// An output that only one branch writes keeps what it had.
void branches() {
  EmbeddingSpec spec = specification(2, 2);
  spec.inputs[1] = {INT, {}};
  spec.build = [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
    out = {mapped(graph, "one"), mapped(graph, "both")};
    return If(in[1], Sequence(Copy(in[0], out[0]), Copy(in[0], out[1])),
              Copy(in[0].reverse(0), out[1]));
  };
  auto instance = Embedding(spec).instantiate();
  Buffer in({1, 2, 3, 4}), one({5, 5, 5, 5}), both({5, 5, 5, 5});
  for (const int flag : {1, 0}) {
    instance->run({in.data(), &flag}, {one.data(), both.data()});
    one.print("one");
    both.print("both");
  }
}

// The allocator decides where inputs are.
void allocator() {
  EmbeddingSpec spec = specification(2, 1);
  spec.allocate = [](Graph &graph, unsigned input) {
    if (input == 0) return Tensor();
    Tensor tensor = graph.addVariable(FLOAT, {2, 2});
    graph.setTileMapping(tensor, 3);
    return tensor.transpose().flatten();
  };
  spec.build = [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
    const auto mapping = graph.getTileMapping(in[1]);
    std::cout << "tile 3: " << mapping[3].size() << "\n";
    out.push_back(in[1]);
    return Sequence();
  };
  Buffer in({1, 2, 3, 4}), other({5, 6, 7, 8}), out({0, 0, 0, 0});
  Embedding(spec).instantiate()->run({in.data(), other.data()}, {out.data()});
  out.print("out");
}

void errors() {
  const std::map<std::string, core::EmbeddingBuilder> builders = {
      {"number",
       [](Graph &, const std::vector<Tensor> &, std::vector<Tensor> &) { return Sequence(); }},
      {"shape",
       [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
         (void)graph;
         out.push_back(in[0].slice(0, 2));
         return Sequence();
       }},
      {"throws",
       [](Graph &, const std::vector<Tensor> &, std::vector<Tensor> &) -> Program {
         throw poplar_error("no idea");
       }},
      {"unmapped",
       [](Graph &graph, const std::vector<Tensor> &in, std::vector<Tensor> &out) {
         out.push_back(graph.addVariable(FLOAT, {4}, "lost"));
         return Copy(in[0], out[0]);
       }},
  };
  for (const auto &builder : builders) {
    EmbeddingSpec spec = specification(1, 1);
    spec.build = builder.second;
    try {
      Embedding embedding(spec);
      std::cout << builder.first << ": nothing\n";
    } catch (const poplar_error &error) {
      std::cout << builder.first << ": " << error.type << " " << error.what() << "\n";
    }
  }
  try {
    core::findEmbedding("mine");
  } catch (const link_error &error) {
    std::cout << error.what() << "\n";
  }
  core::EmbeddingRegistration("mine", [](const std::string &attributes, EmbeddingSpec &spec) {
    spec.codelets = attributes;
  });
  EmbeddingSpec spec;
  core::findEmbedding("mine")("file", spec);
  std::cout << spec.codelets << "\n";
}

}  // namespace

int main(int, char **argv) {
  const std::map<std::string, std::function<void()>> cases = {
      {"vertices", vertices}, {"views", views},         {"state", state},  {"inPlace", inPlace},
      {"branches", branches}, {"allocator", allocator}, {"errors", errors}};
  cases.at(argv[1])();
}
