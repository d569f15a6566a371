// Kinds of files with codelets.
#ifndef poplar_CodeletFileType_hpp
#define poplar_CodeletFileType_hpp

namespace poplar {

enum class CodeletFileType {
  PreprocessedAsmSource,
  AsmSource,
  CSource,
  CppSource,
  IrSource,
  Object,
  Auto
};

}  // namespace poplar

#endif  // poplar_CodeletFileType_hpp
