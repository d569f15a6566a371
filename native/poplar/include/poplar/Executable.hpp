// Compiled programs.
#ifndef poplar_Executable_hpp
#define poplar_Executable_hpp

#include <memory>

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

  bool isAvailable() const { return data_ != nullptr; }

 private:
  friend struct core::Access;
  std::shared_ptr<core::ExecutableData> data_;
};

}  // namespace poplar

#endif  // poplar_Executable_hpp
