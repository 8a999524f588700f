#pragma once

// What a planner knows of a request beside its body.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/served_model.h"
#include "server/tenant.h"

namespace millrace::server {

struct RequestContext {
  const ServedModel* model = nullptr;
  const Tenant* tenant = nullptr;
  std::string id;              // nobody else's: answers are named after it, "chatcmpl-" + id
  std::int64_t now_s = 0;      // since the epoch: `created`, and strftime_now
  bool strict = false;         // --strict: unknown fields are refused
  std::uint64_t random_seed = 0;  // for requests without a seed of their own
  std::vector<std::string> unknown_fields;  // out, when not strict: for the header X-Millrace-Unknown-Fields and a counter

  /// The first of them are enough to see what is wrong, and fit a header. `name`: plain characters, not many.
  void note_unknown(std::string name) {
    constexpr std::size_t kMost = 20;
    if (unknown_fields.size() < kMost) unknown_fields.push_back(std::move(name));
  }
};

}  // namespace millrace::server
