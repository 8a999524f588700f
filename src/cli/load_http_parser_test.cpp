#include "cli/load_http_parser.h"

#include <gtest/gtest.h>

#include <array>

namespace millrace::cli {
namespace {

struct Read {
  std::string wrong, body;
  HttpAnswerParser parser;
};

Read read_in(std::initializer_list<std::string_view> pieces) {
  Read out;
  for (const std::string_view piece : pieces) {
    out.wrong = out.parser.feed(piece, out.body);
    if (!out.wrong.empty()) break;
  }
  return out;
}

/// The same for every way to cut `bytes` in two, and byte by byte.
void expect_everywhere(std::string_view bytes, int status, std::string_view body, bool reusable) {
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const Read read = read_in({bytes.substr(0, cut), bytes.substr(cut)});
    ASSERT_EQ(read.wrong, "") << cut;
    ASSERT_TRUE(read.parser.done()) << cut;
    ASSERT_EQ(read.parser.status(), status) << cut;
    ASSERT_EQ(read.body, body) << cut;
    ASSERT_EQ(read.parser.reusable(), reusable) << cut;
  }
  Read slow;
  for (const char& c : bytes) ASSERT_EQ(slow.parser.feed({&c, 1}, slow.body), "");
  EXPECT_EQ(slow.body, body);
}

TEST(HttpAnswerParser, reads_a_chunked_body_however_it_is_cut) {
  expect_everywhere("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB;name=x\r\n, you there\r\n0\r\n\r\n", 200, "hello, you there", true);
  expect_everywhere("HTTP/1.1 200 OK\ntransfer-encoding: Chunked\n\n1\na\n0\nTrailer: x\n\n", 200, "a", true);
}

TEST(HttpAnswerParser, reads_a_counted_body_however_it_is_cut) {
  expect_everywhere("HTTP/1.1 429 Too Many\r\nRetry-After:  7 \r\nContent-Length: 3\r\n\r\nno!", 429, "no!", true);
  expect_everywhere("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", true);
  expect_everywhere("HTTP/1.1 204 None\r\n\r\n", 204, "", true);
  expect_everywhere("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", 200, "a", true);
}

TEST(HttpAnswerParser, knows_whether_the_connection_may_be_used_again) {
  expect_everywhere("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", 200, "a", false);
  expect_everywhere("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", 200, "a", false);
  expect_everywhere("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", 200, "a", true);
  expect_everywhere("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 200 OK", 200, "a", false);  // nobody asked for more
}

TEST(HttpAnswerParser, names_of_headers_have_no_case) {
  const Read read = read_in({"HTTP/1.1 429 no\r\nReTry-AFTER:\t7 \r\n"});
  ASSERT_NE(read.parser.header("retry-after"), nullptr);
  EXPECT_EQ(*read.parser.header("retry-after"), "7");
  EXPECT_EQ(read.parser.header("content-type"), nullptr);
}

TEST(HttpAnswerParser, a_body_without_a_length_ends_with_the_connection) {
  Read read = read_in({"HTTP/1.1 200 OK\r\n\r\nall of", " it"});
  EXPECT_FALSE(read.parser.done());
  EXPECT_EQ(read.parser.close(), "");
  EXPECT_TRUE(read.parser.done());
  EXPECT_FALSE(read.parser.reusable());
  EXPECT_EQ(read.body, "all of it");
}

TEST(HttpAnswerParser, says_where_the_connection_was_cut) {
  EXPECT_EQ(read_in({}).parser.close(), "the connection was closed before an answer");
  EXPECT_EQ(read_in({"HTTP/1.1 200 OK\r\nA: b\r\n"}).parser.close(), "the connection was closed within the head");
  EXPECT_EQ(read_in({"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"}).parser.close(), "the connection was closed within the answer");
  EXPECT_EQ(read_in({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"}).parser.close(), "the connection was closed within the answer");
}

TEST(HttpAnswerParser, refuses_what_is_no_http) {
  for (const std::string_view bytes : std::to_array<std::string_view>({
           "SSH-2.0-OpenSSH\r\n", "HTTP/2 200 OK\r\n", "HTTP/1.1 2x0 OK\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n"}))
    EXPECT_NE(read_in({bytes}).wrong, "") << bytes;
  EXPECT_NE(read_in({"HTTP/1.1 200 OK\r\n", std::string(70000, 'a')}).wrong, "");  // a line without an end takes no more memory
}

}  // namespace
}  // namespace millrace::cli
