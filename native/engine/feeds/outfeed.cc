#include "engine/feeds/outfeed.h"

#include <algorithm>
#include <utility>

#include "engine/feeds/narrow.h"
#include "engine/feeds/stack.h"
#include "tensorflow/core/platform/errors.h"

namespace tensorflow_ipu {

using tensorflow::mutex_lock;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

Status OutfeedValues::Stack(size_t component, bool with_groups, Tensor* out) const {
  TensorShape shape = shapes[component];
  if (num_replicas > 1) shape.InsertDim(0, num_replicas);
  if (with_groups) shape.InsertDim(0, groups);
  *out = Tensor(types[component], shape);
  const int64_t elements = groups * num_replicas;
  for (int64_t i = 0; i < elements; ++i) {
    TF_RETURN_IF_ERROR(CopyToPlace(tensors[i * types.size() + component], i, out));
  }
  NarrowToDevice(out);
  return tensorflow::OkStatus();
}

void OutfeedValues::CopyTo(size_t component, const int64_t* rows, void* memory) const {
  const auto is_wanted = [](int64_t row) { return row >= 0; };
  const int64_t width =
      rows == nullptr ? num_replicas : std::count_if(rows, rows + num_replicas, is_wanted);
  for (int64_t i = 0; i < groups * num_replicas; ++i) {
    const int64_t row = rows == nullptr ? i % num_replicas : rows[i % num_replicas];
    if (!is_wanted(row)) continue;
    Tensor tensor = tensors[i * types.size() + component];
    NarrowToDevice(&tensor);
    const tensorflow::StringPiece bytes = tensor.tensor_data();
    const int64_t place = i / num_replicas * width + row;
    std::copy(bytes.begin(), bytes.end(), static_cast<char*>(memory) + place * bytes.size());
  }
}

Status Outfeed::Enqueue(const LaunchContext& launch, OpKernelContext* ctx) {
  mutex_lock lock(mu_);
  if (lanes_.empty()) Begin(launch, ctx);
  TF_RETURN_IF_ERROR(Check(launch, ctx));
  if (launch.launch_id() > launch_id_) {
    launch_id_ = launch.launch_id();
    DropPartialGroups();
  }
  Lane& lane = lanes_[launch.replica()];
  if (mode_ == OutfeedMode::kLast) {
    lane.tensors.clear();
    lane.elements = 0;
  }
  for (int i = 0; i < ctx->num_inputs(); ++i) lane.tensors.push_back(ctx->input(i));
  ++lane.elements;
  return tensorflow::OkStatus();
}

void Outfeed::Begin(const LaunchContext& launch, OpKernelContext* ctx) {
  lanes_.resize(launch.num_replicas());
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    types_.push_back(ctx->input(i).dtype());
    shapes_.push_back(ctx->input(i).shape());
  }
}

Status Outfeed::Check(const LaunchContext& launch, OpKernelContext* ctx) {
  bool same = static_cast<int>(lanes_.size()) == launch.num_replicas() &&
              static_cast<int>(types_.size()) == ctx->num_inputs();
  for (int i = 0; same && i < ctx->num_inputs(); ++i) {
    same = types_[i] == ctx->input(i).dtype() && shapes_[i] == ctx->input(i).shape();
  }
  if (same) return tensorflow::OkStatus();
  std::string received;
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    tensorflow::strings::StrAppend(&received, " ",
                                   tensorflow::DataTypeString(ctx->input(i).dtype()),
                                   ctx->input(i).shape().DebugString());
  }
  std::string expected;
  for (size_t i = 0; i < types_.size(); ++i) {
    tensorflow::strings::StrAppend(&expected, " ", tensorflow::DataTypeString(types_[i]),
                                   shapes_[i].DebugString());
  }
  return tensorflow::errors::FailedPrecondition(
      "The outfeed queue ", name_,
      " is used by programs with a different tensor shape or "
      "replication factor: first",
      expected, " with replication factor ", lanes_.size(), ", now", received,
      " with replication factor ", launch.num_replicas(),
      ". Create one IPUOutfeedQueue for each program, or run the deleter of this one in between.");
}

uint64_t Outfeed::WholeGroups() {
  uint64_t groups = lanes_.empty() ? 0 : lanes_[0].elements;
  for (const Lane& lane : lanes_) groups = std::min(groups, lane.elements);
  return groups;
}

// A launch that failed may have left more elements of some replicas than of others.
void Outfeed::DropPartialGroups() {
  const uint64_t groups = WholeGroups();
  for (Lane& lane : lanes_) {
    lane.tensors.resize(groups * types_.size());
    lane.elements = groups;
  }
}

OutfeedValues Outfeed::TakeAll() {
  OutfeedValues values;
  mutex_lock lock(mu_);
  if (lanes_.empty()) return values;
  values.num_replicas = static_cast<int>(lanes_.size());
  values.groups = WholeGroups();
  values.types = types_;
  values.shapes = shapes_;
  if (lanes_.size() == 1) {  // already in the right order
    values.tensors.swap(lanes_[0].tensors);
    lanes_[0].elements = 0;
    return values;
  }
  for (int64_t group = 0; group < values.groups; ++group) {
    for (Lane& lane : lanes_) {
      for (size_t i = 0; i < types_.size(); ++i) {
        values.tensors.push_back(std::move(lane.tensors.front()));
        lane.tensors.pop_front();
      }
    }
  }
  for (Lane& lane : lanes_) lane.elements -= values.groups;
  return values;
}

}  // namespace tensorflow_ipu
