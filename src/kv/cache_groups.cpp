#include "kv/cache_groups.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"

namespace millrace::kv {
namespace {

constexpr BlockId kGone{-1};

std::span<const TokenId> block_of(std::span<const TokenId> tokens, int block, int block_tokens) {
  const auto n = static_cast<std::size_t>(block_tokens);
  return tokens.subspan(static_cast<std::size_t>(block) * n, n);
}

int held(const BlockTables::Group& table) { return static_cast<int>(table.blocks.size()) - table.gone; }

/// As many evicted ones as there are blocks, and a pool of a few blocks remembers its last users, too.
int entries_for(std::span<const GroupSpec> specs) {
  constexpr int kLeast = 256, kMost = 1 << 17;
  int most = 0;
  for (const GroupSpec& spec : specs) most = std::max(most, spec.n_blocks);
  return std::clamp(most, kLeast / 2, kMost / 2) * 2;
}

}  // namespace

CacheGroups::CacheGroups(std::vector<GroupSpec> specs, int run_tokens)
    : specs_(std::move(specs)), seen_(entries_for(specs_), specs_.empty() ? 1 : specs_[0].block_tokens) {
  MILLRACE_CHECK(!specs_.empty(), "a cache has at least one group");
  for (const GroupSpec& spec : specs_) {
    MILLRACE_CHECK(spec.block_tokens == block_tokens(), "cache groups differ in tokens per block");
    pools_.emplace_back(spec.n_blocks, spec.block_tokens);
    // A window and the positions after it, which start and end anywhere in a block.
    const std::int64_t span = std::int64_t{spec.window} - 1 + run_tokens;
    const std::int64_t blocks = spec.window == 0 ? spec.n_blocks : span / spec.block_tokens + 2;
    most_held_.push_back(static_cast<int>(std::min<std::int64_t>(blocks, spec.n_blocks)));
  }
  runs_.resize(specs_.size());
}

int CacheGroups::most_tokens() const {
  std::int64_t most = std::numeric_limits<int>::max();
  for (std::size_t g = 0; g < specs_.size(); ++g)
    if (specs_[g].window == 0 || most_held_[g] == specs_[g].n_blocks)
      most = std::min(most, std::int64_t{specs_[g].n_blocks} * block_tokens());
  return static_cast<int>(most);
}

BlockTables CacheGroups::make_tables(int tokens) const {
  const auto n_blocks = static_cast<std::size_t>(blocks_for(tokens, block_tokens()));
  BlockTables tables;
  tables.groups.resize(specs_.size());
  for (auto& table : tables.groups) table.blocks.reserve(n_blocks);
  tables.names.reserve(n_blocks);
  tables.plain.reserve(n_blocks);
  return tables;
}

/// How many blocks from position 0 on every group has, as far as a token behind them sees, when `tables` hold `start`; `names`
/// becomes those behind `start`, and maybe more. `runs`: scratch.
int CacheGroups::find(const BlockTables& tables, std::span<const TokenId> tokens, int start, int most, std::uint64_t salt,
                      std::vector<BlockHash>& names, std::vector<int>& runs) const {
  names.clear();
  runs.resize(specs_.size());
  for (std::size_t g = 0; g < specs_.size(); ++g) runs[g] = start - tables.groups[g].gone;
  int best = start;
  BlockHash parent = start == 0 ? kRootHash : tables.names.back();
  for (int b = start; b < most / block_tokens(); ++b) {
    const auto content_tokens = block_of(tokens, b, block_tokens());
    const BlockContent content{chain(parent, content_tokens, salt), parent, content_tokens};
    bool every = true, lost = false;
    for (std::size_t g = 0; g < specs_.size(); ++g) {
      const int first = first_visible_block((b + 1) * block_tokens(), specs_[g].window, block_tokens());
      runs[g] = pools_[g].find(content) ? runs[g] + 1 : 0;
      every = every && runs[g] >= b + 1 - first;
      lost = lost || (specs_[g].window == 0 && runs[g] == 0);
    }
    if (lost) break;
    parent = content.name;
    names.push_back(parent);
    if (every) best = b + 1;
  }
  return best;
}

CacheGroups::Look CacheGroups::look(std::span<const TokenId> prompt, std::uint64_t salt) const {
  if (prompt.empty()) return {};
  BlockTables tables = make_tables();
  std::vector<BlockHash> names;
  std::vector<int> runs;
  const int n_blocks = find(tables, prompt, 0, static_cast<int>(prompt.size()) - 1, salt, names, runs), held = n_blocks * block_tokens();
  for (int b = 0; b < n_blocks; ++b)
    tables.plain.push_back(chain(b == 0 ? kRootHash : tables.plain.back(), block_of(prompt, b, block_tokens()), 0));
  return {held, explain(tables, prompt, held, salt)};
}

int CacheGroups::match(BlockTables& tables, std::span<const TokenId> tokens, int held, int most, std::uint64_t salt) {
  const int start = held / block_tokens();
  if (!tables.publishes || held != static_cast<int>(tables.names.size()) * block_tokens()) return held;
  for (const auto& table : tables.groups)
    if (static_cast<int>(table.blocks.size()) != start) return held;

  const int best = find(tables, tokens, start, most, salt, names_, runs_);  // first only look
  for (int b = start; b < best; ++b) {
    const BlockHash before = b == 0 ? kRootHash : tables.names.back();
    const BlockContent content{names_[static_cast<std::size_t>(b - start)], before,
                               block_of(tokens, b, block_tokens())};
    for (std::size_t g = 0; g < specs_.size(); ++g) {
      auto& table = tables.groups[g];
      if (b < first_visible_block(best * block_tokens(), specs_[g].window, block_tokens())) {
        table.blocks.push_back(kGone);
        // A gap may follow entries that are still held: they are out of sight too.
        for (; table.gone <= b; ++table.gone) {
          BlockId& id = table.blocks[static_cast<std::size_t>(table.gone)];
          if (id != kGone) pools_[g].release(std::exchange(id, kGone));
        }
      } else {
        const BlockId id = *pools_[g].find(content);
        pools_[g].share(id);
        table.blocks.push_back(id);
      }
    }
    tables.names.push_back(content.name);
    note(tables, content.tokens, salt);
  }
  return best * block_tokens();
}

/// The next block of `tables` has a name: it is remembered as seen.
void CacheGroups::note(BlockTables& tables, std::span<const TokenId> tokens, std::uint64_t salt) {
  const BlockHash parent = tables.plain.empty() ? kRootHash : tables.plain.back(), plain = chain(parent, tokens, 0);
  if (tables.publishes) seen_.note({plain, parent, tokens}, salt);
  tables.plain.push_back(plain);
}

Misses CacheGroups::explain(const BlockTables& tables, std::span<const TokenId> prompt, int held,
                            std::uint64_t salt) const {
  const int length = static_cast<int>(prompt.size()), most = (length - 1) / block_tokens();  // full blocks ever shared
  int b = held / block_tokens();
  MILLRACE_CHECK(static_cast<int>(tables.plain.size()) >= b, "an explanation of positions that have no names");
  BlockHash parent = b == 0 ? kRootHash : tables.plain[static_cast<std::size_t>(b) - 1];
  Misses out{.salt_from = length, .partial_from = length, .new_from = length};
  const auto start_of = [&](int block) { return std::max(held, block * block_tokens()); };
  for (; b < most; ++b) {
    const auto tokens = block_of(prompt, b, block_tokens());
    const BlockHash name = chain(parent, tokens, 0);
    const auto known = seen_.find({name, parent, tokens}, salt);
    if (known == SeenBlocks::Known::never) break;
    if (known == SeenBlocks::Known::under_other_salts) out.salt_from = std::min(out.salt_from, start_of(b));
    parent = name;
  }
  out.partial_from = start_of(b);
  out.salt_from = std::min(out.salt_from, out.partial_from);

  const auto rest = prompt.subspan(static_cast<std::size_t>(b) * static_cast<std::size_t>(block_tokens()));
  const auto nearest = seen_.nearest(parent, rest, salt);
  if (nearest.common < 0 && b == most) return out;  // behind the last full block, and nothing to compare it with
  if (nearest.common == static_cast<int>(rest.size())) return out;
  const int agrees = b * block_tokens() + std::max(nearest.common, 0);
  out.new_from = std::max(agrees, held);
  out.diverged = nearest.common >= 0 && agrees > 0;
  if (out.diverged) out.known = nearest.next;
  return out;
}

int CacheGroups::missing(const BlockTables& tables, int group, int end) const {
  const auto g = static_cast<std::size_t>(group);
  const auto& table = tables.groups[g];
  const int more = blocks_for(end, block_tokens()) - static_cast<int>(table.blocks.size());
  return std::clamp(more, 0, std::max(most_held_[g] - held(table), 0));
}

bool CacheGroups::prepare(BlockTables& tables, int first, int end, std::vector<BlockCopy>& copies) {
  const auto at = static_cast<std::size_t>(first / block_tokens());
  const auto wanted = static_cast<std::size_t>(blocks_for(end, block_tokens()));
  const auto shared = [&](std::size_t g) {
    const auto& blocks = tables.groups[g].blocks;
    return at < blocks.size() && pools_[g].users(blocks[at]) > 1;
  };
  for (std::size_t g = 0; g < specs_.size(); ++g) {
    const std::size_t size = tables.groups[g].blocks.size();
    const std::size_t need = (wanted > size ? wanted - size : 0) + (shared(g) ? 1 : 0);
    if (need > static_cast<std::size_t>(pools_[g].available())) return false;
  }
  for (std::size_t g = 0; g < specs_.size(); ++g) {
    auto& blocks = tables.groups[g].blocks;
    if (shared(g)) {
      const BlockId from = blocks[at];
      blocks[at] = *pools_[g].take();
      pools_[g].release(from);
      copies.push_back({static_cast<int>(g), from, blocks[at]});
    } else if (at < blocks.size()) {
      pools_[g].forget(blocks[at]);  // rewound into a published block: its name would lie from now on
    }
    while (blocks.size() < wanted) blocks.push_back(*pools_[g].take());
  }
  return true;
}

void CacheGroups::publish(BlockTables& tables, std::span<const TokenId> tokens, int written, std::uint64_t salt) {
  for (int b = static_cast<int>(tables.names.size()); b < written / block_tokens(); ++b) {
    const BlockHash parent = b == 0 ? kRootHash : tables.names.back();
    const auto content_tokens = block_of(tokens, b, block_tokens());
    const BlockContent content{chain(parent, content_tokens, salt), parent, content_tokens};
    for (std::size_t g = 0; g < specs_.size(); ++g) {
      const BlockId id = tables.groups[g].blocks[static_cast<std::size_t>(b)];
      if (id != kGone && tables.publishes) tables.publishes = pools_[g].publish(id, content);
    }
    tables.names.push_back(content.name);
    note(tables, content_tokens, salt);
  }
}

void CacheGroups::slide(BlockTables& tables, int next) {
  for (std::size_t g = 0; g < specs_.size(); ++g) {
    auto& table = tables.groups[g];
    const int first =
        std::min(first_visible_block(next, specs_[g].window, block_tokens()), static_cast<int>(table.blocks.size()));
    for (; table.gone < first; ++table.gone)
      pools_[g].release(std::exchange(table.blocks[static_cast<std::size_t>(table.gone)], kGone));
  }
}

int CacheGroups::rewind(BlockTables& tables, int tokens) {
  for (std::size_t g = 0; g < specs_.size(); ++g)
    if (first_visible_block(tokens, specs_[g].window, block_tokens()) < tables.groups[g].gone) tokens = 0;
  release_from(tables, blocks_for(tokens, block_tokens()));
  tables.names.resize(std::min(tables.names.size(), static_cast<std::size_t>(tokens / block_tokens())));
  tables.plain.resize(tables.names.size());
  return tokens;
}

BlockTables CacheGroups::fork(const BlockTables& tables, int tokens) {
  for (std::size_t g = 0; g < specs_.size(); ++g)
    for (const BlockId id : tables.groups[g].blocks)
      if (id != kGone) pools_[g].share(id);
  BlockTables child = make_tables(tokens);
  child = tables;  // vectors keep the memory they have
  return child;
}

void CacheGroups::release(BlockTables& tables) {
  release_from(tables, 0);
  tables.names.clear();
  tables.plain.clear();
  tables.publishes = true;
}

void CacheGroups::note_evictions() {
  for (BlockPool& pool : pools_) pool.note_evictions();
}

void CacheGroups::clear_evicted() {
  for (BlockPool& pool : pools_) pool.clear_evicted();
}

void CacheGroups::keep(int group, BlockId id, const BlockContent& content) {
  BlockPool& pool = pools_[static_cast<std::size_t>(group)];
  (void)pool.publish(id, content);  // where the name is known already the block goes back to the free ones
  pool.release(id);
}

int CacheGroups::touch(std::span<const TokenId> tokens, std::uint64_t salt) {
  BlockTables tables = make_tables(static_cast<int>(tokens.size()));
  const int held = match(tables, tokens, 0, static_cast<int>(tokens.size()), salt);
  release(tables);
  return held;
}

void CacheGroups::release_from(BlockTables& tables, int n_blocks) {
  for (std::size_t g = 0; g < specs_.size(); ++g) {
    auto& table = tables.groups[g];
    for (; table.blocks.size() > static_cast<std::size_t>(n_blocks); table.blocks.pop_back())
      if (table.blocks.back() != kGone) pools_[g].release(table.blocks.back());
    table.gone = std::min(table.gone, n_blocks);
  }
}

void CacheGroups::check_invariants(std::span<const BlockTables* const> all) const {
  for (std::size_t g = 0; g < specs_.size(); ++g) {
    pools_[g].check_invariants();
    std::vector<int> users(static_cast<std::size_t>(specs_[g].n_blocks));
    for (const BlockTables* tables : all)
      for (const BlockId id : tables->groups[g].blocks)
        if (id != kGone) ++users[static_cast<std::size_t>(id.value)];
    for (std::size_t i = 0; i < users.size(); ++i)
      MILLRACE_CHECK(users[i] == pools_[g].users({static_cast<int>(i)}),
                     "block " + std::to_string(i) + " has " + std::to_string(pools_[g].users({static_cast<int>(i)})) +
                         " users, the tables name it " + std::to_string(users[i]) + " times");
  }
}

}  // namespace millrace::kv
