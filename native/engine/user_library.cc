#include "engine/user_library.h"

#include <dlfcn.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "engine/poplar_sdk.h"
#include "engine/shared_object.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/errors.h"
#include "tensorflow/core/platform/hash.h"
#include "tensorflow/core/platform/strcat.h"

namespace tensorflow_ipu {
namespace {

using tensorflow::Env;
using tensorflow::Status;

struct Registry {
  tensorflow::mutex mu;
  // By path and hash.
  std::map<std::pair<std::string, std::string>, UserLibrary*> libraries TF_GUARDED_BY(mu);
  // Paths that dlopen knows.
  std::set<std::string> opened TF_GUARDED_BY(mu);
};

Registry& Libraries() {
  static auto* registry = new Registry;
  return *registry;
}

// 128 bits: nobody makes libraries that collide by chance.
std::string Hash(const std::string& contents) {
  const uint64_t first = tensorflow::Hash64(contents.data(), contents.size(), /*seed=*/1);
  const uint64_t second = tensorflow::Hash64(contents.data(), contents.size(), /*seed=*/2);
  return absl::StrCat(absl::Hex(first, absl::kZeroPad16), absl::Hex(second, absl::kZeroPad16));
}

Status Load(const std::string& path, const std::string& file, void** handle) {
  *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (*handle != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::InvalidArgument(
      "The library ", path, " of a custom operation does not load: ", dlerror(),
      ". Compile it with -shared -fPIC, and link what it needs.");
}

// dlopen gives the library it has whatever became of the file, so changed contents are loaded from
// a file of another name.
Status LoadCopy(const std::string& path, const std::string& contents, void** handle) {
  std::string copy;
  if (!Env::Default()->LocalTempFilename(&copy)) {
    return tensorflow::errors::FailedPrecondition(
        "The library ", path,
        " has changed since this process loaded it, and there is no folder "
        "for temporary files to load it from again. Start a new process.");
  }
  TF_RETURN_IF_ERROR(tensorflow::WriteStringToFile(Env::Default(), copy, contents));
  const Status status = Load(path, copy, handle);
  Env::Default()->DeleteFile(copy).IgnoreError();
  return status;
}

}  // namespace

Status UserLibrary::Open(const std::string& path, const std::string& hash, UserLibrary** library) {
  Registry& registry = Libraries();
  tensorflow::mutex_lock lock(registry.mu);
  const auto found = registry.libraries.find({path, hash});
  if (found != registry.libraries.end()) {
    *library = found->second;
    return tensorflow::OkStatus();
  }
  std::string contents;
  const Status read = tensorflow::ReadFileToString(Env::Default(), path, &contents);
  if (!read.ok()) {
    return tensorflow::errors::NotFound("The library of a custom operation, ", path,
                                        ", cannot be read: ", read.message(),
                                        ". Check the argument library_path.");
  }
  const std::string current = Hash(contents);
  const auto same = registry.libraries.find({path, current});
  if (same != registry.libraries.end()) {
    *library = same->second;
    return tensorflow::OkStatus();
  }
  const DynamicSection section = ReadDynamicSection(contents);
  const bool uses_poplar = UsesPoplar(section);
  if (uses_poplar) TF_RETURN_IF_ERROR(PoplarSdk::LoadFor(section));
  void* handle = nullptr;
  TF_RETURN_IF_ERROR(registry.opened.count(path) > 0 ? LoadCopy(path, contents, &handle)
                                                     : Load(path, path, &handle));
  registry.opened.insert(path);
  *library = new UserLibrary(path, current, handle, uses_poplar);
  registry.libraries[{path, current}] = *library;
  return tensorflow::OkStatus();
}

std::string UserLibrary::HashOf(const std::string& path) {
  std::string contents;
  const bool can_be_read = tensorflow::ReadFileToString(Env::Default(), path, &contents).ok();
  return can_be_read ? Hash(contents) : "";
}

void* UserLibrary::Find(const std::string& symbol) const { return dlsym(handle_, symbol.c_str()); }

Status UserLibrary::Get(const std::string& symbol, void** address) const {
  *address = Find(symbol);
  if (*address != nullptr) return tensorflow::OkStatus();
  return tensorflow::errors::NotFound(
      "The library ", path_, " has no symbol ", symbol,
      ". Define it with extern \"C\" and default visibility, or check the argument op_name.");
}

}  // namespace tensorflow_ipu
