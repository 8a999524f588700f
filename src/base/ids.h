#pragma once

// Integer ids that cannot be mixed up. A BlockId does not convert to a SeqId.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace millrace {

template <class Tag>
struct Id {
  std::int32_t value = -1;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using TokenId = std::int32_t;  // arithmetic and I/O on tokens is everywhere: a plain integer
using SeqId = Id<struct SeqTag>;      // one stream of tokens
using BlockId = Id<struct BlockTag>;  // one KV block of a cache group
using ValueId = Id<struct ValueTag>;  // one tensor of a graph

}  // namespace millrace

template <class Tag>
struct std::hash<millrace::Id<Tag>> {
  std::size_t operator()(millrace::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
