// The host's ends of streams.
#ifndef TENSORFLOW_IPU_POPLAR_STREAMS_H_
#define TENSORFLOW_IPU_POPLAR_STREAMS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "executable_data.h"
#include "poplar/StreamCallback.hpp"

namespace poplar::core {

// One stream of all replicas. Block k of an array or callback is for replica k % replicas, unless
// all get the same.
class HostStream {
 public:
  // `prefetch`: transfers that a callback may fill early.
  HostStream(const StreamCode& code, unsigned replicas, unsigned prefetch);

  // Blocks in an array, from its begin again at its end. Without an end, each transfer is at begin.
  void Connect(char* begin, char* end);
  // A callback of one replica.
  void Connect(unsigned replica, StreamCallback* callback);
  // Drops the blocks that were filled early, at the end of a program.
  void InvalidatePrefetched();

  // The next block to the device; it is valid until `Done`.
  const char* Take(unsigned replica);
  // The place for the next block from the device.
  char* Place(unsigned replica);
  // A block has been moved.
  void Done(unsigned replica);

 private:
  struct End {
    StreamCallback* callback = nullptr;
    uint64_t transfers = 0;
    std::deque<std::vector<char>> early;  // filled by `prefetch`
    std::vector<char> block;
  };

  // The place of the next block in the array, or null for a callback.
  char* PlaceInArray(unsigned replica) const;
  void CheckConnected(unsigned replica) const;
  void Fetch(End* end, std::vector<char>* block);
  const char* TakeShared(End* end);

  std::string handle_;
  bool to_device_, broadcast_;
  uint64_t bytes_;
  unsigned prefetch_;
  char* begin_ = nullptr;
  char* end_ = nullptr;
  std::vector<End> ends_;  // of the replicas
  // Blocks of a callback for all replicas which some have not taken, and the number of the first.
  std::deque<std::vector<char>> shared_;
  uint64_t first_shared_ = 0;
};

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_STREAMS_H_
