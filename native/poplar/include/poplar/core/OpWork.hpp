// Multiply-adds of the libraries' ops, for profiles and plans.
#ifndef poplar_core_OpWork_hpp
#define poplar_core_OpWork_hpp

#include <poplar/Target.hpp>
#include <poplar/Type.hpp>
#include <poplar/core/LibraryOp.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace poplar {
namespace core {

/// Products {groups, rows, inner} * {groups, inner, columns}, `times` times one after the other.
struct MatrixWork {
  std::uint64_t times, groups, rows, inner, columns;

  std::uint64_t multiplyAdds() const { return times * groups * rows * inner * columns; }
};

using WorkFunction = std::function<MatrixWork(const KernelSpec &)>;

/// Says which products the ops of a kernel are. An op of a kernel without them is bound by its
/// bytes.
struct WorkRegistration {
  WorkRegistration(const std::string &kernel, WorkFunction function);
};

/// The products of an op, or `times` of 0 if its kernel has none.
MatrixWork workOf(const KernelSpec &spec);

/// Multiply-adds of a tile in one cycle, for operands of `type`.
unsigned multiplyAddsPerCycle(const Target &target, const Type &type);

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_OpWork_hpp
