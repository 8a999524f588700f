// Which format a path holds: a folder is a Hugging Face model, anything else has to be a GGUF file, whatever its name.

#include <sys/stat.h>

#include "io/gguf.h"
#include "io/safetensors.h"

namespace millrace::io {

Result<std::unique_ptr<WeightSource>> open_model(const std::string& path) {
  if (path.empty()) return error(Code::invalid_argument, "the path of the model is empty");
  struct stat info {};
  const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  auto source = is_folder ? open_hf_folder(path) : open_gguf(path);
  if (!source) return std::move(source).error().in("loading '" + path + "'");
  return source;
}

}  // namespace millrace::io
