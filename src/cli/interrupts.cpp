#include "cli/interrupts.h"

#include <csignal>

namespace millrace::cli {
namespace {

volatile std::sig_atomic_t count = 0;

extern "C" void count_interrupt(int) { count = count + 1; }

}  // namespace

void watch_interrupts() {
  struct sigaction action{};
  action.sa_handler = count_interrupt;  // no SA_RESTART: a read waiting for a line returns
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int interrupts() { return count; }

}  // namespace millrace::cli
