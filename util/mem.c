/* SPDX-License-Identifier: BSD-3-Clause */
#include "mercury_mem.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_power_of_2(size_t n) {
    return n != 0 && (n & (n - 1)) == 0;
}

long hg_mem_get_page_size(void) {
    return sysconf(_SC_PAGESIZE);
}

long hg_mem_get_hugepage_size(void) {
    FILE* file = fopen("/proc/meminfo", "re");
    char line[128];
    long kilobytes = 0;

    if (file == NULL)
        return 0;
    while (kilobytes == 0 && fgets(line, sizeof line, file) != NULL) {
        long value;

        if (sscanf(line, "Hugepagesize: %ld kB", &value) == 1)
            kilobytes = value;
    }
    (void)fclose(file);
    return kilobytes > 0 ? kilobytes * 1024 : 0;
}

void* hg_mem_aligned_alloc(size_t alignment, size_t size) {
    void* memory = NULL;

    if (is_power_of_2(alignment) && alignment < sizeof(void*))
        alignment = sizeof(void*); /* posix_memalign takes no less */
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

void hg_mem_aligned_free(void* mem_ptr) {
    free(mem_ptr);
}

void* hg_mem_huge_alloc(size_t size) {
    void* memory;

    if (size == 0)
        return NULL;
    memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int hg_mem_huge_free(void* mem_ptr, size_t size) {
    return mem_ptr != NULL && munmap(mem_ptr, size) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

/* The header in whole alignments, so that what follows is aligned; SIZE_MAX if that is no size. */
static size_t header_room(size_t header_size, size_t alignment) {
    if (alignment == 0)
        return header_size;
    if (header_size > SIZE_MAX - alignment)
        return SIZE_MAX;
    return (header_size + alignment - 1) / alignment * alignment;
}

void* hg_mem_header_alloc(size_t header_size, size_t alignment, size_t size) {
    const size_t room = header_room(header_size, alignment);
    char* memory;

    if (room == SIZE_MAX || size > SIZE_MAX - room)
        return NULL;
    memory = is_power_of_2(alignment) ? hg_mem_aligned_alloc(alignment, room + size)
                                      : malloc(room + size);
    return memory == NULL ? NULL : memory + room;
}

void hg_mem_header_free(size_t header_size, size_t alignment, void* mem_ptr) {
    if (mem_ptr != NULL)
        free((char*)mem_ptr - header_room(header_size, alignment));
}

void* hg_mem_shm_map(const char* name, size_t size, bool create) {
    void* memory = MAP_FAILED;
    struct stat found = {0};
    int fd;

    if (name == NULL || size == 0)
        return NULL;
    fd = shm_open(name, O_RDWR | (create ? O_CREAT : 0), S_IRUSR | S_IWUSR);
    if (fd < 0)
        return NULL;
    /* One that has no size yet is new, whoever of several has made it. */
    if (fstat(fd, &found) == 0 && found.st_size == 0 && create && ftruncate(fd, (off_t)size) == 0)
        found.st_size = (off_t)size;
    else if (found.st_size < 0)
        found.st_size = 0;
    /* Beyond its end it would be there, and kill who touches it. */
    if ((size_t)found.st_size >= size)
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

int hg_mem_shm_unmap(const char* name, void* mem_ptr, size_t size) {
    int ret = HG_UTIL_SUCCESS;

    if (mem_ptr != NULL && munmap(mem_ptr, size) != 0)
        ret = HG_UTIL_FAIL;
    if (name != NULL && shm_unlink(name) != 0)
        ret = HG_UTIL_FAIL;
    return ret;
}
