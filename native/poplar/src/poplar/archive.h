// Binary form of values: one function for each type writes and reads it.
#ifndef TENSORFLOW_IPU_POPLAR_ARCHIVE_H_
#define TENSORFLOW_IPU_POPLAR_ARCHIVE_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "poplar/OptionFlags.hpp"
#include "poplar/Type.hpp"
#include "poplar/exceptions.hpp"

namespace poplar::core {

// Appends values to bytes.
class Writer {
 public:
  static constexpr bool kReads = false;
  explicit Writer(std::string* bytes) : bytes_(bytes) {}
  void Bytes(void* data, size_t size) { bytes_->append(static_cast<const char*>(data), size); }
  size_t Count(size_t count) {
    Bytes(&count, sizeof count);
    return count;
  }

 private:
  std::string* bytes_;
};

// Reads values in the order in which they were written.
class Reader {
 public:
  static constexpr bool kReads = true;
  explicit Reader(const std::string& bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}
  void Bytes(void* data, size_t size) {
    if (size > static_cast<size_t>(end_ - at_)) {
      throw poplar_error("The data of an executable end early: they are damaged.");
    }
    std::memcpy(data, at_, size);
    at_ += size;
  }
  size_t Count(size_t) {
    size_t count = 0;
    Bytes(&count, sizeof count);
    // An element has a byte at least.
    if (count > static_cast<size_t>(end_ - at_)) {
      throw poplar_error("A count in an executable is too large: it is damaged.");
    }
    return count;
  }

 private:
  const char* at_;
  const char* end_;
};

template <typename A, typename T>
std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>> Transfer(A& archive, T& value) {
  archive.Bytes(&value, sizeof value);
}

template <typename A>
void Transfer(A& archive, std::string& text) {
  text.resize(archive.Count(text.size()));
  archive.Bytes(text.data(), text.size());
}

template <typename A>
void Transfer(A& archive, Type& type) {
  unsigned char id = static_cast<unsigned char>(type.id());
  Transfer(archive, id);
  if (A::kReads) type = Type(id);
}

template <typename A, typename First, typename Second>
void Transfer(A& archive, std::pair<First, Second>& pair) {
  Transfer(archive, pair.first);
  Transfer(archive, pair.second);
}

template <typename A, typename T>
void Transfer(A& archive, std::vector<T>& values) {
  values.resize(archive.Count(values.size()));
  if constexpr (std::is_arithmetic_v<T>) {
    if (!values.empty()) archive.Bytes(values.data(), values.size() * sizeof(T));
  } else {
    for (T& value : values) Transfer(archive, value);
  }
}

template <typename A, typename Key, typename Value>
void Transfer(A& archive, std::map<Key, Value>& map) {
  std::vector<std::pair<Key, Value>> items(map.begin(), map.end());
  Transfer(archive, items);
  if (A::kReads) map = std::map<Key, Value>(items.begin(), items.end());
}

template <typename A>
void Transfer(A& archive, OptionFlags& options) {
  std::map<std::string, std::string> items(options.begin(), options.end());
  Transfer(archive, items);
  for (const auto& [name, value] : items) options.set(name, value);
}

// All of several values.
template <typename A, typename... T>
void TransferAll(A& archive, T&... values) {
  (Transfer(archive, values), ...);
}

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_ARCHIVE_H_
