#include <gtest/gtest.h>

#include "text/testing/small_json.h"
#include "text/tokenizer.h"

namespace millrace::text {
namespace {

using testing::Json;
using Ids = std::vector<TokenId>;

std::unique_ptr<Tokenizer> make(const Json& json, const Json& config = nullptr, const Json& generation = nullptr) {
  const std::string config_text = config.dump(), generation_text = generation.dump();
  auto made = make_tokenizer(json.dump(), config.is_null() ? nullptr : &config_text,
                             generation.is_null() ? nullptr : &generation_text);
  EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
  return *std::move(made);
}

TEST(HfTokenizer, what_it_does_not_know_is_refused_with_its_path) {
  struct Case { const char* pointer; Json value; const char* message; };
  const Json step = {{"type", "Mystery"}};
  const Case cases[] = {
      {"/model/type", "Unigram", "model.type"},
      {"/model/vocab", 3, "model.vocab: expected an object"},
      {"/model/vocab/hello", -1, "model.vocab[hello]"},
      {"/model/vocab/hello", 1 << 30, "model.vocab[hello]"},
      {"/model/merges", nullptr, "model.merges: expected an array"},
      {"/model/merges/3", "one", "model.merges[3]: expected two tokens"},
      {"/model/merges/3", {"a", 1}, "model.merges[3]: expected two tokens"},
      {"/model/merges/3", "q zzz", "model.merges[3]: expected tokens of the vocabulary"},
      {"/model/unk_token", "<nope>", "model.unk_token"},
      {"/model/dropout", 0.1, "model.dropout"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
      {"/model/byte_fallback", "yes", "model.byte_fallback: expected a bool"},
      {"/normalizer", step, "normalizer.type"},
      {"/normalizer/type", 7, "normalizer.type: expected a string, got 7"},
      {"/pre_tokenizer/pretokenizers/0", step, "pre_tokenizer.pretokenizers[0].type"},
      {"/pre_tokenizer/pretokenizers/0/behavior", "Sideways", "pre_tokenizer.pretokenizers[0].behavior"},
      {"/pre_tokenizer/pretokenizers/0/pattern", Json{{"Regex", "(a"}}, "pre_tokenizer.pretokenizers[0].pattern"},
      {"/pre_tokenizer/pretokenizers/2", step, "pre_tokenizer.pretokenizers[2]"},
      {"/decoder", nullptr, "decoder"},
      {"/decoder", step, "decoder.type"},
      {"/post_processor", step, "post_processor.type"},
      {"/post_processor", Json{{"type", "TemplateProcessing"}, {"single", Json::array()}}, "post_processor.single"},
      {"/added_tokens/0/id", "x", "added_tokens[0].id"},
      {"/added_tokens/0/content", "", "added_tokens[0].content"},
      {"/added_tokens", 1, "added_tokens: expected an array"},
  };
  for (const Case& c : cases) {
    Json json = testing::byte_level_json();
    json[Json::json_pointer(c.pointer)] = c.value;
    const auto made = make_tokenizer(json.dump(), nullptr, nullptr);
    ASSERT_FALSE(made.ok()) << c.pointer;
    EXPECT_NE(made.error().message.find(std::string("tokenizer.json: ") + c.message), std::string::npos)
        << made.error().message;
  }
}

TEST(HfTokenizer, text_that_is_no_json_is_refused) {
  for (const char* text :
       {"", "{", "[]", "null", "{\"model\":1e999}", "\xFF", "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}"})
    EXPECT_FALSE(make_tokenizer(text, nullptr, nullptr).ok()) << text;
  std::string deep = R"({"model":)" + std::string(100'000, '[');
  EXPECT_FALSE(make_tokenizer(deep, nullptr, nullptr).ok());
}

TEST(HfTokenizer, every_file_may_name_end_tokens) {  // O4.7
  const Json json = testing::byte_level_json();
  EXPECT_TRUE(make(json, nullptr, {{"eos_token_id", {301, 302}}})->ends_generation(302));
  EXPECT_TRUE(make(json, nullptr, {{"eos_token_id", 302}})->ends_generation(302));
  EXPECT_TRUE(make(json, {{"eos_token", "<|im_start|>"}})->ends_generation(302));
  EXPECT_TRUE(make(json, {{"eos_token", {{"content", "<|im_start|>"}}}})->ends_generation(302));
  EXPECT_FALSE(make(json)->ends_generation(302));
  EXPECT_EQ(make(json, {{"eos_token", "<|eos|>"}}, {{"eos_token_id", {303, 301}}})->eos(), 301);
  EXPECT_EQ(make(json, {{"bos_token", "<|bos|>"}})->bos(), 300);
  EXPECT_FALSE(make(json, nullptr, {{"eos_token_id", {5000}}})->ends_generation(5000));
}

TEST(HfTokenizer, the_post_processor_says_what_is_added_around_a_text) {
  Json json = testing::byte_level_json();
  EXPECT_EQ(make(json)->add_special({65}), Ids{65});
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "B"}}}}, {{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "E"}}}}}},
      {"special_tokens", {{"B", {{"ids", {300}}}}, {"E", {{"ids", {301, 303}}}}}}};
  EXPECT_EQ(make(json)->add_special({65}), (Ids{300, 65, 301, 303}));
  const Json llama = {{"tokenizer_class", "LlamaTokenizerFast"}, {"bos_token", "<|bos|>"}, {"add_bos_token", false}};
  EXPECT_EQ(make(json, llama)->add_special({65}), Ids{65});
  json["post_processor"]["special_tokens"]["B"]["ids"] = {4000};
  EXPECT_FALSE(make_tokenizer(json.dump(), nullptr, nullptr).ok());
}

TEST(HfTokenizer, a_normalized_added_token_is_looked_for_in_normalized_text) {
  Json json = testing::byte_level_json();
  json["added_tokens"].push_back(testing::json_added(309, "né", false));
  EXPECT_EQ(make(json)->encode("ne\u0301", Specials::as_text), (Ids{110, 273}));
  json["added_tokens"].back()["normalized"] = true;
  EXPECT_EQ(make(json)->encode("ne\u0301", Specials::as_text), Ids{309});
}

TEST(HfTokenizer, an_added_token_is_text_even_where_the_model_spells_bytes_that_way) {
  Json json = testing::byte_level_json();
  json["added_tokens"].push_back(testing::json_added(309, "õé", false));
  const auto tokenizer = make(json);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("aõéb", Specials::as_text), false), "aõéb");
}

TEST(HfTokenizer, a_metaspace_marks_the_first_word_or_every_part) {
  Json json = testing::sentencepiece_json();
  json["normalizer"] = nullptr;
  const auto encode = [&](const char* scheme, const char* text) {
    json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", true}};
    return make(json)->encode(text, Specials::as_control);
  };
  EXPECT_EQ(encode("always", "hello<s>hello"), (Ids{277, 1, 277}));
  EXPECT_EQ(encode("first", "hello<s>hello"), (Ids{277, 1, 276}));
  EXPECT_EQ(encode("never", "hello<s>hello"), (Ids{276, 1, 276}));
  EXPECT_EQ(encode("always", " hello world"), (Ids{277, 282}));  // it has its marker
}

}  // namespace
}  // namespace millrace::text
