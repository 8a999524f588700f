// Blocks of the prefix cache to files and back: save() and restore(), and the disk tier. Bytes move between two steps;
// files are read and written on other threads. A block that comes from a file is cached as if a sequence of this engine
// had left it, so that the ordinary prefix match finds it and nothing else has to know.

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/loop.h"

namespace millrace::engine {
namespace {

// So much is copied between two steps at most: a few milliseconds.
constexpr std::int64_t kPieceBytes = std::int64_t{8} << 20;

/// Block `block` of a prefix, in one group.
struct Place { int group = 0, block = 0; };

/// The blocks that a token behind `tokens` positions sees, group by group.
std::vector<Place> places_of(const model::RunnerInfo& info, int tokens, int block_tokens) {
  std::vector<Place> out;
  for (int g = 0; g < static_cast<int>(info.cache_groups.size()); ++g)
    for (int b = kv::first_visible_block(tokens, info.cache_groups[static_cast<std::size_t>(g)].window, block_tokens); b < tokens / block_tokens; ++b)
      out.push_back({g, b});
  return out;
}

std::vector<int> blocks_of_groups(std::span<const Place> places, std::size_t n_groups) {
  std::vector<int> out(n_groups);
  for (const Place& place : places) ++out[static_cast<std::size_t>(place.group)];
  return out;
}

}  // namespace

void Engine::Loop::between_steps(const std::function<void()>& task) {
  MILLRACE_CHECK(std::this_thread::get_id() != thread_.get_id(), "the engine's own thread would wait for itself");
  const auto done = std::make_shared<std::promise<void>>();  // the engine may still hold it when the waiter has left
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back([done, &task] {
      task();
      done->set_value();
    });
  }
  work_.notify_one();
  done->get_future().wait();
}

CacheReport Engine::Loop::explain(std::span<const TokenId> prompt, const std::string& cache_salt) {
  CacheReport report;
  const int length = static_cast<int>(prompt.size());
  kv::CacheGroups::Look look;
  if (options_.prefix_sharing) between_steps([&] { look = groups_.look(prompt, salt_of(cache_salt)); });
  else look.misses.disabled = true;
  report.cached = look.held;
  kv::add(report.computed, look.misses, look.held, length);
  if (!look.misses.diverged) return report;
  report.diverged_at = look.misses.new_from;
  report.own = tokenizer_.piece(prompt[static_cast<std::size_t>(report.diverged_at)]);
  report.known = tokenizer_.piece(look.misses.known);
  return report;
}

Result<int> Engine::Loop::save(std::span<const TokenId> tokens, const std::string& path, const std::string& cache_salt) {
  const std::uint64_t salt = salt_of(cache_salt);
  int held = 0;
  between_steps([&] { held = groups_.touch(tokens, salt); });
  if (held == 0) return error(Code::not_found, "the KV cache holds no block of these {} tokens", tokens.size());
  const auto prefix = tokens.first(static_cast<std::size_t>(held));
  const int block_tokens = groups_.block_tokens();
  const auto contents = contents_of(prefix, block_tokens, salt);
  const auto places = places_of(info(), held, block_tokens);
  const auto n_blocks = blocks_of_groups(places, info().cache_groups.size());

  const KvShape shape = KvShape::of(info());
  MILLRACE_TRY(writer, KvFileWriter::create(path, shape, prefix, n_blocks));
  for (auto at = places.begin(); at != places.end();) {
    std::vector<KvBlock> piece;
    bool whole = true;
    between_steps([&] {
      for (std::int64_t bytes = 0; whole && at != places.end() && bytes < kPieceBytes; ++at) {
        const kv::BlockContent& content = contents[static_cast<std::size_t>(at->block)];
        const auto id = groups_.pool(at->group).find(content);
        whole = id.has_value();
        bytes += shape.record_bytes(at->group);
        if (whole) piece.push_back(read_block(at->group, *id, content));
      }
    });
    if (!whole) return error(Code::exhausted, "saving '{}': the KV cache gave up blocks of the prefix meanwhile", path);
    for (const KvBlock& block : piece) MILLRACE_TRY_VOID(writer.append(block));
  }
  MILLRACE_TRY_VOID(writer.commit(OutputFile::Commit::durable));
  return held;
}

Result<int> Engine::Loop::restore(const std::string& path, const std::string& cache_salt) {
  const std::uint64_t salt = salt_of(cache_salt);
  const KvShape shape = KvShape::of(info());
  MILLRACE_TRY(reader, KvFileReader::open(path, shape));
  const auto tokens = reader.tokens();
  const auto contents = contents_of(tokens, shape.block_tokens, salt);
  const auto places = places_of(info(), static_cast<int>(tokens.size()), shape.block_tokens);
  const auto n_blocks = blocks_of_groups(places, shape.groups.size());
  for (int g = 0; g < static_cast<int>(n_blocks.size()); ++g)
    if (tokens.size() % static_cast<std::size_t>(shape.block_tokens) != 0 || reader.n_blocks(g) != n_blocks[static_cast<std::size_t>(g)])
      return error(Code::corrupt_data, "'{}' has {} blocks for {} tokens, expected {}", path, reader.n_blocks(g), tokens.size(), n_blocks[static_cast<std::size_t>(g)]);

  const auto read = [&](const Place& place) -> Result<KvBlock> {
    const int first = static_cast<int>(contents.size()) - reader.n_blocks(place.group);
    MILLRACE_TRY(block, reader.read(place.group, place.block - first));
    const kv::BlockContent& want = contents[static_cast<std::size_t>(place.block)];
    if (block.name != want.name || block.parent != want.parent || !std::ranges::equal(block.tokens, want.tokens))
      return error(Code::corrupt_data, "'{}' was saved under another salt: block {} has another name than its tokens give here", path, place.block);
    return std::move(block);
  };
  for (const Place& place : places) MILLRACE_TRY_VOID(read(place));  // all of it is right before any of it is believed

  std::vector<int> room(n_blocks.size());
  int held = 0;
  between_steps([&] {
    held = groups_.touch(tokens, salt);
    for (std::size_t g = 0; g < room.size(); ++g) room[g] = groups_.pool(static_cast<int>(g)).available();
  });
  for (auto at = places.begin(); at != places.end();) {
    std::vector<KvBlock> piece;
    for (std::int64_t bytes = 0; at != places.end() && bytes < kPieceBytes; ++at) {
      if (room[static_cast<std::size_t>(at->group)]-- <= 0) continue;  // it would push out the prefix's own head
      MILLRACE_TRY(block, read(*at));
      bytes += shape.record_bytes(at->group);
      piece.push_back(std::move(block));
    }
    between_steps([&] {
      for (const KvBlock& block : piece) adopt(block);
      held = groups_.touch(tokens, salt);
    });
  }
  if (held == 0 && !tokens.empty()) return error(Code::exhausted, "restoring '{}': no block of the KV cache is free", path);
  return held;
}

KvBlock Engine::Loop::read_block(int group, BlockId id, const kv::BlockContent& content) const {
  KvBlock block{group, content.name, content.parent, {content.tokens.begin(), content.tokens.end()}, {}};
  block.bytes.resize(static_cast<std::size_t>(info().cache_groups[static_cast<std::size_t>(group)].block_bytes));
  runner_->read_blocks(group, {&id, 1}, block.bytes);
  return block;
}

/// Nothing when it is there already, or when every block is in use.
void Engine::Loop::adopt(const KvBlock& block) {
  if (groups_.pool(block.group).find(block.content())) return;
  const auto id = groups_.take(block.group);
  if (!id) return;
  keep_evicted();  // while its bytes are still those
  runner_->write_blocks(block.group, {&*id, 1}, block.bytes);
  groups_.keep(block.group, *id, block.content());
}

/// What was evicted since the last call is still in its blocks: before anything writes to them it goes to the disk.
void Engine::Loop::keep_evicted() {
  if (!options_.kv_disk) return;
  KvDisk& disk = *options_.kv_disk;
  for (int g = 0; g < groups_.n_groups(); ++g)
    for (int i = 0; i < groups_.pool(g).n_evicted(); ++i) {
      const auto [id, content] = groups_.pool(g).evicted(i);
      if (disk.has(g, content.name) || !disk.has_room(g)) continue;
      disk.put(read_block(g, id, content));
    }
  groups_.clear_evicted();
}

/// At the end: what is cached goes to the disk, the last used of it when not all has room; in such an order that what was
/// used last stays longest.
void Engine::Loop::keep_cached() {
  if (!options_.kv_disk || !options_.prefix_sharing) return;
  KvDisk& disk = *options_.kv_disk;
  std::int64_t room = disk.most_bytes();
  std::vector<std::pair<int, BlockId>> kept;
  for (int g = 0; g < groups_.n_groups(); ++g)
    for (const BlockId id : groups_.pool(g).cached()) {
      room -= disk.record_bytes(g);
      if (room >= 0 && !disk.has(g, groups_.pool(g).content(id).name)) kept.push_back({g, id});
    }
  std::ranges::reverse(kept);
  for (const auto& [g, id] : kept) {
    disk.wait_for_room(g);
    disk.put(read_block(g, id, groups_.pool(g).content(id)));
  }
  disk.flush();
}

/// What of `prompt` memory lacks and the disk has, when that makes a longer prefix; no more than there is room for. Blocks
/// without bytes.
std::vector<KvBlock> Engine::Loop::wanted_from_disk(std::span<const TokenId> prompt, std::uint64_t salt) const {
  const KvDisk& disk = *options_.kv_disk;
  const auto& kinds = info().cache_groups;
  const int block_tokens = groups_.block_tokens();
  const auto contents = contents_of(prompt.first(prompt.size() - 1), block_tokens, salt);  // one token is computed always
  const auto in_memory = [&](int g, std::size_t b) { return groups_.pool(g).find(contents[b]).has_value(); };
  int end = 0;
  for (bool every = true; end < static_cast<int>(contents.size()); ++end) {
    const auto b = static_cast<std::size_t>(end);
    for (int g = 0; every && g < groups_.n_groups(); ++g)
      every = kinds[static_cast<std::size_t>(g)].window != 0 || in_memory(g, b) || disk.has(g, contents[b].name);
    if (!every) break;
  }
  std::vector<KvBlock> wanted;
  std::vector<int> room;
  for (int g = 0; g < groups_.n_groups(); ++g) room.push_back(groups_.pool(g).available());
  for (const Place& place : places_of(info(), end * block_tokens, block_tokens)) {
    const kv::BlockContent& content = contents[static_cast<std::size_t>(place.block)];
    if (room[static_cast<std::size_t>(place.group)]-- <= 0) continue;  // it would push out the prefix's own head
    if (!in_memory(place.group, static_cast<std::size_t>(place.block)) && disk.has(place.group, content.name))
      wanted.push_back({place.group, content.name, content.parent, {content.tokens.begin(), content.tokens.end()}, {}});
  }
  return wanted;
}

/// True when the request waits for blocks from the disk. Others start meanwhile.
bool Engine::Loop::park(Arrival& arrival) {
  if (arrival.request.prompt_rows != model::Outputs::none) return false;  // each of its positions is computed
  auto wanted = wanted_from_disk(arrival.request.prompt, salt_of(arrival.request.cache_salt));
  if (wanted.empty()) return false;
  const kv::BlockHash first = wanted[0].name;
  const auto same = std::ranges::find(loading_, first, &Loading::first);
  if (same != loading_.end()) {
    parked_.push_back({std::move(arrival), same->job, /*follower=*/true});
  } else {
    if (!loader_->push(++last_job_, std::move(wanted))) return false;
    loading_.push_back({last_job_, first});
    parked_.push_back({std::move(arrival), last_job_, /*follower=*/false});
  }
  return true;
}

void Engine::Loop::use(KvLoader::Loaded loaded) {
  const auto owner = std::ranges::find_if(parked_, [&](const Parked& p) { return p.job == loaded.job && !p.follower; });
  const auto touch = [&] {
    if (owner != parked_.end()) groups_.touch(owner->arrival.request.prompt, salt_of(owner->arrival.request.cache_salt));
  };
  touch();  // what memory has of the prefix is not what makes room for the rest
  for (const KvBlock& block : loaded.blocks) adopt(block);
  touch();
  loaded.blocks.clear();
  loader_->taken();
  if (!loaded.last) return;
  std::erase_if(loading_, [&](const Loading& l) { return l.job == loaded.job; });
  std::vector<Parked> ready;
  for (std::size_t i = 0; i < parked_.size();) {
    if (parked_[i].job != loaded.job) { ++i; continue; }
    ready.push_back(std::move(parked_[i]));
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (Parked& one : ready) one.follower ? add(std::move(one.arrival)) : start(std::move(one.arrival));
}

/// They start without what they waited for.
void Engine::Loop::unpark(const std::function<bool(const Arrival&)>& which) {
  for (std::size_t i = 0; i < parked_.size();) {
    if (!which(parked_[i].arrival)) { ++i; continue; }
    Arrival arrival = std::move(parked_[i].arrival);
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
    start(std::move(arrival));
  }
}

}  // namespace millrace::engine
