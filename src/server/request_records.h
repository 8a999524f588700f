#pragma once

// The book of requests: those that live, and the last 1,024 that ended. Makes each request's record (request_record.h), and
// when its last owner lets go, says it in one log line and counts it. Never holds a prompt.

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "server/http.h"
#include "server/rate_limit.h"
#include "server/request_record.h"
#include "server/server_metrics.h"

namespace millrace::server {

/// The X-Request-Id of `request` if it is one (1 to 128 visible ASCII characters), else a new one.
std::string request_id_of(const HttpRequest& request);

/// 32 hex digits nobody can guess.
std::string random_id();

/// For people: to a tenth.
double rounded_ms(Microseconds us);

/// What is known of a request at one moment; of an ended one, at its end.
struct RequestFacts {
  std::string id;
  std::string_view endpoint;
  std::string tenant, peer;
  Microseconds arrived_us = 0, ended_us = 0;  // steady clock; 0: lives
  bool is_read = false, stream = false;
  int prompt_tokens = 0, answers = 0, answers_ended = 0, max_tokens = 0;
  int generated_tokens = 0;  // so far, of all answers
  int status = 0;            // 0: nothing was sent
  bool client_gone = false;
  std::string refused;       // why, or empty
  std::string reasons;       // how its answers ended: "stop", "length,stop"
  int cached_tokens = 0;
  Microseconds queue_us = 0, first_token_us = 0, gap_max_us = 0;  // the worst of its answers; the first token of any
  std::vector<engine::CacheReport> reports;  // of the first answers that ended, kMostReports at most

  /// reading, waiting (for its first token), generating, ended.
  std::string_view state() const;
};

class RequestRecords {
 public:
  static constexpr std::size_t kKeptRequests = 1024, kMostReports = 16;

  struct Options {
    bool log_prompts = false;           // bodies, in a line of their own at the start
    RateLimits* rate_limits = nullptr;  // generated tokens are charged there as they come; or none
  };

  /// `metrics` and the rate limits outlive every record.
  RequestRecords(ServerMetrics& metrics, Options options);

  /// A request has come. `endpoint` is a literal: the path of the endpoint table, or "other".
  std::shared_ptr<RequestRecord> begin(const HttpRequest& request, std::string_view endpoint, Tenant tenant);

  /// Those that `who` may see, in the order in which they came. The tenant "default" may see all: keys without a tenant are
  /// those of whoever runs the server; others see their own.
  std::vector<RequestFacts> live(const Tenant& who) const;

  /// The youngest of that id, live or ended, that `who` may see: ids are the clients' to choose.
  std::optional<RequestFacts> find(std::string_view id, const Tenant& who) const;

 private:
  class Record;
  struct Book;
  std::shared_ptr<Book> book_;  // records that outlive this object keep it
};

}  // namespace millrace::server
