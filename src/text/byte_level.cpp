#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace millrace::text {
namespace {

constexpr int kNoByte = -1;

/// Printable Latin-1 stands for itself; the other 68 bytes, in order, are U+0100 and up.
constexpr std::array<int, 256 + 68> make_alphabet() {
  std::array<int, 256 + 68> bytes{};
  int moved = 0;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
    bytes[static_cast<std::size_t>(b)] = printable ? b : kNoByte;
    if (!printable) bytes[static_cast<std::size_t>(256 + moved++)] = b;
  }
  return bytes;
}
constexpr auto kAlphabet = make_alphabet();
static_assert(kAlphabet['A'] == 'A' && kAlphabet[0x120] == ' ' && kAlphabet[0x10A] == '\n' && kAlphabet[0x143] == 0xAD);

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view spelling) {
  std::string bytes;
  bytes.reserve(spelling.size());
  while (!spelling.empty()) {
    const Utf8Step step = decode_utf8(spelling);
    if (step.kind != Utf8Step::Kind::character || step.code_point >= kAlphabet.size()) return std::nullopt;
    const int byte = kAlphabet[step.code_point];
    if (byte == kNoByte) return std::nullopt;
    bytes += static_cast<char>(static_cast<unsigned char>(byte));
    spelling.remove_prefix(static_cast<std::size_t>(step.length));
  }
  return bytes;
}

std::optional<unsigned char> byte_from_hex_token(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return std::nullopt;
  const int high = hex_digit(spelling[3]), low = hex_digit(spelling[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high * 16 + low);
}

}  // namespace millrace::text
