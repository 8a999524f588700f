#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "text/testing/small_vocabulary.h"
#include "text/tokenizer.h"

namespace millrace::text {
namespace {

using testing::SmallGguf;
using Ids = std::vector<TokenId>;

TEST(GgufTokenizer, what_is_missing_wrong_or_unknown_is_refused_with_its_key) {
  struct Case { bool spm; std::function<void(SmallGguf&)> spoil; Code code; const char* message; };
  const std::int64_t far = 1 << 20;
  const Case cases[] = {
      {false, [](SmallGguf& g) { g.set("model", std::string_view("t5")); }, Code::unsupported,
       "'tokenizer.ggml.model' is 't5'"},
      {false, [](SmallGguf& g) { g.set("model", true); }, Code::corrupt_data, "tokenizer.ggml.model"},
      {false, [](SmallGguf& g) { g.set("pre", std::string_view("mystery")); }, Code::unsupported,
       "'tokenizer.ggml.pre' is 'mystery'"},
      {false, [](SmallGguf& g) { g.set("tokens", std::vector<std::string_view>()); }, Code::corrupt_data,
       "tokenizer.ggml.tokens"},
      {false, [](SmallGguf& g) { g.set("tokens", std::vector<double>{1}); }, Code::corrupt_data,
       "tokenizer.ggml.tokens"},
      {false, [](SmallGguf& g) { g.set("token_type", std::vector<std::int64_t>{1}); }, Code::corrupt_data,
       "has 1 entries for 309"},
      {false, [](SmallGguf& g) { g.set("token_type", std::vector<std::int64_t>(309, 9)); }, Code::corrupt_data,
       "token 0 has type 9"},
      {false, [](SmallGguf& g) { g.set("merges", std::vector<std::string_view>{"ab"}); }, Code::corrupt_data,
       "tokenizer.ggml.merges"},
      {false, [](SmallGguf& g) { g.set("merges", std::vector<std::string_view>{"q zz"}); }, Code::corrupt_data,
       "'q zz'"},
      {false, [=](SmallGguf& g) { g.set("eos_token_id", far); }, Code::corrupt_data, "tokenizer.ggml.eos_token_id"},
      {true, [](SmallGguf& g) { g.set("scores", std::vector<double>{1}); }, Code::corrupt_data,
       "tokenizer.ggml.scores"},
      {true, [](SmallGguf& g) { g.set("scores", std::vector<double>(286, std::nan(""))); }, Code::corrupt_data,
       "is not a number"},
      {true, [](SmallGguf& g) { g.set("token_type", std::vector<std::int64_t>(286, 6)); }, Code::corrupt_data,
       "byte token 0"},
      {true, [](SmallGguf& g) { g.set("add_bos_token", std::uint64_t{1}); }, Code::corrupt_data,
       "tokenizer.ggml.add_bos_token"},
  };
  for (const Case& c : cases) {
    SmallGguf gguf = c.spm ? testing::sentencepiece_gguf() : testing::byte_level_gguf();
    c.spoil(gguf);
    const auto made = make_tokenizer(gguf.metadata());
    ASSERT_FALSE(made.ok()) << c.message;
    EXPECT_EQ(made.error().code, c.code);
    EXPECT_NE(made.error().message.find(c.message), std::string::npos) << made.error().message;
  }
  EXPECT_EQ(make_tokenizer(Metadata()).error().code, Code::not_found);
}

TEST(GgufTokenizer, the_file_says_whether_bos_and_eos_are_added) {
  SmallGguf gguf = testing::byte_level_gguf();
  EXPECT_EQ((*make_tokenizer(gguf.metadata()))->add_special({65}), Ids{65});
  gguf.set("add_bos_token", true);
  gguf.set("add_eos_token", true);
  EXPECT_EQ((*make_tokenizer(gguf.metadata()))->add_special({65}), (Ids{300, 65, 301}));
  SmallGguf llama3 = testing::byte_level_gguf();
  llama3.set("pre", std::string_view("llama-bpe"));  // whose tokenizer.json adds it
  EXPECT_EQ((*make_tokenizer(llama3.metadata()))->add_special({65}), (Ids{300, 65}));
}

TEST(GgufTokenizer, each_family_cuts_digits_and_newlines_its_own_way) {
  const std::vector<std::pair<const char*, Ids>> cases = {{"gpt-2", {272, 10, 10, 268}},
                                                          {"llama-bpe", {272, 267, 268}},
                                                          {"qwen2", {49, 50, 267, 268}},
                                                          {"smollm", {49, 50, 10, 10, 268}},
                                                          {"deepseek-llm", {49, 50, 10, 10, 39, 115}},
                                                          {"deepseek-coder", {49, 50, 10, 10, 39, 115}}};
  for (const auto& [pre, ids] : cases) {
    SmallGguf gguf = testing::byte_level_gguf();
    gguf.set("pre", std::string_view(pre));
    EXPECT_EQ((*make_tokenizer(gguf.metadata()))->encode("12\n\n's", Specials::as_text), ids) << pre;
  }
}

TEST(GgufTokenizer, further_end_tokens_have_keys_of_their_own_and_padding_is_no_token_of_any_text) {
  SmallGguf gguf = testing::byte_level_gguf();
  gguf.set("eot_token_id", std::uint64_t{302});
  std::vector<std::string> tokens = testing::small_tokens();
  std::vector<std::int64_t> types(tokens.size(), 1);
  for (std::size_t i = 278; i < 300; ++i) types[i] = 5;
  for (const auto& a : testing::kSmallAdded) tokens.emplace_back(a.text), types.push_back(a.special ? 3 : 4);
  tokens.push_back("[PAD309]"), types.push_back(4);
  gguf.set("tokens", gguf.keep_all(tokens));
  gguf.set("token_type", types);
  const auto tokenizer = *make_tokenizer(gguf.metadata());
  EXPECT_TRUE(tokenizer->ends_generation(302));
  EXPECT_TRUE(tokenizer->ends_generation(301));
  EXPECT_EQ(tokenizer->encode("[PAD309]", Specials::as_control).size(), 8u);
}

}  // namespace
}  // namespace millrace::text
