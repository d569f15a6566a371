// Shared libraries of users, for custom operations.
#ifndef TENSORFLOW_IPU_ENGINE_USER_LIBRARY_H_
#define TENSORFLOW_IPU_ENGINE_USER_LIBRARY_H_

#include <string>
#include <utility>

#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/status.h"

namespace tensorflow_ipu {

// One loaded library. It stays loaded until the process ends: programs keep its functions.
class UserLibrary {
 public:
  // Gives the library of a file with the contents that `hash` stands for, if they were loaded
  // before; else with those that the file has now. Each is loaded once.
  static tensorflow::Status Open(const std::string& path, const std::string& hash,
                                 UserLibrary** library);

  // Returns what stands for the contents of a file; "" if it cannot be read.
  static std::string HashOf(const std::string& path);

  const std::string& path() const { return path_; }
  // Whether it is built against Poplar.
  bool uses_poplar() const { return uses_poplar_; }
  // Stands for the contents of the file.
  const std::string& hash() const { return hash_; }

  // The address of a symbol; null if there is none.
  void* Find(const std::string& symbol) const;
  // The same, or an error.
  tensorflow::Status Get(const std::string& symbol, void** address) const;

  // Held while a function of the host runs, which need not be made for threads.
  tensorflow::mutex& calls() { return calls_; }

 private:
  UserLibrary(std::string path, std::string hash, void* handle, bool uses_poplar)
      : path_(std::move(path)),
        hash_(std::move(hash)),
        handle_(handle),
        uses_poplar_(uses_poplar) {}

  const std::string path_;
  const std::string hash_;
  void* const handle_;
  const bool uses_poplar_;
  tensorflow::mutex calls_;
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_USER_LIBRARY_H_
