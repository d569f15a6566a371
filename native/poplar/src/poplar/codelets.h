// Vertex types, and the files that have them.
#ifndef TENSORFLOW_IPU_POPLAR_CODELETS_H_
#define TENSORFLOW_IPU_POPLAR_CODELETS_H_

#include <memory>
#include <string>
#include <vector>

#include "poplar/ArrayRef.hpp"
#include "poplar/Type.hpp"
#include "poplar/core/CodeletTable.hpp"
#include "statics.h"

namespace poplar::core {

struct VertexField {
  std::string name;
  FieldAccess access;
  FieldForm form;
  Type type;
  size_t offset;
  size_t align;
};

struct VertexType {
  std::string name;
  VertexKind kind;
  size_t size, align;
  std::vector<VertexField> fields;
  bool (*run)(void*, unsigned);

  // The index of a field, or -1.
  int Find(const std::string& field) const;
};

// A loaded .gp file.
class CodeletLibrary {
 public:
  // Throws graph_object_load_error for what is none.
  static std::shared_ptr<const CodeletLibrary> Load(const std::string& path);
  // Loads the bytes of a .gp file.
  static std::shared_ptr<const CodeletLibrary> FromContents(const std::string& contents);
  // Compiles sources with popc and loads what it makes. Throws graph_program_compilation_error or
  // link_error with the compiler's text.
  static std::shared_ptr<const CodeletLibrary> Compile(const std::vector<std::string>& sources,
                                                       const std::string& flags);
  ~CodeletLibrary();
  CodeletLibrary(const CodeletLibrary&) = delete;
  CodeletLibrary& operator=(const CodeletLibrary&) = delete;

  const std::string& path() const { return path_; }
  // The bytes of the file, for executables.
  std::string Contents() const;
  const std::vector<VertexType>& types() const { return types_; }
  // Tells vertices of this thread their tile; null if none asks for it.
  void (*set_tile() const)(unsigned) { return set_tile_; }
  // Its static variables, of which each tile has its own.
  const Statics& statics() const { return *statics_; }

 private:
  CodeletLibrary() = default;
  // Loads a file with these contents.
  void Open(const std::string& path, const std::string& contents);

  std::string path_;
  void* handle_ = nullptr;
  int file_ = -1;  // open for as long as the library is
  std::vector<VertexType> types_;
  void (*set_tile_)(unsigned) = nullptr;
  std::unique_ptr<Statics> statics_;
};

// Sets the command that compiles codelets where TENSORFLOW_IPU_POPC does not name one.
void SetPopc(const std::string& command);

// The name of a vertex type as `poputil::templateVertex` writes it, from what the compiler prints.
std::string VertexName(const std::string& pretty);

}  // namespace poplar::core

#endif  // TENSORFLOW_IPU_POPLAR_CODELETS_H_
