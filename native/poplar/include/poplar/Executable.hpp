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

/// Programs compiled for a target.
class Executable {
 public:
  Executable();
  Executable(Executable &&) noexcept;
  Executable &operator=(Executable &&) noexcept;
  ~Executable();

  /// Writes the programs with their codelets. Any process can load and run them, without a graph.
  void serialize(std::ostream &out) const;
  /// Reads what `serialize` wrote, and nothing after it. Throws poplar_error for other data.
  static Executable deserialize(std::istream &in);

  bool isAvailable() const { return data_ != nullptr; }

 private:
  friend struct core::Access;
  std::shared_ptr<core::ExecutableData> data_;
};

}  // namespace poplar

#endif  // poplar_Executable_hpp
