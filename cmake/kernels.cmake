# One line per ISA level: the only place where a file gets extra ISA flags. Such an object may define no
# weak symbol (kernels/registry.h says why); test `kernel_objects` looks.
file(GLOB avx2_files CONFIGURE_DEPENDS src/kernels/cpu/avx2/*.cpp)
file(GLOB avx512_files CONFIGURE_DEPENDS src/kernels/cpu/avx512/*.cpp)
set_source_files_properties(${avx2_files} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
set_source_files_properties(${avx512_files} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni")
