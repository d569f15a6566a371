#include "streams.h"

#include <algorithm>
#include <utility>

#include "poplar/exceptions.hpp"

namespace poplar::core {

HostStream::HostStream(const StreamCode& code, unsigned replicas, unsigned prefetch)
    : handle_(code.handle),
      to_device_(code.to_device),
      broadcast_(code.broadcast),
      bytes_(code.bytes),
      prefetch_(prefetch),
      ends_(replicas) {}

void HostStream::Connect(char* begin, char* end) {
  if (end != nullptr && static_cast<uint64_t>(end - begin) < bytes_) {
    throw stream_connection_error("A transfer of the stream '" + handle_ + "' has " +
                                  std::to_string(bytes_) + " bytes, the array " +
                                  std::to_string(end - begin) + ".");
  }
  begin_ = begin;
  end_ = end;
  for (End& replica : ends_) replica = End();
}

void HostStream::Connect(unsigned replica, StreamCallback* callback) {
  begin_ = end_ = nullptr;
  ends_[replica] = End();
  ends_[replica].callback = callback;
}

void HostStream::InvalidatePrefetched() {
  for (End& end : ends_) {
    if (end.early.empty()) continue;
    end.early.clear();
    end.callback->invalidatePrefetched();
  }
}

void HostStream::CheckConnected(unsigned replica) const {
  if (begin_ != nullptr || ends_[replica].callback != nullptr) return;
  throw stream_connection_error(
      "The stream '" + handle_ + "' is used, and nothing is connected to it" +
      (ends_.size() > 1 ? " for replica " + std::to_string(replica) : std::string()) + ".");
}

char* HostStream::PlaceInArray(unsigned replica) const {
  if (begin_ == nullptr) return nullptr;
  const uint64_t transfers = end_ == nullptr ? 0 : ends_[replica].transfers;
  const uint64_t block = broadcast_ ? transfers : transfers * ends_.size() + replica;
  const uint64_t blocks =
      end_ == nullptr ? block + 1 : (end_ - begin_) / std::max<uint64_t>(1, bytes_);
  return begin_ + block % std::max<uint64_t>(1, blocks) * bytes_;
}

// Fills a block by the callback, or takes one that it filled early; then lets it fill more.
void HostStream::Fetch(End* end, std::vector<char>* block) {
  if (!end->early.empty()) {
    *block = std::move(end->early.front());
    end->early.pop_front();
  } else {
    block->resize(bytes_);
    end->callback->fetch(block->data());
  }
  end->callback->complete();
  while (end->early.size() < prefetch_) {
    std::vector<char> next(bytes_);
    if (end->callback->prefetch(next.data()) != StreamCallback::Result::Success) break;
    end->early.push_back(std::move(next));
  }
}

const char* HostStream::TakeShared(End* end) {
  const uint64_t index = end->transfers - first_shared_;
  if (index == shared_.size()) {
    shared_.emplace_back();
    Fetch(&ends_[0], &shared_.back());
  }
  return shared_[index].data();
}

const char* HostStream::Take(unsigned replica) {
  CheckConnected(replica);
  if (const char* place = PlaceInArray(replica)) return place;
  End* const end = &ends_[replica];
  if (broadcast_) return TakeShared(end);
  Fetch(end, &end->block);
  return end->block.data();
}

char* HostStream::Place(unsigned replica) {
  CheckConnected(replica);
  if (char* place = PlaceInArray(replica)) return place;
  ends_[replica].block.resize(bytes_);
  return ends_[replica].block.data();
}

void HostStream::Done(unsigned replica) {
  End& end = ends_[replica];
  ++end.transfers;
  if (begin_ != nullptr) return;
  if (!to_device_) {
    end.callback->fetch(end.block.data());
    end.callback->complete();
  }
  // A block that all replicas have taken.
  const auto least = std::min_element(ends_.begin(), ends_.end(), [](const End& a, const End& b) {
    return a.transfers < b.transfers;
  });
  if (!shared_.empty() && least->transfers > first_shared_) {
    shared_.pop_front();
    ++first_shared_;
  }
}

}  // namespace poplar::core
