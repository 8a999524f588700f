// HTTP over TLS, with certificates that the test makes itself.

#include "server/net/tls.h"

#include <gtest/gtest.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "base/testing/scratch_folder.h"
#include "server/net/testing/raw_client.h"
#include "server/net/testing/test_server.h"

namespace millrace::server {
namespace {

using namespace std::chrono_literals;
using millrace::testing::ScratchFolder;
using millrace::testing::write_file;
using testing::quick_limits;
using testing::RawClient;
using testing::Signal;
using testing::TestServer;

struct PemPair {
  std::string certificate, key;
};

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long n = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(n)};
}

PemPair make_certificate(const std::string& name) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_NAME* subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), subject);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  const std::unique_ptr<BIO, decltype(&BIO_free)> pem(BIO_new(BIO_s_mem()), BIO_free), secret(BIO_new(BIO_s_mem()), BIO_free);
  PEM_write_bio_X509(pem.get(), certificate.get());
  PEM_write_bio_PrivateKey(secret.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {text_of(pem.get()), text_of(secret.get())};
}

/// Blocks, for at most five seconds a read.
class TlsClient {
 public:
  explicit TlsClient(const std::string& address, int max_version = 0)
      : raw_(address), context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), ssl_(nullptr, SSL_free) {
    const timeval five_seconds{5, 0};
    ::setsockopt(raw_.fd(), SOL_SOCKET, SO_RCVTIMEO, &five_seconds, sizeof five_seconds);
    if (max_version) SSL_CTX_set_max_proto_version(context_.get(), max_version);
    SSL_CTX_set_security_level(context_.get(), 0);  // old versions can be tried
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), raw_.fd());
    connected_ = SSL_connect(ssl_.get()) == 1;
    ERR_clear_error();
  }
  ~TlsClient() {
    if (connected_) SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }

  bool connected() const { return connected_; }
  bool send(std::string_view bytes) { return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0; }
  std::string read_until(std::string_view mark) {
    while (all_.find(mark) == all_.npos && receive()) {}
    const auto at = all_.find(mark);
    if (at == all_.npos) return "";
    std::string out = all_.substr(0, at + mark.size());
    all_.erase(0, out.size());
    return out;
  }
  /// To the end that TLS itself says; -1 if it just breaks off.
  int read_to_clean_end() {
    while (receive()) {}
    return SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN ? static_cast<int>(all_.size()) : -1;
  }
  std::string served_name() const {
    const std::unique_ptr<X509, decltype(&X509_free)> peer(SSL_get1_peer_certificate(ssl_.get()), X509_free);
    char name[100] = "";
    X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, name, sizeof name);
    return name;
  }
  RawClient& raw() { return raw_; }

 private:
  bool receive() {
    char buffer[10'000];
    const int n = SSL_read(ssl_.get(), buffer, sizeof buffer);
    if (n > 0) all_.append(buffer, static_cast<std::size_t>(n));
    ERR_clear_error();
    return n > 0;
  }

  RawClient raw_;
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool connected_ = false;
  std::string all_;
};

constexpr std::string_view kGetEcho = "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n";
constexpr std::string_view kGetWait = "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n";

class Tls : public ::testing::Test {
 protected:
  HttpServerOptions options() const {
    return {.at = {{.tls = true}}, .tls = {certificate_, key_}, .limits = quick_limits(), .io_threads = 2};
  }

  ScratchFolder folder_;
  PemPair pair_ = make_certificate("one");
  std::string certificate_ = folder_.file("cert.pem", pair_.certificate), key_ = folder_.file("key.pem", pair_.key);
};

TEST_F(Tls, ServesRequestsAndStreams) {
  TestServer server(options());
  TlsClient client(server.address());
  ASSERT_TRUE(client.connected());
  client.send(std::string(kGetEcho) + std::string(kGetEcho));
  EXPECT_NE(client.read_until("GET /echo "), "");
  EXPECT_NE(client.read_until("GET /echo "), "");
  client.send(kGetWait);
  const auto exchange = server.take();
  ASSERT_TRUE(exchange);
  exchange->start_stream({.content_type = "text/event-stream"});
  exchange->write("data: 1\n\n");
  EXPECT_NE(client.read_until("data: 1\n\n\r\n"), "");
  exchange->end_stream();
  EXPECT_NE(client.read_until("0\r\n\r\n"), "");
}

TEST_F(Tls, LargeBodiesGoBothWays) {
  TestServer server(options());
  TlsClient client(server.address());
  const std::string body(3'000'000, 'b');
  client.send("POST /echo HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n");
  for (std::size_t at = 0; at < body.size(); at += 100'000) ASSERT_TRUE(client.send(std::string_view(body).substr(at, 100'000)));
  EXPECT_NE(client.read_until("POST /echo " + body), "");
}

TEST_F(Tls, EndsCleanly) {
  TestServer server(options());
  TlsClient client(server.address());
  client.send("GET /echo HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_NE(client.read_until("GET /echo "), "");
  EXPECT_EQ(client.read_to_clean_end(), 0);
}

// O8.6
TEST_F(Tls, AClientThatLeavesIsNoticed) {
  TestServer server(options());
  for (const bool says_so : {true, false}) {
    Signal gone;
    auto client = std::make_unique<TlsClient>(server.address());
    client->send(kGetWait);
    const auto exchange = server.take();
    ASSERT_TRUE(exchange);
    exchange->on_gone([&] { gone.add(); });
    if (!says_so) client->raw().reset();
    client.reset();
    EXPECT_TRUE(gone.reaches(1, 1s)) << says_so;
  }
}

TEST_F(Tls, OldVersionsAreRefused) {
  TestServer server(options());
  EXPECT_FALSE(TlsClient(server.address(), TLS1_1_VERSION).connected());
  EXPECT_TRUE(TlsClient(server.address(), TLS1_2_VERSION).connected());
  EXPECT_TRUE(TlsClient(server.address(), TLS1_3_VERSION).connected());
}

TEST_F(Tls, AHandshakeHasTheHeadersTime) {
  TestServer server(options());
  RawClient silent(server.address()), half(server.address()), plain(server.address());
  half.send(std::string_view("\x16\x03\x01\x02\x00", 5));
  plain.send(kGetEcho);
  EXPECT_TRUE(plain.ends_within(300ms)) << "what is no TLS is not waited for";
  EXPECT_TRUE(silent.ends_within(2s));
  EXPECT_TRUE(half.ends_within(2s));
  EXPECT_EQ(server.metrics().timeouts_total.value(), 2u);
}

TEST_F(Tls, ReadsANewCertificateOnDemandAndKeepsTheOldOneOnAnError) {
  TestServer server(options());
  EXPECT_EQ(TlsClient(server.address()).served_name(), "one");
  TlsClient before(server.address());
  write_file(certificate_, "broken");
  EXPECT_FALSE(server.server().reload_tls().ok());
  EXPECT_EQ(TlsClient(server.address()).served_name(), "one");
  const PemPair next = make_certificate("two");
  write_file(certificate_, next.certificate);
  write_file(key_, next.key);
  EXPECT_TRUE(server.server().reload_tls().ok());
  EXPECT_EQ(TlsClient(server.address()).served_name(), "two");
  before.send(kGetEcho);
  EXPECT_NE(before.read_until("GET /echo "), "") << "connections of before go on";
}

TEST_F(Tls, SaysWhichFileIsWrong) {
  const auto attempt = [](const TlsFiles& files) {
    auto server = HttpServer::listen({.at = {{.tls = true}}, .tls = files});
    return server ? std::string("listens") : server.error().message;
  };
  const std::string other = folder_.file("other.pem", make_certificate("other").key), text = folder_.file("text.pem", "hello\n");
  EXPECT_EQ(attempt({"", key_}), "TLS needs a certificate file");
  EXPECT_EQ(attempt({folder_.file("none"), key_}), "the certificate '" + folder_.file("none") + "': no such file or folder");
  EXPECT_EQ(attempt({folder_.path().string(), key_}), "the certificate '" + folder_.path().string() + "': it is a folder, expected a regular file");
  ASSERT_EQ(::mkfifo(folder_.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(attempt({certificate_, folder_.file("pipe")}), "the key '" + folder_.file("pipe") + "': it is a pipe, expected a regular file");
  EXPECT_TRUE(attempt({text, key_}).starts_with("no certificate in PEM form in '" + text + "'"));
  EXPECT_TRUE(attempt({certificate_, text}).starts_with("no private key in PEM form, without pass phrase, in '" + text + "'"));
  EXPECT_EQ(attempt({certificate_, other}), "the key '" + other + "' does not belong to the certificate '" + certificate_ + "'");
  EXPECT_EQ(attempt({certificate_, key_}), "listens");
}

}  // namespace
}  // namespace millrace::server
