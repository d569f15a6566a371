// What a collective has to say of itself, so that replicas can do it together.
#ifndef TENSORFLOW_IPU_ENGINE_COLLECTIVE_H_
#define TENSORFLOW_IPU_ENGINE_COLLECTIVE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// Members [begin, end) of the group of replicas that do a collective together.
struct MemberRange {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
};

// Bytes of a tensor: `rows` runs of `width`, each `stride` after the one before.
struct Extent {
  int64_t begin = 0, width = 0, stride = 0, rows = 0;
  int64_t bytes() const { return width * rows; }
};

// A product of two float32 matrices that has not been made.
struct Product {
  tensorflow::Tensor a, b;
  bool transpose_a = false, transpose_b = false;

  tensorflow::TensorShape shape() const {
    return {a.dim_size(transpose_a ? 1 : 0), b.dim_size(transpose_b ? 0 : 1)};
  }
};

// What a member gives to a collective to which members come one after the other.
struct Part {
  tensorflow::Tensor tensor;
  // Whether nobody else has its buffer.
  bool is_owned = false;
  // Instead of the tensor.
  absl::optional<Product> product;

  tensorflow::TensorShape shape() const {
    return product.has_value() ? product->shape() : tensor.shape();
  }

  // The first input of `ctx`, which is not used after that.
  static Part InputOf(tensorflow::OpKernelContext* ctx) {
    const tensorflow::Tensor& input = ctx->input(0);
    const auto own =
        ctx->forward_input(0, tensorflow::OpKernelContext::Params::kNoReservation, input.dtype(),
                           input.shape(), ctx->input_memory_type(0), ctx->input_alloc_attr(0));
    return {input, own != nullptr, absl::nullopt};
  }
};

// What has come of the parts of a group until now.
class Accumulation {
 public:
  virtual ~Accumulation() = default;

  // Adds the part of the next member. Uses `ctx` to allocate memory and to spread work.
  virtual tensorflow::Status Add(Part part, tensorflow::OpKernelContext* ctx) = 0;

  // Sets the output of `ctx` for a member, after all parts have been added. Thread-safe.
  virtual tensorflow::Status Give(int member, tensorflow::OpKernelContext* ctx) const = 0;
};

// What a collective does once all replicas of a group are there.
class Collective {
 public:
  using Inputs = absl::Span<const tensorflow::Tensor>;
  using Members = absl::Span<tensorflow::OpKernelContext* const>;

  virtual ~Collective() = default;

  // Appends what a member gives to all: tensors, as many and of the same types and shapes for each.
  virtual tensorflow::Status Give(tensorflow::OpKernelContext* member,
                                  std::vector<tensorflow::Tensor>* given) const {
    given->push_back(member->input(0));
    return tensorflow::OkStatus();
  }

  // Sets the outputs of the members that run in this process. `inputs` are what all members of the
  // group gave, in the order of their replicas; the first of `members` is number `first` of them.
  // Runs on one thread. All inputs stay as they are until it returns.
  virtual tensorflow::Status Run(Inputs inputs, int first, Members members) const = 0;

  // Which bytes of a tensor that member `from` of `size` has given are read by `Run` for members
  // `to`. If these are in another process, the rest of the tensor is undefined there.
  virtual Extent Needed(const tensorflow::Tensor& given, int /*from*/, MemberRange /*to*/,
                        int /*size*/) const {
    const int64_t all = given.TotalBytes();
    return {0, all, all, 1};
  }

  // Begins to do the same for `size` members (two or more) that come one after the other.
  virtual std::unique_ptr<Accumulation> Begin(int /*size*/) const { return nullptr; }

  // Whether the members give one tensor each and get one output of that type and shape, the same
  // for all, each element of which is made of the same element of the inputs. Then processes can
  // make a part each.
  virtual bool IsElementwise() const { return false; }

  // Computes a part of that output from the same part of each input, as vectors.
  virtual void RunPart(Inputs /*inputs*/, tensorflow::OpKernelContext* /*member*/,
                       tensorflow::Tensor* /*part*/) const {}
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_COLLECTIVE_H_
