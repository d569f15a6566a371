// Streams between host and device.
#ifndef poplar_DataStream_hpp
#define poplar_DataStream_hpp

#include <poplar/DataStreamType.hpp>
#include <poplar/ReplicatedStreamMode.hpp>
#include <poplar/Type.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace poplar {

namespace core {
struct StreamData;
struct BufferData;
struct Access;
}  // namespace core

/// Elements that the host gives to a program, or takes from it.
class DataStream {
 public:
  std::string handle() const;
  std::size_t numElements() const;
  Type elementType() const;
  unsigned replicationFactor() const;
  ReplicatedStreamMode replicatedMode() const;
  DataStreamType type() const;
  bool valid() const { return data_ != nullptr; }

 private:
  friend struct core::Access;
  std::shared_ptr<const core::StreamData> data_;
};

/// Rows of elements in memory of the host.
class RemoteBuffer {
 public:
  std::string handle() const;
  std::size_t numElements() const;
  std::size_t getRepeats() const;
  Type elementType() const;
  bool isRearrangeOnHost() const;
  bool isOptimisedForMemory() const;
  bool valid() const { return data_ != nullptr; }

 private:
  friend struct core::Access;
  std::shared_ptr<const core::BufferData> data_;
};

}  // namespace poplar

#endif  // poplar_DataStream_hpp
