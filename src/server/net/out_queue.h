#pragma once

// What a connection still has to send, as few pieces as copying allows: one system call writes them all. Empty, it owns no
// memory. Knows no socket.

#include <sys/uio.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::server::net {

class OutQueue {
 public:
  /// The string to append small things to.
  std::string& tail() {
    if (pieces_.size() == first_ || pieces_.back().size() >= kPieceBytes) pieces_.emplace_back();
    return pieces_.back();
  }

  /// Appends by copying what is small, and by taking what is large.
  void add(std::string&& data) {
    if (data.empty()) return;
    if (data.size() < kPieceBytes)
      tail().append(data);
    else
      pieces_.push_back(std::move(data));
  }

  bool empty() const { return pieces_.empty(); }

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t i = first_; i < pieces_.size(); ++i) sum += pieces_[i].size();
    return sum - sent_;
  }

  /// The first pieces, for writev; how many.
  int gather(iovec* out, int max) const {
    int n = 0;
    for (std::size_t i = first_; i < pieces_.size() && n < max; ++i, ++n) {
      const std::size_t skip = i == first_ ? sent_ : 0;
      out[n] = {const_cast<char*>(pieces_[i].data()) + skip, pieces_[i].size() - skip};
    }
    return n;
  }

  /// The first `n` bytes are sent.
  void drop(std::size_t n) {
    sent_ += n;
    while (first_ < pieces_.size() && sent_ >= pieces_[first_].size()) {
      sent_ -= pieces_[first_].size();
      std::string().swap(pieces_[first_++]);
    }
    if (first_ == pieces_.size()) clear();
  }

  void clear() {
    pieces_ = {};
    first_ = sent_ = 0;
  }

 private:
  static constexpr std::size_t kPieceBytes = 16 << 10;

  std::vector<std::string> pieces_;
  std::size_t first_ = 0, sent_ = 0;  // the first piece that is not sent, and how much of it is
};

}  // namespace millrace::server::net
