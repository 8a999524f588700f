#pragma once

// A new empty folder for a test, removed with all that is in it at the end; and what tests do to files.

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace millrace::testing {

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  MILLRACE_CHECK(out.good(), path.string());
}

inline std::string bytes_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-test-XXXXXX").string();  // mkdtemp's pattern
    MILLRACE_CHECK(::mkdtemp(name.data()) != nullptr, name);
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

  /// The path of a file in it.
  std::string file(std::string_view name) const { return (path_ / name).string(); }

  /// Writes a file into it and returns its path.
  std::string file(std::string_view name, std::string_view bytes) const {
    write_file(path_ / name, bytes);
    return file(name);
  }

  /// Names of the files in it, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) out.push_back(entry.path().filename().string());
    std::ranges::sort(out);
    return out;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace millrace::testing
