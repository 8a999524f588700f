#pragma once

// A new empty folder for a test, removed with all that is in it at the end; and what tests do to files.

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log.h"

namespace millrace::engine::testing {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-kv-XXXXXX").string();
    MILLRACE_CHECK(::mkdtemp(name.data()) != nullptr, "no temporary folder");
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  /// Names of the files in it, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::filesystem::path path_;
};

/// For a test that makes hundreds of files worth a warning.
struct QuietLog {
  QuietLog() { set_log_level(LogLevel::off); }
  ~QuietLog() { set_log_level(LogLevel::warn); }
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes; }

}  // namespace millrace::engine::testing
