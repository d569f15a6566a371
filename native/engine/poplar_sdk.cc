#include "engine/poplar_sdk.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/path.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::Env;
using tensorflow::Status;

constexpr char kLibrary[] = "libpoplar.so";
// In mangled names of Poplar's functions.
constexpr char kNamespace[] = "6poplar";

tensorflow::mutex& Mutex() {
  static auto* mu = new tensorflow::mutex;
  return *mu;
}

std::string& Popc() {
  static auto* command = new std::string("popc");
  return *command;
}

// The folder with Poplar's libraries: its parent is a neighbor of the plugin's folder.
std::string Folder() {
  Dl_info info;
  dladdr(reinterpret_cast<const void*>(&UsesPoplar), &info);
  const std::string plugins(tensorflow::io::Dirname(info.dli_fname));
  return tensorflow::io::JoinPath(tensorflow::io::Dirname(plugins), "tensorflow_ipu_sdk", "lib");
}

Status Load(const std::string& name, int mode, void** handle) {
  const std::string path = tensorflow::io::JoinPath(Folder(), name);
  *handle = dlopen(path.c_str(), RTLD_NOW | mode);
  if (*handle != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::NotFound(
      "Poplar does not load: ", dlerror(),
      ". Install the package again: pip install --force-reinstall --no-deps tensorflow_ipu");
}

template <typename Function>
Status Find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::Internal(
      "Poplar in ", Folder(), " is of another release: it has no function ", name,
      ". Install the package again: pip install --force-reinstall --no-deps tensorflow_ipu");
}

Status LoadSdk(PoplarSdk* sdk) {
  void* library = nullptr;
  TF_RETURN_IF_ERROR(Load(kLibrary, RTLD_LOCAL, &library));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_make", &sdk->make));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_free", &sdk->free));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_alias", &sdk->alias));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_describe", &sdk->describe));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_exchanges", &sdk->exchanges));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_instantiate", &sdk->instantiate));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_instance_free", &sdk->free_instance));
  TF_RETURN_IF_ERROR(Find(library, "poplar_embedding_run", &sdk->run));
  poplar_set_popc_t* set_popc;
  TF_RETURN_IF_ERROR(Find(library, "poplar_set_popc", &set_popc));
  set_popc(Popc().c_str());
  return tensorflow::OkStatus();
}

}  // namespace

bool UsesPoplar(const DynamicSection& library) {
  const auto& needed = library.needed;
  return std::find(needed.begin(), needed.end(), kLibrary) != needed.end() ||
         library.names.find(kNamespace) != std::string::npos;
}

Status PoplarSdk::Get(const PoplarSdk** sdk) {
  static const PoplarSdk* loaded = nullptr;
  tensorflow::mutex_lock lock(Mutex());
  if (loaded == nullptr) {
    auto* loading = new PoplarSdk;
    const Status status = LoadSdk(loading);
    if (!status.ok()) {
      delete loading;
      return status;
    }
    loaded = loading;
  }
  *sdk = loaded;
  return tensorflow::OkStatus();
}

Status PoplarSdk::LoadFor(const DynamicSection& library) {
  const PoplarSdk* sdk;
  TF_RETURN_IF_ERROR(Get(&sdk));
  void* handle;
  std::vector<std::string> all;
  TF_RETURN_IF_ERROR(Env::Default()->GetChildren(Folder(), &all));
  std::sort(all.begin(), all.end());
  bool named = false;
  for (const std::string& name : all) {
    const auto& needed = library.needed;
    if (std::find(needed.begin(), needed.end(), name) == needed.end()) continue;
    TF_RETURN_IF_ERROR(Load(name, RTLD_LOCAL, &handle));
    named |= name == kLibrary;
  }
  if (named) return tensorflow::OkStatus();
  // It was linked without naming what it needs, so its symbols are looked for in all libraries.
  for (const std::string& name : all) TF_RETURN_IF_ERROR(Load(name, RTLD_GLOBAL, &handle));
  return tensorflow::OkStatus();
}

void PoplarSdk::SetPopc(const std::string& command) {
  tensorflow::mutex_lock lock(Mutex());
  Popc() = command;
}

}  // namespace tensorflow_ipu
