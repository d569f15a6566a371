// Names of what a program makes, for errors and reports.
#ifndef popart_debugcontext_hpp
#define popart_debugcontext_hpp

#include <popart/names.hpp>

#include <poplar/DebugContext.hpp>

namespace popart {

using SourceLocation = poplar::SourceLocation;
using DebugNameAndId = poplar::DebugNameAndId;

class DebugInfo;

/// A name under that of what it belongs to.
class DebugContext {
 public:
  DebugContext(SourceLocation location = SourceLocation::Current()) : location_(location) {}
  DebugContext(const char *name, SourceLocation location = SourceLocation::Current())
      : path_(name), location_(location) {}
  DebugContext(std::string name, SourceLocation location = SourceLocation::Current())
      : path_(std::move(name)), location_(location) {}
  DebugContext(const DebugInfo &parent, std::string name = "",
               SourceLocation location = SourceLocation::Current());
  DebugContext(const DebugNameAndId &parent, std::string name = "",
               SourceLocation location = SourceLocation::Current());
  std::string getPathName() const { return path_; }
  const SourceLocation &location() const { return location_; }

 private:
  std::string path_;
  SourceLocation location_;
};

/// What is recorded of a part of the program.
class DebugInfo {
 public:
  DebugInfo(const DebugContext &context, const std::string &layer);
  virtual ~DebugInfo();
  poplar::DebugId getId() const { return id_; }
  std::string getPathName() const { return path_; }
  bool setValue(std::string name, std::string value);

 private:
  poplar::DebugId id_;
  std::string path_;
};

class OpDebugInfo : public DebugInfo {
 public:
  OpDebugInfo(const DebugContext &context, const Op &op);
  ~OpDebugInfo() override;
};

}  // namespace popart

#endif  // popart_debugcontext_hpp
