#pragma once

// Runs a scheduler scenario written as text (tests/scenarios/*.txt). For tests.

#include <string>
#include <string_view>

namespace millrace::sched {

/// Replays `script` and returns it with each answer filled in anew, so a test passes when the result equals the
/// script. See tests/scenarios/README.md.
std::string replay(std::string_view script);

}  // namespace millrace::sched
