// The registry of patterns.
#ifndef popart_patterns_patterns_hpp
#define popart_patterns_patterns_hpp

#include <popart/patterns/pattern.hpp>

namespace popart {

enum class PatternsLevel { NoPatterns = 0, Minimal, Default, All };

/// Patterns by name. The first that is registered for a name stays.
class PreAliasPatternManager {
 public:
  using Factory = std::function<std::unique_ptr<PreAliasPattern>()>;

  struct PreAliasPatternInfo {
    bool enabledByDefault;
    bool mandatory;
    Factory factory;
  };

  static void registerPattern(const std::string &name, bool enabled, bool mandatory,
                              Factory factory);
  static std::vector<std::string> getNames();
  /// Null if there is no such pattern.
  static const PreAliasPatternInfo *find(const std::string &name);
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

/// The patterns of a session that are on.
class Patterns {
 public:
  Patterns(PatternsLevel level = PatternsLevel::Default) : level_(level) {}
  Patterns(const std::vector<std::string> &names) : level_(PatternsLevel::NoPatterns) {
    for (const std::string &name : names) settings_[name] = true;
  }
  Patterns &enablePattern(const std::string &name, bool enabled) {
    settings_[name] = enabled;
    return *this;
  }
  bool isPatternEnabled(const std::string &name) const;
  /// New objects of the registered patterns that are on, by name.
  std::vector<std::unique_ptr<PreAliasPattern>> getPreAliasList() const;
  static std::vector<std::string> getAllPreAliasPatternNames() {
    return PreAliasPatternManager::getNames();
  }

 private:
  PatternsLevel level_;
  std::map<std::string, bool> settings_;
};

}  // namespace popart

#endif  // popart_patterns_patterns_hpp
