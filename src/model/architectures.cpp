#include "model/architectures.h"

namespace millrace::model {
namespace {

constexpr Architecture kArchitectures[] = {
    {.name = "llama", .qkv_bias = false, .gguf_rope_interleaved = true, .build = build_llama},
    {.name = "qwen2", .qkv_bias = true, .gguf_rope_interleaved = false, .build = build_qwen2},
};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture& a : kArchitectures)
    if (a.name == name) return &a;
  return nullptr;
}

}  // namespace millrace::model
