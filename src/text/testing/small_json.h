#pragma once

// The vocabularies of small_vocabulary.h as tokenizer.json. Apart, because the JSON library is slow to compile.

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "text/testing/small_vocabulary.h"

namespace millrace::text::testing {

using Json = nlohmann::json;

inline Json json_model(const std::vector<std::string>& tokens, const Merges& merges) {
  Json vocab = Json::object(), list = Json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
  for (const auto& [left, right] : merges) list.push_back(left + " " + right);
  return {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", vocab}, {"merges", list}};
}

inline Json json_added(int id, const std::string& text, bool special, bool lstrip = false, bool rstrip = false) {
  return {{"id", id}, {"content", text}, {"special", special}, {"lstrip", lstrip}, {"rstrip", rstrip},
          {"single_word", false}, {"normalized", false}};
}

inline constexpr const char* kSmallWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// A tokenizer.json, to be spoilt or extended before dump().
inline Json byte_level_json() {
  const Json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", kSmallWords}}}, {"behavior", "Isolated"}, {"invert", false}};
  Json added = Json::array();
  for (const SmallAdded& a : kSmallAdded) added.push_back(json_added(a.id, a.text, a.special, a.lstrip, a.rstrip));
  return {{"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, byte_level}}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model", json_model(small_tokens(), small_merges())}};
}

inline Json sentencepiece_json() {
  Json model = json_model(spm_tokens(), spm_merges());
  model.update({{"unk_token", "<unk>"}, {"fuse_unk", true}, {"byte_fallback", true}});
  const Json marker = {{"String", "▁"}}, blank = {{"String", " "}};
  return {{"added_tokens", {json_added(0, "<unk>", true), json_added(1, "<s>", true), json_added(2, "</s>", true)}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}}, {{"type", "Replace"}, {"pattern", blank}, {"content", "▁"}}}}}},
          {"pre_tokenizer", nullptr},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", marker}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model", model}};
}

}  // namespace millrace::text::testing
