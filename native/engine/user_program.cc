#include "engine/user_program.h"

#include <algorithm>
#include <cstdlib>
#include <list>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::DataType;
using tensorflow::Status;
using tensorflow::Tensor;

// The name of the Poplar type that stands for a type, and null if there is none. Integers of 64
// bits are of 32 bits on the chip.
const char* PoplarType(DataType type) {
  switch (type) {
    case tensorflow::DT_FLOAT:
      return "float";
    case tensorflow::DT_HALF:
      return "half";
    case tensorflow::DT_INT32:
    case tensorflow::DT_INT64:
      return "int";
    case tensorflow::DT_UINT32:
    case tensorflow::DT_UINT64:
      return "unsigned int";
    case tensorflow::DT_INT16:
      return "short";
    case tensorflow::DT_UINT16:
      return "unsigned short";
    case tensorflow::DT_INT8:
      return "char";
    case tensorflow::DT_UINT8:
      return "unsigned char";
    case tensorflow::DT_BOOL:
      return "bool";
    default:
      return nullptr;
  }
}

bool IsNarrowed(DataType type) {
  return type == tensorflow::DT_INT64 || type == tensorflow::DT_UINT64;
}

// Tensors as the C interface describes them.
class CTensors {
 public:
  Status Add(DataType type, const tensorflow::TensorShape& shape, const std::string& title) {
    const char* const name = PoplarType(type);
    if (name == nullptr) {
      return tensorflow::errors::InvalidArgument(title, " has a tensor of ",
                                                 tensorflow::DataTypeString(type),
                                                 ", a type that Poplar lacks. Cast it with "
                                                 "tf.cast.");
    }
    const auto dims = shape.dim_sizes();
    shapes_.push_back(std::make_unique<std::vector<int64_t>>(dims.begin(), dims.end()));
    tensors_.push_back({name, static_cast<int32_t>(dims.size()), shapes_.back()->data()});
    return tensorflow::OkStatus();
  }

  int32_t size() const { return static_cast<int32_t>(tensors_.size()); }
  const poplar_embedding_tensor* data() const { return tensors_.data(); }

 private:
  std::vector<std::unique_ptr<std::vector<int64_t>>> shapes_;
  std::vector<poplar_embedding_tensor> tensors_;
};

// All that an operation's programs depend on, besides shapes.
std::string KeyOf(const UserOp& op) {
  std::vector<std::string> parts = {op.symbol,
                                    op.kind,
                                    op.attributes,
                                    op.name,
                                    op.codelets,
                                    op.codelets_hash,
                                    op.target.chip,
                                    absl::StrCat(op.target.tiles, " ", op.target.replicas, " ",
                                                 op.InputGradIndex(), " ", op.num_gradients)};
  if (op.library != nullptr) {
    parts.push_back(op.library->path());
    parts.push_back(op.library->hash());
  }
  return absl::StrJoin(parts, absl::string_view("\0", 1));
}

// All that a program depends on.
std::string KeyOf(const UserOp& op, const UserProgram::Shapes& inputs) {
  std::vector<std::string> parts = {KeyOf(op)};
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(tensorflow::DataTypeString(op.input_types[i]));
    parts.push_back(inputs[i].DebugString());
  }
  for (size_t i = 0; i < op.output_types.size(); ++i) {
    parts.push_back(tensorflow::DataTypeString(op.output_types[i]));
    parts.push_back(op.OutputShape(static_cast<int>(i), inputs).DebugString());
  }
  return absl::StrJoin(parts, absl::string_view("\0", 1));
}

// The programs that were used last.
class Programs {
 public:
  static Programs& Get() {
    static auto* programs = new Programs;
    return *programs;
  }

  // Held while a program is built: libraries of users need not be made for threads.
  tensorflow::mutex& building() { return building_; }

  std::shared_ptr<const UserProgram> Find(const std::string& key) {
    tensorflow::mutex_lock lock(mu_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }

  // Operations that have had a program with an exchange, for any shapes.
  void SetExchange(const std::string& operation) {
    tensorflow::mutex_lock lock(mu_);
    with_exchange_.insert(operation);
  }
  bool HasExchange(const std::string& operation) {
    tensorflow::mutex_lock lock(mu_);
    return with_exchange_.count(operation) > 0;
  }

  void Add(const std::string& key, std::shared_ptr<const UserProgram> program) {
    tensorflow::mutex_lock lock(mu_);
    order_.emplace_front(key, std::move(program));
    by_key_[key] = order_.begin();
    if (order_.size() <= kMost) return;
    by_key_.erase(order_.back().first);
    order_.pop_back();
  }

 private:
  // Eager programs may use an operation with any number of shapes.
  static constexpr size_t kMost = 256;

  using Order = std::list<std::pair<std::string, std::shared_ptr<const UserProgram>>>;

  tensorflow::mutex building_, mu_;
  Order order_ TF_GUARDED_BY(mu_);
  std::unordered_map<std::string, Order::iterator> by_key_ TF_GUARDED_BY(mu_);
  std::unordered_set<std::string> with_exchange_ TF_GUARDED_BY(mu_);
};

// Converts between integers of 64 bits and those that stand for them.
template <typename From, typename To>
void Convert(const Tensor& from, Tensor* to) {
  const auto source = from.flat<From>();
  auto target = to->flat<To>();
  for (int64_t i = 0; i < source.size(); ++i) target(i) = static_cast<To>(source(i));
}

Tensor Narrow(const Tensor& tensor, bool with_values) {
  const bool is_signed = tensor.dtype() == tensorflow::DT_INT64;
  Tensor narrow(is_signed ? tensorflow::DT_INT32 : tensorflow::DT_UINT32, tensor.shape());
  if (with_values && is_signed) Convert<int64_t, int32_t>(tensor, &narrow);
  if (with_values && !is_signed) Convert<uint64_t, uint32_t>(tensor, &narrow);
  return narrow;
}

void Widen(const Tensor& narrow, Tensor wide) {
  if (wide.dtype() == tensorflow::DT_INT64) {
    Convert<int32_t, int64_t>(narrow, &wide);
  } else {
    Convert<uint32_t, uint64_t>(narrow, &wide);
  }
}

}  // namespace

Status UserProgram::Get(const UserOp& op, const Shapes& inputs,
                        std::shared_ptr<const UserProgram>* program) {
  const std::string key = KeyOf(op, inputs);
  Programs& programs = Programs::Get();
  *program = programs.Find(key);
  if (*program != nullptr) return tensorflow::OkStatus();
  tensorflow::mutex_lock lock(programs.building());
  *program = programs.Find(key);  // built meanwhile
  if (*program != nullptr) return tensorflow::OkStatus();
  TF_RETURN_IF_ERROR(Build(op, inputs, program));
  if ((*program)->sdk_->exchanges((*program)->embedding_) != 0) programs.SetExchange(KeyOf(op));
  programs.Add(key, *program);
  return tensorflow::OkStatus();
}

Status UserProgram::Build(const UserOp& op, const Shapes& inputs,
                          std::shared_ptr<const UserProgram>* program) {
  std::unique_ptr<UserProgram> result(new UserProgram(op.Title(), inputs));
  TF_RETURN_IF_ERROR(PoplarSdk::Get(&result->sdk_));
  CTensors all_inputs, all_outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TF_RETURN_IF_ERROR(all_inputs.Add(op.input_types[i], inputs[i], result->title_));
  }
  for (size_t i = 0; i < op.output_types.size(); ++i) {
    const tensorflow::TensorShape shape = op.OutputShape(static_cast<int>(i), inputs);
    TF_RETURN_IF_ERROR(all_outputs.Add(op.output_types[i], shape, result->title_));
  }
  poplar_embedding_operation operation = {};
  operation.name = op.name.c_str();
  operation.attributes = op.attributes.c_str();
  operation.chip = op.target.chip.c_str();
  operation.ipus = 1;
  operation.tiles_per_ipu = op.target.tiles;
  operation.replicas = op.target.replicas;
  operation.num_inputs = all_inputs.size();
  operation.inputs = all_inputs.data();
  operation.num_outputs = all_outputs.size();
  operation.outputs = all_outputs.data();
  operation.kind = op.kind.c_str();
  operation.build = op.function;
  operation.allocate = op.allocator;
  operation.api_level = op.api_level;
  operation.allocates = op.allocates.data();
  operation.aliased_output = op.aliased_output.data();
  operation.num_gradients = op.num_gradients;
  operation.input_grad_index = std::max(0, op.InputGradIndex());
  operation.codelets = op.codelets.c_str();
  char* error = nullptr;
  result->embedding_ = result->sdk_->make(&operation, &error);
  if (result->embedding_ == nullptr) return result->Failed("cannot be built", error);
  for (int32_t i = 0; i < operation.num_inputs; ++i) {
    int32_t alias = result->sdk_->alias(result->embedding_, i);
    // Integers of 64 and of 32 bits are one type of Poplar, and have buffers of different sizes.
    const bool is_declared = alias >= 0 && i < static_cast<int32_t>(op.aliased_output.size()) &&
                             op.aliased_output[i] == alias;
    if (alias >= 0 && !is_declared && op.input_types[i] != op.output_types[alias]) alias = -1;
    result->aliased_output_.push_back(alias);
  }
  *program = std::move(result);
  return tensorflow::OkStatus();
}

bool UserProgram::HasExchange(const UserOp& op) { return Programs::Get().HasExchange(KeyOf(op)); }

UserProgram::~UserProgram() {
  if (embedding_ != nullptr) sdk_->free(embedding_);
}

Status UserProgram::Failed(const char* what, char* error) const {
  const std::string text = absl::StrCat(title_, " ", what, ": ", error);
  const bool memory = absl::StartsWith(error, "graph_memory_allocation_error");
  std::free(error);
  return memory ? tensorflow::errors::ResourceExhausted(text) : tensorflow::errors::Internal(text);
}

std::string UserProgram::Describe() const {
  char* const text = sdk_->describe(embedding_);
  const std::string description = text;
  std::free(text);
  return description;
}

Status UserProgram::MakeState(int replica, std::unique_ptr<State>* state) const {
  char* error = nullptr;
  poplar_embedding_instance* instance = sdk_->instantiate(embedding_, replica, &error);
  if (instance == nullptr) return Failed("cannot be loaded", error);
  state->reset(new State(this, instance));
  return tensorflow::OkStatus();
}

UserProgram::State::~State() { program_->sdk_->free_instance(instance_); }

Status UserProgram::State::Run(Tensors inputs, Tensors outputs) {
  std::vector<Tensor> narrow;  // holds what stands for integers of 64 bits
  std::vector<std::pair<Tensor, Tensor>> widened;
  std::vector<const void*> sources;
  std::vector<void*> results;
  sources.reserve(inputs.size() * inputs[0].size());
  results.reserve(outputs.size() * outputs[0].size());
  for (size_t replica = 0; replica < inputs.size(); ++replica) {
    const size_t first = results.size();
    for (const Tensor& output : outputs[replica]) {
      if (IsNarrowed(output.dtype())) {
        widened.emplace_back(Narrow(output, /*with_values=*/true), output);
        results.push_back(widened.back().first.data());
      } else {
        results.push_back(output.data());
      }
    }
    for (size_t i = 0; i < inputs[replica].size(); ++i) {
      const Tensor& input = inputs[replica][i];
      if (program_->aliased_output_[i] >= 0) {
        sources.push_back(results[first + program_->aliased_output_[i]]);
      } else if (IsNarrowed(input.dtype())) {
        narrow.push_back(Narrow(input, /*with_values=*/true));
        sources.push_back(narrow.back().data());
      } else {
        sources.push_back(input.data());
      }
    }
  }
  char* error = program_->sdk_->run(instance_, sources.data(), results.data());
  if (error != nullptr) return program_->Failed("failed", error);
  for (const auto& [from, to] : widened) Widen(from, to);
  return tensorflow::OkStatus();
}

}  // namespace tensorflow_ipu
