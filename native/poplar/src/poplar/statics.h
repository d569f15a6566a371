// Static variables of codelets: on the chip, each tile has its own.
#ifndef TENSORFLOW_IPU_POPLAR_STATICS_H_
#define TENSORFLOW_IPU_POPLAR_STATICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace poplar::core {

// The variables with static storage that the codelets of a loaded library may write.
class Statics {
 public:
  // Of the library of a handle of dlopen, whose file has these contents.
  Statics(void* handle, const std::string& contents);

  bool empty() const { return variables_.empty(); }
  // Their values when the library was loaded, one after the other.
  const std::vector<char>& initial() const { return initial_; }

  void Save(std::vector<char>* values) const;
  void Restore(const std::vector<char>& values) const;

  // Held while vertices run that use them: the library is in memory once.
  std::mutex& mutex() const { return mutex_; }

 private:
  struct Variable {
    char* address;
    size_t bytes;
  };

  std::vector<Variable> variables_;
  std::vector<char> initial_;
  mutable std::mutex mutex_;
};

// Values by tile.
using StaticsByTile = std::map<uint32_t, std::vector<char>>;

// Gives the static variables of a library the values of one tile after the other.
class StaticsInTurn {
 public:
  StaticsInTurn(const Statics& statics, StaticsByTile* values)
      : statics_(statics), values_(*values), lock_(statics.mutex()) {}
  ~StaticsInTurn() { Leave(); }
  StaticsInTurn(const StaticsInTurn&) = delete;
  StaticsInTurn& operator=(const StaticsInTurn&) = delete;

  // A vertex of a tile is next.
  void Enter(uint32_t tile);

 private:
  void Leave();

  const Statics& statics_;
  StaticsByTile& values_;
  const std::lock_guard<std::mutex> lock_;
  uint32_t tile_ = 0;
  std::vector<char>* current_ = nullptr;  // of the tile
};

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_STATICS_H_
