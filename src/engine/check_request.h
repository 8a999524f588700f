#pragma once

// Everything that can be wrong with a request, found on the thread that submits it: what passes here runs.

#include "base/result.h"
#include "engine/engine.h"
#include "model/runner.h"
#include "sched/admission.h"

namespace millrace::engine {

/// The request with max_new_tokens filled in. Errors: invalid_argument (naming the field, its value and the rule) and
/// those of Admission::check.
Result<Request> checked(Request request, const model::RunnerInfo& info, const sched::Admission& admission);

/// Whether a checked request may have `n` answers. Errors: invalid_argument.
Result<void> check_answers(const Request& request, int n);

/// How the scheduler sees a checked request; without its prompt.
sched::SequenceSpec sequence_spec(const Request& request);

}  // namespace millrace::engine
