#pragma once

// Every command's entry. Each takes the options of its call, writes its answer to standard output and returns the exit
// status, or an error that main.cpp prints as one sentence. One file each, named after the command.

#include "base/result.h"
#include "cli/options.h"

namespace millrace::cli {

Result<int> run_run(const Options& options);
Result<int> run_chat(const Options& options);
Result<int> run_bench(const Options& options);
Result<int> run_inspect(const Options& options);
Result<int> run_tokenize(const Options& options);
Result<int> run_detokenize(const Options& options);
Result<int> run_logits(const Options& options);
Result<int> run_perplexity(const Options& options);
Result<int> run_template(const Options& options);
Result<int> run_fetch(const Options& options);
Result<int> run_serve(const Options& options);

}  // namespace millrace::cli
