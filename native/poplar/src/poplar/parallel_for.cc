#include "parallel_for.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "float_traps.h"

namespace poplar::core {
namespace {

// Threads that wait for work. The caller of `Run` works, too.
class Workers {
 public:
  static Workers& Get() {
    static auto* workers = new Workers;
    return *workers;
  }

  unsigned count() const { return static_cast<unsigned>(threads_.size()) + 1; }

  // Calls `task` on the threads that are free, and on this one: it returns when all work is taken.
  // Waits for those that have begun, and for no others: the machine may be busy.
  void Run(const std::function<void()>& task) {
    if (busy_.exchange(true)) return task();  // for another caller, or the one around this
    {
      std::lock_guard<std::mutex> lock(mu_);
      task_ = &task;
      ++round_;
    }
    start_.notify_all();
    task();
    {
      std::unique_lock<std::mutex> lock(mu_);
      task_ = nullptr;
      done_.wait(lock, [this] { return active_ == 0; });
    }
    busy_ = false;
  }

 private:
  Workers() {
    const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    for (unsigned i = 1; i < cores; ++i) {
      threads_.emplace_back([this] { Loop(); });
      threads_.back().detach();
    }
  }

  void Loop() {
    uint64_t seen = 0;
    while (true) {
      const std::function<void()>* task;
      {
        std::unique_lock<std::mutex> lock(mu_);
        start_.wait(lock, [&] { return task_ != nullptr && round_ != seen; });
        seen = round_;
        task = task_;
        ++active_;
      }
      (*task)();
      std::lock_guard<std::mutex> lock(mu_);
      if (--active_ == 0) done_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::atomic<bool> busy_{false};
  std::mutex mu_;
  std::condition_variable start_, done_;
  const std::function<void()>* task_ = nullptr;  // null when all its work is taken
  size_t active_ = 0;                            // threads that work for it
  uint64_t round_ = 0;
};

}  // namespace

void ParallelFor(size_t count, size_t grain, const std::function<void(size_t, size_t)>& work) {
  if (count == 0) return;
  const size_t parts = std::min<size_t>((count + grain - 1) / grain, 4 * Workers::Get().count());
  if (parts <= 1 || Workers::Get().count() == 1) {
    work(0, count);
    return;
  }
  std::atomic<size_t> next{0};
  std::atomic<unsigned> status{0};
  const unsigned before = FloatStatus();
  std::mutex mu;
  std::exception_ptr error;
  Workers::Get().Run([&] {
    ClearFloatStatus();
    for (size_t part = next++; part < parts; part = next++) {
      try {
        work(count * part / parts, count * (part + 1) / parts);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mu);
        if (error == nullptr) error = std::current_exception();
      }
    }
    status |= FloatStatus();
  });
  RaiseFloatStatus(before | status);
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace poplar::core
