#include "engine/shared_object.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace tensorflow_ipu {
namespace {

// Structures in a file, which may end too early.
class File {
 public:
  explicit File(const std::string& contents) : contents_(contents) {}

  template <typename T>
  bool Read(uint64_t at, T* structure) const {
    if (at > contents_.size() || contents_.size() - at < sizeof(T)) return false;
    std::memcpy(structure, contents_.data() + at, sizeof(T));
    return true;
  }

  std::string Bytes(uint64_t at, uint64_t size) const {
    return at < contents_.size() ? contents_.substr(at, size) : "";
  }

 private:
  const std::string& contents_;
};

// The place in the file of an address in memory; the end of the file where there is none.
uint64_t PlaceOf(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    const bool inside = segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
                        address - segment.p_vaddr < segment.p_filesz;
    if (inside) return segment.p_offset + (address - segment.p_vaddr);
  }
  return UINT64_MAX;
}

}  // namespace

DynamicSection ReadDynamicSection(const std::string& contents) {
  DynamicSection section;
  const File file(contents);
  Elf64_Ehdr header;
  if (!file.Read(0, &header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return section;
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!file.Read(header.e_phoff + i * header.e_phentsize, &segments[i])) return section;
  }
  std::vector<uint64_t> needed;
  uint64_t names = 0, size = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC) continue;
    Elf64_Dyn entry;
    for (uint64_t at = segment.p_offset;
         file.Read(at, &entry) && at - segment.p_offset < segment.p_filesz &&
         entry.d_tag != DT_NULL;
         at += sizeof entry) {
      if (entry.d_tag == DT_NEEDED) needed.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_STRTAB) names = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
    }
  }
  section.names = file.Bytes(PlaceOf(segments, names), size);
  for (const uint64_t offset : needed) {
    if (offset < section.names.size()) section.needed.push_back(section.names.c_str() + offset);
  }
  return section;
}

}  // namespace tensorflow_ipu
