#pragma once

// The bytes of one connection, plain or TLS, over a descriptor that does not block. Each call does what can be done now
// and says what to wait for; who waits is the connection. Knows no HTTP. The descriptor is not owned.

#include <sys/uio.h>

#include <cstddef>
#include <memory>

namespace millrace::server::net {

enum class Io {
  done,         // `bytes` moved
  wants_read,   // nothing moved; again once the descriptor can be read
  wants_write,  // the same for writing
  ended,        // the peer sends no more; it may still read
  failed,       // reset, or broken TLS: there is no peer any more
};

struct IoResult {
  Io what;
  std::size_t bytes = 0;
};

class Stream {
 public:
  virtual ~Stream() = default;

  /// Until done, before anything else.
  virtual Io handshake() = 0;
  virtual IoResult read(char* to, std::size_t size) = 0;
  virtual IoResult write(const iovec* pieces, int count) = 0;
  /// True when read() has bytes that the descriptor no longer shows.
  virtual bool holds_bytes() const = 0;
  /// Tells the peer that nothing more is sent. Best effort.
  virtual void end_output() = 0;
};

std::unique_ptr<Stream> make_plain_stream(int fd);

}  // namespace millrace::server::net
