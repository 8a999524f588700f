#define MILLRACE_LEVEL generic
#define MILLRACE_WIDTH 4
#include "sampling/row_loops.inc"
