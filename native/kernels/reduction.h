// Reductions over the tensors of several replicas, element by element.
#ifndef TENSORFLOW_IPU_KERNELS_REDUCTION_H_
#define TENSORFLOW_IPU_KERNELS_REDUCTION_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

enum class Reduction { kAdd, kMean, kMul, kMin, kMax, kLogicalAnd, kLogicalOr, kSquareAdd, kLocal };

// The reduction with the name `COLLECTIVE_OP_...`.
tensorflow::Status ReductionFromName(const std::string& name, Reduction* reduction);

// Whether there is such a reduction of tensors of this type: logical ones are of booleans, and all
// others of numbers.
bool IsReductionOf(Reduction reduction, tensorflow::DataType type);

// Writes elements [begin, end) of the reduction of `inputs` to the start of `output`. The inputs
// are taken in their order, so equal inputs give equal bits; 16-bit floats are summed in float32
// and rounded once, means after the division. Means of integers are rounded towards zero. `workers`
// (may be null) help when there is enough to do.
void Reduce(Reduction reduction, absl::Span<const tensorflow::Tensor* const> inputs, int64_t begin,
            int64_t end, tensorflow::Tensor* output,
            const tensorflow::DeviceBase::CpuWorkerThreads* workers);

// What a reduction has come to after some of its inputs: 16-bit floats are in float32.
tensorflow::DataType PartialType(tensorflow::DataType type);

// Goes on with a reduction: adds `inputs` to `before`, which is null at the beginning. Writes to
// `output` what it has come to; or if all `count` inputs have been added (else 0), the result, in
// the type of the inputs. `output` may have the buffer of `before` or of an input that has its
// type. The bits are those of Reduce.
void ReduceOn(Reduction reduction, const tensorflow::Tensor* before,
              absl::Span<const tensorflow::Tensor* const> inputs, size_t count,
              tensorflow::Tensor* output, const tensorflow::DeviceBase::CpuWorkerThreads* workers);

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_KERNELS_REDUCTION_H_
