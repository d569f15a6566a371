#include "codelets.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <sstream>
#include <utility>

#include "poplar/exceptions.hpp"
#include "types.h"

namespace poplar::core {
namespace {

// The type in the name of an instance of `prettyName<T>`.
std::string TypeText(const std::string& pretty) {
  const size_t begin = pretty.find("T = ") + 4;
  const size_t end = pretty.rfind(']');
  return pretty.substr(begin, end - begin);
}

void ReplaceAll(std::string* text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text->find(from, at)) != std::string::npos; at += to.size()) {
    text->replace(at, from.size(), to);
  }
}

std::string Quoted(const std::string& argument) {
  std::string text = argument;
  ReplaceAll(&text, "'", "'\\''");
  return "'" + text + "'";
}

// Runs a command and returns its exit code; `output` is what it wrote.
int Run(const std::string& command, std::string* output) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw no_environment("popc cannot be started: " + command);
  char buffer[4096];
  while (const size_t size = fread(buffer, 1, sizeof buffer, pipe)) output->append(buffer, size);
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

constexpr int kNotFound = 127;

// The name of an open file, for dlopen.
std::string NameOf(int file) { return "/proc/self/fd/" + std::to_string(file); }

// Whether this process has loaded a file of this path with other contents. dlopen then may give the
// old ones.
bool HasOtherContents(const std::string& path, const std::string& contents) {
  static auto* mutex = new std::mutex;
  static auto* loaded = new std::map<std::string, std::pair<size_t, size_t>>;
  const std::pair<size_t, size_t> hash(contents.size(), std::hash<std::string>()(contents));
  const std::lock_guard<std::mutex> lock(*mutex);
  return loaded->emplace(path, hash).first->second != hash;
}

std::string& DefaultPopc() {
  static auto* command = new std::string("popc");
  return *command;
}

}  // namespace

void SetPopc(const std::string& command) { DefaultPopc() = command; }

std::string VertexName(const std::string& pretty) {
  std::string name = pretty;
  ReplaceAll(&name, ", ", ",");
  ReplaceAll(&name, "_Float16", "half");
  ReplaceAll(&name, "poplar::half", "half");
  ReplaceAll(&name, "short int", "short");
  ReplaceAll(&name, "short unsigned", "unsigned short");
  ReplaceAll(&name, "long int", "long");
  ReplaceAll(&name, " >", ">");
  // Numbers without the suffix or the cast that says their type.
  name = std::regex_replace(name, std::regex("([<,]-?[0-9]+)[ul]+"), "$1");
  name = std::regex_replace(name, std::regex("\\([a-z ]+\\)(-?[0-9]+)"), "$1");
  return name;
}

int VertexType::Find(const std::string& field) const {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == field) return static_cast<int>(i);
  }
  return -1;
}

std::shared_ptr<const CodeletLibrary> CodeletLibrary::Load(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char* const absolute = realpath(path.c_str(), nullptr);
  if (file < 0 || absolute == nullptr) {
    if (file >= 0) close(file);
    std::free(absolute);
    throw file_load_error("The codelet file '" + path + "' does not exist or cannot be read.");
  }
  std::shared_ptr<CodeletLibrary> library(new CodeletLibrary);
  library->file_ = file;
  library->path_ = absolute;
  std::free(absolute);
  const std::string contents = library->Contents();
  if (HasOtherContents(library->path_, contents)) return FromContents(contents);
  library->Open(library->path_, contents);
  return library;
}

void CodeletLibrary::Open(const std::string& path, const std::string& contents) {
  path_ = path;
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) {
    const std::string reason = dlerror();
    if (reason.find("undefined symbol") != std::string::npos) {
      throw link_error(reason, reason);
    }
    throw graph_object_load_error(
        "'" + path + "' has no codelets of this popc (" + reason +
        "). Files for the chip cannot be used: compile the source with this popc.");
  }
  using GetTable = const CodeletTable* (*)();
  const auto get = reinterpret_cast<GetTable>(dlsym(handle_, kCodeletTableSymbol));
  const CodeletTable* table = get == nullptr ? nullptr : get();
  if (table == nullptr || table->version != kCodeletTableVersion) {
    throw graph_object_load_error("'" + path +
                                  "' was made by another release of popc: compile it again.");
  }
  set_tile_ = reinterpret_cast<void (*)(unsigned)>(dlsym(handle_, "poplar_set_tile"));
  statics_ = std::make_unique<Statics>(handle_, contents);
  for (size_t i = 0; i < table->numTypes; ++i) {
    const CodeletType& from = table->types[i];
    VertexType type{
        VertexName(TypeText(from.name)), from.kind, from.size, from.align, {}, from.run};
    for (size_t f = 0; f < from.numFields; ++f) {
      const CodeletField& field = from.fields[f];
      type.fields.push_back({field.name, field.access, field.form,
                             TypeOfName(TypeText(field.type).c_str(), field.elementSize),
                             field.offset, field.align});
    }
    types_.push_back(std::move(type));
  }
}

std::shared_ptr<const CodeletLibrary> CodeletLibrary::FromContents(const std::string& contents) {
  const int file = memfd_create("codelets.gp", MFD_CLOEXEC);
  size_t written = 0;
  while (file >= 0 && written < contents.size()) {
    const ssize_t count = write(file, contents.data() + written, contents.size() - written);
    if (count < 0) break;
    written += static_cast<size_t>(count);
  }
  if (file < 0 || written < contents.size()) {
    if (file >= 0) close(file);
    throw graph_object_load_error("There is no memory for the codelets of the executable.");
  }
  std::shared_ptr<CodeletLibrary> library(new CodeletLibrary);
  library->file_ = file;
  library->Open(NameOf(file), contents);
  return library;
}

std::shared_ptr<const CodeletLibrary> CodeletLibrary::Compile(
    const std::vector<std::string>& sources, const std::string& flags) {
  for (const std::string& source : sources) {
    if (access(source.c_str(), R_OK) != 0) {
      throw file_load_error("The codelet file '" + source + "' does not exist or cannot be read.");
    }
  }
  const char* popc = std::getenv("TENSORFLOW_IPU_POPC");
  // popc keeps what it compiled, by contents, and prints the path.
  std::string command = (popc == nullptr ? DefaultPopc() : popc) + " --cached " + flags;
  for (const std::string& source : sources) command += " " + Quoted(source);
  std::string output;
  const int code = Run(command, &output);
  if (code == kNotFound) {
    throw no_environment(
        "popc is not found. Set up the shell with: eval \"$(tensorflow-ipu sdk)\"");
  }
  if (code != 0) {
    const size_t undefined = output.find("undefined reference to ");
    if (undefined != std::string::npos) {
      throw link_error(
          "undefined symbol " +
              output.substr(undefined + 23, output.find('\n', undefined) - undefined - 23),
          output);
    }
    throw graph_program_compilation_error("Codelets do not compile:\n" + output);
  }
  while (!output.empty() && output.back() == '\n') output.pop_back();
  // Warnings come before the path.
  const size_t line = output.rfind('\n');
  if (line != std::string::npos) std::fprintf(stderr, "%s\n", output.substr(0, line).c_str());
  return Load(line == std::string::npos ? output : output.substr(line + 1));
}

CodeletLibrary::~CodeletLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
  // A library that cannot be unloaded keeps its name, which no other may get.
  void* const kept = dlopen(path_.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (kept != nullptr) dlclose(kept);
  const bool needs_name = kept != nullptr && path_ == NameOf(file_);
  if (file_ >= 0 && !needs_name) close(file_);
}

std::string CodeletLibrary::Contents() const {
  std::ifstream file(NameOf(file_), std::ios::binary);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

}  // namespace poplar::core
