// Sums over replicas of matrix products, such as gradients of dense layers.
#ifndef TENSORFLOW_IPU_ENGINE_FACTORED_SUMS_H_
#define TENSORFLOW_IPU_ENGINE_FACTORED_SUMS_H_

#include <string>
#include <unordered_set>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tensorflow_ipu {

// Returns the names of sums over replicas to which a replica can give the factors of its part
// instead of the part (kernels/product_sums.h). The part is a product of float32 matrices that
// nobody else uses, and its factors are much smaller. The bits have to be those of TensorFlow's
// product, which depend on its shape: so all sizes are known.
std::unordered_set<std::string> FindFactoredSums(
    const tensorflow::Graph& graph, const tensorflow::FunctionLibraryDefinition& library);

// The node of the product that is the part of the sum `node`, in a graph of a replica; or null, if
// it is not there.
tensorflow::Node* ProductOf(const tensorflow::Node& node);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_FACTORED_SUMS_H_
