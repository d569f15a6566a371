// Patterns and transforms: their registries, and how they are applied.
#include "popart/patterns/patterns.hpp"

#include <map>
#include <string>
#include <vector>

#include "popart/graph.hpp"
#include "popart/ir.hpp"
#include "popart/opmanager.hpp"
#include "popart/transforms/transform.hpp"

namespace popart {
namespace {

// Rounds after which patterns are taken to undo each other.
constexpr int kMostRounds = 100;

std::map<std::string, PreAliasPatternManager::PreAliasPatternInfo>& PatternInfos() {
  static std::map<std::string, PreAliasPatternManager::PreAliasPatternInfo> infos;
  return infos;
}
std::map<std::size_t, Transform*>& Transforms() {
  static std::map<std::size_t, Transform*> transforms;
  return transforms;
}

// Whether a pattern would change a tensor that has to stay: the loss has no gradients yet.
bool TouchesKept(const PreAliasPattern& pattern, Op* op) {
  const Graph& graph = op->getGraph();
  const bool is_open = op->getIr().isTraining() && !op->getIr().hasConstructedBackwards();
  for (const Tensor* tensor : pattern.touches(op)) {
    if (tensor->isAnchored()) return true;
    if (is_open && tensor->id == graph.getLoss()) return true;
  }
  return false;
}

}  // namespace

// --- Patterns ---

Pattern::~Pattern() = default;
PreAliasPattern::~PreAliasPattern() = default;
const std::string& Pattern::getPatternName() const { return name_; }
std::string Pattern::getReplacementOpName(Op* op, const std::string& name) const {
  return op->getName() + "_" + name_ + (name.empty() ? "" : "_" + name);
}
void Pattern::transferBaseProperties(const Op* from, Op* to) const {
  const_cast<Op*>(from)->transferBaseProperties(to);
}
bool PreAliasPattern::touchesAnchored(Op* op) const {
  for (const Tensor* tensor : touches(op)) {
    if (tensor->isAnchored()) return true;
  }
  return false;
}
std::unique_ptr<Op> PreAliasPattern::makeReplacementOp(const OperatorIdentifier& opid, Op* oldOp,
                                                       const std::string& name) const {
  std::unique_ptr<Op> made =
      OpManager::createOp(opid, oldOp->getGraph(), getReplacementOpName(oldOp, name));
  if (made == nullptr) throw internal_error("Failed to create replacement op {}", opid);
  transferBaseProperties(oldOp, made.get());
  return made;
}
Op* PreAliasPattern::makeReplacementOpInIr(const OperatorIdentifier& opid, Op* oldOp,
                                           const std::string& name) const {
  std::unique_ptr<Op> made = makeReplacementOp(opid, oldOp, name);
  Op* op = made.get();
  oldOp->getGraph().moveIntoGraph(std::move(made));
  return op;
}

void PreAliasPatternManager::registerPattern(const std::string& name, bool enabled, bool mandatory,
                                             Factory factory) {
  PatternInfos().emplace(name, PreAliasPatternInfo{enabled, mandatory, std::move(factory)});
}
std::vector<std::string> PreAliasPatternManager::getNames() {
  std::vector<std::string> names;
  for (const auto& entry : PatternInfos()) names.push_back(entry.first);
  return names;
}
const PreAliasPatternManager::PreAliasPatternInfo* PreAliasPatternManager::find(
    const std::string& name) {
  const auto found = PatternInfos().find(name);
  return found == PatternInfos().end() ? nullptr : &found->second;
}

bool Patterns::isPatternEnabled(const std::string& name) const {
  const auto set = settings_.find(name);
  if (set != settings_.end()) return set->second;
  const PreAliasPatternManager::PreAliasPatternInfo* info = PreAliasPatternManager::find(name);
  switch (level_) {
    case PatternsLevel::NoPatterns:
      return false;
    case PatternsLevel::Minimal:
      return info == nullptr || info->mandatory;
    case PatternsLevel::Default:
      return info == nullptr || info->mandatory || info->enabledByDefault;
    default:
      return true;
  }
}
std::vector<std::unique_ptr<PreAliasPattern>> Patterns::getPreAliasList() const {
  std::vector<std::unique_ptr<PreAliasPattern>> patterns;
  for (const auto& entry : PatternInfos()) {
    if (isPatternEnabled(entry.first)) patterns.push_back(entry.second.factory());
  }
  return patterns;
}

bool Ir::applyPreAliasPattern(const PreAliasPattern* pattern, Graph& graph) {
  std::vector<OpId> ids;
  for (const Op* op : graph.getOpSchedule({}, RequireOptimalSchedule::No)) ids.push_back(op->id);
  bool changed = false;
  for (const OpId opId : ids) {
    Op* op = graph.getOpUnsafe(opId);
    if (op == nullptr || op->settings.excludePatterns.count(pattern->getPatternName()) != 0) {
      continue;
    }
    if (pattern->matches(op) && !TouchesKept(*pattern, op)) changed |= pattern->apply(op);
  }
  return changed;
}

void Ir::applyPreAliasPatterns(Graph& graph) {
  const std::vector<std::unique_ptr<PreAliasPattern>> patterns = patterns_.getPreAliasList();
  std::string last;
  for (int round = 0; round < kMostRounds; ++round) {
    bool changed = false;
    for (const std::unique_ptr<PreAliasPattern>& pattern : patterns) {
      if (!applyPreAliasPattern(pattern.get(), graph)) continue;
      changed = true;
      last = pattern->getPatternName();
    }
    if (!changed) return;
  }
  throw error(
      "Patterns still change {} after {} rounds; the last was {}. Let its matches() return false "
      "for what it has changed",
      graph.getGraphString(), kMostRounds, last);
}

// --- Transforms ---

Transform::~Transform() = default;
bool Transform::registerTransform(Transform* transform) {
  return Transforms().emplace(transform->getId(), transform).second;
}
void Transform::applyTransform(std::size_t id, Graph& graph) {
  const auto found = Transforms().find(id);
  if (found == Transforms().end()) throw internal_error("No transform with id {}", id);
  found->second->apply(graph);
}
std::size_t Transform::getIdFromName(const std::string& name) {
  for (const auto& entry : Transforms()) {
    if (entry.second->getName() == name) return entry.first;
  }
  throw internal_error("No transform with the name {}", name);
}
bool Transform::isRegistered(const std::string& name) {
  for (const auto& entry : Transforms()) {
    if (entry.second->getName() == name) return true;
  }
  return false;
}

}  // namespace popart
