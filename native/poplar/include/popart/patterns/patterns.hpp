// The registry of patterns.
#ifndef popart_patterns_patterns_hpp
#define popart_patterns_patterns_hpp

#include <popart/patterns/pattern.hpp>

namespace popart {

enum class PatternsLevel { NoPatterns = 0, Minimal, Default, All };

class PreAliasPatternManager {
 public:
  using Factory = std::function<std::unique_ptr<PreAliasPattern>()>;
  static void registerPattern(const std::string &name, bool enabled, bool mandatory,
                              Factory factory);
  static std::vector<std::string> getNames();
};

/// Registers a pattern: a static object of the library that has it.
template <class PATTERN>
class PatternCreator {
 public:
  PatternCreator(const std::string &name, bool enabled = true, bool mandatory = false) {
    PreAliasPatternManager::registerPattern(name, enabled, mandatory, [name]() {
      std::unique_ptr<PreAliasPattern> pattern(new PATTERN());
      pattern->setPatternName(name);
      return pattern;
    });
  }
};

class Patterns {
 public:
  Patterns(PatternsLevel level = PatternsLevel::Default) : level_(level) {}
  Patterns &enablePattern(const std::string &name, bool enabled) {
    settings_[name] = enabled;
    return *this;
  }
  bool isPatternEnabled(const std::string &name) const {
    auto found = settings_.find(name);
    return found == settings_.end() ? level_ != PatternsLevel::NoPatterns : found->second;
  }
  static std::vector<std::string> getAllPreAliasPatternNames() {
    return PreAliasPatternManager::getNames();
  }

 private:
  PatternsLevel level_;
  std::map<std::string, bool> settings_;
};

}  // namespace popart

#endif  // popart_patterns_patterns_hpp
