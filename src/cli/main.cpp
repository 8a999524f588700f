// The program: argv and the environment in, an exit status out. 0 done, 1 bad input, 2 wrong use, 130 stopped by Ctrl-C.

#include <fcntl.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/version.h"

namespace {

using namespace millrace;

constexpr int kBadInput = 1, kWrongUse = 2;

/// What was closed when we were started: else the first file that is opened would take its number, and get what is printed.
void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

int fail(const Error& error, int status) {
  log_text("millrace: " + error.message + "\n");
  return status;
}

int print(const std::string& text) {
  const auto written = cli::write_out(text);
  return written ? 0 : fail(written.error(), kBadInput);
}

LogLevel log_level_of(const std::string& name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "error") return LogLevel::error;
  return name == "off" ? LogLevel::off : LogLevel::warn;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported like a full disk
  const std::vector<std::string> args(argv + (argc > 0), argv + argc);
  if (args.empty()) return fail(error(Code::invalid_argument, "no command; see millrace --help"), kWrongUse);
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") return print(cli::overview_text());
  if (args[0] == "--version") return print(fmt::format("millrace {}\n", cli::kVersion));

  const auto call = cli::parse_call(args, [](const std::string& name) { return std::getenv(name.c_str()); });
  if (!call) return fail(call.error(), kWrongUse);
  if (call->wish == cli::Wish::help) return print(cli::help_text(*call->command));
  if (call->wish == cli::Wish::print_config) return print(cli::config_text(*call));

  set_log_level(log_level_of(call->options.log_level));
  const auto status = call->command->run(call->options);
  const int leaves_with = status ? *status : fail(status.error(), kBadInput);
  end_log();
  return leaves_with;
}
