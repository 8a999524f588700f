#pragma once

// Ctrl-C as a count: commands that can stop cleanly ask for it, all others die of the signal as usual.

namespace millrace::cli {

/// From now on SIGINT and SIGTERM only raise the count. Blocking reads return when one arrives.
void watch_interrupts();

/// How many have arrived so far.
int interrupts();

inline constexpr int kInterruptedStatus = 130;  // what shells expect of a program that Ctrl-C stopped

}  // namespace millrace::cli
