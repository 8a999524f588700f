#include "server/sse.h"

#include <fmt/core.h>

namespace millrace::server {

std::string sse_data(std::string_view json) { return fmt::format("data: {}\n\n", json); }

std::string sse_event(std::string_view name, std::string_view json) { return fmt::format("event: {}\ndata: {}\n\n", name, json); }

HttpResponse stream_head() {
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"cache-control", "no-cache"}, {"x-accel-buffering", "no"}};
  return head;
}

}  // namespace millrace::server
