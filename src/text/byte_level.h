#pragma once

// The alphabet of byte-level BPE: a vocabulary file writes every byte as one printable character ("Ġ" is a blank),
// so that it can be JSON. Inside the tokenizer only bytes exist; this is the border.

#include <optional>
#include <string>
#include <string_view>

namespace millrace::text {

/// The bytes that `spelling` stands for; nullopt when one of its characters is not in the alphabet.
std::optional<std::string> bytes_from_alphabet(std::string_view spelling);

/// The byte of a SentencePiece byte token, "<0x0A>"; nullopt for any other spelling.
std::optional<unsigned char> byte_from_hex_token(std::string_view spelling);

}  // namespace millrace::text
