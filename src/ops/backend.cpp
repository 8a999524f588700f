#include "ops/backend.h"

#include "kernels/registry.h"

namespace millrace::ops {

Result<Backend> make_backend(const std::string& isa) {
  MILLRACE_TRY(level, kernels::choose_isa(isa));
  MILLRACE_TRY(table, kernels::select_kernels(level));
  return Backend{table, std::string(kernels::to_string(level))};
}

std::vector<std::string> runnable_backends() {
  std::vector<std::string> out;
  for (const kernels::Isa isa : kernels::runnable_isas()) out.emplace_back(kernels::to_string(isa));
  return out;
}

}  // namespace millrace::ops
