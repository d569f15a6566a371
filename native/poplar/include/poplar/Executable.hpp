// Compiled programs.
#ifndef poplar_Executable_hpp
#define poplar_Executable_hpp

#include <istream>
#include <memory>
#include <ostream>

namespace poplar {

namespace core {
struct ExecutableData;
struct Access;
}  // namespace core

/// Programs compiled for a target. May be written to a file and loaded without a graph.
class Executable {
 public:
  Executable();
  Executable(Executable &&) noexcept;
  Executable &operator=(Executable &&) noexcept;
  ~Executable();

  bool isAvailable() const { return data_ != nullptr; }
  void serialize(std::ostream &out) const;
  /// Throws poplar_error for what is no executable of this version.
  static Executable deserialize(std::istream &in);

 private:
  friend struct core::Access;
  std::shared_ptr<core::ExecutableData> data_;
};

}  // namespace poplar

#endif  // poplar_Executable_hpp
