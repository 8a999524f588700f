#pragma once

// /debug/requests and /cache/explain: what the book of requests and the prefix cache know, as JSON. No prompt is in it; what
// a CacheReport spells of one are the two tokens where it left what is known.

#include <span>

#include "server/request_records.h"
#include "text/chat_template.h"

namespace millrace::server {

/// The live requests, with their ages at `now`.
text::Json requests_body(std::span<const RequestFacts> live, Microseconds now);

/// {"prompt_tokens", "cached_tokens", "computed_tokens", "computed": {cause: tokens}, "diverged": null or {"at", "own", "known"}}
text::Json report_body(const engine::CacheReport& report);

/// What the cache did for a request; while it lives, for its answers that have ended.
text::Json explained_body(const RequestFacts& facts);

}  // namespace millrace::server
