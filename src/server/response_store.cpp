#include "server/response_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace millrace::server {
namespace {

// A look at all of 10,000 takes well below a millisecond; once a minute nobody notices.
constexpr std::int64_t kSweepEvery_s = 60;

// List and map nodes, control blocks and allocator overhead: about what they come to.
constexpr std::size_t kBytesBeside = 512;

}  // namespace

ResponseStore::ResponseStore(ResponseStoreLimits limits) : limits_(limits) {}

void ResponseStore::keep(const std::string& tenant, const std::string& id, const Conversation& before, Round round, std::int64_t now_s) {
  const std::size_t round_bytes = round.response.size() + round.input_items.size();
  const std::size_t own_bytes = kBytesBeside + 2 * id.size() + (before.size() + 1) * sizeof(before[0]);
  if (limits_.responses == 0 || round_bytes > limits_.bytes || own_bytes > limits_.bytes - round_bytes) return;

  const std::lock_guard lock(mutex_);
  forget_old(now_s);
  Shelf& shelf = shelves_[tenant];
  if (const auto found = shelf.by_id.find(id); found != shelf.by_id.end()) drop(shelf, found->second);

  *shelf.round_bytes += round_bytes;
  const auto uncount = [counter = shelf.round_bytes, round_bytes](const Round* gone) {
    *counter -= round_bytes;
    delete gone;
  };
  Stored stored{id, before, own_bytes, now_s};
  stored.conversation.push_back(std::shared_ptr<const Round>(new Round(std::move(round)), uncount));
  shelf.order.push_back(std::move(stored));
  shelf.by_id[id] = std::prev(shelf.order.end());
  shelf.own_bytes += own_bytes;
  forget_beyond_limits();
}

std::optional<Conversation> ResponseStore::find(const std::string& tenant, const std::string& id, std::int64_t now_s) {
  const std::lock_guard lock(mutex_);
  forget_old(now_s);
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return std::nullopt;
  auto& [order, by_id, round_bytes, own_bytes] = shelf->second;
  const auto found = by_id.find(id);
  if (found == by_id.end() || is_old(*found->second, now_s)) return std::nullopt;
  order.splice(order.end(), order, found->second);
  return found->second->conversation;
}

bool ResponseStore::remove(const std::string& tenant, const std::string& id, std::int64_t now_s) {
  const std::lock_guard lock(mutex_);
  forget_old(now_s);
  const auto shelf = shelves_.find(tenant);
  if (shelf == shelves_.end()) return false;
  const auto found = shelf->second.by_id.find(id);
  if (found == shelf->second.by_id.end()) return false;
  const bool was_there = !is_old(*found->second, now_s);
  drop(shelf->second, found->second);
  return was_there;
}

ResponseStore::Size ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return size_now();
}

ResponseStore::Size ResponseStore::size_now() const {
  Size size;
  for (const auto& [tenant, shelf] : shelves_) size.responses += shelf.order.size(), size.bytes += shelf.bytes();
  return size;
}

void ResponseStore::drop(Shelf& shelf, Order::iterator stored) {
  shelf.own_bytes -= stored->bytes;
  shelf.by_id.erase(stored->id);
  shelf.order.erase(stored);
}

void ResponseStore::forget_old(std::int64_t now_s) {
  if (now_s - swept_s_ < kSweepEvery_s) return;
  swept_s_ = now_s;
  for (auto& [tenant, shelf] : shelves_)
    for (auto stored = shelf.order.begin(); stored != shelf.order.end();)
      if (const auto one = stored++; is_old(*one, now_s)) drop(shelf, one);
}

ResponseStore::Shelf* ResponseStore::fullest_shelf() {
  const auto share = [this](const Shelf& shelf) {
    return std::max(static_cast<double>(shelf.order.size()) / static_cast<double>(limits_.responses),
                    static_cast<double>(shelf.bytes()) / static_cast<double>(limits_.bytes));
  };
  Shelf* fullest = nullptr;
  for (auto& [tenant, shelf] : shelves_)
    if (!shelf.order.empty() && (fullest == nullptr || share(shelf) > share(*fullest))) fullest = &shelf;
  return fullest;
}

void ResponseStore::forget_beyond_limits() {
  for (Size size = size_now(); size.responses > limits_.responses || size.bytes > limits_.bytes; size = size_now()) {
    Shelf* const shelf = fullest_shelf();
    if (shelf == nullptr) return;  // what is left belongs to running requests
    drop(*shelf, shelf->order.begin());
  }
}

}  // namespace millrace::server
