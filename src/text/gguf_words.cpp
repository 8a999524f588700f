#include "text/gguf_words.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace millrace::text {
namespace {

// Contractions, words with one leading other character, numbers, punctuation with its newlines, blanks.
constexpr std::string_view kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kEachDigit = R"(\p{N})";
constexpr std::string_view kEachNewline = R"([\r\n])";
constexpr std::string_view kCjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDeepseekPunctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// Letters with two cases, as of the Unicode of its day. In numbers: some of them do not survive NFC.
constexpr std::string_view kDeepseekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})"
    R"(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B})"
    R"(\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC})"
    R"(\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134})"
    R"(\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787})"
    R"(\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})"
    R"(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)";

struct Family {
  std::vector<std::string_view> names;
  std::vector<std::string_view> cuts;  // one after the other, each match a word of its own
  std::optional<NormalForm> form = std::nullopt;
  bool ignore_merges = false;
  bool adds_bos = false;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {
      {{"gpt-2", "default", "phi-2"}, {kGpt2Words}},
      {{"llama-bpe", "llama3", "llama-v3"}, {kLlama3Words}, std::nullopt, /*ignore_merges=*/true, /*adds_bos=*/true},
      {{"qwen2"}, {kQwen2Words}, NormalForm::nfc},
      {{"starcoder", "refact", "smollm"}, {kEachDigit, kGpt2Words}},
      {{"deepseek-llm"}, {kEachNewline, kDeepseekLetters, kDeepseekPunctuation, R"(\s+$)", kCjk, kEachDigit}},
      {{"deepseek-coder"}, {kEachNewline, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk, kEachDigit}},
  };
  return kFamilies;
}

}  // namespace

Result<GgufWords> gguf_words(std::string_view pre) {
  const auto family = std::ranges::find_if(
      families(), [&](const Family& f) { return std::ranges::find(f.names, pre) != f.names.end(); });
  if (family == families().end()) {
    std::string known;
    for (const Family& f : families())
      for (const std::string_view name : f.names) known += (known.empty() ? "" : ", ") + std::string(name);
    return error(Code::unsupported, "metadata key 'tokenizer.ggml.pre' is '{}', this build knows {}", pre, known);
  }
  GgufWords words;
  if (family->form) words.normalizer.add(*family->form);
  for (const std::string_view cut : family->cuts) {
    MILLRACE_TRY(pattern, Regex::compile(cut));
    words.pre_tokenizer.add(PreTokenizer::Split{std::move(pattern), PreTokenizer::Behavior::isolated, false});
  }
  words.ignore_merges = family->ignore_merges;
  words.adds_bos = family->adds_bos;
  return words;
}

}  // namespace millrace::text
