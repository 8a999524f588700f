#pragma once

// How often each thread of a test program has called operator new. Counts where one source of the program includes
// count_allocations.h.

namespace millrace::testing {

inline thread_local long t_allocations = 0;
inline thread_local bool t_counts = true;  // false: what follows is not counted

}  // namespace millrace::testing
