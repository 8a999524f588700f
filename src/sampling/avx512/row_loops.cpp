#define MILLRACE_LEVEL avx512
#define MILLRACE_WIDTH 16
#include "sampling/row_loops.inc"
