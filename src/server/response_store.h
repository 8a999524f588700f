#pragma once

// What /v1/responses remembers: answers by id, so that a later request goes on from one. Texts only: knows no JSON, no
// engine and no clock. Bounded in count, bytes and age; who stores most, forgets first.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace millrace::server {

/// One request and its answer, as JSON texts. Immutable; shared by all conversations that went on from it.
struct Round {
  std::string response;     // the response object, as it was answered
  std::string input_items;  // the items that this request added, a JSON array
};

/// From the first round to the last, which is the response that was asked for.
using Conversation = std::vector<std::shared_ptr<const Round>>;

struct ResponseStoreLimits {
  std::size_t responses = 10'000;
  std::size_t bytes = 64 << 20;             // texts of all rounds, each once, and what is kept beside them
  std::int64_t max_age_s = 30 * 24 * 3600;  // since it was stored; OpenAI's 30 days
};

/// Any thread. An id belongs to one tenant; for others it does not exist. Beyond the limits the tenant that holds most loses
/// what it has not used for longest, so that nobody can empty the store of another.
class ResponseStore {
 public:
  explicit ResponseStore(ResponseStoreLimits limits = {});

  /// Keeps `round` as `id`, behind `before` (the conversation of its previous_response_id, or none). What alone is more than
  /// the limits is not kept. An id that is there already now names this one.
  void keep(const std::string& tenant, const std::string& id, const Conversation& before, Round round, std::int64_t now_s);

  /// nullopt: never stored, forgotten, deleted, or another tenant's.
  std::optional<Conversation> find(const std::string& tenant, const std::string& id, std::int64_t now_s);

  /// Whether it was there. Responses that went on from it keep their conversation.
  bool remove(const std::string& tenant, const std::string& id, std::int64_t now_s);

  struct Size { std::size_t responses = 0, bytes = 0; };
  Size size() const;

 private:
  struct Stored {
    std::string id;
    Conversation conversation;
    std::size_t bytes = 0;  // of its own: not of its rounds
    std::int64_t stored_s = 0;
  };
  using Order = std::list<Stored>;  // used longest ago first
  struct Shelf {                    // of one tenant
    Order order;
    std::map<std::string, Order::iterator> by_id;
    // Grows with keep(), shrinks with the last conversation that holds a round, which may be that of a running request.
    std::shared_ptr<std::atomic<std::size_t>> round_bytes = std::make_shared<std::atomic<std::size_t>>(0);
    std::size_t own_bytes = 0;
    std::size_t bytes() const { return own_bytes + *round_bytes; }
  };

  bool is_old(const Stored& stored, std::int64_t now_s) const { return now_s - stored.stored_s >= limits_.max_age_s; }
  Shelf* fullest_shelf();
  Size size_now() const;
  void drop(Shelf& shelf, Order::iterator stored);
  void forget_old(std::int64_t now_s);
  void forget_beyond_limits();

  const ResponseStoreLimits limits_;
  mutable std::mutex mutex_;
  std::map<std::string, Shelf> shelves_;  // by tenant
  std::int64_t swept_s_ = 0;              // when forget_old last looked at all of them
};

}  // namespace millrace::server
