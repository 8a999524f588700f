#include "server/net/response_text.h"

#include <fmt/format.h>

#include <ctime>
#include <iterator>

namespace millrace::server::net {
namespace {

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    default: return status < 400 ? "OK" : "Error";
  }
}

void write_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out.push_back((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f ? ' ' : c);
  out.append("\r\n");
}

}  // namespace

void write_head(std::string& out, const HttpResponse& response, const HeadFrame& frame) {
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", response.status, reason_of(response.status));
  if (!frame.server_name.empty()) write_header(out, "Server", frame.server_name);
  write_header(out, "Date", frame.date);
  if (!response.content_type.empty() && status_has_body(response.status)) write_header(out, "Content-Type", response.content_type);
  for (const Header& header : response.headers) write_header(out, header.name, header.value);
  if (frame.content_length && status_has_body(response.status))
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", *frame.content_length);
  if (frame.chunked) write_header(out, "Transfer-Encoding", "chunked");
  if (!frame.keep_alive)
    write_header(out, "Connection", "close");
  else if (frame.http_1_0)
    write_header(out, "Connection", "keep-alive");
  out.append("\r\n");
}

void write_chunk(std::string& out, std::string_view data) {
  if (data.empty()) return;
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", data.size());
  out.append(data).append("\r\n");
}

std::string http_date(std::time_t seconds) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm t{};
  ::gmtime_r(&seconds, &t);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[t.tm_wday], t.tm_mday, kMonths[t.tm_mon], t.tm_year + 1900,
                     t.tm_hour, t.tm_min, t.tm_sec);
}

}  // namespace millrace::server::net
