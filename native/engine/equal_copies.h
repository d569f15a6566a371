// Copies of variables that replicas hold, with one buffer for those that are equal.
#ifndef TENSORFLOW_IPU_ENGINE_EQUAL_COPIES_H_
#define TENSORFLOW_IPU_ENGINE_EQUAL_COPIES_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/platform/refcount.h"

namespace tensorflow_ipu {

// The variables of one launch of which each replica has a copy. Groups of replicas often have equal
// copies: weights that are split over groups, say. A replica that has written its copy looks for an
// equal one, bit by bit, and shares its buffer. TensorFlow's kernels copy a buffer that has other
// owners before they write it, so replicas that part later do so by themselves.
//
// Kernels may write a variable without its lock, so copies are compared while none of their
// replicas runs. Entries of remote buffers are shared one by one. Nothing writes them: a store
// replaces one. So they are compared with those of all replicas, at any time. Thread-safe.
class EqualCopies {
 public:
  // Shares nothing unless `shares`.
  explicit EqualCopies(bool shares) : shares_(shares) {}

  // Adds a variable: the copy of each replica.
  void Add(const std::vector<tensorflow::Var*>& copies);

  // Shares buffers of replica `own` with others of the replicas `first`, `first + stride` and so
  // on. None of them runs.
  void Share(int own, int first, int stride);

  // The launch ends, and no replica runs any more: shares buffers of all, and does no more. Returns
  // the bytes of all buffers.
  int64_t ShareAllAndClose();

 private:
  struct Variable {
    std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> copies;  // by replica
    // Whether two copies of a part were equal over a long way and then differed. To find that out
    // often takes time.
    std::deque<std::atomic<bool>> is_left;
    // By replica and entry of a remote buffer: the store that an equal one has been looked for.
    // Empty for other variables.
    std::vector<std::vector<uint64_t>> seen;
    tensorflow::mutex entries;  // two replicas must not take over each other's entries
  };

  static void Share(int own, int first, int stride, Variable* variable);
  static void ShareWhole(int own, int first, int stride, Variable* variable);
  static void ShareEntries(int own, Variable* variable);
  // Whether two values are equal. Notes in `is_left` that it is not worth asking again.
  static bool AreEqual(const tensorflow::Tensor& a, const tensorflow::Tensor& b,
                       std::atomic<bool>* is_left);
  static int64_t BytesOf(const Variable& variable);

  const bool shares_;
  tensorflow::mutex mu_;  // shared by those who share buffers
  std::deque<Variable> variables_ TF_GUARDED_BY(mu_);
};

}  // namespace tensorflow_ipu

#endif  // TENSORFLOW_IPU_ENGINE_EQUAL_COPIES_H_
