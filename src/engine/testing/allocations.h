#pragma once

// Counts each operator new of the engine's test program, by thread (engine_allocation_test.cpp replaces it).

namespace millrace::engine::testing {

extern thread_local long t_allocations;
extern thread_local bool t_counts;  // false: what follows is not counted

}  // namespace millrace::engine::testing
