// Any bytes, cut into tokens of any length: the stream is valid UTF-8 in every part, and all of it is the repaired
// whole.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace {

using namespace millrace;

/// Token i is data[i], or data[i] and its successor when data[i] is odd: cuts fall anywhere within characters.
class Pieces final : public text::Tokenizer {
 public:
  explicit Pieces(std::string_view data) : data_(data) {}
  std::string_view piece(TokenId token) const override {
    const auto at = static_cast<std::size_t>(token);
    return data_.substr(at, data_[at] & 1 ? 2 : 1);
  }
  std::vector<TokenId> encode(std::string_view, text::Specials) const override { return {}; }
  std::vector<TokenId> encode(const text::MarkedText&) const override { return {}; }
  std::vector<TokenId> add_special(std::vector<TokenId> ids) const override { return ids; }
  std::optional<std::string_view> spelling(TokenId token) const override { return piece(token); }
  int vocab_size() const override { return static_cast<int>(data_.size()); }
  bool is_special(TokenId) const override { return false; }
  bool ends_generation(TokenId) const override { return false; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool strips_first_blank() const override { return false; }

 private:
  std::string_view data_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Pieces pieces(std::string_view(reinterpret_cast<const char*>(data), size));
  text::Detokenizer stream(pieces, /*continues=*/true);
  std::string all, bytes;
  for (std::size_t i = 0; i < size; ++i) {
    const auto token = static_cast<TokenId>(i);
    const std::string part = stream.push(token);
    MILLRACE_CHECK(is_valid_utf8(part), "a part is no UTF-8");
    bytes += pieces.piece(token);
    all += part;
  }
  all += stream.finish();
  MILLRACE_CHECK(all == repair_utf8(bytes), "the stream is not the repaired whole");
  MILLRACE_CHECK(stream.finish().empty(), "the rest comes twice");
  return 0;
}
