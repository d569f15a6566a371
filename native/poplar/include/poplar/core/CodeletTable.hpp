// What a .gp file tells of its vertices. popc writes a source that fills this in; the library reads
// it.
#ifndef poplar_core_CodeletTable_hpp
#define poplar_core_CodeletTable_hpp

#include <cstddef>

namespace poplar {
namespace core {

/// Of the form of these structs: a file of another number was made by another release.
constexpr unsigned kCodeletTableVersion = 1;

enum class FieldAccess : unsigned { State, Read, Write, ReadWrite };
/// One element; elements; a list of edges of one element each; a list of regions.
enum class FieldForm : unsigned { Scalar, Vector, EdgeList, RegionList };
enum class VertexKind : unsigned { Vertex, MultiVertex, Supervisor };

struct CodeletField {
  const char *name;
  FieldAccess access;
  FieldForm form;
  /// Of the elements: a name of the host's compiler.
  const char *type;
  std::size_t offset;
  std::size_t elementSize;
  /// Of the first element, as the vertex expects it.
  std::size_t align;
};

struct CodeletType {
  /// As the compiler prints it.
  const char *name;
  VertexKind kind;
  std::size_t size, align;
  const CodeletField *fields;
  std::size_t numFields;
  bool (*run)(void *vertex, unsigned worker);
};

struct CodeletTable {
  unsigned version;
  const CodeletType *types;
  std::size_t numTypes;
};

/// The name of the function that returns the table.
constexpr const char *kCodeletTableSymbol = "poplar_codelet_table";

}  // namespace core
}  // namespace poplar

#endif  // poplar_core_CodeletTable_hpp
