#include "server/net/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <climits>
#include <cstdint>

#include "base/regular_file.h"

namespace millrace::server::net {
namespace {

using ContextPtr = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

/// What OpenSSL found last; its queue is empty afterwards.
std::string openssl_reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = code ? ERR_reason_error_string(code) : nullptr;
  return reason ? reason : "unknown error";
}

// OpenSSL's own socket BIO writes with write(), which raises SIGPIPE when the peer is gone.

int fd_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int bio_write(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(fd_of(bio), from, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int bio_read(BIO* bio, char* to, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(fd_of(bio), to, static_cast<std::size_t>(size), 0);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(n);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

const BIO_METHOD* bio_method() {
  static const std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    MILLRACE_CHECK(made, "BIO_meth_new");
    BIO_meth_set_write(made, bio_write);
    BIO_meth_set_read(made, bio_read);
    BIO_meth_set_ctrl(made, bio_control);
    BIO_meth_set_create(made, bio_create);
    return std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)>(made, BIO_meth_free);
  }();
  return method.get();
}

class TlsStream final : public Stream {
 public:
  explicit TlsStream(SSL* ssl) : ssl_(ssl) {}  // takes it
  TlsStream(const TlsStream&) = delete;
  ~TlsStream() override { SSL_free(ssl_); }

  Io handshake() override {
    ERR_clear_error();
    const int n = SSL_accept(ssl_);
    return n == 1 ? Io::done : after(n);
  }

  IoResult read(char* to, std::size_t size) override {
    ERR_clear_error();
    const int n = SSL_read(ssl_, to, static_cast<int>(std::min<std::size_t>(size, INT_MAX)));
    if (n > 0) return {Io::done, static_cast<std::size_t>(n)};
    return {after(n)};
  }

  IoResult write(const iovec* pieces, int) override {
    ERR_clear_error();
    const int n = SSL_write(ssl_, pieces->iov_base, static_cast<int>(std::min<std::size_t>(pieces->iov_len, INT_MAX)));
    if (n > 0) return {Io::done, static_cast<std::size_t>(n)};
    return {after(n)};
  }

  bool holds_bytes() const override { return SSL_has_pending(ssl_) == 1; }

  void end_output() override {
    ERR_clear_error();
    if (!broken_) SSL_shutdown(ssl_);
    ::shutdown(fd_of(SSL_get_wbio(ssl_)), SHUT_WR);
    ERR_clear_error();
  }

 private:
  Io after(int result) {
    switch (SSL_get_error(ssl_, result)) {
      case SSL_ERROR_WANT_READ: return Io::wants_read;
      case SSL_ERROR_WANT_WRITE: return Io::wants_write;
      case SSL_ERROR_ZERO_RETURN: return Io::ended;
      default: broken_ = true; return Io::failed;
    }
  }

  SSL* ssl_;
  bool broken_ = false;  // then OpenSSL must not be asked to shut down
};

class Context final : public TlsContext {
 public:
  explicit Context(ContextPtr context) : context_(std::move(context)) {}

  std::unique_ptr<Stream> make_stream(int fd) const override {
    SSL* ssl = SSL_new(context_.get());
    BIO* bio = ssl ? BIO_new(bio_method()) : nullptr;
    if (!bio) {
      SSL_free(ssl);
      return nullptr;
    }
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
    SSL_set_bio(ssl, bio, bio);
    return std::make_unique<TlsStream>(ssl);
  }

 private:
  ContextPtr context_;
};

Result<void> check_readable(const std::string& path, const char* what) {
  if (path.empty()) return error(Code::invalid_argument, "TLS needs a {} file", what);
  if (auto file = RegularFile::open(path); !file) return std::move(file).error().in(fmt::format("the {} '{}'", what, path));
  return {};
}

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const TlsFiles& files) {
  MILLRACE_TRY_VOID(check_readable(files.certificate, "certificate"));
  MILLRACE_TRY_VOID(check_readable(files.key, "key"));
  ERR_clear_error();
  ContextPtr context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return error(Code::unsupported, "cannot set up TLS: {}", openssl_reason());
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // Buffers are released while a connection idles, and a write that is tried again may come from where its bytes moved to.
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // A key with a pass phrase would ask for it on the terminal.
  SSL_CTX_set_default_passwd_cb(context.get(), [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return error(Code::corrupt_data, "no certificate in PEM form in '{}': {}", files.certificate, openssl_reason());
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const bool mismatch = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
    const std::string reason = openssl_reason();
    if (mismatch) return error(Code::corrupt_data, "the key '{}' does not belong to the certificate '{}'", files.key, files.certificate);
    return error(Code::corrupt_data, "no private key in PEM form, without pass phrase, in '{}': {}", files.key, reason);
  }
  if (SSL_CTX_check_private_key(context.get()) != 1) {
    ERR_clear_error();
    return error(Code::corrupt_data, "the key '{}' does not belong to the certificate '{}'", files.key, files.certificate);
  }
  return std::shared_ptr<const TlsContext>(std::make_shared<Context>(std::move(context)));
}

}  // namespace millrace::server::net
