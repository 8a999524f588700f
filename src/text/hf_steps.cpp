#include "text/hf_steps.h"

#include <functional>

#include "text/vocabulary.h"

namespace millrace::text {
namespace {

using Behavior = PreTokenizer::Behavior;
using Read = std::function<Result<void>(const JsonAt&, const std::string& type)>;

constexpr int kDeepestSequence = 8;

/// Calls `read` for the step at `at`, or for each step of a Sequence whose list is under `list`.
Result<void> for_each_step(const JsonAt& at, const char* list, const Read& read, int depth = 0) {
  if (at.is_null()) return {};
  MILLRACE_TRY(type, at["type"].string());
  if (type != "Sequence") return read(at, type);
  if (depth == kDeepestSequence) return at.expected("a Sequence less deep");
  const JsonAt steps = at[list];
  MILLRACE_TRY(n, steps.array_size());
  for (std::size_t i = 0; i < n; ++i) MILLRACE_TRY_VOID(for_each_step(steps.item(i), list, read, depth + 1));
  return {};
}

/// {"String": "x"} or {"Regex": "x"} as a regular expression; `literal` gets the string of the first form.
Result<Regex> read_pattern(const JsonAt& at, std::string* literal = nullptr) {
  const bool is_regex = !at["Regex"].is_null();
  MILLRACE_TRY(text, (is_regex ? at["Regex"] : at["String"]).string());
  if (text.empty()) return at.expected("a pattern that is not empty");
  if (!is_regex && literal) *literal = text;
  auto regex = Regex::compile(is_regex ? text : Regex::quoted(text));
  if (!regex) return std::move(regex).error().in(at.path);
  return regex;
}

Result<Behavior> read_behavior(const JsonAt& at) {
  MILLRACE_TRY(name, at.string());
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  return at.expected("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

Result<void> add_split(PreTokenizer& to, std::string_view pattern, Behavior behavior, bool invert = false) {
  MILLRACE_TRY(regex, Regex::compile(pattern));
  to.add(PreTokenizer::Split{std::move(regex), behavior, invert});
  return {};
}

/// "prepend_scheme", or its predecessor "add_prefix_space".
Result<PreTokenizer::Metaspace::Prefix> read_prefix(const JsonAt& at) {
  using Prefix = PreTokenizer::Metaspace::Prefix;
  const JsonAt scheme = at["prepend_scheme"];
  if (scheme.is_null()) {
    MILLRACE_TRY(adds, at["add_prefix_space"].boolean_or(true));
    return adds ? Prefix::always : Prefix::never;
  }
  MILLRACE_TRY(name, scheme.string());
  if (name == "always") return Prefix::always;
  if (name == "first") return Prefix::first;
  if (name == "never") return Prefix::never;
  return scheme.expected("always, first or never");
}

Result<void> add_metaspace(const JsonAt& at, PreTokenizer& to) {
  MILLRACE_TRY(marker, at["replacement"].string());
  if (marker.empty()) return at["replacement"].expected("a character");
  MILLRACE_TRY(prefix, read_prefix(at));
  MILLRACE_TRY(split, at["split"].boolean_or(true));
  MILLRACE_TRY(regex, Regex::compile(Regex::quoted(marker)));
  to.add(PreTokenizer::Metaspace{marker, prefix, std::move(regex), split});
  return {};
}

}  // namespace

Result<Normalizer> read_normalizer(const JsonAt& at) {
  Normalizer normalizer;
  MILLRACE_TRY_VOID(for_each_step(at, "normalizers", [&](const JsonAt& step, const std::string& type) -> Result<void> {
    if (type == "NFC") normalizer.add(NormalForm::nfc);
    else if (type == "NFD") normalizer.add(NormalForm::nfd);
    else if (type == "NFKC") normalizer.add(NormalForm::nfkc);
    else if (type == "NFKD") normalizer.add(NormalForm::nfkd);
    else if (type == "Prepend") {
      MILLRACE_TRY(text, step["prepend"].string());
      normalizer.add(Normalizer::Prepend{text});
    } else if (type == "Replace") {
      std::string literal;
      MILLRACE_TRY(pattern, read_pattern(step["pattern"], &literal));
      MILLRACE_TRY(content, step["content"].string());
      if (literal.empty()) normalizer.add(Normalizer::ReplaceMatches{std::move(pattern), content});
      else normalizer.add(Normalizer::Replace{literal, content});
    } else {
      return step["type"].unsupported();
    }
    return {};
  }));
  return normalizer;
}

Result<HfPreTokenizer> read_pre_tokenizer(const JsonAt& at) {
  HfPreTokenizer out;
  MILLRACE_TRY_VOID(
      for_each_step(at, "pretokenizers", [&](const JsonAt& step, const std::string& type) -> Result<void> {
        if (out.byte_level) return step.expected("nothing after ByteLevel");
        if (type == "Split") {
          MILLRACE_TRY(pattern, read_pattern(step["pattern"]));
          MILLRACE_TRY(behavior, read_behavior(step["behavior"]));
          MILLRACE_TRY(invert, step["invert"].boolean_or(false));
          out.steps.add(PreTokenizer::Split{std::move(pattern), behavior, invert});
          return {};
        }
        if (type == "ByteLevel") {
          MILLRACE_TRY(adds_blank, step["add_prefix_space"].boolean_or(true));
          MILLRACE_TRY(cuts, step["use_regex"].boolean_or(true));
          if (adds_blank) out.steps.add(PreTokenizer::PrefixBlank{});
          out.byte_level = true;
          return cuts ? add_split(out.steps, kGpt2Words, Behavior::isolated) : Result<void>();
        }
        if (type == "Digits") {
          MILLRACE_TRY(each, step["individual_digits"].boolean_or(false));
          return add_split(out.steps, R"(\p{N})", each ? Behavior::isolated : Behavior::contiguous);
        }
        if (type == "Metaspace") return add_metaspace(step, out.steps);
        if (type == "Whitespace") return add_split(out.steps, R"(\w+|[^\w\s]+)", Behavior::removed, /*invert=*/true);
        if (type == "WhitespaceSplit") return add_split(out.steps, R"(\s)", Behavior::removed);
        return step["type"].unsupported();
      }));
  return out;
}

Result<HfDecoder> read_decoder(const JsonAt& at) {
  if (at.is_null()) return at.unsupported();
  HfDecoder out;
  bool is_fused = false;
  MILLRACE_TRY_VOID(for_each_step(at, "decoders", [&](const JsonAt& step, const std::string& type) -> Result<void> {
    if (type == "ByteLevel") out.byte_level = true;
    else if (type == "ByteFallback") out.byte_tokens = true;
    else if (type == "Fuse") is_fused = true;
    else if (type == "Replace") {
      std::string literal;
      MILLRACE_TRY_VOID(read_pattern(step["pattern"], &literal));
      if (literal.empty() || is_fused) return step["pattern"].unsupported();
      MILLRACE_TRY(content, step["content"].string());
      out.replacements.emplace_back(literal, content);
    } else if (type == "Strip") {
      // Only the one that takes the blank of the word-start marker off the whole text.
      MILLRACE_TRY(content, step["content"].string());
      MILLRACE_TRY(start, step["start"].integer(0, 1));
      MILLRACE_TRY_VOID(step["stop"].integer(0, 0));
      if (content != " " || !is_fused) return step.unsupported();
      out.strips_first_blank = start == 1;
    } else if (type == "Metaspace") {
      MILLRACE_TRY(marker, step["replacement"].string());
      if (marker.empty()) return step["replacement"].expected("a character");
      MILLRACE_TRY(prefix, read_prefix(step));
      out.replacements.emplace_back(marker, " ");
      out.strips_first_blank = prefix != PreTokenizer::Metaspace::Prefix::never;
    } else {
      return step["type"].unsupported();
    }
    return {};
  }));
  return out;
}

Result<HfFrame> read_post_processor(const JsonAt& at) {
  HfFrame out;
  MILLRACE_TRY_VOID(for_each_step(at, "processors", [&](const JsonAt& step, const std::string& type) -> Result<void> {
    if (type == "ByteLevel") return {};  // moves offsets, which nobody asks for here
    if (type != "TemplateProcessing") return step["type"].unsupported();
    const JsonAt single = step["single"];
    MILLRACE_TRY(n, single.array_size());
    std::vector<TokenId> before, after;
    bool seen_text = false;
    for (std::size_t i = 0; i < n; ++i) {
      const JsonAt part = single.item(i);
      if (!part["Sequence"].is_null()) {
        if (std::exchange(seen_text, true)) return part.expected("one Sequence only");
        continue;
      }
      MILLRACE_TRY(name, part["SpecialToken"]["id"].string());
      const JsonAt ids = step["special_tokens"][name.c_str()]["ids"];
      MILLRACE_TRY(n_ids, ids.array_size());
      for (std::size_t k = 0; k < n_ids; ++k) {
        MILLRACE_TRY(id, ids.item(k).integer(0, kMostTokens - 1));
        (seen_text ? after : before).push_back(static_cast<TokenId>(id));
      }
    }
    if (!seen_text) return single.expected("a Sequence among its parts");
    out.prefix.insert(out.prefix.begin(), before.begin(), before.end());
    out.suffix.insert(out.suffix.end(), after.begin(), after.end());
    return {};
  }));
  return out;
}

}  // namespace millrace::text
