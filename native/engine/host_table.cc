#include "engine/host_table.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/util/work_sharder.h"

namespace tensorflow_ipu {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

constexpr char kContainer[] = "ipu_host_embeddings";

// One gradient of one row.
struct Contribution {
  int32_t row;
  float rate;
  const void* gradient;
};

// Runs `work(begin, end)` for parts of [0, count), on all threads if it is worth it.
template <typename Work>
void InParallel(OpKernelContext* ctx, int64_t count, int64_t cost, const Work& work) {
  const auto& threads = *ctx->device()->tensorflow_cpu_worker_threads();
  tensorflow::Shard(threads.num_threads, threads.workers, count, cost, work);
}

template <typename T>
using Row = Eigen::Map<std::conditional_t<
    std::is_const_v<T>, const Eigen::Array<std::remove_const_t<T>, -1, 1>, Eigen::Array<T, -1, 1>>>;

Status WrongShape(const Tensor& values) {
  return tensorflow::errors::InvalidArgument(
      "The table of a host embedding has to be of the shape [tokens, encoding]. Received: ",
      values.shape().DebugString());
}

}  // namespace

HostTable::HostTable(const Tensor& values) : values_(tensorflow::tensor::DeepCopy(values)) {}

Status HostTable::Register(OpKernelContext* ctx, const std::string& name, const Tensor& values) {
  if (values.dims() != 2) return WrongShape(values);
  const Status status = ctx->resource_manager()->Create(kContainer, name, new HostTable(values));
  if (!tensorflow::errors::IsAlreadyExists(status)) return status;
  return tensorflow::errors::AlreadyExists(
      "A registration of the host embedding ", name,
      " already exists in this session. Leave its register scope first, or give the embeddings "
      "different names.");
}

Status HostTable::Find(OpKernelContext* ctx, const std::string& name,
                       tensorflow::core::RefCountPtr<HostTable>* table) {
  HostTable* found = nullptr;
  const Status status = ctx->resource_manager()->Lookup(kContainer, name, &found);
  if (status.ok()) {
    table->reset(found);
    return status;
  }
  return tensorflow::errors::FailedPrecondition(
      "The host embedding ", name,
      " is not registered in this session. Run programs that use it inside `with "
      "embedding.register(session):`.");
}

Status HostTable::Deregister(OpKernelContext* ctx, const std::string& name, Tensor* values) {
  tensorflow::core::RefCountPtr<HostTable> table;
  TF_RETURN_IF_ERROR(Find(ctx, name, &table));
  TF_RETURN_IF_ERROR(ctx->resource_manager()->Delete<HostTable>(kContainer, name));
  tensorflow::mutex_lock lock(table->mu_);
  *values = std::move(table->values_);
  return tensorflow::OkStatus();
}

Status HostTable::Lookup(OpKernelContext* ctx, const Tensor& indices) {
  tensorflow::tf_shared_lock lock(mu_);
  TensorShape shape = indices.shape();
  shape.AddDim(values_.dim_size(1));
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, shape, &output));
  if (output->NumElements() == 0) return tensorflow::OkStatus();
  const int64_t rows = values_.dim_size(0);
  const int64_t width = output->TotalBytes() / indices.NumElements();
  const auto wanted = indices.flat<int32_t>();
  const char* source = static_cast<const char*>(values_.data());
  char* target = static_cast<char*>(output->data());
  InParallel(ctx, wanted.size(), width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t row = wanted(i);
      if (row >= 0 && row < rows) {
        std::memcpy(target + i * width, source + row * width, width);
      } else {
        std::memset(target + i * width, 0, width);
      }
    }
  });
  return tensorflow::OkStatus();
}

Status HostTable::Update(OpKernelContext* ctx, const std::vector<TableUpdate>& updates) {
  tensorflow::mutex_lock lock(mu_);
  for (const TableUpdate& update : updates) {
    const Tensor& gradients = update.gradients;
    const bool fits = gradients.dims() == 2 && gradients.dtype() == values_.dtype() &&
                      gradients.dim_size(0) == update.indices.NumElements() &&
                      gradients.dim_size(1) == values_.dim_size(1);
    if (!fits) {
      return tensorflow::errors::InvalidArgument(
          "Gradients ", gradients.DebugString(0), " for the rows ", update.indices.DebugString(0),
          " do not fit the registered table ", values_.DebugString(0),
          ". The program was built for a table of another shape.");
    }
  }
  if (values_.dtype() == tensorflow::DT_HALF) {
    Apply<Eigen::half>(ctx, updates);
  } else {
    Apply<float>(ctx, updates);
  }
  return tensorflow::OkStatus();
}

template <typename T>
void HostTable::Apply(OpKernelContext* ctx, const std::vector<TableUpdate>& updates) {
  const int64_t rows = values_.dim_size(0);
  const int64_t width = values_.dim_size(1);
  std::vector<Contribution> all;
  for (const TableUpdate& update : updates) {
    const auto indices = update.indices.flat<int32_t>();
    const T* gradients = update.gradients.flat<T>().data();
    for (int64_t i = 0; i < indices.size(); ++i) {
      if (indices(i) < 0 || indices(i) >= rows) continue;
      all.push_back({indices(i), update.rate, gradients + i * width});
    }
  }
  // Stable, so that the order of the updates decides on the order of the sums.
  std::stable_sort(all.begin(), all.end(),
                   [](const Contribution& a, const Contribution& b) { return a.row < b.row; });
  std::vector<size_t> starts;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i].row != all[i - 1].row) starts.push_back(i);
  }
  starts.push_back(all.size());
  T* table = values_.flat<T>().data();
  InParallel(ctx, starts.size() - 1, 2 * width, [&](int64_t begin, int64_t end) {
    Eigen::ArrayXf sum(width);
    for (int64_t group = begin; group < end; ++group) {
      const size_t first = starts[group];
      const auto step = [&](size_t i) {
        const auto* gradient = static_cast<const T*>(all[i].gradient);
        return all[i].rate * Row<const T>(gradient, width).template cast<float>();
      };
      sum = step(first);
      for (size_t i = first + 1; i < starts[group + 1]; ++i) sum += step(i);
      Row<T> row(table + all[first].row * width, width);
      row = (row.template cast<float>() - sum).template cast<T>();
    }
  });
}

}  // namespace tensorflow_ipu
