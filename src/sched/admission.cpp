#include "sched/admission.h"

#include <algorithm>
#include <cstdint>

namespace millrace::sched {

int Admission::most_whole(bool rows) const {
  const int per_step = rows ? std::min(limits.step_tokens, limits.step_outputs) : limits.step_tokens;
  return per_step - (limits.max_running - 1);
}

Result<void> Admission::check(std::int64_t prompt_tokens, const SequenceSpec& spec) const {
  if (prompt_tokens + spec.max_new > room_tokens)
    return error(Code::exhausted, "prompt of {} tokens plus {} new ones exceeds the KV cache of {} tokens",
                 prompt_tokens, spec.max_new, room_tokens);
  if (spec.prompt_rows == Outputs::hidden && spec.max_new != 0)
    return error(Code::invalid_argument, "hidden rows come without new tokens, {} were asked for", spec.max_new);
  if (spec.whole && spec.max_new != 0)
    return error(Code::invalid_argument, "a prompt that runs as a whole has no new tokens, {} were asked for",
                 spec.max_new);
  const int whole = most_whole(spec.prompt_rows != Outputs::none);
  if (spec.whole && prompt_tokens > whole)
    return error(Code::exhausted, "prompt of {} tokens runs as a whole, a step has room for {}", prompt_tokens, whole);
  return {};
}

}  // namespace millrace::sched
