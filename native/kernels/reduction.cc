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

// Adds elements of the inputs to partial results, which begin with the first if `begins`.
template <typename Op, typename T, typename Partial>
void AddBlock(absl::Span<const Tensor* const> inputs, int64_t begin, int size, bool begins,
              Partial* partial) {
  for (const Tensor* tensor : inputs) {
    const T* input = static_cast<const T*>(tensor->data()) + begin;
    const auto pass = [&](int count) {
      if (begins) {
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
    begins = false;
  }
}

template <typename Op, typename T>
void ReduceBlock(absl::Span<const Tensor* const> inputs, int64_t begin, int size, T* output) {
  typename PartialOf<T>::type partial[kBlock];
  AddBlock<Op, T>(inputs, begin, size, /*begins=*/true, partial);
  for (int j = 0; j < size; ++j) {
    output[j] = static_cast<T>(Op::Last(partial[j], inputs.size()));
  }
}

// Calls `reduce` with ranges of blocks, on several threads if there are `workers`.
template <typename F>
void ForBlocks(int64_t blocks, size_t inputs,
               const tensorflow::DeviceBase::CpuWorkerThreads* workers, const F& reduce) {
  if (workers == nullptr || blocks == 1) return reduce(0, blocks);
  const int64_t cost = static_cast<int64_t>(inputs) * kBlock * kCyclesPerElement;
  workers->workers->ParallelFor(blocks, cost, reduce);
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
  ForBlocks(blocks, inputs.size(), workers, reduce);
}

template <typename Op, typename T>
void ReduceRangeOn(const Tensor* before, absl::Span<const Tensor* const> inputs, size_t count,
                   Tensor* output, const tensorflow::DeviceBase::CpuWorkerThreads* workers) {
  using Partial = typename PartialOf<T>::type;
  const auto* const partials =
      before == nullptr ? nullptr : static_cast<const Partial*>(before->data());
  const int64_t elements = output->NumElements();
  const auto reduce = [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t at = block * kBlock;
      const int size = static_cast<int>(std::min<int64_t>(kBlock, elements - at));
      Partial partial[kBlock];
      if (partials != nullptr) std::copy_n(partials + at, size, partial);
      AddBlock<Op, T>(inputs, at, size, /*begins=*/partials == nullptr, partial);
      if (count == 0) {
        std::copy_n(partial, size, static_cast<Partial*>(output->data()) + at);
        continue;
      }
      T* const results = static_cast<T*>(output->data()) + at;
      for (int j = 0; j < size; ++j) results[j] = static_cast<T>(Op::Last(partial[j], count));
    }
  };
  ForBlocks((elements + kBlock - 1) / kBlock, inputs.size() + 1, workers, reduce);
}

struct Functions {
  void (*whole)(absl::Span<const Tensor* const>, int64_t, int64_t, Tensor*,
                const tensorflow::DeviceBase::CpuWorkerThreads*) = nullptr;
  void (*on)(const Tensor*, absl::Span<const Tensor* const>, size_t, Tensor*,
             const tensorflow::DeviceBase::CpuWorkerThreads*) = nullptr;
};

template <typename Op, typename T>
Functions Of() {
  return {ReduceRange<Op, T>, ReduceRangeOn<Op, T>};
}

template <typename Op>
Functions OfNumbers(DataType type) {
  switch (type) {
    case tensorflow::DT_HALF:
      return Of<Op, Eigen::half>();
    case tensorflow::DT_BFLOAT16:
      return Of<Op, Eigen::bfloat16>();
    case tensorflow::DT_FLOAT:
      return Of<Op, float>();
    case tensorflow::DT_INT8:
      return Of<Op, int8_t>();
    case tensorflow::DT_UINT8:
      return Of<Op, uint8_t>();
    case tensorflow::DT_INT32:
      return Of<Op, int32_t>();
    case tensorflow::DT_UINT32:
      return Of<Op, uint32_t>();
    case tensorflow::DT_INT64:
      return Of<Op, int64_t>();
    default:
      return {};
  }
}

template <typename Op>
Functions OfBooleans(DataType type) {
  return type == tensorflow::DT_BOOL ? Of<Op, bool>() : Functions();
}

Functions Find(Reduction reduction, DataType type) {
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
      return {};
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
  return reduction == Reduction::kLocal || Find(reduction, type).whole != nullptr;
}

void Reduce(Reduction reduction, absl::Span<const Tensor* const> inputs, int64_t begin, int64_t end,
            Tensor* output, const tensorflow::DeviceBase::CpuWorkerThreads* workers) {
  if (begin >= end) return;
  Find(reduction, output->dtype()).whole(inputs, begin, end, output, workers);
}

DataType PartialType(DataType type) {
  const bool is_half = type == tensorflow::DT_HALF || type == tensorflow::DT_BFLOAT16;
  return is_half ? tensorflow::DT_FLOAT : type;
}

void ReduceOn(Reduction reduction, const Tensor* before, absl::Span<const Tensor* const> inputs,
              size_t count, Tensor* output,
              const tensorflow::DeviceBase::CpuWorkerThreads* workers) {
  if (output->NumElements() == 0) return;
  Find(reduction, inputs[0]->dtype()).on(before, inputs, count, output, workers);
}

}  // namespace tensorflow_ipu
