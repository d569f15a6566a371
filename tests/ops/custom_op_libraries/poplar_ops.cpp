// Operations for precompiled_user_op that are Poplar programs.
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <poplar/exceptions.hpp>
#include <poputil/TileMapping.hpp>

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

using poplar::Graph;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::Execute;
using poplar::program::Program;
using poplar::program::Sequence;

using Inputs = const std::vector<Tensor> &;
using Outputs = std::vector<Tensor> &;
using Text = const std::string &;

namespace {

// A vertex for each tile that has elements of the result.
Program product(Graph &graph, const Tensor &a, const Tensor &b, const Tensor &out, float factor,
                Text name) {
  poplar::ComputeSet set = graph.addComputeSet({name + "/product"});
  const auto mapping = graph.getTileMapping(out);
  for (unsigned tile = 0; tile < mapping.size(); ++tile) {
    for (const poplar::Interval &part : mapping[tile]) {
      poplar::VertexRef vertex = graph.addVertex(set, "Product",
                                                 {{"a", a.flatten().slice(part)},
                                                  {"b", b.flatten().slice(part)},
                                                  {"out", out.flatten().slice(part)}});
      graph.setInitialValue(vertex["factor"], factor);
      graph.setTileMapping(vertex, tile);
      graph.setPerfEstimate(vertex, 100 + part.size(), 2 * part.size());
    }
  }
  return Execute(set);
}

Tensor like(Graph &graph, const Tensor &tensor) {
  Tensor result = graph.addVariable(tensor.elementType(), tensor.shape(), "result");
  poputil::mapTensorLinearly(graph, result);
  return result;
}

float factorOf(Text attributes) { return attributes.empty() ? 1 : std::stof(attributes); }

Program increment(Graph &graph, const Tensor &tensor) {
  poplar::ComputeSet set = graph.addComputeSet("increment");
  poplar::VertexRef vertex = graph.addVertex(set, "Increment", {{"data", tensor.flatten()}});
  graph.setTileMapping(vertex, 0);
  return Execute(set);
}

}  // namespace

extern "C" {

int32_t custom_op_api_level = 5;

// z = factor * x * y. Notes each call in the file that `attributes` name after a colon.
Program Build(Graph &graph, Inputs inputs, Outputs outputs, Text attributes, Text prefix) {
  const size_t colon = attributes.find(':');
  if (colon != std::string::npos) {
    std::ofstream(attributes.substr(colon + 1), std::ios::app) << prefix << "\n";
  }
  outputs.push_back(like(graph, inputs[0]));
  return product(graph, inputs[0], inputs[1], outputs[0], factorOf(attributes.substr(0, colon)),
                 prefix);
}

// Derivatives by both, or by one for which the operation was told to have separate gradients.
Program Build_grad(Graph &graph, int index, Inputs gradients, Inputs inputs, Inputs results,
                   Outputs outputs, Text attributes, Text prefix) {
  if (gradients.size() != 1 || inputs.size() != 2 || results.size() != 1) {
    throw poplar::poplar_error("wrong numbers of tensors");
  }
  Sequence program;
  const bool separate = attributes.compare(0, 8, "separate") == 0;
  for (int input = 0; input < 2; ++input) {
    if (separate && input != index) continue;
    outputs.push_back(like(graph, inputs[input]));
    program.add(product(graph, gradients[0], inputs[1 - input], outputs.back(),
                        separate ? 1 : factorOf(attributes), prefix));
  }
  return program;
}

// The result's element count times x, where the gradient uses results: dx = dz * z / x = dz * n.
// By y there is no gradient.
Program Unused(Graph &graph, Inputs inputs, Outputs outputs, Text, Text prefix) {
  outputs.push_back(like(graph, inputs[0]));
  return product(graph, inputs[0], inputs[0], outputs[0], 1, prefix);
}

Program Unused_grad(Graph &, int, Inputs, Inputs, Inputs results, Outputs outputs, Text, Text) {
  outputs = {results[0], Tensor()};
  return Sequence();
}

// Adds one in place.
Program InPlace(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  outputs.push_back(inputs[0]);
  return increment(graph, inputs[0]);
}

void InPlace_metadata(std::vector<int64_t> &, std::vector<int64_t> &,
                      std::map<int64_t, int64_t> &aliases, bool &, bool &, bool &, uint32_t) {
  aliases[0] = 0;
}

// The same, and the metadata say nothing of it: the input of the program has to stay.
Program Sneaky(Graph &graph, Inputs inputs, Outputs outputs, Text attributes, Text prefix) {
  return InPlace(graph, inputs, outputs, attributes, prefix);
}

// Each tensor as it is, backwards, and transposed.
Program Views(Graph &, Inputs inputs, Outputs outputs, Text, Text) {
  outputs = {inputs[0], inputs[0].reverse(0), inputs[0].transpose()};
  return Sequence();
}

// How often it has run.
Program Count(Graph &graph, Inputs, Outputs outputs, Text, Text) {
  Tensor count = graph.addVariable(poplar::FLOAT, {1}, "count");
  graph.setTileMapping(count, 0);
  outputs.push_back(count);
  return increment(graph, count);
}

// A copy of any type.
Program Same(Graph &graph, Inputs inputs, Outputs outputs, Text attributes, Text) {
  if (inputs[0].elementType().toString() != poplar::StringRef(attributes)) {
    throw poplar::poplar_error("received " + inputs[0].elementType().toString().cloneAsString());
  }
  outputs.push_back(like(graph, inputs[0]));
  return Copy(inputs[0], outputs[0]);
}

Program Same_grad(Graph &, int, Inputs gradients, Inputs, Inputs, Outputs outputs, Text, Text) {
  outputs.push_back(gradients[0]);
  return Sequence();
}

// The input is on tile 3.
Program Allocates(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  const auto mapping = graph.getTileMapping(inputs[0]);
  if (mapping[3].size() != 1) throw poplar::poplar_error("the allocator was not called");
  outputs.push_back(inputs[0]);
  return Sequence();
}

void Allocates_metadata(std::vector<int64_t> &allocating, std::vector<int64_t> &,
                        std::map<int64_t, int64_t> &, bool &elementwise, bool &, bool &, uint32_t) {
  allocating.push_back(0);
  elementwise = true;
}

Tensor Allocates_allocator(Graph &graph, uint32_t, const std::vector<size_t> &shape,
                           poplar::Type type, Text, Text) {
  Tensor tensor = graph.addVariable(type, shape, "allocated");
  graph.setTileMapping(tensor, 3);
  return tensor;
}

Program NoAllocator(Graph &graph, Inputs inputs, Outputs outputs, Text a, Text p) {
  return Allocates(graph, inputs, outputs, a, p);
}

void NoAllocator_metadata(std::vector<int64_t> &allocating, std::vector<int64_t> &,
                          std::map<int64_t, int64_t> &, bool &, bool &, bool &, uint32_t) {
  allocating.push_back(0);
}

Program BadIndex(Graph &graph, Inputs inputs, Outputs outputs, Text a, Text p) {
  return Allocates(graph, inputs, outputs, a, p);
}

void BadIndex_metadata(std::vector<int64_t> &, std::vector<int64_t> &identical,
                       std::map<int64_t, int64_t> &, bool &, bool &, bool &, uint32_t) {
  identical.push_back(7);
}

// Two outputs: the input, and one that is equal on all replicas.
Program Mixed(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  Tensor one = graph.addConstant<float>(poplar::FLOAT, {}, 1);
  graph.setTileMapping(one, 0);
  outputs = {inputs[0], one};
  return Sequence();
}

void Mixed_metadata(std::vector<int64_t> &, std::vector<int64_t> &identical,
                    std::map<int64_t, int64_t> &, bool &, bool &, bool &hashable, uint32_t) {
  identical.push_back(1);
  hashable = true;
}

Program None(Graph &, Inputs, Outputs, Text, Text) { return Sequence(); }

Program Half(Graph &, Inputs inputs, Outputs outputs, Text, Text) {
  outputs.push_back(inputs[0].slice(0, inputs[0].dim(0) / 2));
  return Sequence();
}

Program Throws(Graph &, Inputs, Outputs, Text attributes, Text) {
  throw poplar::poplar_error(attributes);
}

Program Unmapped(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  outputs.push_back(graph.addVariable(poplar::FLOAT, inputs[0].shape(), "lost"));
  return Copy(inputs[0], outputs[0]);
}

Program TooLarge(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  Tensor large = graph.addVariable(poplar::FLOAT, {1000000}, "large");
  graph.setTileMapping(large, 0);
  outputs.push_back(inputs[0]);
  return Sequence();
}

Program VertexThrows(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  Tensor out = graph.addVariable(poplar::FLOAT, {}, "out");
  graph.setTileMapping(out, 0);
  outputs.push_back(out);
  poplar::ComputeSet set = graph.addComputeSet("failing");
  poplar::VertexRef vertex =
      graph.addVertex(set, "Failing", {{"in", inputs[0]}, {"out", outputs[0]}});
  graph.setTileMapping(vertex, 0);
  return Execute(set);
}

}  // extern "C"
