// Names and source lines of what a program makes, for errors and reports.
#ifndef poplar_DebugContext_hpp
#define poplar_DebugContext_hpp

#include <poplar/ProfileValue.hpp>
#include <poplar/StringRef.hpp>

#include <cstdint>
#include <string>

namespace poplar {

using DebugId = std::uint64_t;

/// A line of the user's source.
class SourceLocation {
 public:
  SourceLocation() : function_(""), file_(""), line_(0) {}
  SourceLocation(const char *function, const char *file, unsigned line)
      : function_(function), file_(file), line_(line) {}
  static SourceLocation Current(const char *function = __builtin_FUNCTION(),
                                const char *file = __builtin_FILE(),
                                unsigned line = __builtin_LINE()) {
    return SourceLocation(function, file, line);
  }

  const char *getFunctionName() const { return function_; }
  const char *getFileName() const { return file_; }
  unsigned getLineNumber() const { return line_; }
  bool isValid() const { return line_ != 0; }

 private:
  const char *function_;
  const char *file_;
  unsigned line_;
};

class DebugInfo;

/// A name, and the path of what it belongs to.
class DebugNameAndId {
 public:
  DebugNameAndId(std::string name = "", DebugId id = DebugId(), std::string parentPath = "");
  DebugNameAndId(const char *name);
  DebugNameAndId(DebugId id);
  DebugNameAndId(const DebugInfo &info, std::string name = "");
  DebugNameAndId(const DebugNameAndId &parent, StringRef name);

  std::string getPathName() const;
  DebugId getId() const { return id_; }

 private:
  std::string name_, parentPath_;
  DebugId id_;
};

/// The name of what a call makes, with the caller's line.
class DebugContext {
 public:
  DebugContext(SourceLocation location = SourceLocation::Current()) : location_(location) {}
  DebugContext(const char *name, SourceLocation location = SourceLocation::Current())
      : path_(name), location_(location) {}
  DebugContext(StringRef name, SourceLocation location = SourceLocation::Current())
      : path_(name.cloneAsString()), location_(location) {}
  DebugContext(std::string name, SourceLocation location = SourceLocation::Current())
      : path_(static_cast<std::string &&>(name)), location_(location) {}
  DebugContext(const DebugInfo &parent, std::string name = "",
               SourceLocation location = SourceLocation::Current());
  DebugContext(const DebugNameAndId &parent, std::string name = "",
               SourceLocation location = SourceLocation::Current());
  DebugContext(const DebugContext &parent, StringRef name,
               SourceLocation location = SourceLocation::Current());

  std::string getPathName() const { return path_; }
  const SourceLocation &location() const { return location_; }

 private:
  std::string path_;
  SourceLocation location_;
};

enum class DebugSerializationFormat { JSON, CBOR };

/// What a library's function records of a call.
class DebugInfo {
 public:
  DebugInfo(const DebugContext &context, std::string api);
  DebugInfo(const DebugInfo &) = delete;
  DebugInfo &operator=(const DebugInfo &) = delete;
  virtual ~DebugInfo();

  DebugId getId() const { return id_; }
  std::string getPathName() const { return path_; }
  bool setValue(std::string name, const ProfileValue &value);

  static void initializeStreamer(const std::string &file, const DebugSerializationFormat &format =
                                                              DebugSerializationFormat::CBOR);
  static void closeStreamer();

 private:
  DebugId id_;
  std::string path_;
};

}  // namespace poplar

#endif  // poplar_DebugContext_hpp
