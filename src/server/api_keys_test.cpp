#include "server/api_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "base/log.h"
#include "base/testing/scratch_folder.h"

namespace millrace::server {
namespace {

constexpr const char* kHashOfK = "8254c329a92850f6d539dd376f4816ee2764517da5e0235514af433164480d7a";  // printf k | sha256sum

class ApiKeysTest : public ::testing::Test {
 protected:
  ApiKeysTest() { set_log_level(LogLevel::off); }
  ~ApiKeysTest() override { set_log_level(LogLevel::warn); }

  std::unique_ptr<ApiKeys> open(const std::string& text, const std::vector<std::string>& keys = {}) {
    auto made = ApiKeys::open(folder_.file("keys", text), keys);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return made ? *std::move(made) : nullptr;
  }
  std::string refusal(const std::string& text) {
    auto made = ApiKeys::open(folder_.file("keys", text), {});
    return made ? "accepted" : made.error().message;
  }

  testing::ScratchFolder folder_;
};

HttpRequest with_header(std::string name, std::string value) {
  HttpRequest request;
  request.headers.push_back({std::move(name), std::move(value)});
  return request;
}

TEST_F(ApiKeysTest, without_keys_everybody_is_the_default_tenant) {
  const auto keys = ApiKeys::open("", {});
  ASSERT_TRUE(keys);
  EXPECT_FALSE((*keys)->needed());
  ASSERT_NE((*keys)->find(std::nullopt), nullptr);
  EXPECT_EQ((*keys)->find("anything")->name, "default");
}

TEST_F(ApiKeysTest, keys_plain_and_hashed_with_a_tenants_weight_and_limits) {
  const auto keys = open("# who may ask\n\nplain-key\r\nsha256:" + std::string(kHashOfK) + "\ttenant=b  weight=3 rpm=60 tpm=9000 # b's own\n  other tenant=b",
                         {"from-option"});
  EXPECT_TRUE(keys->needed());
  EXPECT_EQ(keys->find("plain-key")->name, "default");
  EXPECT_EQ(keys->find("from-option")->name, "default");
  const auto b = keys->find("k");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->name, "b");
  EXPECT_EQ(b->weight, 3);
  EXPECT_EQ(b->requests_per_minute, 60);
  EXPECT_EQ(b->tokens_per_minute, 9000);
  EXPECT_EQ(keys->find("other"), b) << "the keys of one tenant share what one of them says";
  EXPECT_EQ(keys->find("plain-key")->id, 0);
}

TEST_F(ApiKeysTest, O8_5_what_is_no_key_is_nobodys) {
  const auto keys = open("key\nlonger-key\n");
  for (const std::string_view wrong : {"", "k", "ke", "keyy", "KEY", "key ", "longer-ke", "longer-key-still", "\xff\xfe"}) EXPECT_EQ(keys->find(wrong), nullptr) << wrong;
  EXPECT_EQ(keys->find(std::nullopt), nullptr);
  EXPECT_EQ(keys->find(std::string(1 << 20, 'k')), nullptr);
  // The hash of a key is no key.
  EXPECT_EQ(open("sha256:" + std::string(kHashOfK))->find("sha256:" + std::string(kHashOfK)), nullptr);
}

TEST_F(ApiKeysTest, every_key_of_many_is_found) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "key-" + std::to_string(i) + " tenant=t" + std::to_string(i) + "\n";
  const auto keys = open(text);
  for (int i = 0; i < 300; ++i) {
    const auto tenant = keys->find("key-" + std::to_string(i));
    ASSERT_NE(tenant, nullptr);
    EXPECT_EQ(tenant->name, "t" + std::to_string(i));
  }
}

TEST_F(ApiKeysTest, errors_name_file_and_line_and_never_the_key) {
  const std::string at = "'" + folder_.file("keys") + "': line 2: ";
  EXPECT_EQ(refusal("a\nsecret weight=0"), at + "weight is a number from 1 to 1000, got '0'");
  EXPECT_EQ(refusal("a\nsecret weight=1.5"), at + "weight is a number from 1 to 1000, got '1.5'");
  EXPECT_EQ(refusal("a\nsecret rpm=-1"), at + "rpm is a number from 1 to 1000000000, got '-1'");
  EXPECT_EQ(refusal("a\nsecret tpm=99999999999999999999"), at + "tpm is a number from 1 to 1000000000, got '99999999999999999999'");
  EXPECT_EQ(refusal("a\nsecret tenant="), at + "a tenant's name has 1 to 64 letters, digits, '.', '_' and '-'");
  EXPECT_EQ(refusal("a\nsecret tenant=a\"b"), at + "a tenant's name has 1 to 64 letters, digits, '.', '_' and '-'");
  for (const char* tail : {"more", "limit=3", "tenant", "weight"})
    EXPECT_EQ(refusal(std::string("a\nsecret ") + tail), at + "behind the key stand tenant=NAME, weight=N, rpm=N and tpm=N only");
  EXPECT_EQ(refusal("a\nsha256:abcd"), at + "a sha256 has 64 hexadecimal digits, this one 4");
  EXPECT_EQ(refusal("a\nsha256:" + std::string(63, 'a') + "g"), at + "character 64 of the sha256 is no hexadecimal digit");
  EXPECT_EQ(refusal("a\n" + std::string(513, 's')), at + "a key has 1 to 512 characters, this one 513");
  EXPECT_EQ(refusal("a\ns\xC3\xA9"), at + "byte 2 of the key is no visible ASCII character");
  EXPECT_EQ(refusal("a\nb\na"), "'" + folder_.file("keys") + "': line 1 and line 3 are the same key");
  EXPECT_EQ(refusal("k\nsha256:" + std::string(kHashOfK)), "'" + folder_.file("keys") + "': line 1 and line 2 are the same key");
  EXPECT_EQ(refusal("a tenant=t weight=2\nb tenant=t weight=3"), at + "tenant 't' has weight=3 here and weight=2 in line 1");
  EXPECT_EQ(refusal("# nobody\n\n"), "'" + folder_.file("keys") + "' has no key in it");
  const auto missing = ApiKeys::open(folder_.file("none"), {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_FALSE(ApiKeys::open("", {"a b"}));
  EXPECT_FALSE(ApiKeys::open("", {""}));
  EXPECT_FALSE(ApiKeys::open(folder_.path().string(), {})) << "a folder";
}

TEST_F(ApiKeysTest, only_a_regular_file_of_some_size_is_read) {
  const auto said = [](const std::string& path) {
    const auto keys = ApiKeys::open(path, {});
    return keys ? "opened" : keys.error().message;
  };
  EXPECT_EQ(said("/dev/zero"), "'/dev/zero': it is a device, expected a regular file");
  ASSERT_EQ(::mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(said(folder_.file("pipe")), "'" + folder_.file("pipe") + "': it is a pipe, expected a regular file");
  EXPECT_EQ(said(folder_.file("large", std::string((16 << 20) + 1, '#'))), "'" + folder_.file("large") + "': it has more than 16777216 bytes");
}

TEST_F(ApiKeysTest, a_file_read_again_changes_keys_and_keeps_ids) {
  const auto keys = open("a tenant=a\nb tenant=b weight=2\n", {"opt"});
  const int id = keys->find("b")->id;
  const auto held = keys->find("a");
  testing::write_file(folder_.file("keys"), "c tenant=c\nb2 tenant=b weight=5\n");
  ASSERT_TRUE(keys->reload());
  EXPECT_EQ(keys->find("a"), nullptr);
  EXPECT_EQ(keys->find("b"), nullptr);
  ASSERT_NE(keys->find("b2"), nullptr);
  EXPECT_EQ(keys->find("b2")->id, id);
  EXPECT_EQ(keys->find("b2")->weight, 5);
  EXPECT_NE(keys->find("c")->id, id);
  EXPECT_NE(keys->find("c")->id, held->id) << "an id is never given to another tenant";
  EXPECT_EQ(held->name, "a") << "who holds a tenant keeps it";
  EXPECT_NE(keys->find("opt"), nullptr) << "keys of the command line stay";
  const auto tenants = keys->tenants();
  ASSERT_EQ(tenants.size(), 4u);
  for (std::size_t i = 0; i < tenants.size(); ++i) EXPECT_EQ(tenants[i].id, static_cast<int>(i));
}

TEST_F(ApiKeysTest, a_broken_or_missing_file_keeps_the_old_keys) {
  const auto keys = open("a weight=4\n");
  for (const std::string_view broken : {"a weight=x\n", "", "a\na\n", "z tenant=z\nz2 tenant=z rpm=1\nz3 tenant=z rpm=2\n"}) {
    testing::write_file(folder_.file("keys"), broken);
    EXPECT_FALSE(keys->reload());
    ASSERT_NE(keys->find("a"), nullptr);
    EXPECT_EQ(keys->find("a")->weight, 4);
    EXPECT_EQ(keys->find("z"), nullptr);
  }
  std::filesystem::remove(folder_.file("keys"));
  EXPECT_FALSE(keys->reload());
  EXPECT_NE(keys->find("a"), nullptr);
  EXPECT_TRUE((*ApiKeys::open("", {"k"}))->reload()) << "nothing to read";
}

TEST_F(ApiKeysTest, keys_are_found_while_the_file_is_read_again) {
  const auto keys = open("a tenant=t\nb\n");
  std::thread reloads([&] {
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(keys->reload());
  });
  for (int i = 0; i < 2000; ++i) {
    const auto tenant = keys->find("a");
    ASSERT_NE(tenant, nullptr);
    ASSERT_EQ(tenant->name, "t");
  }
  reloads.join();
}

TEST(PresentedKey, O8_5_scheme_and_blanks_are_free_and_other_headers_count) {
  for (const std::string_view value : {"Bearer k", "bearer k", "BEARER k", "Bearer  k", "  bEaReR \t k  "})
    EXPECT_EQ(presented_key(with_header("authorization", std::string(value))), "k") << value;
  EXPECT_EQ(presented_key(with_header("x-api-key", "k")), "k");
  EXPECT_EQ(presented_key(with_header("api-key", " k ")), "k");
  EXPECT_EQ(presented_key(with_header("authorization", "Bearer")), "");
  EXPECT_EQ(presented_key(with_header("authorization", "")), std::nullopt);
  EXPECT_EQ(presented_key(with_header("authorization", "Basic azpr")), std::nullopt);
  EXPECT_EQ(presented_key(with_header("authorization", "Bearerk")), std::nullopt);
  EXPECT_EQ(presented_key(HttpRequest{}), std::nullopt);
  HttpRequest both = with_header("authorization", "Bearer one");
  both.headers.push_back({"x-api-key", "two"});
  EXPECT_EQ(presented_key(both), "one");
}

}  // namespace
}  // namespace millrace::server
