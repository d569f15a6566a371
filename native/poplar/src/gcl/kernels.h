// Groups of replicas, and parameters of kernels.
#ifndef TENSORFLOW_IPU_POPLAR_GCL_KERNELS_H_
#define TENSORFLOW_IPU_POPLAR_GCL_KERNELS_H_

#include <string>
#include <vector>

#include "gcl/Collectives.hpp"

namespace gcl {

unsigned GroupSize(const CommGroup& group, unsigned replicas);
// The group of a replica, in order.
std::vector<unsigned> Members(const CommGroup& group, unsigned replicas, unsigned replica);
// Operator and group, as kernels read them.
std::string Text(CollectiveOperator op, const CommGroup& group);

}  // namespace gcl

#endif  // TENSORFLOW_IPU_POPLAR_GCL_KERNELS_H_
