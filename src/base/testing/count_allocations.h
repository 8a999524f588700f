#pragma once

// Replaces operator new of a whole test program by one that counts (allocations.h). For one source file of the program.

#include <cstdlib>
#include <new>

#include "base/testing/allocations.h"

// Not inlined: the compiler would take malloc and free in them for a mismatch. Both forms of new: a sanitizer, whose own
// they would be otherwise, takes a delete of ours for a mismatch, too.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (millrace::testing::t_counts) ++millrace::testing::t_allocations;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* p = operator new(size, std::nothrow)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
