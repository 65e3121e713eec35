/* SPDX-License-Identifier: BSD-3-Clause */
/* A table of pointers by pointers. One thread at a time uses it. C99 and C++. */
#ifndef MERCURY_HASH_TABLE_H
#define MERCURY_HASH_TABLE_H

#include "mercury_util_config.h"

typedef struct hg_hash_table hg_hash_table_t;
typedef void* hg_hash_table_key_t;
typedef void* hg_hash_table_value_t;

#define HG_HASH_TABLE_NULL ((void*)0)

/* Keys that are equal (not 0) have the same hash. */
typedef unsigned int (*hg_hash_table_hash_func_t)(hg_hash_table_key_t key);
typedef int (*hg_hash_table_equal_func_t)(hg_hash_table_key_t key1, hg_hash_table_key_t key2);
typedef void (*hg_hash_table_key_free_func_t)(hg_hash_table_key_t key);
typedef void (*hg_hash_table_value_free_func_t)(hg_hash_table_value_t value);

/* A place in a table; of hg_hash_table_iterate. The members are the library's. */
typedef struct hg_hash_table_iter {
    hg_hash_table_t* hash_table;
    void* next_entry;
    unsigned int next_chain;
} hg_hash_table_iter_t;

#ifdef __cplusplus
extern "C" {
#endif

/* An empty table. NULL: a function is NULL, or out of memory. */
HG_UTIL_PUBLIC hg_hash_table_t* hg_hash_table_new(hg_hash_table_hash_func_t hash_func,
                                                  hg_hash_table_equal_func_t equal_func);

/* Frees the table, and its keys and values with the registered functions. NULL is allowed. */
HG_UTIL_PUBLIC void hg_hash_table_free(hg_hash_table_t* hash_table);

/* What frees keys and values that leave the table; NULL: nothing, they are the program's. */
HG_UTIL_PUBLIC void hg_hash_table_register_free_functions(
    hg_hash_table_t* hash_table, hg_hash_table_key_free_func_t key_free_func,
    hg_hash_table_value_free_func_t value_free_func);

/* Adds a pair, or replaces the pair of an equal key, which is freed. 1: done. 0: out of memory. */
HG_UTIL_PUBLIC int hg_hash_table_insert(hg_hash_table_t* hash_table, hg_hash_table_key_t key,
                                        hg_hash_table_value_t value);

/* The value; HG_HASH_TABLE_NULL: there is none. */
HG_UTIL_PUBLIC hg_hash_table_value_t hg_hash_table_lookup(hg_hash_table_t* hash_table,
                                                          hg_hash_table_key_t key);

/* Removes a pair and frees it. 1: done. 0: there is none. */
HG_UTIL_PUBLIC int hg_hash_table_remove(hg_hash_table_t* hash_table, hg_hash_table_key_t key);

HG_UTIL_PUBLIC unsigned int hg_hash_table_num_entries(hg_hash_table_t* hash_table);

/* Goes through the values, in no order: iterate, then next as long as has_more is not 0. The pair
 * of the value returned last may be removed meanwhile; nothing else may change. */
HG_UTIL_PUBLIC void hg_hash_table_iterate(hg_hash_table_t* hash_table, hg_hash_table_iter_t* iter);
HG_UTIL_PUBLIC int hg_hash_table_iter_has_more(hg_hash_table_iter_t* iterator);
HG_UTIL_PUBLIC hg_hash_table_value_t hg_hash_table_iter_next(hg_hash_table_iter_t* iterator);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_HASH_TABLE_H */
