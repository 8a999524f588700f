#pragma once

// One streamed answer: the server's bytes in, a LoadRecord filled in. Knows the protocol from HTTP down to the chunk, and
// no socket and no clock.

#include <string>
#include <string_view>

#include "cli/load_http_parser.h"
#include "cli/load_record.h"
#include "cli/load_sse.h"

namespace millrace::cli {

class LoadAnswer {
 public:
  /// Bytes that were read at `now_us`. True: the answer has ended, and the record says how.
  bool take(std::string_view bytes, Microseconds now_us, LoadRecord& record);

  /// The connection has ended or is given up, because of `why`; so has the answer.
  void close(std::string_view why, Microseconds now_us, LoadRecord& record);

  bool has_begun() const { return has_begun_; }  // a byte of it arrived
  bool reusable() const { return http_.reusable(); }

 private:
  void take_event(std::string_view data, Microseconds now_us, LoadRecord& record);
  void end(Microseconds now_us, LoadRecord& record);
  bool is_stream() const;

  HttpAnswerParser http_;
  SseParser sse_;
  std::string body_;    // of the piece at hand; of a refusal: all there is
  std::string broken_;  // what was wrong with an event
  bool has_begun_ = false, said_done_ = false, said_error_ = false;
};

}  // namespace millrace::cli
