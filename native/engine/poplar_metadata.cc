#include "engine/poplar_metadata.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <utility>

namespace tensorflow_ipu {
namespace {

using Indices = std::vector<int64_t>;
using Aliases = std::map<int64_t, int64_t>;

// Level 5 knows outputs that are equal on all replicas, level 4 hashing, level 3 which inputs
// share memory with which outputs. Before, the first inputs did, with the outputs in order.
using Describe5 = void(Indices& allocating, Indices& replica_identical, Aliases& aliases,
                       bool& is_elementwise, bool& is_stateless, bool& is_hashable,
                       uint32_t num_inputs);
using Describe4 = void(Indices& allocating, Aliases& aliases, bool& is_elementwise,
                       bool& is_stateless, bool& is_hashable, uint32_t num_inputs);
using Describe3 = void(Indices& allocating, Aliases& aliases, bool& is_elementwise,
                       bool& is_stateless, uint32_t num_inputs);
using Describe1 = void(Indices& allocating, uint32_t& num_inplace, bool& is_elementwise,
                       bool& is_stateless, uint32_t num_inputs);

// A place for a flag whose address is a number in the lower 32 bits.
class NumberedFlag {
 public:
  explicit NumberedFlag(uint32_t number) {
    // Any page that is free at a multiple of 2^32. Sanitizers have the lower ones.
    for (uintptr_t high = 1; high < 1 << 15 && page_ == nullptr; ++high) {
      void* const begin = reinterpret_cast<void*>(high << 32 | (number & ~(kPage - 1)));
      void* const page = mmap(begin, kPage, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (page == begin) page_ = static_cast<unsigned char*>(page);
      if (page != begin && page != MAP_FAILED) munmap(page, kPage);
    }
    if (page_ != nullptr) flag_ = page_ + number % kPage;
  }
  ~NumberedFlag() {
    if (page_ != nullptr) munmap(page_, kPage);
  }
  NumberedFlag(const NumberedFlag&) = delete;
  NumberedFlag& operator=(const NumberedFlag&) = delete;

  // Null if there is no such place.
  unsigned char* get() const { return flag_; }

 private:
  static constexpr uint32_t kPage = 4096;
  unsigned char* page_ = nullptr;
  unsigned char* flag_ = nullptr;
};

// Calls a function of level 5 that may have the arguments of level 4: public libraries do. C knows
// no types, so each argument is one that both can use, and what has changed tells them apart:
//
//    level 4      level 5             is
//    aliases      replica_identical   an empty map whose first 24 bytes are an empty vector
//    elementwise  aliases             an empty map, whose first byte nothing uses
//    stateless    elementwise         a flag
//    hashable     stateless           a flag
//    num_inputs   hashable            a flag at an address that ends with the number
//
// Returns false, without a call, where the layouts of the library of C++ are others.
bool CallEither(void* function, uint32_t num_inputs, PoplarMetadata* m) {
  constexpr unsigned char kUntouched = 0x7e;
  alignas(Aliases) unsigned char second[sizeof(Aliases)], third[sizeof(Aliases)];
  auto* const second_map = new (second) Aliases;
  auto* const third_map = new (third) Aliases;
  // The constructor of a map leaves some bytes as they were. In static storage they are zero, so
  // this map shows where the members are.
  static const unsigned char kZeros[sizeof(Indices)] = {};
  static Aliases empty_map;
  const NumberedFlag sixth(num_inputs);
  // No destructors: an empty map has no memory.
  if (std::memcmp(&empty_map, kZeros, sizeof kZeros) != 0 || sixth.get() == nullptr) return false;
  std::memset(second, 0, sizeof kZeros);
  unsigned char fourth = kUntouched, fifth = kUntouched;
  third[0] = kUntouched;
  *sixth.get() = kUntouched;
  auto* const second_vector = reinterpret_cast<Indices*>(second);
  reinterpret_cast<Describe5*>(function)(
      m->allocating, *second_vector, *third_map, reinterpret_cast<bool&>(fourth),
      reinterpret_cast<bool&>(fifth), reinterpret_cast<bool&>(*sixth.get()), num_inputs);
  const auto is_set = [](unsigned char flag) { return flag != kUntouched && flag != 0; };
  void* first_word = nullptr;  // of a vector: its begin
  std::memcpy(&first_word, second, sizeof first_word);
  const bool is_level_4 = third[0] != kUntouched || (first_word == nullptr && !second_map->empty());
  if (is_level_4) {
    m->aliases = std::move(*second_map);
    m->is_elementwise = is_set(third[0]);
    m->is_stateless = is_set(fourth);
    m->is_hashable = is_set(fifth);
    return true;
  }
  m->replica_identical = std::move(*second_vector);
  m->aliases = std::move(*third_map);
  m->is_elementwise = is_set(fourth);
  m->is_stateless = is_set(fifth);
  m->is_hashable = is_set(*sixth.get());
  return true;
}

}  // namespace

PoplarMetadata CallPoplarMetadata(void* function, int level, uint32_t num_inputs) {
  PoplarMetadata m;
  if (level >= 5) {
    if (CallEither(function, num_inputs, &m)) return m;
    reinterpret_cast<Describe5*>(function)(m.allocating, m.replica_identical, m.aliases,
                                           m.is_elementwise, m.is_stateless, m.is_hashable,
                                           num_inputs);
  } else if (level == 4) {
    reinterpret_cast<Describe4*>(function)(m.allocating, m.aliases, m.is_elementwise,
                                           m.is_stateless, m.is_hashable, num_inputs);
  } else if (level == 3) {
    reinterpret_cast<Describe3*>(function)(m.allocating, m.aliases, m.is_elementwise,
                                           m.is_stateless, num_inputs);
  } else {
    uint32_t num_inplace = 0;
    reinterpret_cast<Describe1*>(function)(m.allocating, num_inplace, m.is_elementwise,
                                           m.is_stateless, num_inputs);
    for (uint32_t i = 0; i < num_inplace; ++i) m.aliases[i] = i;
  }
  return m;
}

}  // namespace tensorflow_ipu
