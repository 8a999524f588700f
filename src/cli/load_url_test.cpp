#include "cli/load_url.h"

#include <gtest/gtest.h>

namespace millrace::cli {
namespace {

TEST(ServerUrl, is_read_in_the_forms_that_people_write) {
  const auto parts = [](const char* text) {
    const auto url = parse_url(text);
    return url ? url->host + "|" + url->port + "|" + url->path : url.error().message;
  };
  EXPECT_EQ(parts("http://127.0.0.1:8080"), "127.0.0.1|8080|");
  EXPECT_EQ(parts("localhost:8080/"), "localhost|8080|");
  EXPECT_EQ(parts("http://a.b/v1/"), "a.b|80|");
  EXPECT_EQ(parts("a.b:1/models/x/v1"), "a.b|1|/models/x");
  EXPECT_EQ(parts("http://[::1]:8080/v1"), "::1|8080|");
  EXPECT_EQ(parse_url("[::1]")->authority(), "[::1]:80");
}

TEST(ServerUrl, other_texts_are_refused) {
  for (const char* wrong : {"", "http://", "http://:80", "http://a:", "a:0", "a:65536", "a:b", "ftp://a", "http://[::1", "[::1]x", "[::1]:", "http://a/?x", "http://u@a", "a b", "https://a", "a/\r\nX: y"})
    EXPECT_FALSE(parse_url(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace millrace::cli
