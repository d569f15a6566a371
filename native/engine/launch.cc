#include "engine/launch.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/collective_rendezvous.h"
#include "engine/device_state.h"
#include "engine/equal_copies.h"
#include "engine/factored_sums.h"
#include "engine/instances.h"
#include "engine/kernel_state.h"
#include "engine/launch_context.h"
#include "engine/one_thread.h"
#include "engine/replica_graphs.h"
#include "engine/split_collectives.h"
#include "engine/turns.h"
#include "engine/uniform_exchange.h"
#include "engine/uniform_values.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor_util.h"
#include "tensorflow/core/grappler/optimizers/meta_optimizer.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/util/env_var.h"

namespace tensorflow_ipu {

using tensorflow::CancellationManager;
using tensorflow::Device;
using tensorflow::FunctionLibraryDefinition;
using tensorflow::FunctionLibraryRuntime;
using tensorflow::Graph;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::core::RefCountPtr;

namespace {

constexpr double kNanosecondsPerSecond = 1e9;

uint64_t NextLaunchId() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// An error that another replica's failure brought about says nothing of the cause.
bool IsConsequence(const Status& status) {
  return tensorflow::errors::IsCancelled(status) || tensorflow::StatusGroup::IsDerived(status);
}

// A replica's own variable, starting with the value of replica 0's. The buffer is shared until
// either of them writes: TensorFlow's kernels copy a buffer that has other owners before they
// update it. In copy-on-read mode they do not, so then it is copied here.
RefCountPtr<Var> CopyVariable(Var* original) {
  tensorflow::tf_shared_lock lock(*original->mu());
  RefCountPtr<Var> copy(new Var(original->tensor()->dtype()));
  *copy->tensor() = original->copy_on_read_mode.load()
                        ? tensorflow::tensor::DeepCopy(*original->tensor())
                        : *original->tensor();
  copy->copy_on_read_mode = original->copy_on_read_mode.load();
  copy->is_initialized = original->is_initialized;
  return copy;
}

// A variable of the user, which is that of replica 0, and those of the other replicas: none if all
// have one. Or nothing, in the place of an argument that is a tensor.
struct ReplicatedVariable {
  RefCountPtr<Var> original;
  ReplicaVariables copies;

  Var* Of(size_t replica) const {
    return replica == 0 || copies.empty() ? original.get() : copies[replica - 1].get();
  }
};

// One replica's share of a launch.
struct Replica {
  RefCountPtr<LaunchContext> context;
  Turns::Runner runner;
  std::unique_ptr<tensorflow::ScopedStepContainer> container;
  // TensorFlow cancels it when an op fails, which need not be the end of the other replicas.
  std::unique_ptr<CancellationManager> cancellation;
  std::vector<Tensor> results;
};

// State of a launch from start to the end of its last replica; deletes itself then.
class Launcher : public StoppableLaunch {
 public:
  using Done = std::function<void(Status, std::vector<Tensor>)>;

  Launcher(uint64_t id, std::shared_ptr<const LoadedProgram> loaded, int ordinal,
           const LaunchCaller& caller, Done done)
      : id_(id),
        keeps_loaded_(std::move(loaded)),
        loaded_(*keeps_loaded_),
        device_(DeviceState::Get(ordinal)),
        caller_(caller),
        cpu_(loaded_.runtime->device_mgr()->HostCPU()),
        done_(std::move(done)),
        copies_(std::make_shared<EqualCopies>(loaded_.shares_copies)),
        uniform_(loaded_.uniform),
        replicas_(loaded_.program->replicas),
        pending_(loaded_.program->replicas),
        start_ns_(tensorflow::Env::Default()->NowNanos()) {
    const int num_replicas = static_cast<int>(replicas_.size());
    const int instances = loaded_.program->instances;
    const int instance = loaded_.program->instance;
    Instances* joined = instances > 1 ? Instances::Get() : nullptr;
    // All instances draw the seeds of all replicas, so that each has that of one process with all.
    if (joined != nullptr) device_->BeginWithSeed(joined->seed());
    const std::vector<uint64_t> seeds = device_->DrawSeeds(instances * num_replicas);
    rendezvous_ = std::make_shared<CollectiveRendezvous>(num_replicas, joined, ordinal,
                                                         loaded_.program->fingerprint);
    if (loaded_.shares) exchange_ = std::make_shared<UniformExchange>(num_replicas);
    std::shared_ptr<Turns> turns;
    if (TakesTurns()) {
      const auto pause = [copies = copies_, lanes = loaded_.lanes](int replica) {
        copies->Share(replica, replica % lanes, lanes);
      };
      turns = std::make_shared<Turns>(num_replicas, loaded_.lanes, *caller_.runner, pause);
    }
    for (int r = 0; r < num_replicas; ++r) {
      replicas_[r].context.reset(new LaunchContext(ordinal, id_, r, num_replicas, instance,
                                                   instances, seeds[instance * num_replicas + r],
                                                   seeds[0], rendezvous_, exchange_));
      if (TakesTurns()) replicas_[r].runner = turns->RunnerOf(r);
    }
  }

  // Begins when the device is free. The last replica to end deletes this.
  void Start(std::vector<LaunchArgument> arguments, Waiter waiter) {
    arguments_ = std::move(arguments);
    pending_.fetch_add(1);  // a pin
    if (RunningLaunches::Add(id_, waiter, this)) {
      WatchCancellation();
      device_->BeginLaunch(id_, [this] { StartReplicas(); });
      if (stopped_) WithdrawIfWaiting();
    } else {
      status_ = tensorflow::errors::Cancelled("The process is ending.");
      EndWithoutReplicas();
    }
    Unpin();
  }

  bool Pin() override {
    int pending = pending_;
    while (pending > 0 && !pending_.compare_exchange_weak(pending, pending + 1)) {
    }
    return pending > 0;
  }

  void Unpin() override {
    if (pending_.fetch_sub(1) == 1) End();
  }

  void Stop(const Status& reason) override {
    {
      tensorflow::mutex_lock lock(mu_);
      if (status_.ok()) status_ = reason;
    }
    stopped_ = true;
    WithdrawIfWaiting();
    rendezvous_->Abort(reason);
    cancellation_.StartCancel();
  }

 private:
  // The step that the launch is part of may be cancelled: when its session closes, say.
  void WatchCancellation() {
    CancellationManager* manager = caller_.cancellation;
    if (manager == nullptr) return;
    token_ = manager->get_cancellation_token();
    const Status reason = tensorflow::errors::Cancelled("The step was cancelled.");
    const bool watching = manager->RegisterCallback(
        token_, [id = id_, reason] { RunningLaunches::Stop(id, reason); });
    if (!watching) Stop(reason);
  }

  // One that is stopped before its turn need not wait for it.
  void WithdrawIfWaiting() {
    if (device_->Withdraw(id_)) EndWithoutReplicas();
  }

  // For who has pinned this.
  void EndWithoutReplicas() {
    has_begun_ = false;
    pending_.fetch_sub(static_cast<int>(replicas_.size()));
  }

  void StartReplicas() {
    if (loaded_.program->on_device) {
      device_->Load(loaded_.program->id, /*has_inputs=*/!arguments_.empty());
      EventStore::Record(EventType::kExecute, ordinal(), loaded_.program->id);
    }
    // All arguments first: once a replica runs it may write the variables that others copy.
    ReplicateVariables();
    std::vector<std::vector<Tensor>> inputs(replicas_.size());
    for (size_t r = 0; r < replicas_.size(); ++r) inputs[r] = Inputs(r);
    arguments_.clear();
    // Not replicas_.size(): when the last replica ends, in or during the last Run, this is gone.
    for (size_t r = 0; r < inputs.size(); ++r) Run(r, std::move(inputs[r]));
  }

  int ordinal() const { return replicas_[0].context->device_ordinal(); }

  bool TakesTurns() const { return loaded_.lanes > 0; }

  bool KeepsVariables() const { return replicas_.size() > 1 && loaded_.program->on_device; }

  // Gives each replica its variables: those that it has kept since the launch before, or copies.
  void ReplicateVariables() {
    variables_.resize(arguments_.size());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (arguments_[i].variable == nullptr) continue;
      ReplicatedVariable& variable = variables_[i];
      variable.original = std::move(arguments_[i].variable);
      const bool shared = loaded_.shared_variables.count(static_cast<int>(i)) > 0;
      if (replicas_.size() > 1) Count(variable.original.get(), shared);
      if (shared) continue;
      if (KeepsVariables()) {
        variable.copies = device_->resident_variables().Take(variable.original.get());
      }
      variable.copies.resize(replicas_.size() - 1);
      for (RefCountPtr<Var>& copy : variable.copies) {
        if (copy == nullptr) copy = CopyVariable(variable.original.get());
      }
      if (replicas_.size() > 1) AddCopies(variable);
    }
    // What is left belongs to variables that the program was given before, and now is not.
    if (KeepsVariables()) device_->resident_variables().Clear();
  }

  void AddCopies(const ReplicatedVariable& variable) {
    std::vector<Var*> copies;
    for (size_t r = 0; r < replicas_.size(); ++r) copies.push_back(variable.Of(r));
    copies_->Add(copies);
  }

  void Count(Var* variable, bool shared) {
    tensorflow::tf_shared_lock lock(*variable->mu());
    const auto bytes = static_cast<int64_t>(variable->tensor()->TotalBytes());
    uniform_.bytes += bytes;
    if (shared) uniform_.uniform_bytes += bytes;
  }

  std::vector<Tensor> Inputs(size_t replica) const {
    std::vector<Tensor> inputs;
    inputs.reserve(arguments_.size());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (variables_[i].original == nullptr) {
        inputs.push_back(arguments_[i].tensor);
        continue;
      }
      Var* variable = variables_[i].Of(replica);
      variable->Ref();
      inputs.push_back(loaded_.handles->Register(static_cast<int>(replica), i, variable, cpu_));
    }
    return inputs;
  }

  void Run(size_t index, std::vector<Tensor> inputs) {
    Replica& replica = replicas_[index];
    FunctionLibraryRuntime::Options options;
    tensorflow::ResourceMgr* resources = cpu_->resource_manager();
    replica.container = std::make_unique<tensorflow::ScopedStepContainer>(
        options.step_id,
        [resources](const std::string& name) { resources->Cleanup(name).IgnoreError(); });
    options.step_container = replica.container.get();
    replica.cancellation = std::make_unique<CancellationManager>(&cancellation_);
    options.cancellation_manager = replica.cancellation.get();
    if (exchange_ != nullptr) EndWaitsWith(replica.cancellation.get(), static_cast<int>(index));
    options.collective_executor = replica.context.get();
    options.runner = TakesTurns() ? &replica.runner : caller_.runner;
    options.source_device = loaded_.runtime->device()->name();
    options.create_rendezvous = true;
    options.allow_dead_tensors = true;
    // A replica with a lane has one thread. Kernels may still spread their work, except in
    // programs of small ops.
    options.run_all_kernels_inline = TakesTurns() || RunsOnOneThread(*loaded_.program);
    loaded_.runtime->Run(options, loaded_.FunctionOf(index), inputs, &replica.results,
                         [this, index](const Status& status) { Finish(index, status); });
  }

  // What a replica waits for ends when it is cancelled, also by an error of its own.
  void EndWaitsWith(CancellationManager* cancellation, int replica) {
    const auto cancel = [weak = std::weak_ptr<UniformExchange>(exchange_), replica] {
      if (auto exchange = weak.lock()) exchange->Cancel(replica);
    };
    if (!cancellation->RegisterCallback(cancellation->get_cancellation_token(), cancel)) cancel();
  }

  void Finish(int replica, Status status) {
    if (status.ok()) status = replicas_[replica].context->AtEnd();
    if (status.ok()) status = rendezvous_->End(replica);
    if (!status.ok()) {
      {
        tensorflow::mutex_lock lock(mu_);
        if (status_.ok() || (IsConsequence(status_) && !IsConsequence(status))) status_ = status;
      }
      StopOthers(replica, status);
      if (!IsConsequence(status)) rendezvous_->Tell(status);
    }
    Unpin();
  }

  // Lets the other replicas end because one has failed.
  void StopOthers(int replica, const Status& status) {
    // An infeed gives all replicas as many elements: those that are not at its end yet have results
    // to send, and will come to it.
    if (tensorflow::errors::IsOutOfRange(status) && rendezvous_->End(replica).ok()) {
      if (exchange_ != nullptr) exchange_->End(replica);
      return;
    }
    rendezvous_->Abort(status);
    cancellation_.StartCancel();
  }

  void End() {
    RunningLaunches::Remove(id_);
    // Does not wait: this may be what the cancellation of the step has brought about.
    CancellationManager* manager = caller_.cancellation;
    if (manager != nullptr) manager->TryDeregisterCallback(token_);
    std::vector<Tensor> results;
    if (has_begun_) results = EndReplicas();
    rendezvous_->Tell(status_);
    const Done done = std::move(done_);
    const Status status = status_;
    delete this;
    done(status, std::move(results));
  }

  // Gives the device back. Returns the results of replica 0.
  std::vector<Tensor> EndReplicas() {
    const Program& program = *loaded_.program;
    const double seconds =
        (tensorflow::Env::Default()->NowNanos() - start_ns_) / kNanosecondsPerSecond;
    uniform_.copied_bytes = copies_->ShareAllAndClose();
    Statistics::Add(program.id, seconds, uniform_);
    for (size_t r = 0; r < replicas_.size(); ++r) {
      const std::string container = replicas_[r].context->VariableContainer();
      cpu_->resource_manager()->Cleanup(container).IgnoreError();
      loaded_.handles->Clear(static_cast<int>(r), cpu_);
    }
    std::vector<Tensor> results = std::move(replicas_[0].results);
    if (program.on_device && status_.ok() && !results.empty()) {
      EventStore::Record(EventType::kDeviceToHost, ordinal(), program.id);
    }
    if (!status_.ok()) {
      device_->Unload();
    } else if (KeepsVariables()) {
      for (ReplicatedVariable& variable : variables_) {
        if (variable.original == nullptr || variable.copies.empty()) continue;
        device_->resident_variables().Keep(variable.original.get(), std::move(variable.copies));
      }
    }
    variables_.clear();
    // Before the device is free: what it ran may be unloaded then.
    keeps_loaded_.reset();
    device_->EndLaunch();
    return results;
  }

  const uint64_t id_;
  std::shared_ptr<const LoadedProgram> keeps_loaded_;
  const LoadedProgram& loaded_;
  DeviceState* const device_;
  const LaunchCaller caller_;
  Device* const cpu_;
  CancellationManager cancellation_;
  tensorflow::CancellationToken token_ = CancellationManager::kInvalidToken;
  Done done_;
  const std::shared_ptr<EqualCopies> copies_;
  UniformStatistics uniform_;
  std::vector<LaunchArgument> arguments_;
  std::vector<ReplicatedVariable> variables_;
  std::vector<Replica> replicas_;
  std::shared_ptr<CollectiveRendezvous> rendezvous_;
  std::shared_ptr<UniformExchange> exchange_;  // null if replicas share nothing
  std::atomic<int> pending_;                   // replicas, and whoever keeps this from ending
  std::atomic<bool> stopped_{false};
  std::atomic<bool> has_begun_{true};
  const uint64_t start_ns_;
  tensorflow::mutex mu_;
  Status status_ TF_GUARDED_BY(mu_);
};

// What TensorFlow would decide while a program runs is decided here, the same for all replicas.
// Returns whether that changes anything for a node of such a type.
bool IsSettled(const std::string& op) {
  return op == "AddN" || op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

void Settle(const std::string& op, tensorflow::AttrValueMap* attributes) {
  tensorflow::AttrValue value;
  if (op == "AddN") {
    // It begins with the input whose memory it can take for the result, so the order of a sum would
    // depend on who else is done with the inputs: on the time.
    value.mutable_list()->add_i(tensorflow::OpKernelContext::Params::kNeverForward);
    value.mutable_list()->add_i(0);  // the result
    (*attributes)["_forward_input"] = value;
  } else {
    // A call optimizes its function again, for each replica in another way.
    tensorflow::ConfigProto config;
    config.mutable_graph_options()->mutable_rewrite_options()->set_disable_meta_optimizer(true);
    value.set_s(config.SerializeAsString());
    (*attributes)["config_proto"] = value;
  }
}

void Settle(tensorflow::Node* node) {
  if (!IsSettled(node->type_string())) return;
  tensorflow::AttrValueMap attributes;
  Settle(node->type_string(), &attributes);
  for (const auto& [name, value] : attributes) {
    node->ClearAttr(name);
    node->AddAttr(name, value);
  }
}

Status Settle(FunctionLibraryDefinition* library) {
  for (const std::string& name : library->ListFunctionNames()) {
    tensorflow::FunctionDef function = *library->Find(name);
    bool changed = false;
    for (tensorflow::NodeDef& node : *function.mutable_node_def()) {
      if (!IsSettled(node.op())) continue;
      Settle(node.op(), node.mutable_attr());
      changed = true;
    }
    if (changed) TF_RETURN_IF_ERROR(library->ReplaceFunction(name, function));
  }
  return tensorflow::OkStatus();
}

// TensorFlow's graph optimizers for one program. The first instance runs them; those of the other
// replicas take over what they made. Then all run the same graph, or the first computes for all
// what is equal on all.
class GraphOptimizer {
 public:
  GraphOptimizer(const tensorflow::ConfigProto& config, const Program& program,
                 const std::vector<int>& aliases, bool share)
      : config_(config),
        function_(program.entry),
        replicas_(program.instances * program.replicas),
        aliases_(aliases),
        keep_(program.replicas > 1),
        splits_(keep_ && program.instances == 1),
        share_(share && keep_) {}

  // Whether replicas share anything, and what variables, after the first call of Optimize.
  bool shares() const { return share_; }
  const std::set<int>& shared_variables() const { return values_.uniform_variables; }
  bool may_keep_state_in_kernels() const { return may_keep_state_in_kernels_; }
  const UniformStatistics& uniform() const { return uniform_; }

  Status Optimize(std::vector<std::string> ret_nodes, std::vector<std::string> keep_nodes,
                  FunctionLibraryDefinition* library, const tensorflow::DeviceSet& devices,
                  Device* cpu, std::unique_ptr<Graph>* graph) {
    if (graph_ != nullptr) {
      TF_RETURN_IF_ERROR(Update(library));
      *graph = Copy(*graph_);
      return tensorflow::OkStatus();
    }
    tensorflow::grappler::GrapplerItem::OptimizationOptions optimization;
    optimization.allow_pruning_stateful_and_dataset_ops = false;
    TF_RETURN_IF_ERROR(
        tensorflow::grappler::OptimizeGraph(std::move(ret_nodes), std::move(keep_nodes), library,
                                            devices, cpu, config_, function_, optimization, graph));
    for (tensorflow::Node* node : (*graph)->op_nodes()) Settle(node);
    for (FunctionLibraryDefinition* functions : {library, (*graph)->mutable_flib_def()}) {
      TF_RETURN_IF_ERROR(Settle(functions));
    }
    may_keep_state_in_kernels_ = MayKeepStateInKernels(**graph, *library);
    if (!keep_) return tensorflow::OkStatus();
    graph_ = Copy(**graph);
    std::unordered_set<std::string> factored;
    if (splits_) factored = FindFactoredSums(*graph_, *library);
    if (share_) TF_RETURN_IF_ERROR(Share(*library, graph));
    if (splits_) TF_RETURN_IF_ERROR(SplitAll(factored, library, graph));
    functions_ = library->ToProto();
    return tensorflow::OkStatus();
  }

 private:
  static std::unique_ptr<Graph> Copy(const Graph& graph) {
    auto copy = std::make_unique<Graph>(graph.flib_def());
    copy->Copy(graph);
    return copy;
  }

  // Makes the graph of replica 0, and that of the others out of the one that is kept.
  Status Share(const FunctionLibraryDefinition& library, std::unique_ptr<Graph>* graph) {
    // Nodes of copies have the numbers of their originals.
    *graph = Copy(*graph_);
    TF_RETURN_IF_ERROR(FindUniformValues(**graph, library, replicas_, aliases_, &values_));
    share_ = !values_.computed_alike.empty();
    uniform_.ops = (*graph)->num_op_nodes();
    for (const auto* nodes : {&values_.computed_alike, &values_.written_alike}) {
      uniform_.uniform_ops += std::count(nodes->begin(), nodes->end(), true);
    }
    if (!share_) return tensorflow::OkStatus();
    TF_RETURN_IF_ERROR(MakeLeader(values_, graph->get()));
    return MakeFollower(values_, graph_.get());
  }

  Status SplitAll(const std::unordered_set<std::string>& factored,
                  FunctionLibraryDefinition* library, std::unique_ptr<Graph>* graph) {
    for (Graph* each : {graph->get(), graph_.get()}) {
      TF_RETURN_IF_ERROR(SplitCollectives(factored, each));
      TF_RETURN_IF_ERROR(SplitCollectives(each->mutable_flib_def()));
    }
    return SplitCollectives(library);
  }

  // Gives `library` the functions that the optimizers made or changed.
  Status Update(FunctionLibraryDefinition* library) const {
    for (const tensorflow::FunctionDef& function : functions_.function()) {
      const std::string& name = function.signature().name();
      TF_RETURN_IF_ERROR(library->Contains(name) ? library->ReplaceFunction(name, function)
                                                 : library->AddFunctionDef(function));
    }
    return tensorflow::OkStatus();
  }

  const tensorflow::ConfigProto config_;
  const std::string function_;
  const int replicas_;  // of all processes
  const std::vector<int> aliases_;
  const bool keep_;    // whether there are several instances
  const bool splits_;  // whether replicas exchange without other processes
  bool share_;
  bool may_keep_state_in_kernels_ = false;
  UniformValues values_;
  UniformStatistics uniform_;
  std::unique_ptr<Graph> graph_;
  tensorflow::FunctionDefLibrary functions_;
};

}  // namespace

Status LoadProgram(std::shared_ptr<const Program> program, int ordinal,
                   const std::vector<int>& aliases, size_t num_outputs,
                   FunctionLibraryRuntime* runtime, LoadedProgram* loaded) {
  if (program->instances > 1) {
    TF_RETURN_IF_ERROR(Instances::CheckJoined(program->instances, program->instance));
  }
  const std::string cpu = runtime->device_mgr()->HostCPU()->name();
  tensorflow::ConfigProto config;
  if (runtime->config_proto() != nullptr) config = *runtime->config_proto();
  FunctionLibraryRuntime::InstantiateOptions options;
  options.target = cpu;
  options.is_multi_device_function = true;
  options.input_devices.assign(aliases.size(), cpu);
  options.output_devices.assign(num_outputs, cpu);
  options.lib_def = program->library.get();
  options.config_proto = config;
  if (RunsOnOneThread(*program)) options.executor_type = kOneThreadExecutor;
  bool share;
  TF_RETURN_IF_ERROR(tensorflow::ReadBoolFromEnvVar("TENSORFLOW_IPU_REPLICAS_SHARE",
                                                    /*default_val=*/true, &share));
  auto optimizer = std::make_shared<GraphOptimizer>(config, *program, aliases, share);
  options.optimize_graph_fn =
      [optimizer](std::vector<std::string> ret_nodes, std::vector<std::string> keep_nodes,
                  FunctionLibraryDefinition* library, const tensorflow::DeviceSet& devices,
                  Device* cpu_device, std::unique_ptr<Graph>* graph) {
        return optimizer->Optimize(std::move(ret_nodes), std::move(keep_nodes), library, devices,
                                   cpu_device, graph);
      };
  int lanes = 0;
  TF_RETURN_IF_ERROR(ChooseLanes(program->replicas, &lanes));
  std::vector<FunctionLibraryRuntime::Handle> functions;
  const auto needed = [&] {
    const bool each = lanes == 0 || optimizer->may_keep_state_in_kernels();
    const int leaders = optimizer->shares() ? 1 : 0;
    return each ? program->replicas : std::min(program->replicas, lanes + leaders);
  };
  while (functions.empty() || static_cast<int>(functions.size()) < needed()) {
    // Instances with the same state handle are one, with one set of kernels.
    options.state_handle =
        tensorflow::strings::StrCat("ipu_", ordinal, "_instance_", functions.size());
    FunctionLibraryRuntime::Handle handle;
    TF_RETURN_IF_ERROR(
        runtime->Instantiate(program->entry, tensorflow::AttrSlice(), options, &handle));
    functions.push_back(handle);
  }
  auto handles = std::make_shared<VariableHandles>(program->replicas);
  const bool shares_copies = share && program->replicas > 1;
  *loaded = {std::move(program),
             runtime,
             lanes,
             std::move(functions),
             shares_copies,
             optimizer->shares(),
             optimizer->shared_variables(),
             optimizer->uniform(),
             std::move(handles),
             nullptr};
  return tensorflow::OkStatus();
}

Status LoadProgramInClone(std::shared_ptr<const Program> program, int ordinal,
                          const std::vector<int>& aliases, size_t num_outputs,
                          FunctionLibraryRuntime* runtime, LoadedProgram* loaded) {
  struct Clone {
    std::unique_ptr<FunctionLibraryDefinition> library;  // outlives the other
    std::unique_ptr<tensorflow::ProcessFunctionLibraryRuntime> process;
  };
  auto clone = std::make_shared<Clone>();
  // The functions of a program come with it.
  TF_RETURN_IF_ERROR(
      runtime->Clone(&clone->library, &clone->process, &runtime, /*skip_flib_def=*/true));
  TF_RETURN_IF_ERROR(
      LoadProgram(std::move(program), ordinal, aliases, num_outputs, runtime, loaded));
  loaded->owned = std::move(clone);
  return tensorflow::OkStatus();
}

FunctionLibraryRuntime::Handle LoadedProgram::FunctionOf(size_t replica) const {
  if (static_cast<int>(functions.size()) == program->replicas) return functions[replica];
  if (!shares) return functions[replica % lanes];
  return functions[replica == 0 ? 0 : 1 + replica % lanes];
}

void UnloadProgram(const LoadedProgram& loaded) {
  for (const FunctionLibraryRuntime::Handle handle : loaded.functions) {
    loaded.runtime->ReleaseHandle(handle).IgnoreError();
  }
}

// Variables of at most as many elements are not worth a wait for other replicas.
static bool IsSmall(Var* variable) {
  constexpr int64_t kElements = 256;
  tensorflow::tf_shared_lock lock(*variable->mu());
  return variable->tensor()->NumElements() <= kElements;
}

std::vector<int> FindAliases(const std::vector<LaunchArgument>& arguments) {
  std::unordered_map<const Var*, int> first;
  std::vector<int> aliases;
  aliases.reserve(arguments.size());
  for (const LaunchArgument& argument : arguments) {
    const int own = static_cast<int>(aliases.size());
    Var* variable = argument.variable.get();
    const int alias = variable == nullptr ? own : first.emplace(variable, own).first->second;
    aliases.push_back(variable != nullptr && IsSmall(variable) ? -1 - alias : alias);
  }
  return aliases;
}

uint64_t Launch(std::shared_ptr<const LoadedProgram> loaded, int ordinal, Waiter waiter,
                const LaunchCaller& caller, std::vector<LaunchArgument> arguments,
                std::function<void(Status, std::vector<Tensor>)> done) {
  const uint64_t id = NextLaunchId();
  auto* launcher = new Launcher(id, std::move(loaded), ordinal, caller, std::move(done));
  launcher->Start(std::move(arguments), waiter);
  return id;
}

}  // namespace tensorflow_ipu
