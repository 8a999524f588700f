// serve: listens first, loads beside that, serves until a signal. SIGTERM or SIGINT drains and ends with 0, a second one
// ends at once; SIGHUP reads keys and certificate again.

#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <future>
#include <string>

#include "base/log.h"
#include "cli/byte_size.h"
#include "cli/commands.h"
#include "cli/serve_model.h"
#include "cli/service_manager.h"
#include "cli/version.h"
#include "server/application.h"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kSending = 2s;  // for clients to take what was written when all answers have ended

std::chrono::milliseconds ms(double seconds) { return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)); }

/// The signals that end or change a server, read by waiting for them: they are blocked in every thread, so that no system
/// call of another is interrupted. Made before any thread is.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

  /// The next one, or 0 after `timeout`.
  int wait(std::chrono::milliseconds timeout) const {
    const timespec limit{timeout.count() / 1000, timeout.count() % 1000 * 1'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &limit);
    return signal > 0 ? signal : 0;
  }

  /// The next one.
  int wait() const {
    for (;;)
      if (const int signal = sigwaitinfo(&set_, nullptr); signal > 0) return signal;
  }

 private:
  sigset_t set_{};
};

/// A server lives for months. Every thread would have a heap of its own, each as large as the worst moment that its thread
/// has seen, and the first freed body of 16 MiB would teach the allocator to keep such blocks (docs/performance.md, "An hour
/// of bad company").
void keep_heaps_small() {
  mallopt(M_ARENA_MAX, 2);               // the engine's thread and one that serves need not wait for each other
  mallopt(M_MMAP_THRESHOLD, 256 << 10);  // from there on bodies are large (application.cpp): such blocks go back when freed
}

Result<server::ServerConfig> server_config(const Options& options) {
  server::ServerConfig config;
  if (options.tls_cert.empty() != options.tls_key.empty())
    return error(Code::invalid_argument, "--tls-cert and --tls-key belong together, only {} is given", options.tls_cert.empty() ? "--tls-key" : "--tls-cert");
  const bool tls = !options.tls_cert.empty();
  MILLRACE_TRY(inherited, inherited_descriptors());
  for (const int descriptor : inherited) config.at.push_back({.descriptor = descriptor, .tls = tls});
  if (inherited.empty()) config.at.push_back({.host = options.host, .port = static_cast<int>(options.port), .tls = tls});
  if (!options.unix_socket.empty()) config.at.push_back({.unix_path = options.unix_socket});
  if (options.metrics_port >= 0) config.metrics_at = server::ListenAt{.host = options.host, .port = static_cast<int>(options.metrics_port)};
  config.tls = {options.tls_cert, options.tls_key};
  MILLRACE_TRY(body_bytes, parse_byte_size(options.max_body));
  config.limits.body_bytes = static_cast<std::size_t>(body_bytes);
  config.limits.max_connections = static_cast<std::size_t>(options.max_connections);
  config.limits.header_timeout = ms(options.header_timeout_s);
  config.limits.body_timeout = ms(options.body_timeout_s);
  config.limits.idle_timeout = ms(options.idle_timeout_s);
  config.limits.write_timeout = ms(options.write_timeout_s);
  config.io_threads = static_cast<int>(options.io_threads);
  config.api_keys_file = options.api_keys;
  config.api_keys = options.accept_keys;
  config.cors_origin = options.cors;
  config.max_answers = static_cast<std::size_t>(options.max_running + options.max_queued_requests);
  config.strict = options.strict;
  config.metrics_prefix = options.metrics_prefix;
  config.log_prompts = options.log_prompts;
  config.max_step_us = max_step_us(options);
  MILLRACE_TRY(isa, isa_of(options));
  config.version = kVersion;
  config.build = {{"version", std::string(kVersion)}, {"isa", std::string(kernels::to_string(isa))}};
  return config;
}

/// Also at levels that log nothing, where whoever reads the log is a person: it is how the port of --port 0 is known.
void say_address(const std::string& address, const Options& options) {
  const std::string url = (address.starts_with("unix:") ? "" : options.tls_cert.empty() ? "http://" : "https://") + address;
  if (options.log_json) log_info("listening", {{"on", url}});
  else log_text("listening on " + url + "\n");
}

[[noreturn]] void leave_at_once(int status) {
  end_log();
  std::_Exit(status);
}

/// While we stop: a second signal leaves at once.
void wait_or_leave(const Signals& signals, std::chrono::milliseconds time) {
  if (const int signal = signals.wait(time); signal == SIGTERM || signal == SIGINT) leave_at_once(0);
}

void reload(server::Application& application) {
  if (const auto reloaded = application.reload(); !reloaded) log_error("reload failed, what was there goes on", {{"because", reloaded.error().message}});
  else log_info("reloaded");
}

/// Waits for the loader; a signal ends the program: nothing has been promised to anybody yet.
Result<std::unique_ptr<LoadedModel>> wait_for_model(std::future<Result<std::unique_ptr<LoadedModel>>>& loading, const Signals& signals, server::Application& application) {
  int percent = 0;
  while (loading.wait_for(0s) != std::future_status::ready) {
    const int signal = signals.wait(20ms);
    if (const int now = application.state().percent(); now != percent) notify_service_manager(fmt::format("STATUS=loading {} %", percent = now));
    if (signal == SIGHUP) {
      reload(application);
    } else if (signal != 0) {
      application.drain();  // takes the socket's file away
      log_info("stopped", {{"while", "loading"}});
      leave_at_once(0);
    }
  }
  return loading.get();
}

/// Until SIGTERM or SIGINT. The service manager's watchdog hears of us while steps run, not while one hangs.
void serve_until_signal(server::Application& application, const engine::Engine& engine, const Signals& signals) {
  const auto watchdog = watchdog_interval();
  for (;;) {
    const int signal = watchdog ? signals.wait(std::chrono::duration_cast<std::chrono::milliseconds>(*watchdog / 2)) : signals.wait();
    if (signal == SIGHUP) reload(application);
    else if (signal != 0) return;
    else if (engine.pulse() < watchdog->count() / 2) notify_service_manager("WATCHDOG=1");
  }
}

/// Running answers finish, at most `patience`.
void drain(server::Application& application, engine::Engine& engine, const Signals& signals, std::chrono::milliseconds patience) {
  const auto begun = Clock::now();
  log_info("draining", {{"running", engine.metrics().running.value()}, {"waiting", engine.metrics().waiting.value()}, {"seconds", patience.count() / 1000.0}});
  notify_service_manager("STOPPING=1");
  application.drain();
  // What has come is read first and handed to the engine, which takes nothing new once it drains. Between the two a request is for a moment with
  // neither: three looks in a row find it.
  const auto until = begun + patience;
  for (int quiet = 0; quiet < 3 && Clock::now() < until;) {
    quiet = application.planning() == 0 ? quiet + 1 : 0;
    wait_or_leave(signals, 10ms);
  }
  const auto left = std::max(0ms, std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()));
  auto cut = std::async(std::launch::async, [&] { return engine.drain(left); });
  while (cut.wait_for(0s) != std::future_status::ready) wait_or_leave(signals, 10ms);
  const int n_cut = cut.get();
  const auto sent_until = Clock::now() + kSending;
  while (Clock::now() < sent_until && !application.wait_until_sent(10ms)) wait_or_leave(signals, 0ms);
  log_info("stopped", {{"cut", n_cut}, {"seconds", std::chrono::duration<double>(Clock::now() - begun).count()}});
}

}  // namespace

Result<int> run_serve(const Options& options) {
  const Microseconds begun_us = now_us();
  set_log_json(options.log_json);
  const Signals signals;
  keep_heaps_small();
  start_log_thread();  // behind the signals: it must not take them
  MILLRACE_TRY(bundle, open_bundle(options.model));
  MILLRACE_TRY(config, config_of(bundle));
  MILLRACE_TRY(wanted, server_config(options));
  MILLRACE_TRY(application, server::Application::open(wanted));
  MILLRACE_TRY(need, serve_need(bundle, config, options));
  for (const std::string& address : application->addresses()) say_address(address, options);
  if (options.log_json) log_info("memory", {{"kv_tokens", need.pool_tokens}, {"kv_format", options.kv}});
  application->start();
  notify_service_manager("STATUS=loading");

  auto loading = std::async(std::launch::async, [&] {
    return load_served_model(std::move(bundle), config, options, need, [&](double share) { application->loading(share); });
  });
  MILLRACE_TRY(loaded, wait_for_model(loading, signals, *application));
  application->ready(std::shared_ptr<const server::ServedModel>(&loaded->served, [](auto*) {}));
  log_info("ready", {{"model", loaded->served.names.front()}, {"context_tokens", loaded->served.context_tokens},
                     {"kv_tokens", pool_tokens(loaded->session)}, {"seconds", static_cast<double>(now_us() - begun_us) / 1e6}});
  notify_service_manager("READY=1\nSTATUS=serving");

  serve_until_signal(*application, *loaded->session.engine, signals);
  drain(*application, *loaded->session.engine, signals, ms(options.drain_seconds));
  // What is tokenized just now may take long, and nobody waits for it any more.
  auto stopped = std::async(std::launch::async, [&] { application->stop_work(); });
  const auto until = Clock::now() + kSending;
  while (stopped.wait_for(0s) != std::future_status::ready) {
    wait_or_leave(signals, 10ms);
    if (Clock::now() >= until) leave_at_once(0);
  }
  loaded->session.engine.reset();  // what it still has to say goes to connections that are there
  application.reset();
  return 0;
}

}  // namespace millrace::cli
