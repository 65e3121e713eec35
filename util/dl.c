/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_dl.h"

#include <dlfcn.h>
#include <string.h>

const char* hg_dl_error(void) {
    return dlerror();
}

HG_DL_HANDLE hg_dl_open(const char* file) {
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

int hg_dl_close(HG_DL_HANDLE handle) {
    return handle != NULL && dlclose(handle) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

void* hg_dl_sym(HG_DL_HANDLE handle, const char* name) {
    return handle == NULL || name == NULL ? NULL : dlsym(handle, name);
}

int hg_dl_get_path(const void* addr, char* path, size_t path_size) {
    Dl_info info;
    size_t size;

    if (path == NULL || dladdr(addr, &info) == 0 || info.dli_fname == NULL)
        return HG_UTIL_FAIL;
    size = strlen(info.dli_fname) + 1;
    if (size > path_size)
        return HG_UTIL_FAIL;
    memcpy(path, info.dli_fname, size);
    return HG_UTIL_SUCCESS;
}
