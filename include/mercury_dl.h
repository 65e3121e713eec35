/* SPDX-License-Identifier: BSD-3-Clause */
/* Loadable modules. Any thread. C99 and C++. */
#ifndef MERCURY_DL_H
#define MERCURY_DL_H

#include <dlfcn.h> /* programs expect it with this header */

#include "mercury_util_config.h"

#define HG_DL_HANDLE void*

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong in the function of these that failed last on this thread; NULL: none has since
 * the last call. */
HG_UTIL_PUBLIC const char* hg_dl_error(void);

/* Loads a module, all of whose symbols have to be found; they are visible through the handle only.
 * NULL: failure. */
HG_UTIL_PUBLIC HG_DL_HANDLE hg_dl_open(const char* file);

/* HG_UTIL_FAIL: not a handle. */
HG_UTIL_PUBLIC int hg_dl_close(HG_DL_HANDLE handle);

/* NULL: the module has no such symbol. */
HG_UTIL_PUBLIC void* hg_dl_sym(HG_DL_HANDLE handle, const char* name);

/* Writes the path of the program or library that has `addr`, as it was loaded. HG_UTIL_FAIL: none
 * has, it does not fit, or NULL. */
HG_UTIL_PUBLIC int hg_dl_get_path(const void* addr, char* path, size_t path_size);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_DL_H */
