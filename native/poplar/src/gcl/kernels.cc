// Kernels of collectives. Parameters are the operator and the group, as numbers.
#include "kernels.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "poplar/IeeeHalf.hpp"
#include "poplar/core/LibraryOp.hpp"

namespace gcl {

using poplar::core::CollectiveKernel;
using poplar::core::CollectiveRegistration;
using poplar::core::Kernel;
using poplar::core::KernelRegistration;
using poplar::core::KernelSpec;

unsigned GroupSize(const CommGroup& group, unsigned replicas) {
  return group.type == CommGroupType::ALL || group.replicaGroupSize == 0 ? replicas
                                                                         : group.replicaGroupSize;
}

std::vector<unsigned> Members(const CommGroup& group, unsigned replicas, unsigned replica) {
  const unsigned size = GroupSize(group, replicas);
  const unsigned stride = group.type == CommGroupType::ORTHOGONAL    ? replicas / size
                          : group.type == CommGroupType::CONSECUTIVE ? group.replicaGroupStride
                                                                     : 1;
  const unsigned block = replica / (size * stride) * (size * stride);
  std::vector<unsigned> members;
  for (unsigned i = 0; i < size; ++i) members.push_back(block + replica % stride + i * stride);
  return members;
}

std::string Text(CollectiveOperator op, const CommGroup& group) {
  std::ostringstream text;
  text << static_cast<int>(op) << " " << static_cast<int>(group.type) << " "
       << group.replicaGroupSize << " " << group.replicaGroupStride;
  return text.str();
}

namespace {

struct Parameters {
  explicit Parameters(const std::string& text) {
    std::istringstream stream(text);
    int op_number = 0, type_number = 0;
    stream >> op_number >> type_number >> group.replicaGroupSize >> group.replicaGroupStride;
    op = static_cast<CollectiveOperator>(op_number);
    group.type = static_cast<CommGroupType>(type_number);
  }
  CollectiveOperator op;
  CommGroup group;
};

uint64_t CountOf(const poplar::core::KernelTensor& tensor) {
  uint64_t count = 1;
  for (const size_t size : tensor.shape) count *= size;
  return count;
}

// Elements are reduced in T, halves in float.
template <typename T>
T Load(const T* from, uint64_t i) {
  return from[i];
}
float Load(const poplar::IeeeHalf* from, uint64_t i) { return from[i]; }

template <typename A>
A Combine(CollectiveOperator op, A a, A b) {
  switch (op) {
    case CollectiveOperator::MUL:
      return static_cast<A>(a * b);
    case CollectiveOperator::MIN:
      return std::min(a, b);
    case CollectiveOperator::MAX:
      return std::max(a, b);
    case CollectiveOperator::LOGICAL_AND:
      return static_cast<A>(a && b);
    case CollectiveOperator::LOGICAL_OR:
      return static_cast<A>(a || b);
    default:
      return static_cast<A>(a + b);
  }
}

// Reduces elements [begin, begin + count) of several tensors.
template <typename T>
void ReduceElements(CollectiveOperator op, const std::vector<const void*>& sources, uint64_t begin,
                    uint64_t count, void* target) {
  using A = decltype(Load(static_cast<const T*>(nullptr), 0));
  poplar::core::parallelFor(count, 1 << 14, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      A result{};
      for (size_t s = 0; s < sources.size(); ++s) {
        A element = Load(static_cast<const T*>(sources[s]), begin + i);
        if (op == CollectiveOperator::SQUARE_ADD) element = static_cast<A>(element * element);
        result = s == 0 ? element : Combine(op, result, element);
      }
      if (op == CollectiveOperator::MEAN)
        result = static_cast<A>(result / static_cast<A>(sources.size()));
      static_cast<T*>(target)[i] = static_cast<T>(result);
    }
  });
}

void Reduce(poplar::Type type, CollectiveOperator op, const std::vector<const void*>& sources,
            uint64_t begin, uint64_t count, void* target) {
  if (type == poplar::FLOAT) return ReduceElements<float>(op, sources, begin, count, target);
  if (type == poplar::HALF) {
    return ReduceElements<poplar::IeeeHalf>(op, sources, begin, count, target);
  }
  if (type == poplar::INT) return ReduceElements<int32_t>(op, sources, begin, count, target);
  if (type == poplar::UNSIGNED_INT) {
    return ReduceElements<uint32_t>(op, sources, begin, count, target);
  }
  ReduceElements<bool>(op, sources, begin, count, target);
}

class Base : public CollectiveKernel {
 public:
  explicit Base(const KernelSpec& spec)
      : parameters_(spec.parameters),
        type_(spec.inputs[0].type),
        count_(CountOf(spec.inputs[0])),
        bytes_(count_ * SizeOf(spec.inputs[0].type)) {}

 protected:
  static size_t SizeOf(poplar::Type type) {
    return type == poplar::HALF                                                           ? 2
           : type == poplar::FLOAT || type == poplar::INT || type == poplar::UNSIGNED_INT ? 4
                                                                                          : 1;
  }

  const Parameters parameters_;
  const poplar::Type type_;
  const uint64_t count_, bytes_;
};

// The tensors of the members of the group of a replica.
std::vector<const void*> OfMembers(const std::vector<std::vector<const void*>>& inputs,
                                   const std::vector<unsigned>& members) {
  std::vector<const void*> sources;
  for (const unsigned member : members) sources.push_back(inputs[member][0]);
  return sources;
}

class AllReduce : public Base {
 public:
  using Base::Base;
  void run(const std::vector<std::vector<const void*>>& inputs,
           const std::vector<std::vector<void*>>& outputs) override {
    const unsigned replicas = static_cast<unsigned>(inputs.size());
    std::vector<char> result(bytes_);  // outputs may be the inputs
    for (unsigned r = 0; r < replicas; ++r) {
      const std::vector<unsigned> members = Members(parameters_.group, replicas, r);
      if (members[0] != r) continue;  // once for each group
      Reduce(type_, parameters_.op, OfMembers(inputs, members), 0, count_, result.data());
      for (const unsigned member : members) std::memcpy(outputs[member][0], result.data(), bytes_);
    }
  }
};

class ReduceScatter : public Base {
 public:
  using Base::Base;
  void run(const std::vector<std::vector<const void*>>& inputs,
           const std::vector<std::vector<void*>>& outputs) override {
    const unsigned replicas = static_cast<unsigned>(inputs.size());
    for (unsigned r = 0; r < replicas; ++r) {
      const std::vector<unsigned> members = Members(parameters_.group, replicas, r);
      const uint64_t part = (count_ + members.size() - 1) / members.size();
      const uint64_t number = std::find(members.begin(), members.end(), r) - members.begin();
      const uint64_t begin = std::min(count_, number * part);
      const uint64_t count = std::min(part, count_ - begin);
      const bool local = parameters_.op == CollectiveOperator::LOCAL;
      std::memset(outputs[r][0], 0, part * SizeOf(type_));
      Reduce(type_, parameters_.op,
             local ? std::vector<const void*>{inputs[r][0]} : OfMembers(inputs, members), begin,
             count, outputs[r][0]);
    }
  }
};

class AllGather : public Base {
 public:
  using Base::Base;
  void run(const std::vector<std::vector<const void*>>& inputs,
           const std::vector<std::vector<void*>>& outputs) override {
    const unsigned replicas = static_cast<unsigned>(inputs.size());
    for (unsigned r = 0; r < replicas; ++r) {
      char* target = static_cast<char*>(outputs[r][0]);
      for (const unsigned member : Members(parameters_.group, replicas, r)) {
        std::memcpy(target, inputs[member][0], bytes_);
        target += bytes_;
      }
    }
  }
};

class AllToAll : public Base {
 public:
  using Base::Base;
  void run(const std::vector<std::vector<const void*>>& inputs,
           const std::vector<std::vector<void*>>& outputs) override {
    const unsigned replicas = static_cast<unsigned>(inputs.size());
    for (unsigned r = 0; r < replicas; ++r) {
      const std::vector<unsigned> members = Members(parameters_.group, replicas, r);
      const uint64_t row = bytes_ / members.size();
      const uint64_t number = std::find(members.begin(), members.end(), r) - members.begin();
      char* target = static_cast<char*>(outputs[r][0]);
      for (const unsigned member : members) {
        std::memcpy(target, static_cast<const char*>(inputs[member][0]) + number * row, row);
        target += row;
      }
    }
  }
};

// Reduces the rows of one tensor.
class ReduceRows : public Kernel {
 public:
  explicit ReduceRows(const KernelSpec& spec)
      : op_(Parameters(spec.parameters).op),
        type_(spec.inputs[0].type),
        count_(CountOf(spec.outputs[0])) {}
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) override {
    Reduce(type_, op_, inputs, 0, count_, outputs[0]);
  }

 private:
  const CollectiveOperator op_;
  const poplar::Type type_;
  const uint64_t count_;
};

template <typename K>
std::unique_ptr<CollectiveKernel> Make(const KernelSpec& spec) {
  return std::unique_ptr<CollectiveKernel>(new K(spec));
}

const CollectiveRegistration all_reduce("gcl::allReduce", Make<AllReduce>);
const CollectiveRegistration reduce_scatter("gcl::reduceScatter", Make<ReduceScatter>);
const CollectiveRegistration all_gather("gcl::allGather", Make<AllGather>);
const CollectiveRegistration all_to_all("gcl::allToAll", Make<AllToAll>);
const KernelRegistration reduce_rows("gcl::reduceRows", [](const KernelSpec& spec) {
  return std::unique_ptr<Kernel>(new ReduceRows(spec));
});

}  // namespace
}  // namespace gcl
