#define MILLRACE_LEVEL avx2
#define MILLRACE_WIDTH 8
#include "sampling/row_loops.inc"
