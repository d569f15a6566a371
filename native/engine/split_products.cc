#include "engine/split_products.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/random_bits.h"
#include "engine/second_thread.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::NodeProperties;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// A product of fewer multiplications takes less than 20 us, and two threads gain little.
constexpr int64_t kLeastWork = 1'000'000;

// Decides whether products are split now. On a machine that is busy otherwise, halves may take
// longer than the whole. So both are timed: what takes less time is done, and the other is tried
// again now and then.
class Pace {
 public:
  static Pace& Get() {
    static Pace* const pace = new Pace;
    return *pace;
  }

  bool splits() const { return splits_; }

  // Takes account of a product that took `seconds` for `work` multiplications.
  void Add(bool split, int64_t work, double seconds) {
    tensorflow::mutex_lock lock(mu_);
    if (split != splits_) return;
    seconds_ += seconds;
    work_ += work;
    if (++products_ % kProducts != 0) return;
    double& cost = costs_[split];
    cost = cost == 0 ? seconds_ / work_ : (cost + seconds_ / work_) / 2;
    seconds_ = 0;
    work_ = 0;
    const bool better = costs_[true] < kGain * costs_[false];
    const bool tries = costs_[!split] == 0 || products_ % (kPeriods * kProducts) == 0;
    splits_ = tries ? !split : better;
  }

 private:
  // Products of a period, and the number of periods after which the other way is tried for one.
  static constexpr int64_t kProducts = 64, kPeriods = 16;
  // Half of the result is in the cache of the other core, so splitting has to save more than that.
  static constexpr double kGain = 0.85;

  tensorflow::mutex mu_;
  std::atomic<bool> splits_{true};
  int64_t products_ TF_GUARDED_BY(mu_) = 0;
  // Of the present period.
  double seconds_ TF_GUARDED_BY(mu_) = 0;
  int64_t work_ TF_GUARDED_BY(mu_) = 0;
  // Seconds for a multiplication, of the whole and in halves: means in which recent periods count
  // more.
  double costs_[2] TF_GUARDED_BY(mu_) = {0, 0};
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A range of rows or columns.
struct Range {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
};

Tensor Rows(const Tensor& matrix, Range range) { return matrix.Slice(range.begin, range.end); }

// Copies columns of a matrix to columns of another one that begin at `target_begin`.
void CopyColumns(const Tensor& source, Range range, Tensor* target, int64_t target_begin) {
  const float* from = static_cast<const float*>(source.data()) + range.begin;
  float* to = static_cast<float*>(target->data()) + target_begin;
  for (int64_t row = 0; row < source.dim_size(0); ++row) {
    std::memcpy(to, from, range.size() * sizeof(float));
    from += source.dim_size(1);
    to += target->dim_size(1);
  }
}

Tensor Columns(const Tensor& matrix, Range range) {
  Tensor columns(matrix.dtype(), TensorShape({matrix.dim_size(0), range.size()}));
  CopyColumns(matrix, range, &columns, 0);
  return columns;
}

Tensor Random(const TensorShape& shape) {
  Tensor tensor(tensorflow::DT_FLOAT, shape);
  auto values = tensor.flat<float>();
  uint64_t state = shape.num_elements();
  for (int64_t i = 0; i < values.size(); ++i) {
    values(i) = static_cast<int32_t>(NextRandomBits(&state)) * 0x1p-31f;
  }
  return tensor;
}

// Runs a kernel that has one result on other operands than those of `ctx`.
Status Run(OpKernel* kernel, OpKernelContext* ctx, std::vector<Tensor> operands, Tensor* result) {
  std::vector<tensorflow::TensorValue> values;
  for (Tensor& operand : operands) values.emplace_back(&operand);
  const tensorflow::AllocatorAttributes attributes;
  OpKernelContext::Params params;
  params.step_id = ctx->step_id();
  params.op_kernel = kernel;
  params.device = ctx->device();
  params.resource_manager = ctx->resource_manager();
  params.step_container = ctx->step_container();
  params.inputs = values;
  params.output_attr_array = &attributes;
  OpKernelContext own(&params, /*num_outputs=*/1);
  kernel->Compute(&own);
  if (own.status().ok()) *result = *own.mutable_output(0);
  return own.status();
}

// A matrix product, with what is fused to it, that two threads compute in halves.
//
// Halves are used if they have the bits of the whole. That depends on how a library blocks the
// sums of such a size, so it is tried with random numbers.
class SplitProduct : public OpKernel {
 public:
  // Two kernels: those of oneDNN may keep state while they compute.
  SplitProduct(OpKernelConstruction* ctx, std::unique_ptr<OpKernel> first,
               std::unique_ptr<OpKernel> second)
      : OpKernel(ctx), first_(std::move(first)), second_(std::move(second)) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_a", &transposed_[0]));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("transpose_b", &transposed_[1]));
  }

  void Compute(OpKernelContext* ctx) override {
    if (!MaySplit(ctx)) {
      first_->Compute(ctx);
      return;
    }
    const double start = Now();
    const bool split = Pace::Get().splits();
    if (split) {
      ComputeInHalves(ctx);
    } else {
      first_->Compute(ctx);
    }
    Pace::Get().Add(split, Work(ctx->input(0), ctx->input(1)), Now() - start);
  }
  bool IsExpensive() override { return first_->IsExpensive(); }

 private:
  void ComputeInHalves(OpKernelContext* ctx) {
    std::vector<Tensor> operands;
    for (int i = 0; i < ctx->num_inputs(); ++i) operands.push_back(ctx->input(i));
    Tensor* result = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, ResultShape(operands[0], operands[1]), &result));
    OP_REQUIRES_OK(ctx, RunHalves(ctx, operands, result));
  }

  int64_t Work(const Tensor& left, const Tensor& right) const {
    return left.NumElements() * right.dim_size(!transposed_[1]);
  }

  TensorShape ResultShape(const Tensor& left, const Tensor& right) const {
    return TensorShape({left.dim_size(transposed_[0]), right.dim_size(!transposed_[1])});
  }

  // Whether the halves are columns of the result: where these are rows of the right operand, and
  // there are more of them than rows of the result.
  bool SplitsColumns(const TensorShape& result) const {
    return transposed_[1] && result.dim_size(1) > result.dim_size(0);
  }

  // Shapes of a node seldom change, so the last answer is kept.
  bool MaySplit(OpKernelContext* ctx) {
    const Tensor& left = ctx->input(0);
    const Tensor& right = ctx->input(1);
    if (left.shape() != left_ || right.shape() != right_) {
      left_ = left.shape();
      right_ = right.shape();
      splits_ = IsLarge(left, right) && HaveSameBits(ctx);
    }
    return splits_;
  }

  // Whether two operands fit together, and make a product that is worth two threads.
  bool IsLarge(const Tensor& left, const Tensor& right) const {
    return left.dims() == 2 && right.dims() == 2 &&
           left.dim_size(!transposed_[0]) == right.dim_size(transposed_[1]) &&
           Work(left, right) >= kLeastWork && Half(ResultShape(left, right)) > 0;
  }

  bool HaveSameBits(OpKernelContext* ctx) {
    std::vector<Tensor> operands;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      operands.push_back(Random(ctx->input(i).shape()));
      // Rows of the result need all of a bias, and nothing else that is fused to the product.
      if (i > 1 && (operands[i].dims() > 1 || transposed_[1])) return false;
    }
    Tensor whole;
    if (!Run(first_.get(), ctx, operands, &whole).ok()) return false;
    Tensor halves(whole.dtype(), whole.shape());
    if (!RunHalves(ctx, operands, &halves).ok()) return false;
    return whole.tensor_data() == halves.tensor_data();
  }

  // Rows or columns of the first half: as many as begin the second half at an aligned address.
  int64_t Half(const TensorShape& result) const {
    constexpr int64_t kAlignment = EIGEN_MAX_ALIGN_BYTES / sizeof(float);
    const int64_t common = left_.dim_size(!transposed_[0]);
    const int64_t step = kAlignment / std::gcd(kAlignment, std::gcd(common, result.dim_size(1)));
    return result.dim_size(SplitsColumns(result)) / 2 / step * step;
  }

  Status RunHalves(OpKernelContext* ctx, const std::vector<Tensor>& operands, Tensor* result) {
    const int64_t half = Half(result->shape());
    const int64_t end = result->dim_size(SplitsColumns(result->shape()));
    Status first, second;
    RunBoth([&] { first = RunHalf(first_.get(), ctx, operands, {0, half}, result); },
            [&] { second = RunHalf(second_.get(), ctx, operands, {half, end}, result); });
    return first.ok() ? second : first;
  }

  Status RunHalf(OpKernel* kernel, OpKernelContext* ctx, std::vector<Tensor> operands, Range range,
                 Tensor* result) {
    const bool splits_columns = SplitsColumns(result->shape());
    Tensor& operand = operands[splits_columns];
    const bool has_rows = transposed_[splits_columns] == splits_columns;
    operand = has_rows ? Rows(operand, range) : Columns(operand, range);
    Tensor half;
    TF_RETURN_IF_ERROR(Run(kernel, ctx, std::move(operands), &half));
    if (splits_columns) {
      CopyColumns(half, {0, range.size()}, result, range.begin);
    } else {
      Tensor target = Rows(*result, range);
      std::memcpy(target.data(), half.data(), half.TotalBytes());
    }
    return tensorflow::OkStatus();
  }

  const std::unique_ptr<OpKernel> first_, second_;
  bool transposed_[2] = {false, false};
  // The last shapes of the operands, and whether products of these are split.
  TensorShape left_, right_;
  bool splits_ = false;
};

// Whether a node is a product of two matrices of type float32, perhaps with what is fused to it.
bool IsProduct(const NodeProperties& node) {
  for (const DataType type : node.input_types) {
    if (type != tensorflow::DT_FLOAT) return false;
  }
  return node.node_def.op().find("MatMul") != std::string::npos &&
         tensorflow::HasNodeAttr(node.node_def, "transpose_a") &&
         tensorflow::HasNodeAttr(node.node_def, "transpose_b") && node.input_types.size() >= 2 &&
         node.output_types.size() == 1 && node.output_types[0] == tensorflow::DT_FLOAT;
}

}  // namespace

Status CreateSplitKernel(const tensorflow::LocalExecutorParams& params, int graph_def_version,
                         const std::shared_ptr<const NodeProperties>& node, OpKernel** kernel) {
  TF_RETURN_IF_ERROR(params.create_kernel(node, kernel));
  if (!IsProduct(*node)) return tensorflow::OkStatus();
  std::unique_ptr<OpKernel> first(*kernel);
  TF_RETURN_IF_ERROR(params.create_kernel(node, kernel));
  std::unique_ptr<OpKernel> second(*kernel);
  const tensorflow::MemoryTypeVector inputs(node->input_types.size(), tensorflow::HOST_MEMORY);
  const tensorflow::MemoryTypeVector outputs(node->output_types.size(), tensorflow::HOST_MEMORY);
  Status status;
  OpKernelConstruction ctx(tensorflow::DeviceType(params.device->device_type()), params.device,
                           params.device->GetAllocator(tensorflow::AllocatorAttributes()),
                           params.function_library, params.device->resource_manager(), node, inputs,
                           outputs, graph_def_version, &status);
  *kernel = new SplitProduct(&ctx, std::move(first), std::move(second));
  return status;
}

}  // namespace tensorflow_ipu
