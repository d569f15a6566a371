#include "statics.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace poplar::core {
namespace {

bool BeginsWith(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

// Whether a variable, by its symbol, belongs to popc, the C++ library or the compiler.
bool IsForeign(const std::string& symbol) {
  static const char* const kBeginnings[] = {"__",      "completed.", "_ZSt",        "_ZNSt",
                                            "_ZGVNSt", "_ZN6poplar", "_ZZN6poplar", "_ZGVN6poplar"};
  // popc's own have these words in their names, also in namespaces.
  return symbol.find("popc_") != std::string::npos ||
         symbol.find("poplar_codelet_table") != std::string::npos ||
         std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](const char* beginning) { return BeginsWith(symbol, beginning); });
}

// The symbols of a shared library in the format ELF.
class Symbols {
 public:
  explicit Symbols(const std::string& contents) : contents_(contents) {
    const auto header = At<Elf64_Ehdr>(0);
    for (uint16_t i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(At<Elf64_Shdr>(header.e_shoff + uint64_t{i} * header.e_shentsize));
    }
    names_ = header.e_shstrndx;
  }

  // Calls `visit(address, bytes)` for each variable of the user's that may be written.
  template <typename Visit>
  void ForEachVariable(Visit visit) const {
    for (const Elf64_Shdr& table : sections_) {
      if (table.sh_type != SHT_SYMTAB) continue;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        const auto symbol = At<Elf64_Sym>(table.sh_offset + at);
        if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) continue;
        if (symbol.st_shndx >= sections_.size() || !IsWritten(sections_[symbol.st_shndx])) continue;
        if (!IsForeign(Text(table.sh_link, symbol.st_name))) {
          visit(symbol.st_value, symbol.st_size);
        }
      }
    }
  }

 private:
  template <typename T>
  T At(uint64_t place) const {
    T result{};
    if (place + sizeof result <= contents_.size()) {
      std::memcpy(&result, contents_.data() + place, sizeof result);
    }
    return result;
  }

  std::string Text(uint32_t section, uint32_t place) const {
    if (section >= sections_.size()) return "";
    const uint64_t begin = sections_[section].sh_offset + place;
    return begin < contents_.size() ? contents_.c_str() + begin : "";
  }

  // Not constants with addresses, which are written once when the library is loaded.
  bool IsWritten(const Elf64_Shdr& section) const {
    const std::string name = Text(names_, section.sh_name);
    const bool is_variable = BeginsWith(name, ".bss") || BeginsWith(name, ".data");
    return is_variable && !BeginsWith(name, ".data.rel.ro") && (section.sh_flags & SHF_WRITE) != 0;
  }

  const std::string& contents_;
  std::vector<Elf64_Shdr> sections_;
  uint32_t names_ = 0;
};

}  // namespace

Statics::Statics(void* handle, const std::string& contents) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  Symbols(contents).ForEachVariable([&](uint64_t address, uint64_t bytes) {
    variables_.push_back({reinterpret_cast<char*>(map->l_addr + address), bytes});
  });
  Save(&initial_);
}

void Statics::Save(std::vector<char>* values) const {
  values->clear();
  for (const Variable& variable : variables_) {
    values->insert(values->end(), variable.address, variable.address + variable.bytes);
  }
}

void Statics::Restore(const std::vector<char>& values) const {
  const char* from = values.data();
  for (const Variable& variable : variables_) {
    std::memcpy(variable.address, from, variable.bytes);
    from += variable.bytes;
  }
}

void StaticsInTurn::Enter(uint32_t tile) {
  if (current_ != nullptr && tile_ == tile) return;
  Leave();
  tile_ = tile;
  current_ = &values_.emplace(tile, statics_.initial()).first->second;
  statics_.Restore(*current_);
}

void StaticsInTurn::Leave() {
  if (current_ != nullptr) statics_.Save(current_);
}

}  // namespace poplar::core
