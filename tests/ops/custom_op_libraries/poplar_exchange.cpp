// Operations for precompiled_user_op in whose programs replicas exchange data.
#include <gcl/Collectives.hpp>
#include <poplar/Graph.hpp>
#include <poplar/Program.hpp>
#include <poplar/Tensor.hpp>
#include <popops/Cast.hpp>
#include <popops/ElementWise.hpp>
#include <poputil/TileMapping.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

using gcl::CollectiveOperator;
using poplar::Graph;
using poplar::Tensor;
using poplar::program::Copy;
using poplar::program::CrossReplicaCopy;
using poplar::program::Program;
using poplar::program::Sequence;

using Inputs = const std::vector<Tensor> &;
using Outputs = std::vector<Tensor> &;
using Text = const std::string &;

namespace {

// The index of the replica, as a float.
Tensor replicaIndex(Graph &graph, Sequence &program, Text name) {
  Tensor index = graph.addReplicationIndexConstant({name + "/index"});
  graph.setTileMapping(index, 0);
  return popops::cast(graph, index, poplar::FLOAT, program, {name + "/cast"});
}

}  // namespace

extern "C" {

int32_t custom_op_api_level = 5;

// The sum of all replicas.
Program Sum(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  Sequence program;
  outputs.push_back(gcl::allReduceCrossReplica(graph, inputs[0], CollectiveOperator::ADD, program));
  return program;
}

// The sum of the gradients.
Program Sum_grad(Graph &graph, int, Inputs gradients, Inputs, Inputs, Outputs outputs, Text, Text) {
  Sequence program;
  outputs.push_back(
      gcl::allReduceCrossReplica(graph, gradients[0], CollectiveOperator::ADD, program));
  return program;
}

// The tensors of all replicas, and their part of the sum.
Program GatherAndScatter(Graph &graph, Inputs inputs, Outputs outputs, Text, Text) {
  Sequence program;
  outputs.push_back(gcl::allGatherCrossReplica(graph, inputs[0], program));
  outputs.push_back(
      gcl::reduceScatterCrossReplica(graph, inputs[0], CollectiveOperator::ADD, program));
  return program;
}

// The tensor of the replica before.
Program Rotate(Graph &graph, Inputs inputs, Outputs outputs, Text, Text prefix) {
  outputs.push_back(graph.clone(inputs[0], {prefix + "/rotated"}));
  std::map<unsigned, unsigned> targets;
  const unsigned replicas = graph.getReplicationFactor();
  for (unsigned r = 0; r < replicas; ++r) targets[r] = (r + 1) % replicas;
  return CrossReplicaCopy(inputs[0], outputs[0], targets);
}

// All in place: adds the sums of the runs until now.
Program Accumulate(Graph &graph, Inputs inputs, Outputs outputs, Text, Text prefix) {
  Sequence program;
  Tensor total = graph.clone(inputs[0], {prefix + "/total"});
  graph.setInitialValue<float>(total, 0.0f);
  Tensor sum = gcl::allReduceCrossReplica(graph, inputs[0], CollectiveOperator::ADD, program);
  popops::addInPlace(graph, total, sum, program, prefix);
  program.add(Copy(total, inputs[0]));
  outputs.push_back(inputs[0]);
  return program;
}

void Accumulate_metadata(std::vector<int64_t> &, std::vector<int64_t> &,
                         std::map<int64_t, int64_t> &aliases, bool &, bool &, bool &, uint32_t) {
  aliases[0] = 0;
}

// The sum of the replicas' indices, without inputs.
Program SumOfIndices(Graph &graph, Inputs, Outputs outputs, Text, Text prefix) {
  Sequence program;
  Tensor index = replicaIndex(graph, program, prefix);
  outputs.push_back(gcl::allReduceCrossReplica(graph, index, CollectiveOperator::ADD, program));
  return program;
}

// The input and the index of the replica, without an exchange.
Program AddIndex(Graph &graph, Inputs inputs, Outputs outputs, Text, Text prefix) {
  Sequence program;
  Tensor index = replicaIndex(graph, program, prefix);
  outputs.push_back(popops::add(graph, inputs[0], index, program, {prefix + "/add"}));
  return program;
}

}  // extern "C"
