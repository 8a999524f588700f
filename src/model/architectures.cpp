#include "model/architectures.h"

namespace millrace::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .qkv_bias = false, .gguf_rope_interleaved = true, .build = build_llama},
    {.name = "qwen2", .qkv_bias = true, .gguf_rope_interleaved = false, .build = build_qwen2},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& a : kArchitectures)
    if (a.name == name) return &a;
  return nullptr;
}

std::string architecture_names() {
  std::string out;
  for (const Architecture& a : kArchitectures) out += (out.empty() ? "" : ", ") + std::string(a.name);
  return out;
}

}  // namespace millrace::model
