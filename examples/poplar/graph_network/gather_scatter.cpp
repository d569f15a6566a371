// Gathers and scatters rows of several tables at once: the two operations of a graph network.
//
// Each is the gradient of the other. `attributes` has what plans and allocators need to know:
// "groups rows width indices", the number of tables, their shape, and the indices for each table.
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popops/DynamicSlice.hpp>
#include <popops/Zero.hpp>
#include <popops/codelets.hpp>
#include <poputil/exceptions.hpp>

#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using poplar::FLOAT;
using poplar::Graph;
using poplar::INT;
using poplar::Tensor;
using poplar::Type;
using poplar::UNSIGNED_INT;
using poplar::program::Program;
using poplar::program::Sequence;

namespace {

const std::vector<std::size_t> ROWS = {0}, ONE_ROW = {1};  // a slice is a row of a table

struct Tables {
  std::size_t groups, rows, width, indices;
  poplar::OptionFlags options;
  popops::SlicePlan plan;

  Tables(const Graph &graph, const Type &type, const std::string &attributes) {
    std::istringstream text(attributes);
    if (!(text >> groups >> rows >> width >> indices)) {
      throw poputil::poplibs_error("Expected \"groups rows width indices\", not " + attributes);
    }
    options.set({{"usedForUpdate", "true"}, {"operationForUpdate", "add"}});
    plan = popops::embedding::plan(graph, type, groups, rows, width, {indices}, options);
  }
};

// Variables that are mapped as the operations want their inputs.
Tensor createTable(Graph &graph, const Type &type, const Tables &tables, const std::string &name) {
  return popops::createGroupedSliceableTensor(graph, type, tables.groups,
                                              {tables.rows, tables.width}, ROWS, ONE_ROW,
                                              tables.plan, tables.options, name);
}

Tensor createIndices(Graph &graph, const Tables &tables, const std::string &name) {
  const Tensor indices = popops::createGroupedIndicesTensor(
      graph, tables.groups, ROWS, tables.indices, tables.plan, tables.options, name);
  return indices.reinterpret(INT).reshape({tables.groups, tables.indices});
}

Tensor createSlices(Graph &graph, const Type &type, const Tables &tables, const std::string &name) {
  const Tensor slices = popops::createGroupedSliceTensor(
      graph, type, tables.groups, {tables.rows, tables.width}, ROWS, ONE_ROW, tables.indices,
      tables.plan, tables.options, name);
  return slices.reshape({tables.groups, tables.indices, tables.width});
}

// TensorFlow has int32, the library wants UNSIGNED_INT with a dimension for the sliced ones.
Tensor asOffsets(const Tensor &indices) { return indices.reinterpret(UNSIGNED_INT).expand({2}); }

// {groups, rows, width} and {groups, indices} become {groups, indices, width}.
Tensor gather(Graph &graph, const Tensor &table, const Tensor &indices, Sequence &program,
              const std::string &attributes, const std::string &name) {
  const Tables tables(graph, table.elementType(), attributes);
  const Tensor slices = popops::groupedMultiSlice(graph, table, asOffsets(indices), ROWS, ONE_ROW,
                                                  program, tables.plan, tables.options, name);
  return slices.squeeze({2});
}

// The other way round: rows with the same index add up.
Tensor scatter(Graph &graph, const Tensor &slices, const Tensor &indices, Sequence &program,
               const std::string &attributes, const std::string &name) {
  const Tables tables(graph, slices.elementType(), attributes);
  const Tensor sums = createTable(graph, slices.elementType(), tables, name + "/sums");
  popops::zero(graph, sums, program, name + "/zero");
  const Tensor one = graph.addConstant(FLOAT, {}, 1.0f, name + "/one");
  graph.setTileMapping(one, 0);
  popops::groupedMultiUpdateAdd(graph, sums, slices.expand({2}), asOffsets(indices), one, ROWS,
                                ONE_ROW, program, tables.plan, tables.options, name);
  return sums;
}

}  // namespace

extern "C" {

int32_t custom_op_api_level = 5;

// Both inputs are mapped by the allocators.
void Gather_metadata(std::vector<int64_t> &allocatingIndices,
                     std::vector<int64_t> & /*replicaIdenticalOutputs*/,
                     std::map<int64_t, int64_t> & /*aliases*/, bool &isElementwise,
                     bool &isStateless, bool &isHashable, uint32_t /*inputs*/) {
  allocatingIndices = {0, 1};
  isElementwise = false;
  isStateless = isHashable = true;
}

Tensor Gather_allocator(Graph &graph, uint32_t operand, const std::vector<std::size_t> & /*shape*/,
                        Type type, const std::string &attributes, const std::string &debugPrefix) {
  const Tables tables(graph, operand == 0 ? type : FLOAT, attributes);
  return operand == 0 ? createTable(graph, type, tables, debugPrefix + "/table")
                      : createIndices(graph, tables, debugPrefix + "/indices");
}

Program Gather(Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs,
               const std::string &attributes, const std::string &debugPrefix) {
  popops::addCodelets(graph);
  Sequence program;
  outputs = {gather(graph, inputs[0], inputs[1], program, attributes, debugPrefix + "/gather")};
  return program;
}

// Indices have no gradient: `inputs_with_gradients` is [0] in Python, so there is one output.
Program Gather_grad(Graph &graph, int /*inputGradIndex*/, const std::vector<Tensor> &gradients,
                    const std::vector<Tensor> &inputs, const std::vector<Tensor> & /*results*/,
                    std::vector<Tensor> &outputs, const std::string &attributes,
                    const std::string &debugPrefix) {
  Sequence program;
  outputs = {scatter(graph, gradients[0], inputs[1], program, attributes, debugPrefix + "/grad")};
  return program;
}

void Scatter_metadata(std::vector<int64_t> &allocatingIndices,
                      std::vector<int64_t> &replicaIdenticalOutputs,
                      std::map<int64_t, int64_t> &aliases, bool &isElementwise, bool &isStateless,
                      bool &isHashable, uint32_t inputs) {
  Gather_metadata(allocatingIndices, replicaIdenticalOutputs, aliases, isElementwise, isStateless,
                  isHashable, inputs);
}

Tensor Scatter_allocator(Graph &graph, uint32_t operand, const std::vector<std::size_t> & /*shape*/,
                         Type type, const std::string &attributes, const std::string &debugPrefix) {
  const Tables tables(graph, operand == 0 ? type : FLOAT, attributes);
  return operand == 0 ? createSlices(graph, type, tables, debugPrefix + "/slices")
                      : createIndices(graph, tables, debugPrefix + "/indices");
}

Program Scatter(Graph &graph, const std::vector<Tensor> &inputs, std::vector<Tensor> &outputs,
                const std::string &attributes, const std::string &debugPrefix) {
  popops::addCodelets(graph);
  Sequence program;
  outputs = {scatter(graph, inputs[0], inputs[1], program, attributes, debugPrefix + "/scatter")};
  return program;
}

Program Scatter_grad(Graph &graph, int /*inputGradIndex*/, const std::vector<Tensor> &gradients,
                     const std::vector<Tensor> &inputs, const std::vector<Tensor> & /*results*/,
                     std::vector<Tensor> &outputs, const std::string &attributes,
                     const std::string &debugPrefix) {
  Sequence program;
  outputs = {gather(graph, gradients[0], inputs[1], program, attributes, debugPrefix + "/grad")};
  return program;
}

}  // extern "C"
