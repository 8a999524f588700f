#pragma once

// Who may ask: API keys, each of a tenant. Only hashes of keys are kept, and no key is ever written anywhere. Knows of HTTP
// where a key stands in a request, and nothing else of it.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http.h"
#include "server/tenant.h"

namespace millrace::server {

using KeyHash = std::array<std::uint8_t, 32>;  // SHA-256

KeyHash hash_of_key(std::string_view key);

/// One key as a file or an option says it. `tenant` has no id yet; what `said` does not name is not said.
struct KeyEntry {
  KeyHash hash{};
  Tenant tenant;
  bool said_weight = false, said_rpm = false, said_tpm = false;
  std::string where;  // "line 3", "--api-key": for messages
};

/// A file of keys, one a line:
///
///   KEY|sha256:HEX [tenant=NAME] [weight=N] [rpm=N] [tpm=N]      # a comment
///
/// A key is up to 512 visible ASCII characters, HEX the SHA-256 of one. tenant: whose it is, "default" unless said; keys of
/// one tenant share its share and limits, so only one of them has to say them. weight: 1 to 1000. rpm, tpm: requests and
/// tokens per minute. Errors: invalid_argument, with the line; never with the key.
Result<std::vector<KeyEntry>> parse_api_keys(std::string_view text);

/// The key of a request: of `Authorization: Bearer k` (in any case, with any blanks), `x-api-key: k` or `api-key: k`, the
/// first of these that is there. nullopt: none.
std::optional<std::string_view> presented_key(const HttpRequest& request);

/// All keys; re-read while requests come.
class ApiKeys {
 public:
  /// `path` may be empty, `keys` too: with neither, everybody is the tenant "default". Errors: not_found (no such file),
  /// invalid_argument (path and line; no regular file; no key in it).
  static Result<std::unique_ptr<ApiKeys>> open(std::string path, const std::vector<std::string>& keys);

  /// True if a request needs a key.
  bool needed() const;

  /// Whose key that is; nullptr: nobody's, or none where one is needed. Any thread. The time tells the length of what was
  /// presented and the number of keys, both of which whoever asks may know.
  std::shared_ptr<const Tenant> find(std::optional<std::string_view> key) const;

  /// Whom requests belong to that need no key.
  std::shared_ptr<const Tenant> anybody() const { return anybody_; }

  /// Reads the file again; a tenant keeps its id. Errors: as open(), and the old keys hold.
  Result<void> reload();

  /// By id: every tenant there has been, with its last limits.
  std::vector<Tenant> tenants() const;

 private:
  struct Key {
    KeyHash hash;
    std::shared_ptr<const Tenant> tenant;
  };
  using Keys = std::vector<Key>;

  ApiKeys() = default;
  Result<std::shared_ptr<const Keys>> read();
  std::shared_ptr<const Keys> keys() const;

  std::string path_;
  std::vector<KeyEntry> given_;  // with --api-key
  const std::shared_ptr<const Tenant> anybody_ = std::make_shared<const Tenant>();

  mutable std::mutex mutex_;  // of what follows; held for a copy of the pointer only
  std::shared_ptr<const Keys> keys_;
  std::map<std::string, Tenant> tenants_;  // by name; never shrinks, so ids stay
};

}  // namespace millrace::server
