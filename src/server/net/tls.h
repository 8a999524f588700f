#pragma once

// TLS for the server's side, 1.2 and newer: certificate and key from PEM files, and a Stream over a descriptor.

#include <memory>

#include "base/result.h"
#include "server/net/http_server.h"
#include "server/net/stream.h"

namespace millrace::server::net {

/// One certificate with its key. Shared by its connections, which keep it alive.
class TlsContext {
 public:
  /// Errors name the file: not_found, corrupt_data (no PEM, a key that does not fit), unsupported.
  static Result<std::shared_ptr<const TlsContext>> load(const TlsFiles& files);

  virtual ~TlsContext() = default;
  virtual std::unique_ptr<Stream> make_stream(int fd) const = 0;  // nullptr: no memory
};

}  // namespace millrace::server::net
