#include "engine/factored_sums.h"

#include <algorithm>
#include <vector>

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/grappler/costs/graph_properties.h"
#include "tensorflow/core/grappler/grappler_item.h"
#include "tensorflow/core/platform/cpu_info.h"

namespace tensorflow_ipu {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

namespace {

constexpr char kSum[] = "IpuCrossReplicaSum";

// Numbers that are summed for an element. TensorFlow makes an element of more numbers than fit into
// the fastest cache (256 or more) in several parts.
constexpr int64_t kMaxDepth = 128;
// Rows and columns. TensorFlow has other kernels for vectors.
constexpr int64_t kMinSize = 16;
// The product is at least as many times as large as both factors.
constexpr int64_t kMinGain = 4;

// The CPU has to round once in a step of a product, as TensorFlow's kernels do then.
bool RoundsOnce() {
#ifdef __x86_64__
  using tensorflow::port::CPUFeature;
  return tensorflow::port::TestCPUFeature(CPUFeature::AVX2) &&
         tensorflow::port::TestCPUFeature(CPUFeature::FMA);
#else
  return false;  // TensorFlow's kernels there were not compared
#endif
}

bool IsTransposed(const Node& product, const char* name) {
  bool transposed = false;
  return tensorflow::TryGetNodeAttr(product.attrs(), name, &transposed) && transposed;
}

bool IsWorthwhile(const Node& product,
                  const std::vector<tensorflow::OpInfo::TensorProperties>& inputs) {
  int64_t sizes[2], depth = 0;  // rows, columns
  for (int i = 0; i < 2; ++i) {
    const tensorflow::PartialTensorShape shape(inputs[i].shape());
    if (shape.dims() != 2 || !shape.IsFullyDefined()) return false;
    const bool depth_is_first =
        IsTransposed(product, i == 0 ? "transpose_a" : "transpose_b") == (i == 0);
    depth = shape.dim_size(depth_is_first ? 0 : 1);
    sizes[i] = shape.dim_size(depth_is_first ? 1 : 0);
  }
  return depth > 0 && depth <= kMaxDepth && std::min(sizes[0], sizes[1]) >= kMinSize &&
         kMinGain * depth * (sizes[0] + sizes[1]) <= sizes[0] * sizes[1];
}

}  // namespace

Node* ProductOf(const Node& node) {
  const Edge* edge = nullptr;
  if (!node.input_edge(0, &edge).ok()) return nullptr;
  Node* const product = edge->src();
  const bool is_used_once = product->out_edges().size() == 1;
  const bool is_product = product->type_string() == "MatMul" && is_used_once &&
                          product->output_type(0) == tensorflow::DT_FLOAT;
  return is_product ? product : nullptr;
}

std::unordered_set<std::string> FindFactoredSums(
    const Graph& graph, const tensorflow::FunctionLibraryDefinition& library) {
  std::vector<const Node*> sums;
  for (const Node* node : graph.op_nodes()) {
    if (node->type_string() == kSum && ProductOf(*node) != nullptr) sums.push_back(node);
  }
  if (sums.empty() || !RoundsOnce()) return {};
  tensorflow::grappler::GrapplerItem item;
  graph.ToGraphDef(&item.graph);
  *item.graph.mutable_library() = library.ToProto();
  tensorflow::grappler::GraphProperties properties(item);
  // Without shapes, parts are made.
  if (!properties.InferStatically(/*assume_valid_feeds=*/false).ok()) return {};
  std::unordered_set<std::string> names;
  for (const Node* sum : sums) {
    const std::string& product = ProductOf(*sum)->name();
    if (properties.HasInputProperties(product) &&
        IsWorthwhile(*ProductOf(*sum), properties.GetInputProperties(product))) {
      names.insert(sum->name());
    }
  }
  return names;
}

}  // namespace tensorflow_ipu
