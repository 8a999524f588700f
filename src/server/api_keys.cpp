#include "server/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

#include "base/ascii.h"
#include "base/log.h"
#include "base/regular_file.h"

namespace millrace::server {
namespace {

constexpr std::size_t kMostKeyBytes = 512, kMostNameBytes = 64;
constexpr std::size_t kMostFileBytes = 16 << 20;
constexpr std::int64_t kMostPerMinute = 1'000'000'000;
constexpr std::string_view kHashed = "sha256:";

constexpr bool is_visible(char c) { return c > 0x20 && c < 0x7F; }

/// The next word of `line`, which loses it; empty at the end.
std::string_view take_word(std::string_view& line) {
  const auto from = std::min(line.find_first_not_of(" \t\r"), line.size());
  const auto to = std::min(line.find_first_of(" \t\r", from), line.size());
  const std::string_view word = line.substr(from, to - from);
  line.remove_prefix(to);
  return word;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

Result<KeyHash> parse_key(std::string_view word) {
  if (word.substr(0, kHashed.size()) == kHashed) {
    const std::string_view hex = word.substr(kHashed.size());
    KeyHash hash{};
    if (hex.size() != 2 * hash.size()) return error(Code::invalid_argument, "a sha256 has {} hexadecimal digits, this one {}", 2 * hash.size(), hex.size());
    for (std::size_t i = 0; i < hex.size(); ++i) {
      const int digit = hex_digit(hex[i]);
      if (digit < 0) return error(Code::invalid_argument, "character {} of the sha256 is no hexadecimal digit", i + 1);
      hash[i / 2] = static_cast<std::uint8_t>(hash[i / 2] * 16 + digit);
    }
    return hash;
  }
  if (word.empty() || word.size() > kMostKeyBytes) return error(Code::invalid_argument, "a key has 1 to {} characters, this one {}", kMostKeyBytes, word.size());
  for (std::size_t i = 0; i < word.size(); ++i)
    if (!is_visible(word[i])) return error(Code::invalid_argument, "byte {} of the key is no visible ASCII character", i + 1);
  return hash_of_key(word);
}

Result<std::int64_t> parse_number(std::string_view name, std::string_view word, std::int64_t most) {
  std::int64_t n = 0;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), n);
  if (failed != std::errc() || end != word.data() + word.size() || n < 1 || n > most)
    return error(Code::invalid_argument, "{} is a number from 1 to {}, got '{}'", name, most, word.substr(0, 40));
  return n;
}

Result<void> parse_attribute(std::string_view word, KeyEntry& entry) {
  const auto equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const std::string_view value = equals == word.npos ? std::string_view() : word.substr(equals + 1);
  if (name == "tenant" && equals != word.npos) {
    const bool fine = !value.empty() && value.size() <= kMostNameBytes && std::ranges::all_of(value, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    });
    if (!fine) return error(Code::invalid_argument, "a tenant's name has 1 to {} letters, digits, '.', '_' and '-'", kMostNameBytes);
    entry.tenant.name = value;
  } else if (name == "weight" && equals != word.npos) {
    MILLRACE_TRY(weight, parse_number(name, value, 1000));
    entry.tenant.weight = static_cast<int>(weight);
    entry.said_weight = true;
  } else if (name == "rpm" && equals != word.npos) {
    MILLRACE_TRY(rpm, parse_number(name, value, kMostPerMinute));
    entry.tenant.requests_per_minute = rpm;
    entry.said_rpm = true;
  } else if (name == "tpm" && equals != word.npos) {
    MILLRACE_TRY(tpm, parse_number(name, value, kMostPerMinute));
    entry.tenant.tokens_per_minute = tpm;
    entry.said_tpm = true;
  } else {
    // The word is not quoted: it may be a part of a key with a blank in it.
    return error(Code::invalid_argument, "behind the key stand tenant=NAME, weight=N, rpm=N and tpm=N only");
  }
  return {};
}

Result<std::string> read_file(const std::string& path) {
  const auto file = RegularFile::open(path);
  auto text = file ? file->read(kMostFileBytes) : Error(file.error());
  if (!text) return std::move(text).error().in(fmt::format("'{}'", path));
  return text;
}

/// Joins what one key says of its tenant to what others said.
Result<void> join(const KeyEntry& entry, KeyEntry& tenant) {
  const auto differs = [&](std::string_view name, bool said, bool said_before, auto now, auto before) -> Result<void> {
    if (!said || !said_before || now == before) return {};
    return error(Code::invalid_argument, "{}: tenant '{}' has {}={} here and {}={} in {}", entry.where, entry.tenant.name, name, now, name, before,
                 tenant.where);
  };
  Tenant& to = tenant.tenant;
  const Tenant& from = entry.tenant;
  MILLRACE_TRY_VOID(differs("weight", entry.said_weight, tenant.said_weight, from.weight, to.weight));
  MILLRACE_TRY_VOID(differs("rpm", entry.said_rpm, tenant.said_rpm, from.requests_per_minute, to.requests_per_minute));
  MILLRACE_TRY_VOID(differs("tpm", entry.said_tpm, tenant.said_tpm, from.tokens_per_minute, to.tokens_per_minute));
  if (entry.said_weight) to.weight = from.weight, tenant.said_weight = true;
  if (entry.said_rpm) to.requests_per_minute = from.requests_per_minute, tenant.said_rpm = true;
  if (entry.said_tpm) to.tokens_per_minute = from.tokens_per_minute, tenant.said_tpm = true;
  return {};
}

}  // namespace

KeyHash hash_of_key(std::string_view key) {
  KeyHash hash;
  ::SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  return hash;
}

Result<std::vector<KeyEntry>> parse_api_keys(std::string_view text) {
  std::vector<KeyEntry> entries;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));

    std::string_view word = take_word(line);
    if (word.empty() || word[0] == '#') continue;
    KeyEntry entry;
    entry.where = fmt::format("line {}", number);
    auto hash = parse_key(word);
    if (!hash) return std::move(hash).error().in(entry.where);
    entry.hash = *hash;
    for (word = take_word(line); !word.empty() && word[0] != '#'; word = take_word(line))
      if (auto done = parse_attribute(word, entry); !done) return std::move(done).error().in(entry.where);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<std::string_view> presented_key(const HttpRequest& request) {
  if (const std::string* header = request.header("authorization")) {
    std::string_view rest = *header;
    if (ascii_lower(take_word(rest)) == "bearer") return take_word(rest);
  }
  for (const std::string_view name : {"x-api-key", "api-key"})
    if (const std::string* header = request.header(name)) {
      std::string_view rest = *header;
      return take_word(rest);
    }
  return std::nullopt;
}

Result<std::unique_ptr<ApiKeys>> ApiKeys::open(std::string path, const std::vector<std::string>& keys) {
  std::unique_ptr<ApiKeys> made(new ApiKeys);
  made->path_ = std::move(path);
  made->tenants_["default"] = Tenant{};
  for (const std::string& key : keys) {
    KeyEntry entry;
    entry.where = "--api-key";
    auto hash = parse_key(key);
    if (!hash) return std::move(hash).error().in(entry.where);
    entry.hash = *hash;
    made->given_.push_back(std::move(entry));
  }
  MILLRACE_TRY(read, made->read());
  made->keys_ = std::move(read);
  return made;
}

Result<std::shared_ptr<const ApiKeys::Keys>> ApiKeys::read() {
  std::vector<KeyEntry> entries = given_;
  if (!path_.empty()) {
    MILLRACE_TRY(text, read_file(path_));
    auto parsed = parse_api_keys(text);
    if (!parsed) return std::move(parsed).error().in(fmt::format("'{}'", path_));
    // Without this, whoever empties the file would open the server to everybody, or lock out all.
    if (parsed->empty()) return error(Code::invalid_argument, "'{}' has no key in it", path_);
    entries.insert(entries.end(), parsed->begin(), parsed->end());
  }
  const std::string context = path_.empty() ? "--api-key" : fmt::format("'{}'", path_);

  std::map<KeyHash, const KeyEntry*> seen;
  std::map<std::string, KeyEntry> by_tenant;
  for (const KeyEntry& entry : entries) {
    const auto [before, is_new] = seen.try_emplace(entry.hash, &entry);
    if (!is_new) return error(Code::invalid_argument, "{}: {} and {} are the same key", context, before->second->where, entry.where);
    const auto [tenant, first] = by_tenant.try_emplace(entry.tenant.name, entry);
    if (!first)
      if (auto joined = join(entry, tenant->second); !joined) return Error(joined.error()).in(context);
  }

  auto keys = std::make_shared<Keys>();
  std::map<std::string, std::shared_ptr<const Tenant>> shared;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, entry] : by_tenant) {
      const auto known = tenants_.find(name);
      entry.tenant.id = known != tenants_.end() ? known->second.id : static_cast<int>(tenants_.size());
      tenants_[name] = entry.tenant;
      shared[name] = std::make_shared<const Tenant>(entry.tenant);
    }
  }
  for (const KeyEntry& entry : entries) keys->push_back({entry.hash, shared[entry.tenant.name]});
  return std::shared_ptr<const Keys>(std::move(keys));
}

std::shared_ptr<const ApiKeys::Keys> ApiKeys::keys() const {
  const std::lock_guard lock(mutex_);
  return keys_;
}

bool ApiKeys::needed() const { return !keys()->empty(); }

std::shared_ptr<const Tenant> ApiKeys::find(std::optional<std::string_view> key) const {
  const auto keys = this->keys();
  if (keys->empty()) return anybody_;
  if (!key) return nullptr;
  // Constant time by construction: what is compared are hashes of one size, each with all of its bytes, and all of them
  // whether one was equal or not; the index is kept without a branch.
  const KeyHash presented = hash_of_key(*key);
  std::size_t found = 0;  // 1 + the index
  for (std::size_t i = 0; i < keys->size(); ++i) {
    const auto equal = static_cast<std::size_t>(::CRYPTO_memcmp(presented.data(), (*keys)[i].hash.data(), presented.size()) == 0);
    found |= (std::size_t{0} - equal) & (i + 1);
  }
  return found == 0 ? nullptr : (*keys)[found - 1].tenant;
}

Result<void> ApiKeys::reload() {
  if (path_.empty()) return {};
  MILLRACE_TRY(read, this->read());
  const auto count = read->size();
  {
    const std::lock_guard lock(mutex_);
    keys_ = std::move(read);
  }
  log_info("keys read", {{"file", path_}, {"keys", count}});
  return {};
}

std::vector<Tenant> ApiKeys::tenants() const {
  const std::lock_guard lock(mutex_);
  std::vector<Tenant> out(tenants_.size());
  for (const auto& [name, tenant] : tenants_) out[static_cast<std::size_t>(tenant.id)] = tenant;
  return out;
}

}  // namespace millrace::server
