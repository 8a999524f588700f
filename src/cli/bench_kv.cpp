// bench kv: what paging and sharing gain of the same bytes.

#include "cli/bench_modes.h"

namespace millrace::cli {

Result<int> run_bench_kv(const Options&) { return error(Code::unsupported, "bench kv is not there yet"); }

}  // namespace millrace::cli
