#include "kernels/reduction.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::Tensor;

// Elements that one thread reduces at a time. The partial results stay in the fastest cache, so
// every input is read once and the output written once. A constant, so that loops over a whole
// block become vector instructions.
constexpr int kBlock = 512;
// Rough cost of one element of one input, in cycles: what ParallelFor divides work by.
constexpr int kCyclesPerElement = 2;

// What elements of type T are reduced in: 16-bit floats in float32; integers without a sign, for
// which overflow is defined and gives the same bits.
template <typename T, typename Enable = void>
struct PartialOf {
  using type = T;
};
template <>
struct PartialOf<Eigen::half> {
  using type = float;
};
template <>
struct PartialOf<Eigen::bfloat16> {
  using type = float;
};

// Of an operation whose result is the last partial one.
struct Whole {
  template <typename P>
  static P Last(P partial, size_t) {
    return partial;
  }
};

struct Add : Whole {
  template <typename P>
  static P First(P x) {
    return x;
  }
  template <typename P>
  static P Next(P partial, P x) {
    if constexpr (std::is_integral_v<P>) {
      using Unsigned = std::make_unsigned_t<P>;
      return static_cast<P>(static_cast<Unsigned>(partial) + static_cast<Unsigned>(x));
    } else {
      return partial + x;
    }
  }
};

struct Mean : Add {
  template <typename P>
  static P Last(P sum, size_t count) {
    return static_cast<P>(sum / static_cast<P>(count));
  }
};

struct Mul : Whole {
  template <typename P>
  static P First(P x) {
    return x;
  }
  template <typename P>
  static P Next(P partial, P x) {
    if constexpr (std::is_integral_v<P>) {
      return static_cast<P>(static_cast<uint64_t>(partial) * static_cast<uint64_t>(x));
    } else {
      return partial * x;
    }
  }
};

struct SquareAdd : Whole {
  template <typename P>
  static P First(P x) {
    return Mul::Next(x, x);
  }
  template <typename P>
  static P Next(P partial, P x) {
    return Add::Next(partial, Mul::Next(x, x));
  }
};

// Not-a-number wins, as in TensorFlow's own reductions.
struct Min : Whole {
  template <typename P>
  static P First(P x) {
    return x;
  }
  template <typename P>
  static P Next(P partial, P x) {
    return partial < x || partial != partial ? partial : x;
  }
};

struct Max : Whole {
  template <typename P>
  static P First(P x) {
    return x;
  }
  template <typename P>
  static P Next(P partial, P x) {
    return partial > x || partial != partial ? partial : x;
  }
};

struct LogicalAnd : Whole {
  static bool First(bool x) { return x; }
  static bool Next(bool partial, bool x) { return partial && x; }
};

struct LogicalOr : Whole {
  static bool First(bool x) { return x; }
  static bool Next(bool partial, bool x) { return partial || x; }
};

template <typename Op, typename T>
void ReduceBlock(absl::Span<const Tensor* const> inputs, int64_t begin, int size, T* output) {
  using Partial = typename PartialOf<T>::type;
  Partial partial[kBlock];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const T* input = static_cast<const T*>(inputs[i]->data()) + begin;
    const auto pass = [&](int count) {
      if (i == 0) {
        for (int j = 0; j < count; ++j) partial[j] = Op::First(static_cast<Partial>(input[j]));
      } else {
        for (int j = 0; j < count; ++j) {
          partial[j] = Op::Next(partial[j], static_cast<Partial>(input[j]));
        }
      }
    };
    if (size == kBlock) {
      pass(kBlock);
    } else {
      pass(size);
    }
  }
  for (int j = 0; j < size; ++j) {
    output[j] = static_cast<T>(Op::Last(partial[j], inputs.size()));
  }
}

template <typename Op, typename T>
void ReduceRange(absl::Span<const Tensor* const> inputs, int64_t begin, int64_t end, Tensor* output,
                 const tensorflow::DeviceBase::CpuWorkerThreads* workers) {
  T* const results = static_cast<T*>(output->data());
  const int64_t blocks = (end - begin + kBlock - 1) / kBlock;
  const auto reduce = [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t at = begin + block * kBlock;
      const int size = static_cast<int>(std::min<int64_t>(kBlock, end - at));
      ReduceBlock<Op, T>(inputs, at, size, results + (at - begin));
    }
  };
  if (workers == nullptr || blocks == 1) return reduce(0, blocks);
  const int64_t cost = static_cast<int64_t>(inputs.size()) * kBlock * kCyclesPerElement;
  workers->workers->ParallelFor(blocks, cost, reduce);
}

using ReduceFunction = void (*)(absl::Span<const Tensor* const>, int64_t, int64_t, Tensor*,
                                const tensorflow::DeviceBase::CpuWorkerThreads*);

template <typename Op>
ReduceFunction OfNumbers(DataType type) {
  switch (type) {
    case tensorflow::DT_HALF:
      return ReduceRange<Op, Eigen::half>;
    case tensorflow::DT_BFLOAT16:
      return ReduceRange<Op, Eigen::bfloat16>;
    case tensorflow::DT_FLOAT:
      return ReduceRange<Op, float>;
    case tensorflow::DT_INT8:
      return ReduceRange<Op, int8_t>;
    case tensorflow::DT_UINT8:
      return ReduceRange<Op, uint8_t>;
    case tensorflow::DT_INT32:
      return ReduceRange<Op, int32_t>;
    case tensorflow::DT_UINT32:
      return ReduceRange<Op, uint32_t>;
    case tensorflow::DT_INT64:
      return ReduceRange<Op, int64_t>;
    default:
      return nullptr;
  }
}

template <typename Op>
ReduceFunction OfBooleans(DataType type) {
  return type == tensorflow::DT_BOOL ? ReduceRange<Op, bool> : nullptr;
}

ReduceFunction Find(Reduction reduction, DataType type) {
  switch (reduction) {
    case Reduction::kAdd:
      return OfNumbers<Add>(type);
    case Reduction::kMean:
      return OfNumbers<Mean>(type);
    case Reduction::kMul:
      return OfNumbers<Mul>(type);
    case Reduction::kMin:
      return OfNumbers<Min>(type);
    case Reduction::kMax:
      return OfNumbers<Max>(type);
    case Reduction::kSquareAdd:
      return OfNumbers<SquareAdd>(type);
    case Reduction::kLogicalAnd:
      return OfBooleans<LogicalAnd>(type);
    case Reduction::kLogicalOr:
      return OfBooleans<LogicalOr>(type);
    default:
      return nullptr;
  }
}

}  // namespace

tensorflow::Status ReductionFromName(const std::string& name, Reduction* reduction) {
  static const auto* names = new std::unordered_map<std::string, Reduction>{
      {"COLLECTIVE_OP_ADD", Reduction::kAdd},
      {"COLLECTIVE_OP_MEAN", Reduction::kMean},
      {"COLLECTIVE_OP_MUL", Reduction::kMul},
      {"COLLECTIVE_OP_MIN", Reduction::kMin},
      {"COLLECTIVE_OP_MAX", Reduction::kMax},
      {"COLLECTIVE_OP_LOGICAL_AND", Reduction::kLogicalAnd},
      {"COLLECTIVE_OP_LOGICAL_OR", Reduction::kLogicalOr},
      {"COLLECTIVE_OP_SQUARE_ADD", Reduction::kSquareAdd},
      {"COLLECTIVE_OP_LOCAL", Reduction::kLocal},
  };
  const auto found = names->find(name);
  if (found == names->end()) {
    return tensorflow::errors::InvalidArgument("There is no reduction called ", name, ".");
  }
  *reduction = found->second;
  return tensorflow::OkStatus();
}

bool IsReductionOf(Reduction reduction, DataType type) {
  return reduction == Reduction::kLocal || Find(reduction, type) != nullptr;
}

void Reduce(Reduction reduction, absl::Span<const Tensor* const> inputs, int64_t begin, int64_t end,
            Tensor* output, const tensorflow::DeviceBase::CpuWorkerThreads* workers) {
  if (begin >= end) return;
  Find(reduction, output->dtype())(inputs, begin, end, output, workers);
}

}  // namespace tensorflow_ipu
