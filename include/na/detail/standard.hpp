// SPDX-License-Identifier: BSD-3-Clause
// Every C++ header includes this one first: a compiler that is set to an older standard says so in
// one line. (GCC 10 has 201709 with -std=c++20.)
#pragma once

#if __cplusplus <= 201703L
#error "Cinnabar's C++ headers need C++20: compile with -std=c++20 or newer"
// A file that is missing ends the compilation, where hundreds of errors would follow.
#include <Cinnabar-needs-cxx20>
#endif
